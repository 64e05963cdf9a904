"""What waits for a durable subscription: in memory, beyond that in stores and the temp store.

A subscription to a pattern has messages of several topics, each with a store of its own.
(activemq-broker M8, T19, T23; StoreDurableSubscriberCursor)
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pyjms_broker.api.message import (
    MessageReference,
    Position,
    Positions,
    StoredMessage,
    SubscriptionKey,
)
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
from pyjms_broker.store.api import TopicMessageStore

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.policy.entry import PolicyEntry
    from pyjms_broker.region.services import RegionServices
    from pyjms_broker.region.topic.topic import Topic
    from pyjms_broker.store.temp import SpooledMessage

__all__ = ["SubscriptionBacklog"]


class _Part:
    """The messages of one topic."""

    def __init__(
        self, topic: Topic, key: SubscriptionKey, broker: RegionServices, prioritized: bool
    ) -> None:
        self.topic = topic
        self.dead_letter_ordering = DeadLetterOrdering(None)
        self.held: set[Position] | None = None
        self._key = key
        self.from_memory: SpoolSource | MemorySource
        temp_store = broker.temp_store
        if temp_store is None:
            self.from_memory = MemorySource(prioritized)
        else:
            name = f"{key.client_id}:{key.subscription_name} on {topic}"
            self.from_memory = SpoolSource(temp_store, name, self._unspooled, prioritized)

    def open(self, store: TopicMessageStore, prioritized: bool) -> StoreSource:
        """Return the source of what the store has for the subscription."""
        key = self._key

        def page(after: Position | None, limit: int, skip: Positions) -> list[StoredMessage]:
            return store.next_subscription_messages(key, after, limit, skip)

        recovered = store.subscription_message_count(key)
        if prioritized:
            self.held = set()
            self.dead_letter_ordering = DeadLetterOrdering(self.held)
            return PrioritizedStoreSource(page, self.paged_in, self.held, recovered)
        return StoreSource(page, self.paged_in, recovered, self.dead_letter_ordering.positions)

    def hold(self, reference: MessageReference) -> None:
        self.topic.hold(reference)
        position = reference.position
        if position is not None:
            self.dead_letter_ordering.positions.discard(position)
            if self.held is not None:
                self.held.add(position)

    def release(self, reference: MessageReference) -> None:
        position = reference.position
        if (
            self.held is not None
            and position is not None
            and position not in self.dead_letter_ordering.positions
        ):
            self.held.discard(position)
        self.topic.drop(reference)

    def paged_in(self, stored: StoredMessage) -> MessageReference:
        reference = self.topic.reference_to(stored.message, stored.position)
        self.hold(reference)
        return reference

    def _unspooled(self, spooled: SpooledMessage) -> MessageReference:
        reference = self.topic.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        self.hold(reference)
        return reference


class SubscriptionBacklog:
    """The waiting messages of one durable subscription, and those that it has in flight."""

    def __init__(self, key: SubscriptionKey, broker: RegionServices, policy: PolicyEntry) -> None:
        self._key = key
        self._broker = broker
        self._prioritized = policy.prioritized_messages
        self._page_size = policy.max_page_size
        self._parts: dict[RegionDestination, _Part] = {}
        self._stored: dict[RegionDestination, StoreSource] = {}
        self._in_memory = policy.pending_durable_subscriber_policy == "vmDurableCursor"
        self._cursor = (PrioritizedSpillingCursor if self._prioritized else SpillingCursor)(
            f"{key.client_id}:{key.subscription_name}",
            self._source_of,
            never_short if self._in_memory else _is_short,
            self.release,
            self._page_size,
            UNLIMITED if self._in_memory else MOST_CACHED,
        )
        self.pending = (
            pending_list(self._prioritized)
            if broker.store_capabilities.is_volatile
            else self._cursor
        )
        """Those that wait."""

    def _source_of(self, reference: MessageReference) -> MessageSource:
        topic = reference.destination
        if reference.position is not None and topic in self._stored:
            return self._stored[topic]
        return self._parts[topic].from_memory

    def join(self, topic: Topic) -> None:
        """Take a topic in, with what its store has for the subscription from before."""
        prioritized = topic.policy.prioritized_messages
        part = self._parts[topic] = _Part(topic, self._key, self._broker, prioritized)
        if self._broker.store_capabilities.is_volatile:
            return
        store = topic.store
        if store is not None:
            self._stored[topic] = part.open(store, prioritized)
            self._cursor.add_source(self._stored[topic])
        self._cursor.add_source(part.from_memory)
        if self._in_memory:
            self._cursor.read_ahead(UNLIMITED)

    def leave(self, topic: Topic) -> None:
        """Forget a topic that is gone, with what waits from it."""
        for reference in [r for r in self.pending if r.destination is topic]:
            self.pending.remove(reference)
            self.release(reference)
        part = self._parts.pop(topic, None)
        if part is None or self._broker.store_capabilities.is_volatile:
            return
        while len(part.from_memory) and isinstance(part.from_memory, MemorySource):
            for reference in part.from_memory.read(self._page_size):
                part.release(reference)
        self._cursor.remove_source(part.from_memory)
        stored = self._stored.pop(topic, None)
        if stored is not None:
            self._cursor.remove_source(stored)

    # messages
    def hold(self, reference: MessageReference) -> None:
        """Have a message in memory."""
        self._parts[reference.destination].hold(reference)
        if reference.position is not None:
            source = self._stored.get(reference.destination)
            if source is not None:
                source.mark_visible(reference.position)

    def release(self, reference: MessageReference) -> None:
        """Have it in memory no more."""
        part = self._parts.get(reference.destination)
        if part is None:
            reference.destination.drop(reference)  # its topic is gone
        else:
            part.release(reference)

    def dead_letter_ordering(self, topic: RegionDestination) -> DeadLetterOrdering:
        """Return the topic's messages that leave behind their letters."""
        part = self._parts.get(topic)
        return DeadLetterOrdering(None) if part is None else part.dead_letter_ordering

    def hide(self, topic: Topic, stored: StoredMessage) -> MessageReference:
        """Hold a message back that waits outside."""
        self.take_out(topic.reference_to(stored.message, stored.position))
        return self._parts[topic].paged_in(stored)

    def restore(self, reference: MessageReference) -> None:
        """Let a message wait again that was held back."""
        source = self._stored.get(reference.destination)
        if source is not None and reference.position is not None:
            source.mark_visible(reference.position)
        self.pending.append(reference)

    def first_outside(self, limit: int) -> list[MessageReference]:
        """Return the first `limit` messages that are outside; see `take_out`."""
        found: list[MessageReference] = []
        for topic, source in self._stored.items():
            page = source.first_outside(max(0, limit - len(found)))
            found += [topic.reference_to(stored.message, stored.position) for stored in page]
        for topic, part in self._parts.items():
            if isinstance(part.from_memory, SpoolSource):
                spooled = islice(part.from_memory.browse(limit), max(0, limit - len(found)))
                found += [topic.reference_to(each.message) for _, each in spooled]
        return found

    def take_out(self, reference: MessageReference) -> bool:
        """Forget a message that is outside; return whether it was. The store has it still."""
        return self._cursor.take_out(reference)


def _is_short(reference: MessageReference) -> bool:
    return reference.destination.is_short(reference)
