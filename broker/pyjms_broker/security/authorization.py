"""The authorization filter, which checks the rights of users. (activemq-edges SE4 to SE7)

Messages forwarded by virtual destinations are not checked again: a sender needs its right on the
topic, a consumer on its queue. The broker's own calls are not checked. (activemq-edges SE7)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NoReturn
from weakref import WeakSet

from pyjms.errors import JMSSecurityException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire import commands
from pyjms_broker.api.access import Right, is_answered, meaning, permanent
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange, SecurityContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.security.audit import audit_client

_ANYBODY = "*"


@dataclass(frozen=True, slots=True)
class AuthorizationEntry:
    """The groups that have each right on a destination or a pattern.

    Source: ActiveMQ AuthorizationEntry, TempDestinationAuthorizationEntry.
    """

    destination: Destination | None = None
    """None for the default entry and for that of temporary destinations."""
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    admin: frozenset[str] = frozenset()

    def groups(self, right: Right) -> frozenset[str]:
        """Return the groups with a right."""
        if right is Right.READ:
            return self.read
        return self.write if right is Right.WRITE else self.admin


class AuthorizationMap:
    """Entries by destination. Source: ActiveMQ DefaultAuthorizationMap.

    Args:
        entries: the entries, whose rights add up: a narrow entry does not restrict a wider one.
        default_entry: an entry that is added to all of them.
        temporary_entry: the entry for temporary destinations; None: they are open to all.
        bridges: the groups that may be bridges of other brokers; None: all.
    """

    def __init__(
        self,
        entries: Iterable[AuthorizationEntry],
        default_entry: AuthorizationEntry | None = None,
        temporary_entry: AuthorizationEntry | None = None,
        bridges: frozenset[str] | None = None,
    ) -> None:
        self.entries = tuple(entries)
        self.default_entry = default_entry
        self.temporary_entry = temporary_entry
        self._bridges = bridges

    def may_bridge(self, groups: frozenset[str]) -> bool:
        """Return whether `groups` may be bridges of other brokers."""
        return self._bridges is None or _includes_any(self._bridges, groups)

    def is_allowed(self, groups: frozenset[str], right: Right, destination: Destination) -> bool:
        """Return whether `groups` have a right on a destination, or on all members of a composite.

        A pattern is looked up like a name, as in ActiveMQ: an entry for `a.*` also permits a
        consumer of `a.>`, which then gets no messages of `a.b.c`. A reader's `*` matches any
        element of an entry: the right to read `a.b` permits a consumer of `a.*`, which then gets
        only the messages of `a.b`.
        """
        return all(
            self._is_allowed(groups, right, meaning(member))
            for member in destination.composite_destinations
        )

    def _is_allowed(self, groups: frozenset[str], right: Right, destination: Destination) -> bool:
        if destination.is_temporary:
            if self.temporary_entry is None:
                return True
            allowed = self.temporary_entry.groups(right)
        else:
            allowed = self._groups(right, destination)
        return _includes_any(allowed, groups)

    def _groups(self, right: Right, destination: Destination) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        if self.default_entry is not None:
            found = self.default_entry.groups(right)
        for entry in self.entries:
            if entry.destination is not None and (
                matches(entry.destination, destination)
                or (right is Right.READ and _includes(destination, entry.destination))
            ):
                found |= entry.groups(right)
        return found


def _includes_any(allowed: frozenset[str], groups: frozenset[str]) -> bool:
    return _ANYBODY in allowed or not allowed.isdisjoint(groups)


def _includes(pattern: Destination, entry: Destination) -> bool:
    """Return whether a pattern with `*` matches names of an entry; `>` matches only `>`."""
    if "*" not in pattern.physical_name or pattern.TYPE != entry.TYPE:
        return False
    named = entry.physical_name.split(".")
    elements = pattern.physical_name.split(".")
    if named[-1] == ">":
        named.pop()
        elements = elements[: len(named)]
    return len(named) == len(elements) and all(
        name == element or "*" in {name, element}
        for name, element in zip(named, elements, strict=True)
    )


_REFUSALS: Final = 200
"""The maximum number of refusals that are kept for an operator who asks for a reason."""
_REMEMBERED: Final = 1000
"""The maximum number of destinations per connection for which the write right is cached."""


class Refusal(NamedTuple):
    """What a client was refused for want of a right."""

    time: float
    """`pyjms.runtime.clock.now` of the refusal."""
    user: str
    action: str
    what: str
    """The destination, as in `queue://orders`."""


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class UserAccess:
    """The rights of one connection's user (`pyjms_broker.api.context.Access`)."""

    rights: AuthorizationMap
    user: SecurityContext
    context: ConnectionContext
    refusals: deque[Refusal]
    writable: set[Destination] = field(default_factory=set, init=False)
    """Destinations that were already checked, so that further messages need no check."""
    last_written: Destination | None = field(default=None, init=False)
    """The destination of the last message."""

    def change_rights(self, rights: AuthorizationMap) -> None:
        """Replace the rights."""
        self.rights = rights
        self.writable.clear()
        self.last_written = None

    def may(self, right: Right, destination: Destination) -> bool:
        return self.rights.is_allowed(self.user.groups, right, destination)

    def may_administer(self, destination: Destination) -> bool:
        return self.may(Right.ADMIN, permanent(destination))

    @property
    def is_administrator(self) -> bool:
        return self.may(Right.ADMIN, Queue(">")) or self.may(Right.ADMIN, Topic(">"))

    def check(self, right: Right, destination: Destination) -> None:
        if not self.may(right, destination):
            self.refuse(right.value, destination.qualified_name)

    def check_request(self, message: commands.ActiveMQMessage) -> None:
        if message.destination is not None:
            self.check(Right.WRITE, message.destination)
        if message.reply_to is not None:
            self.check(Right.WRITE, message.reply_to)

    def check_send(self, message: commands.ActiveMQMessage, destination: Destination) -> None:
        """Check that the user may send a message."""
        if destination in self.writable:
            self.last_written = destination
        elif is_answered(destination):
            self.check_request(message)  # each of them
        else:
            self.check(Right.WRITE, destination)
            if len(self.writable) >= _REMEMBERED:
                self.writable.clear()
            self.writable.add(destination)
            self.last_written = destination

    def check_bridge(self) -> None:
        if not (self.rights.may_bridge(self.user.groups) or self.is_administrator):
            self.refuse("connect as", "a bridge of another broker")

    def refuse(self, action: str, what: str) -> NoReturn:
        audit_client(self.context, f"{action} {what}", "refused", logging.WARNING)
        self.refusals.append(Refusal(_clock.now(), self.user.user_name, action, what))
        raise JMSSecurityException(
            f"User {self.user.user_name} is not authorized to {action}: {what}"
        )


