"""The destinations of a broker: creation, table, limits, removal, and owners of temporary ones.

Subscriptions to patterns and composites attach to existing destinations and to later ones.

A sweep removes unused destinations if their policies require it. It marks destinations without
consumers, producers and messages, and removes those that an earlier sweep marked at least
`inactive_timeout_before_gc` ago and that nobody has used since.

(ActiveMQ AbstractRegion, RegionBroker.purgeInactiveDestinations; activemq-broker D3, D5, D7, D11,
Q32, T24)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    ResourceAllocationException,
)
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.fields import check_destination
from pyjms_broker.api.names import is_internal
from pyjms_broker.api.statistics import DestinationStatistics
from pyjms_broker.policy.wildcard import (
    MAX_CACHED_LENGTH,
    PatternMap,
    literal_prefix,
    matches,
    overlaps,
)
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.system_usage import DestinationLimits
from pyjms_broker.region.topic import AdvisoryTopic, Topic

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

LONGEST_NAME = 8192
"""The maximum length of a destination's name; members of composites count separately."""
_CACHED_MATCHES = 256
"""The number of patterns whose matches are kept."""
_HINT: Final = "remove unused destinations, or raise {}"


class _IdleMark(NamedTuple):
    """The time since which a destination has been unused, and its number of enqueues then."""

    since: float
    enqueues: int


class _Counter:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Creator(NamedTuple):
    connection: _Counter | None
    user: str | None


class CreatedDestinations:
    """Counts the destinations that clients have created.

    Destinations that the broker creates for itself, or that the store had at the start, count only
    towards the total. A destination counts until it is removed; for its connection, until the
    connection ends.
    """

    def __init__(self, limits: DestinationLimits) -> None:
        self._limits = limits
        self._creators: dict[Destination, _Creator] = {}
        self._latest = _Creator(None, None)
        """Kept, as destinations of one client are often created one after the other."""
        self._connections: dict[ConnectionContext, _Counter] = {}
        self._users: dict[str | None, int] = {}

    def check(self, context: ConnectionContext, destination: Destination, existing: int) -> None:
        """Check that a client may create the destination; `existing` is the current total."""
        limits = self._limits
        if existing >= limits.maximum:
            raise ResourceAllocationException(
                f"{destination} cannot be created: the broker has {existing} "
                "destinations, its maximum",
                hint=_HINT.format("maximum_destinations"),
            )
        mine = self._connections.get(context)
        if mine is not None and mine.count >= limits.per_connection:
            raise ResourceAllocationException(
                f"{destination} cannot be created: connection {context.connection_id} has created "
                f"{mine.count} destinations, its maximum",
                hint=_HINT.format("maximum_destinations_per_connection"),
            )
        user_count = self._users.get(context.user_name, 0)
        if user_count >= limits.per_user:
            who = "clients without a user name" if context.user_name is None else "this user"
            raise ResourceAllocationException(
                f"{destination} cannot be created: {who} created {user_count} destinations that "
                "still exist, their maximum",
                hint=_HINT.format("maximum_destinations_per_user"),
            )

    def add(self, context: ConnectionContext, destination: Destination) -> None:
        """Count a destination that a client has created."""
        counter = None
        if not destination.is_temporary:
            counter = self._connections.get(context)
            if counter is None:
                counter = self._connections[context] = _Counter()
            counter.count += 1
        user = context.user_name
        self._users[user] = self._users.get(user, 0) + 1
        latest = self._latest
        if latest.connection is not counter or latest.user != user:
            latest = self._latest = _Creator(counter, user)
        self._creators[destination] = latest

    def remove(self, destination: Destination) -> None:
        """Stop counting a removed destination, if it was created by a client."""
        creator = self._creators.pop(destination, None)
        if creator is None:
            return
        if creator.connection is not None:
            creator.connection.count -= 1
        left = self._users[creator.user] - 1
        if left:
            self._users[creator.user] = left
        else:
            del self._users[creator.user]

    def connection_closed(self, context: ConnectionContext) -> None:
        """Stop counting for a closed connection; its destinations still count for its user."""
        self._connections.pop(context, None)


def _consumer_of(destination: Destination) -> str | None:
    name = destination.physical_name
    return name.split(".", 2)[1] if name.startswith("Consumer.") and destination.is_queue else None


