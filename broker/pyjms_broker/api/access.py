"""Who may do what, for the whole broker: one place that says what a name really means.

Rights are checked by the authorization filter and by the filters that answer requests. They ask
for the `meaning` of a destination, so that another kind or spelling of a name is no way around the
rights on it: `temp-topic://ActiveMQ.Scheduler.Management` needs those on the topic of that name.

What has an owner (a durable subscription, a prepared transaction) is used by the same user, or by
users who may administer its destinations: `ConnectionContext.may_use`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NoReturn, Protocol

from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Queue, Topic
from pyjms.jms.scheduled import AMQ_SCHEDULER_MANAGEMENT_DESTINATION
from pyjms.wire.openwire.commands import ActiveMQMessage

STATISTICS_PREFIX: Final = "ActiveMQ.Statistics."
"""The prefix of the names to which requests for statistics are sent, in any case."""
RANGES: Final = Queue("PyJMS.Ranges")
"""The queue for range requests."""
_MANAGEMENT: Final = AMQ_SCHEDULER_MANAGEMENT_DESTINATION.lower()
_OWN: Final = {
    prefix.lower(): prefix
    for prefix in (
        *(AMQ_SCHEDULER_MANAGEMENT_DESTINATION, STATISTICS_PREFIX),
        *(ADVISORY_PREFIX, "PyJMS."),
    )
}
"""Prefixes of names that the broker itself answers or sends to; by lower case, which it accepts."""


class Right(Enum):
    """A right on a destination; the value is its description in errors."""

    READ = "read from"
    WRITE = "write to"
    ADMIN = "administer"


class Access(Protocol):
    """The rights of a client."""

    def may(self, right: Right, destination: Destination) -> bool:
        """Return whether the client has a right on what the destination's name really means."""

    def check(self, right: Right, destination: Destination) -> None:
        """Check that the client has a right.

        Raises:
            JMSSecurityException: it has not.
        """

    def may_administer(self, destination: Destination) -> bool:
        """Return whether the client may administer what others own: see `permanent`."""

    @property
    def is_administrator(self) -> bool:
        """Whether the client may administer all queues or all topics."""

    def check_request(self, message: ActiveMQMessage) -> None:
        """Check that the client may send a request to the broker, and may write to its reply
        destination, to which the broker sends with its own rights.

        Raises:
            JMSSecurityException: it may not.
        """

    def check_bridge(self) -> None:
        """Check that the client may be the bridge of another broker.

        Raises:
            JMSSecurityException: it may not.
        """

    def refuse(self, action: str, what: str) -> NoReturn:
        """Log a refusal in the audit log and raise ActiveMQ's error."""


def permanent(destination: Destination) -> Destination:
    """Return the queue or topic that has the name of a temporary destination."""
    if not destination.is_temporary:
        return destination
    return (Topic if destination.is_topic else Queue)(destination.physical_name)


def meaning(destination: Destination) -> Destination:
    """Return the destination whose rights are needed, whatever kind and spelling names it."""
    name = destination.physical_name.lower()
    for lower, prefix in _OWN.items():
        if name.startswith(lower):
            found = permanent(destination)
            rest = destination.physical_name[len(prefix) :]
            return found if found.physical_name == prefix + rest else type(found)(prefix + rest)
    return destination


def is_scheduler_management(destination: Destination | None) -> bool:
    """Return whether a destination is the scheduler's management topic, ignoring case."""
    return (
        destination is not None
        and destination.is_topic
        and destination.physical_name.lower() == _MANAGEMENT
    )


def is_statistics(destination: Destination) -> bool:
    """Return whether a message to the destination may be a request for statistics."""
    name = destination.physical_name
    return name[: len(STATISTICS_PREFIX)].lower() == STATISTICS_PREFIX.lower()


def is_answered(destination: Destination) -> bool:
    """Return whether the broker itself replies to messages that are sent there."""
    return any(
        member == RANGES or is_scheduler_management(member) or is_statistics(member)
        for member in destination.composite_destinations
    )