class AuthorizationBroker(BrokerFilter):
    """Checks that clients may read, write, create and remove destinations.

    Source: ActiveMQ AuthorizationBroker.
    """

    def __init__(self, next_broker: Broker, rights: AuthorizationMap) -> None:
        super().__init__(next_broker)
        self.rights = rights
        self._accesses: WeakSet[UserAccess] = WeakSet()
        self.refusals: deque[Refusal] = deque(maxlen=_REFUSALS)
        """The last refusals, the oldest first."""

    def change_rights(self, rights: AuthorizationMap) -> None:
        """Replace the rights for later requests; existing consumers continue."""
        self.rights = rights
        for access in self._accesses:
            access.change_rights(rights)

    def add_connection(self, context: ConnectionContext, info: commands.ConnectionInfo) -> None:
        self._give_access(context)
        super().add_connection(context, info)
        self._give_access(context)  # an inner authentication filter may have found out who it is
        if context.network_connection and not context.is_own_bridge:
            _access(context).check_bridge()

    def _give_access(self, context: ConnectionContext) -> None:
        if context.security is not None and context.access is None:
            context.access = access = UserAccess(
                self.rights, context.security, context, self.refusals
            )
            self._accesses.add(access)

    # messages
    def send(self, exchange: ProducerExchange, message: commands.ActiveMQMessage) -> Completion:
        access = exchange.context.access
        # most messages have the same destination as the last one
        if not (isinstance(access, UserAccess) and message.destination is access.last_written):
            _check_send(exchange.context, message)
        if message.original_destination is not None:
            _check_original(exchange.context, message)
        return self.next.send(exchange, message)

    def add_producer(self, context: ConnectionContext, info: commands.ProducerInfo) -> None:
        if info.destination is not None and not _is_free(context):
            _access(context).check(Right.WRITE, info.destination)
        super().add_producer(context, info)

    # consumers
    def add_consumer(self, context: ConnectionContext, info: commands.ConsumerInfo) -> Subscription:
        if info.destination is not None and not _is_free(context):
            _access(context).check(Right.READ, info.destination)
        return super().add_consumer(context, info)

    def remove_subscription(
        self, context: ConnectionContext, info: commands.RemoveSubscriptionInfo
    ) -> Completion:
        if not _is_free(context):
            _access(context)
            if info.client_id not in {None, "", context.client_id}:
                raise JMSSecurityException(
                    f"Client {context.client_id} cannot remove a subscription of {info.client_id}"
                )
        return super().remove_subscription(context, info)

    # destinations
    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        if not _is_free(context):
            access = _access(context)
            is_allowed = access.may(Right.ADMIN, destination)
            if not is_allowed and destination not in self.next.destinations():
                access.refuse("create", destination.qualified_name)
        return super().add_destination(context, destination, create_temporary)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        if not _is_free(context):
            access = _access(context)
            if not access.may(Right.ADMIN, destination):
                access.refuse("remove", destination.qualified_name)
        super().remove_destination(context, destination, timeout)


def _check_send(context: ConnectionContext, message: commands.ActiveMQMessage) -> None:
    """Check that a client may send a message."""
    if message.destination is not None and not _is_free(context):
        _access(context).check_send(message, message.destination)


def _check_original(context: ConnectionContext, message: commands.ActiveMQMessage) -> None:
    """Remove an original destination to which the client itself may not send.

    An operator who retries the dead letter would send it there, with the operator's rights.
    """
    original = message.original_destination
    if original is None or _is_free(context):
        return
    if not _access(context).may(Right.WRITE, original):
        message.original_destination = None
        message.raw = None


def _is_free(context: ConnectionContext) -> bool:
    """Return whether the context is exempt from access rights."""
    return context.is_broker or context.is_operator


def _access(context: ConnectionContext) -> UserAccess:
    """Return a client's rights."""
    access = context.access
    if not isinstance(access, UserAccess):
        raise JMSSecurityException("User is not authenticated.")
    return access