class DestinationTable:
    """Destinations by name, each with its entry point: the destination or its outermost filter."""

    def __init__(self, limits: DestinationLimits) -> None:
        self.removed_statistics = DestinationStatistics()
        """The accumulated counters of removed destinations."""
        self.limits = limits
        self.created = CreatedDestinations(limits)
        self.idle_marks: dict[Destination, _IdleMark] = {}
        """Destinations that a sweep found idle. (activemq-broker D11)"""
        self._destinations: dict[Destination, BaseDestination] = {}
        self._entry_points: dict[Destination, BrokerDestination] = {}
        self._matches: PatternMap[tuple[BrokerDestination, ...]] = PatternMap()
        self._of_consumers: dict[str, dict[Destination, None]] = {}
        """Queues of virtual topics by the second element of `Consumer.A.VirtualTopic.Orders`."""
        self._patterns: set[Destination] = set()
        """Queues whose names are patterns. (activemq-broker V7)"""
        self._overlaps: dict[Destination, tuple[Destination, ...]] = {}
        self.version = 0
        """A version number that changes with each removal and each change of an entry point."""

    @property
    def destinations(self) -> Collection[Destination]:
        """A live view of the names of all destinations."""
        return self._destinations.keys()

    def get(self, destination: Destination) -> BaseDestination | None:
        """Return the destination itself."""
        return self._destinations.get(destination)

    def entry_point(self, destination: Destination) -> BrokerDestination | None:
        """Return the destination with its filters, where messages enter."""
        return self._entry_points.get(destination)

    def mark_used(self, destination: Destination) -> None:
        """Record that a consumer or producer of the destination was added or removed."""
        self.idle_marks.pop(destination, None)

    def check(self, context: ConnectionContext, destination: Destination) -> None:
        """Check that a client may create the destination.

        Raises:
            InvalidDestinationException: its name is too long.
            ResourceAllocationException: a maximum is reached.
        """
        length = len(destination.physical_name)
        if length > LONGEST_NAME:
            raise InvalidDestinationException(
                f"The name of a destination has {length} characters; at most {LONGEST_NAME} are "
                "allowed",
                hint="use a shorter name",
            )
        self.created.check(context, destination, len(self._destinations))

    def add(
        self,
        context: ConnectionContext,
        destination: BaseDestination,
        entry_point: BrokerDestination,
    ) -> None:
        """Add a destination created by the broker or a client."""
        if not context.is_broker:
            self.created.add(context, destination.destination)
        self._destinations[destination.destination] = destination
        self._entry_points[destination.destination] = entry_point
        consumer = _consumer_of(destination.destination)
        if consumer is not None:
            self._of_consumers.setdefault(consumer, {})[destination.destination] = None
        if destination.destination.is_pattern:
            self._patterns.add(destination.destination)
            self._overlaps.clear()
        self._forget_matches(destination.destination)

    def change_entry_point(self, destination: Destination, entry_point: BrokerDestination) -> None:
        """Replace the entry point of a destination."""
        self._entry_points[destination] = entry_point
        self._forget_matches(destination)
        self.version += 1

    def remove(self, destination: Destination) -> None:
        """Remove a destination."""
        removed = self._destinations.pop(destination, None)
        if removed is not None:
            self.removed_statistics.add_counters(removed.statistics)
        self._entry_points.pop(destination, None)
        consumer = _consumer_of(destination)
        if consumer is not None and consumer in self._of_consumers:
            self._of_consumers[consumer].pop(destination, None)
            if not self._of_consumers[consumer]:
                del self._of_consumers[consumer]
        if destination.is_pattern:
            self._patterns.discard(destination)
            self._overlaps.clear()
        self._forget_matches(destination)
        self.version += 1
        self.idle_marks.pop(destination, None)
        self.created.remove(destination)

    def all(self) -> dict[Destination, BaseDestination]:
        """Return a copy of the table."""
        return dict(self._destinations)

    def of_consumer(self, name: str) -> tuple[Destination, ...]:
        """Return the queues whose names begin with `Consumer.` and this element."""
        return tuple(self._of_consumers.get(name, ()))

    def matching(self, pattern: Destination) -> tuple[BrokerDestination, ...]:
        """Return the entry points that a name, a pattern or a composite matches."""
        if pattern.is_composite:
            members = pattern.composite_destinations
            return tuple(dict.fromkeys(each for m in members for each in self.matching(m)))
        if not pattern.is_pattern:
            entry_point = self._entry_points.get(pattern)
            return () if entry_point is None else (entry_point,)
        found = self._matches.get(pattern)
        if found is None:
            prefix = literal_prefix(pattern.physical_name)
            found = tuple(
                e
                for d, e in self._entry_points.items()
                if d.physical_name.startswith(prefix) and matches(pattern, d) and not is_internal(d)
            )
            if len(pattern.physical_name) <= MAX_CACHED_LENGTH:
                if len(self._matches) >= _CACHED_MATCHES:
                    self._matches.pop(next(iter(self._matches)))
                self._matches[pattern] = found
        return found

    def overlapping(self, pattern: Destination) -> tuple[BrokerDestination, ...]:
        """Return the same as `matching`, and the queues whose own names are patterns like it."""
        found = self.matching(pattern)
        if not self._patterns:
            return found
        others = self._overlaps.get(pattern)
        if others is None:
            others = tuple(d for d in self._patterns if overlaps(pattern, d))
            if len(self._overlaps) >= _CACHED_MATCHES:
                self._overlaps.clear()
            self._overlaps[pattern] = others
        return tuple(dict.fromkeys([*found, *(self._entry_points[each] for each in others)]))

    def _forget_matches(self, changed: Destination) -> None:
        for pattern, _ in list(self._matches.matching(changed)):
            self._matches.pop(pattern)


