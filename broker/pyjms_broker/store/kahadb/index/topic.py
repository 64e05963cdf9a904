"""The index of a topic: its messages and durable subscriptions.

A message is kept until all subscriptions have acknowledged it. Each subscription has a set of
arrival numbers that it does not need (any more): acknowledged ones, and those from before it began.
A message that is removed in another way is added to all sets. Each set thus eventually becomes one
range from 1 on, which `SequenceSet` stores as a single number, and the number of a subscription's
pending messages is `last_arrival` minus the size of its set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyjms.wire.kahadb.commands import KahaDestination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position, Positions
from pyjms_broker.store.kahadb.index.checkpoint import Row, SubscriptionChanges
from pyjms_broker.store.kahadb.index.database import IndexEntry
from pyjms_broker.store.kahadb.index.destination import DestinationIndex
from pyjms_broker.store.kahadb.index.sequence_set import SequenceSet

if TYPE_CHECKING:
    from pyjms_broker.store.kahadb.index.store_index import StoreIndex

SubscriptionRow = tuple[int, str, bytes, int, int]
"""Number, key, info, segment, offset."""
_FIRST = Position(0, 0)


class SubscriptionIndex:
    """A durable subscription: its description and its acknowledgements."""

    __slots__ = ("_topic", "acked", "file_id", "hidden", "info", "key", "number", "offset")

    def __init__(self, topic: TopicIndex, row: SubscriptionRow, acked: SequenceSet) -> None:
        self._topic = topic
        self.number, self.key, self.info, self.file_id, self.offset = row
        self.acked = acked
        """Arrival numbers it does not need: acknowledged, removed, or from before it began."""
        self.hidden: set[int] = set()

    @property
    def pending_count(self) -> int:
        """The number of messages that it has not acknowledged."""
        return self._topic.last_arrival - len(self.acked)


class TopicIndex(DestinationIndex):
    """The messages of a topic; each is kept until all subscriptions have acknowledged it."""

    def __init__(
        self,
        index: StoreIndex,
        destination: KahaDestination,
        prioritized: bool,
        number: int,
        contents: int,
    ) -> None:
        super().__init__(index, destination, prioritized, number, contents)
        self.subscriptions: dict[str, SubscriptionIndex] = {}
        """By `clientId:name`. Modified only by `subscribe` and `unsubscribe`."""
        self._reclaim: Position | None = None
        self._changed_subscriptions: dict[int, SubscriptionIndex] = {}
        self._unsubscribed: list[int] = []

    def load_subscriptions(
        self,
        subscriptions: Iterable[tuple[SubscriptionRow, SequenceSet]],
        reclaim: Position | None,
    ) -> None:
        """Load the database's rows. For StoreIndex."""
        self._reclaim = reclaim
        for row, acked in subscriptions:
            self.subscriptions[row[1]] = SubscriptionIndex(self, row, acked)

    def begin(self, epoch: int, last_arrival: int) -> None:
        self._ack_for_all(self.last_arrival + 1, last_arrival)
        super().begin(epoch, last_arrival)

    def add(
        self,
        message_id: str,
        level: int,
        file_id: int,
        offset: int,
        size: int,
        hidden: bool = True,
        arrival: int | None = None,
        split: tuple[str, int] | None = None,
    ) -> IndexEntry | None:
        """Add a message as a queue does; without subscriptions, only number it and return None.

        Call it only for messages that are in the journal (activemq-broker T6).
        """
        if not self.subscriptions:
            self.begin(self.epoch, arrival or self.last_arrival + 1)
            return None
        last = self.last_arrival
        entry = super().add(message_id, level, file_id, offset, size, hidden, arrival, split)
        if entry is not None and arrival is not None:
            self._ack_for_all(last + 1, arrival - 1)
        return entry

    def remove(self, position: Position) -> IndexEntry | None:
        entry = super().remove(position)
        if entry is not None:
            arrival = position[1]
            for subscription in self.subscriptions.values():
                subscription.hidden.discard(arrival)
                if subscription.acked.add(arrival):
                    self._changed_subscriptions[subscription.number] = subscription
        return entry

    def clear(self) -> None:
        super().clear()
        self._reclaim = None
        for subscription in self.subscriptions.values():
            subscription.hidden.clear()
        self._ack_for_all(1, self.last_arrival)

    def subscribe(
        self,
        key: str,
        info: bytes,
        location: tuple[int, int],
        retroactive: bool = False,
        start: int | None = None,
    ) -> SubscriptionIndex:
        """Add a subscription to messages behind arrival `start`, or update an existing one's info.

        `location` is that of its record: the segment's number and the offset.
        `start` None means from now on; with `retroactive`, existing messages are included. An
        existing subscription keeps its acknowledgements.
        """
        found = self.subscriptions.get(key)
        if found is not None:
            found.info = info
            found.file_id, found.offset = location
        else:
            if start is None:
                start = 0 if retroactive else self.last_arrival
            row = (self._index.next_number(), key, info, *location)
            found = SubscriptionIndex(self, row, self._already_acked(start))
            self.subscriptions[key] = found
        self._note_subscription(found)
        return found

    def unsubscribe(self, key: str) -> bool:
        """Remove a subscription; False if there is none.

        If it was the last one, the topic is cleared at once. Otherwise the messages that only it
        needed are removed in increments: call `reclaim` until `is_reclaiming` is False (also
        after `open`).
        """
        removed = self.subscriptions.pop(key, None)
        if removed is None:
            return False
        self._unsubscribed.append(removed.number)
        self._changed_subscriptions.pop(removed.number, None)
        if not self.subscriptions:
            self.clear()
        elif removed.pending_count:
            self._reclaim = _FIRST
        self._note_change()
        return True

    @property
    def is_reclaiming(self) -> bool:
        """Whether there may be messages that no subscription needs any more."""
        return self._reclaim is not None

    def reclaim(self, limit: int = 1000) -> list[IndexEntry]:
        """Check the next `limit` messages; remove and return those that no subscription needs."""
        if self._reclaim is None:
            return []
        entries = self._walk(self._reclaim, limit)
        self._reclaim = entries[-1].position if len(entries) == limit else None
        free = [entry for entry in entries if self._is_acked_by_all(entry.position.arrival)]
        for entry in free:
            self.remove(entry.position)
        self._note_change()
        return free

    def acknowledge(self, key: str, position: Position) -> bool:
        """Record an acknowledgement; True if it was the last one, so that the message can go.

        False also if there is no such message or subscription.
        """
        subscription = self.subscriptions.get(key)
        arrival = position[1]
        if subscription is None or arrival in subscription.acked or self.get(position) is None:
            return False
        subscription.hidden.discard(arrival)
        subscription.acked.add(arrival)
        self._note_subscription(subscription)
        return len(self.subscriptions) == 1 or self._is_acked_by_all(arrival)

    def is_pending(self, key: str, position: Position) -> bool:
        """Return whether a subscription has not acknowledged the message."""
        subscription = self.subscriptions.get(key)
        arrival = position[1]
        return (
            subscription is not None
            and arrival <= self.last_arrival
            and arrival not in subscription.acked
        )

    # -- records of the journal (see `StoreIndex`)

    @property
    def keeps_messages(self) -> bool:
        return bool(self.subscriptions)

    def apply_acknowledgement(
        self, key: str, entry: IndexEntry, location: Location
    ) -> IndexEntry | None:
        """Apply an acknowledgement; return the entry if it was the last one, else None."""
        self._index.segments.add_reference(location.file_id, entry.file_id)
        self.mark_visible_to(key, entry.position)
        return self.remove(entry.position) if self.acknowledge(key, entry.position) else None

    def apply_subscription(
        self, key: str, info: bytes, retroactive: bool, location: Location
    ) -> None:
        """Apply a new subscription, or the new info of an existing one."""
        known = self.subscriptions.get(key)
        if known is not None:
            self._index.segments.add_reference(location.file_id, known.file_id)
        if retroactive:
            self._retain_other_subscriptions()
        self.subscribe(key, info, location, retroactive)

    def _retain_other_subscriptions(self) -> None:
        """Ensure that a replay gives a retroactive subscription the same messages as now.

        A replay keeps a message only if a subscription existed when it was added. The records of
        the subscriptions for which messages are kept must therefore stay as long as the messages.
        """
        while self.is_reclaiming:
            self.reclaim()
        for other in self.subscriptions.values():
            if other.pending_count:
                for file_id in self.files:
                    self._index.segments.add_reference(other.file_id, file_id)

    def apply_unsubscription(self, key: str, location: Location) -> None:
        """End a durable subscription; a large backlog is reclaimed later (`is_reclaiming`)."""
        known = self.subscriptions.get(key)
        if known is not None:
            self._index.segments.add_reference(location.file_id, known.file_id)
            self.unsubscribe(key)
            if self.is_reclaiming:
                self.reclaim()

    # -- visibility and reading

    def hide_from(self, key: str, position: Position) -> None:
        """Hide a message from a subscription, because a prepared transaction acknowledged it."""
        if key in self.subscriptions:
            self.subscriptions[key].hidden.add(position[1])

    def mark_visible_to(self, key: str, position: Position) -> None:
        """Undo `hide_from`."""
        if key in self.subscriptions:
            self.subscriptions[key].hidden.discard(position[1])

    def page_for_subscription(
        self, key: str, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[IndexEntry]:
        """Return a page of the messages that the subscription has not acknowledged."""
        subscription = self.subscriptions.get(key)
        if subscription is None or not subscription.pending_count:
            return []
        hidden = self._hidden | subscription.hidden if subscription.hidden else self._hidden
        return self._walk(after, limit, hidden, skip, subscription.acked)

    def _already_acked(self, start: int) -> SequenceSet:
        """Return the numbers that a new subscription never gets: up to `start`, and removed ones.

        Removed ones are those that all other subscriptions have acknowledged.
        """
        others = [other.acked for other in self.subscriptions.values()]
        if not others:
            return SequenceSet(self.last_arrival)
        acked = SequenceSet.common(others)
        acked.add_range(1, start)
        return acked

    def _ack_for_all(self, first: int, last: int) -> None:
        """Record the numbers from `first` to `last` as acknowledged by all subscriptions."""
        if first <= last:
            for subscription in self.subscriptions.values():
                subscription.acked.add_range(first, last)
                self._changed_subscriptions[subscription.number] = subscription

    def _is_acked_by_all(self, arrival: int) -> bool:
        return all(arrival in other.acked for other in self.subscriptions.values())

    def _note_subscription(self, subscription: SubscriptionIndex) -> None:
        self._changed_subscriptions[subscription.number] = subscription
        self._note_change()

    def _row(self, reclaim: Position | None = None) -> Row:
        return super()._row(self._reclaim)

    def _collect_subscriptions(self) -> tuple[list[SubscriptionChanges], list[int]]:
        changed, self._changed_subscriptions = self._changed_subscriptions, {}
        unsubscribed, self._unsubscribed = self._unsubscribed, []
        return [self._collect_subscription(one) for one in changed.values()], unsubscribed

    def _collect_subscription(self, one: SubscriptionIndex) -> SubscriptionChanges:
        acked = one.acked
        row = (one.number, self.number, one.key, one.info, one.file_id, one.offset, acked.floor)
        return SubscriptionChanges(row, acked.first_block, acked.pop_changes())
