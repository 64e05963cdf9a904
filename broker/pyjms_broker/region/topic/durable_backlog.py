"""The backlog of a durable subscription, in memory, stores and the temp store.

A subscription to a pattern has messages of several topics, each with its own store.
(ActiveMQ StoreDurableSubscriberCursor; activemq-broker M8, T19, T23)
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pyjms_broker.api.message import MessageReference
from pyjms_broker.cursor.memory import pending_list
from pyjms_broker.cursor.sources import MemorySource, MessageSource, SpoolSource
from pyjms_broker.cursor.spilling import (
    MOST_CACHED,
    UNLIMITED,
    PrioritizedSpillingCursor,
    SpillingCursor,
    never_short,
)
from pyjms_broker.cursor.store_source import PrioritizedStoreSource, StoreSource
from pyjms_broker.region.dead_letter.ordering import DeadLetterOrdering
from pyjms_broker.store.api import (
    Position,
    Positions,
    StoredMessage,
    SubscriptionKey,
    TopicMessageStore,
)

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.policy.entry import PolicyEntry
    from pyjms_broker.region.services import RegionServices
    from pyjms_broker.region.topic.topic import Topic
    from pyjms_broker.store.temp import SpooledMessage

__all__ = ["SubscriptionBacklog"]


class _TopicBacklog:
    """The part of the backlog that belongs to one topic."""

    def __init__(
        self, topic: Topic, key: SubscriptionKey, broker: RegionServices, prioritized: bool
    ) -> None:
        self.topic = topic
        self.dead_letter_ordering = DeadLetterOrdering(None)
        self.excluded: set[Position] | None = None
        """Positions that a prioritized source must not page in; see `QueueContents.excluded`."""
        self._key = key
        self.unstored: SpoolSource | MemorySource
        """The number of waiting messages that are in no store."""
        temp_store = broker.temp_store
        if temp_store is None:
            self.unstored = MemorySource(prioritized)
        else:
            name = f"{key.client_id}:{key.subscription_name} on {topic}"
            self.unstored = SpoolSource(temp_store, name, self._page_in_spooled, prioritized)

    def store_source(self, store: TopicMessageStore, prioritized: bool) -> StoreSource:
        """Return a source of the stored messages of the subscription."""
        key = self._key

        def next_messages(
            after: Position | None, limit: int, skip: Positions
        ) -> list[StoredMessage]:
            return store.next_subscription_messages(key, after, limit, skip)

        recovered = store.subscription_message_count(key)
        if prioritized:
            self.excluded = set()
            self.dead_letter_ordering = DeadLetterOrdering(self.excluded)
            return PrioritizedStoreSource(next_messages, self.page_in, self.excluded, recovered)
        return StoreSource(
            next_messages, self.page_in, recovered, self.dead_letter_ordering.positions
        )

    def retain(self, reference: MessageReference) -> None:
        reference.increment_reference_count()
        ordering = self.dead_letter_ordering
        if ordering.positions or self.excluded is not None:
            ordering.entered_memory(reference.position)

    def release(self, reference: MessageReference) -> None:
        if self.excluded is not None:
            self.dead_letter_ordering.left_memory(reference.position)
        reference.decrement_reference_count()

    def page_in(self, stored: StoredMessage) -> MessageReference:
        reference = self.topic.reference_to(stored.message, stored.position)
        self.retain(reference)
        return reference

    def _page_in_spooled(self, spooled: SpooledMessage) -> MessageReference:
        reference = self.topic.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        self.retain(reference)
        return reference


class SubscriptionBacklog:
    """The messages of a durable subscription that wait or are in flight to its consumer."""

    def __init__(self, key: SubscriptionKey, broker: RegionServices, policy: PolicyEntry) -> None:
        self._key = key
        self._broker = broker
        self._prioritized = policy.prioritized_messages
        self._page_size = policy.max_page_size
        self._topics: dict[RegionDestination, _TopicBacklog] = {}
        self._store_sources: dict[RegionDestination, StoreSource] = {}
        self._unselected: dict[RegionDestination, int] = {}
        """For each topic, the last arrival number for which `must_select` is true."""
        self._in_memory = policy.pending_durable_subscriber_policy == "vmDurableCursor"
        self._cursor = (PrioritizedSpillingCursor if self._prioritized else SpillingCursor)(
            f"{key.client_id}:{key.subscription_name}",
            self._source_of,
            never_short if self._in_memory else _is_memory_short,
            self.release,
            self._page_size,
            UNLIMITED if self._in_memory else MOST_CACHED,
        )
        self.pending = (
            pending_list(self._prioritized)
            if broker.store_capabilities.is_volatile
            else self._cursor
        )
        """The messages that wait for dispatch."""

    def _source_of(self, reference: MessageReference) -> MessageSource:
        topic = reference.destination
        if reference.position is not None and topic in self._store_sources:
            return self._store_sources[topic]
        return self._topics[topic].unstored

    def add_topic(self, topic: Topic, *, was_stored: bool) -> None:
        """Add a topic, with the messages that its store already has for the subscription.

        `was_stored` says whether they may be from before a restart.
        """
        prioritized = topic.policy.prioritized_messages
        part = self._topics[topic] = _TopicBacklog(topic, self._key, self._broker, prioritized)
        store = topic.store
        if was_stored and store is not None and store.last_arrival:
            self._unselected[topic] = store.last_arrival
        if self._broker.store_capabilities.is_volatile:
            if store is not None:
                count = store.subscription_message_count(self._key)
                for stored in store.next_subscription_messages(self._key, None, count):
                    self.pending.append(part.page_in(stored))
            return
        if store is not None:
            self._store_sources[topic] = part.store_source(store, prioritized)
            self._cursor.add_source(self._store_sources[topic])
        self._cursor.add_source(part.unstored)
        if self._in_memory:
            self._cursor.read_ahead(UNLIMITED)

    def remove_topic(self, topic: Topic) -> None:
        """Remove a topic that was removed from the broker, and its waiting messages."""
        for reference in [r for r in self.pending if r.destination is topic]:
            self.pending.remove(reference)
            self.release(reference)
        self._unselected.pop(topic, None)
        part = self._topics.pop(topic, None)
        if part is None or self._broker.store_capabilities.is_volatile:
            return
        while len(part.unstored) and isinstance(part.unstored, MemorySource):
            for reference in part.unstored.read(self._page_size):
                part.release(reference)
        self._cursor.remove_source(part.unstored)
        source = self._store_sources.pop(topic, None)
        if source is not None:
            self._cursor.remove_source(source)

    # messages
    def retain(self, reference: MessageReference) -> None:
        """Keep a message in memory for the subscription."""
        self._topics[reference.destination].retain(reference)
        if reference.position is not None:
            source = self._store_sources.get(reference.destination)
            if source is not None:
                source.mark_visible(reference.position)

    def release(self, reference: MessageReference) -> None:
        """Release a message that `retain`, or reading it from a source, kept in memory."""
        part = self._topics.get(reference.destination)
        if part is None:  # the topic was removed
            reference.decrement_reference_count()
        else:
            part.release(reference)

    def must_select(self, reference: MessageReference) -> bool:
        """Return whether the selector must still be evaluated for a message of the backlog.

        That is so for messages stored before the subscription was restored, and after
        `select_later`.
        """
        position = reference.position
        return (
            bool(self._unselected)
            and position is not None
            and position.arrival <= self._unselected.get(reference.destination, 0)
        )

    def select_later(self, reference: MessageReference) -> bool:
        """Postpone selection of a message to its dispatch; return False if it is not stored."""
        position = reference.position
        if position is None:
            return False
        former = self._unselected.get(reference.destination, 0)
        self._unselected[reference.destination] = max(former, position.arrival)
        return True

    def dead_letter_ordering(self, topic: RegionDestination) -> DeadLetterOrdering:
        """Return the topic's messages to be removed once their dead letters are stored."""
        part = self._topics.get(topic)
        return DeadLetterOrdering(None) if part is None else part.dead_letter_ordering

    def hide(self, topic: Topic, stored: StoredMessage) -> MessageReference:
        """Remove a paged-out message from the backlog but not from the store."""
        self.remove_paged_out(topic.reference_to(stored.message, stored.position))
        return self._topics[topic].page_in(stored)

    def restore(self, reference: MessageReference) -> None:
        """Add a message returned by `hide` again."""
        source = self._store_sources.get(reference.destination)
        if source is not None and reference.position is not None:
            source.mark_visible(reference.position)
        self.pending.append(reference)

    def waiting(self, limit: int) -> list[MessageReference]:
        """Return the first `limit` waiting messages, in memory or paged out."""
        page = list(islice(self.pending, limit))
        return page + self.first_paged_out(limit - len(page))

    def first_paged_out(self, limit: int) -> list[MessageReference]:
        """Return new references to the first `limit` paged-out messages without removing them."""
        found: list[MessageReference] = []
        for topic, source in self._store_sources.items():
            page = source.first_paged_out(max(0, limit - len(found)))
            found += [topic.reference_to(stored.message, stored.position) for stored in page]
        for topic, part in self._topics.items():
            if isinstance(part.unstored, SpoolSource):
                spooled = islice(part.unstored.browse(limit), max(0, limit - len(found)))
                found += [topic.reference_to(each.message) for _, each in spooled]
        return found

    def remove_paged_out(self, reference: MessageReference) -> bool:
        """Remove a paged-out message, except from the store; return whether it was there."""
        return self._cursor.remove_paged_out(reference)


def _is_memory_short(reference: MessageReference) -> bool:
    return reference.destination.is_memory_short(reference)