class InactiveDestinations:
    """Sweeps the table every `purge_period` seconds. Use it on the broker's event loop."""

    def __init__(self, region: RegionBroker, table: DestinationTable) -> None:
        self._region = region
        self._table = table
        self._limits = table.limits
        self._task: event_loop.BackgroundTask | None = None

    def start(self) -> None:
        """Start sweeping if there is a period."""
        if self._limits.purge_period > 0:
            self._task = event_loop.spawn(
                self._sweep_periodically, name="purge of inactive destinations"
            )

    async def stop(self) -> None:
        """Stop sweeping. Idempotent."""
        task, self._task = self._task, None
        await event_loop.end_tasks(task)

    async def _sweep_periodically(self) -> None:
        while True:
            await _clock.sleep(self._limits.purge_period)
            await self.sweep()

    async def sweep(self) -> None:
        """Mark idle destinations, and remove those that have been idle for long enough."""
        removed = 0
        slices = Slices()
        for found in self._table.all().values():
            await slices.after_item()
            if self._is_due(found) and not found.disposed:
                self._purge(found)
                removed += 1
                if removed == self._limits.purge_maximum:
                    break

    def _is_due(self, found: BaseDestination) -> bool:
        policy, destination = found.policy, found.destination
        timeout = policy.inactive_timeout_before_gc
        if not policy.gc_inactive_destinations or timeout <= 0:
            return False
        # without creation on send, a temporary destination lives as long as its connection
        is_kept = destination.is_temporary and not self._region.allow_temp_auto_creation_on_send
        if is_internal(destination) or is_kept:
            return False
        marks = self._table.idle_marks
        if _is_active(found):
            marks.pop(destination, None)
            return False
        mark = marks.get(destination)
        if mark is None or mark.enqueues != found.statistics.enqueues:
            marks[destination] = _IdleMark(_clock.now(), found.statistics.enqueues)
            return False
        return _clock.now() - mark.since >= timeout

    def _purge(self, found: BaseDestination) -> None:
        timeout = found.policy.inactive_timeout_before_gc
        logger.info("%s Inactive for longer than %d ms - removing ...", found, timeout * 1000)
        try:
            wait = 1 if found.consumers else 0
            self._region.root.remove_destination(self._region.context, found.destination, wait)
        except JMSException as error:
            logger.warning("%s is inactive, but cannot be removed: %s", found, error)


def _is_active(found: BaseDestination) -> bool:
    statistics = found.statistics
    if statistics.producers or statistics.messages or found.prepared_sends or found.running_commits:
        return True
    if not statistics.consumers:
        return False
    return not found.policy.gc_with_network_consumers or not all(
        subscription.info.network_subscription for subscription in found.consumers
    )


