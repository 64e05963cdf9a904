"""What each record does to the index: the same for records just written and for a replay's.

Whoever calls gives the record's place. Every add record of a destination takes a number, so
that numbers are the records' order whatever else is still in the journal; what takes no number
is not written, or a trace says so. A segment refers to another one if what the other holds
would come to life again without it. (persistence K11, K17, K21)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.api.message import Position
from broker.store.kahadb.index import DestinationIndex, IndexEntry, StoreIndex, TopicIndex
from broker.store.kahadb.records import MessageMetadata
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import DestinationType, KahaDestination

__all__ = ["TOPIC_TYPES", "IndexUpdater"]

TOPIC_TYPES: Final = (DestinationType.TOPIC, DestinationType.TEMP_TOPIC)


class IndexUpdater:
    """Applies records to `index`, in the order of the journal."""

    def __init__(self, index: StoreIndex) -> None:
        self.index = index

    # -- messages

    def add(
        self,
        destination: DestinationIndex,
        metadata: MessageMetadata,
        location: Location,
        *,
        hidden: bool,
        arrival: int | None = None,
    ) -> IndexEntry | None:
        """A destination has got a message. None where nobody needs it: it took a number only."""
        message_id, level, size, duplicate_id, producer, sequence, broker_sequence, split = metadata
        file_id, offset = location
        entry = destination.add(message_id, level, file_id, offset, size, hidden, arrival, split)
        if entry is None and not (
            isinstance(destination, TopicIndex) and not destination.subscriptions
        ):
            # The remove between the two is gone with the segments that it was for.
            self._replace(destination, message_id, file_id)
            entry = destination.add(
                message_id, level, file_id, offset, size, hidden, arrival, split
            )
        if duplicate_id is not None:
            destination.duplicates.add(duplicate_id, file_id)
        index = self.index
        index.last_broker_sequence_id = max(index.last_broker_sequence_id, broker_sequence)
        if producer is not None:
            index.producers.record(producer, sequence)
        return entry

    def is_duplicate(self, destination: DestinationIndex, metadata: MessageMetadata) -> bool:
        """Whether the message is here, or one with its duplicate id was lately. (S6)"""
        duplicate_id = metadata.duplicate_id
        if duplicate_id is not None and duplicate_id in destination.duplicates:
            return True
        return destination.find(metadata.message_id, metadata.split) is not None

    def update(
        self, destination: DestinationIndex, metadata: MessageMetadata, location: Location
    ) -> IndexEntry | None:
        """A message has other bytes now; None: it is not here."""
        entry = destination.find(metadata.message_id)
        if entry is None:
            return None
        # Neither record stays without the other: the old one has the message's number, and
        # what removes the message will refer to the new one.
        self._refer(location.file_id, entry.file_id)
        self._refer(entry.file_id, location.file_id)
        return destination.relocate(entry.position, *location, metadata.size)

    def remove(
        self,
        destination: DestinationIndex,
        message_id: str,
        location: Location,
        position: Position | None = None,
    ) -> IndexEntry | None:
        """A queue's message is done, or a topic's for all; None: it is not here.

        `position` where it stands, for whoever knows.
        """
        if position is None:
            known = destination.find(message_id)
            if known is None:
                return None
            position = known.position
        entry = destination.remove(position)
        if entry is not None:
            self._refer(location[0], entry.file_id)
        return entry

    def acknowledge(
        self, topic: TopicIndex, key: str, entry: IndexEntry, location: Location
    ) -> IndexEntry | None:
        """A subscription is done with a message; the entry where it was the last one."""
        self._refer(location.file_id, entry.file_id)
        topic.mark_visible_to(key, entry.position)
        return topic.remove(entry.position) if topic.acknowledge(key, entry.position) else None

    # -- subscriptions and destinations

    def subscribe(
        self, topic: TopicIndex, key: str, info: bytes, retroactive: bool, location: Location
    ) -> None:
        """A durable subscription begins, or has another info."""
        known = topic.subscriptions.get(key)
        if known is not None:
            self._refer(location.file_id, known.file_id)
        if retroactive:
            self._retain_other_subscriptions(topic)
        topic.subscribe(key, info, *location, retroactive)

    def _retain_other_subscriptions(self, topic: TopicIndex) -> None:
        """Have a retroactive subscription get what is here, and nothing else, also in a replay.

        There a message is kept only if somebody had subscribed to it by then: as long as it is
        here the records of those stay for whom it was kept so far.
        """
        while topic.is_reclaiming:
            topic.reclaim()
        for other in topic.subscriptions.values():
            if other.pending_count:
                for file_id in topic.files:
                    self._refer(other.file_id, file_id)

    def unsubscribe(self, topic: TopicIndex, key: str, location: Location) -> None:
        """End a durable subscription; a large backlog is reclaimed later (`is_reclaiming`)."""
        known = topic.subscriptions.get(key)
        if known is not None:
            self._refer(location.file_id, known.file_id)
            topic.unsubscribe(key)
            if topic.is_reclaiming:
                topic.reclaim()

    def remove_destination(self, destination: KahaDestination, location: Location) -> None:
        """A destination is gone with all it has."""
        known = self.index.lookup(destination)
        if known is None:
            return
        for file_id in known.files:
            self._refer(location.file_id, file_id)
        if isinstance(known, TopicIndex):
            for subscription in known.subscriptions.values():
                self._refer(location.file_id, subscription.file_id)
        self.index.remove_destination(destination)

    # -- transactions

    def end_transaction(self, location: Location, files: Iterable[int]) -> None:
        """A transaction with records in these segments has its end at `location`."""
        for file_id in files:
            self._refer(location.file_id, file_id)

    # -- what else

    def _replace(self, destination: DestinationIndex, message_id: str, file_id: int) -> None:
        old = destination.find(message_id)
        if old is not None:
            self._refer(file_id, old.file_id)
            destination.remove(old.position)

    def _refer(self, file_id: int, target: int) -> None:
        if file_id != target:
            self.index.segments.add_reference(file_id, target)