def make_destination(
    broker: RegionBroker, existing: Collection[Destination], destination: Destination
) -> BaseDestination:
    """Create a queue or a topic, with the messages that are already in its store."""
    check_destination(destination)
    policy = broker.policy_map.entry_for(destination)
    is_advisory = destination.physical_name.startswith(ADVISORY_PREFIX)
    target = policy.target
    if policy.max_destinations >= 0 and not is_advisory:
        count = sum(target is None or matches(target, d) for d in existing)
        if count >= policy.max_destinations:
            raise IllegalStateException(
                "The maxmimum number of destinations allowed "
                f"({policy.max_destinations}) for the policy "
                f"{target or destination} has already been reached."
            )
    is_stored = not destination.is_temporary and not is_advisory
    prioritized = policy.prioritized_messages
    store = broker.store
    if destination.is_queue:
        queue_store = store.queue_message_store(destination, prioritized) if is_stored else None
        return Queue(broker, destination, policy, queue_store)
    if is_advisory:
        return AdvisoryTopic(broker, destination, policy, None)
    topic_store = store.topic_message_store(destination, prioritized) if is_stored else None
    return Topic(broker, destination, policy, topic_store)


class TemporaryOwners:
    """Whose the temporary destinations are: others send to them, but do not consume.

    JMS: a temporary destination is consumed by the connection that created it. Its name begins with
    the id of that connection, so the name says whose it is, even before it exists. Bridges create
    those of connections of other brokers, which belong to the bridge here. (activemq-edges SE35)
    """

    def __init__(self) -> None:
        self._connections: dict[str, ConnectionContext] = {}
        self._creators: dict[Destination, ConnectionContext] = {}

    def add_connection(self, context: ConnectionContext) -> None:
        """Let the names that begin with the connection's id belong to it."""
        if context.connection_id is not None:
            self._connections[str(context.connection_id.value)] = context

    def remove_connection(self, context: ConnectionContext) -> None:
        """Forget a connection, unless a newer one has its id."""
        if context.connection_id is not None:
            value = str(context.connection_id.value)
            if self._connections.get(value) is context:
                del self._connections[value]

    def on_created(self, context: ConnectionContext, destination: Destination) -> None:
        """Record which connection has created a temporary destination."""
        if destination.is_temporary and not context.is_broker:
            self._creators[destination] = context

    def on_removed(self, destination: Destination) -> None:
        """Forget a destination."""
        self._creators.pop(destination, None)

    def may_use(self, context: ConnectionContext, destination: Destination) -> bool:
        """Return whether a connection may consume, create or remove a temporary destination."""
        access = context.access
        if access is None or not destination.is_temporary:
            return True
        connection_id = destination.physical_name.rpartition(":")[0]
        owner = self._connections.get(connection_id) or self._creators.get(destination)
        if owner is None or owner is context:
            return True
        if owner.network_connection and context.network_connection and owner.user == context.user:
            return True  # two bridges that know the same remote connection
        return access.may_administer(destination)

    def check_creation(self, context: ConnectionContext, destination: Destination) -> None:
        """Check that a connection may create a destination.

        Who creates the next one of a connection to another broker would get its replies.

        Raises:
            JMSSecurityException: it is temporary and not named for the connection.
        """
        access, own = context.access, context.connection_id
        self.check(context, "create", destination)
        if access is None or own is None or context.network_connection:
            return
        for member in destination.composite_destinations:
            is_own = member.physical_name.rpartition(":")[0] == str(own.value)
            if member.is_temporary and not is_own and not access.may_administer(member):
                access.refuse("create", member.qualified_name)

    def check(self, context: ConnectionContext, action: str, destination: Destination) -> None:
        """Check that a connection may do that to a destination, or to all members of a composite.

        What a pattern matches is checked with `may_use` when it attaches.

        Raises:
            JMSSecurityException: one of them is temporary and of another connection.
        """
        access = context.access
        for member in () if access is None else destination.composite_destinations:
            if access is not None and not member.is_pattern and not self.may_use(context, member):
                access.refuse(action, member.qualified_name)
