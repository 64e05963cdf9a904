"""A durable topic subscription, which outlives its consumer and keeps missed messages.

Theory of operation
-------------------

A durable subscription is identified by client id and subscription name (`SubscriptionKey`). It
exists from its first consumer until it is unsubscribed, in three places: the registry of
subscriptions, the store of every topic to which it is attached, and an object of this class.

    state       `add` (a message matches)               `window_freed`    consumer
    ==========  ======================================  ================  =====================
    inactive    appended to the backlog                 does nothing      none
    active      dispatched, if nothing waits before it  dispatches        exactly one; a second
                and the window has space; else appended                   one is refused

    event                                             transition
    ================================================  =====================================
    `activate`: a consumer with the same key, same    inactive to active; the backlog is
    destination, selector and noLocal                 dispatched up to the prefetch
    the same key with another destination, selector   the registry removes this subscription
    or noLocal, while inactive                        and creates a new one
    `deactivate`: its consumer is closed or lost      active to inactive; messages in flight
                                                      return to the backlog
    unsubscribed, while inactive                      removed from registry and stores
    broker start: `recover` of the registry           inactive, its backlog in the store

Invariants:

- A message that matched is in exactly one of: the backlog, `dispatched`, or an open transaction
that acknowledged it (then it stays in `dispatched`, and in `_transacted`). It is removed from the
store when it was acknowledged, expired or dead-lettered, never because memory is short.
- A topic's message in memory is shared by its subscriptions, with a reference count. Each
subscription retains it once, from `add` or page-in until it is settled or paged out.
- The messages are in store order per topic. Returned messages go before all waiting ones, sorted by
broker sequence number.
- A subscription does not get messages from before it (`_topics`). This matters for a message whose
transaction was stored before the subscription and commits after it: the store does not assign the
message to the subscription, so a restart would lose it even if it had been delivered.
Redelivery counters are kept by message id, in memory only, and not in the shared message reference,
because they do not apply to other subscriptions. (activemq-broker T20)
Messages in transactions stay in `dispatched` when the consumer is closed, and return on rollback,
even if another consumer is active by then.
A selector that exceeds its limits on a message closes the consumer, and the message does not match.
The subscription continues, but after _MAX_SELECTOR_EXCESSES such messages it selects nothing until
a consumer activates it again. While selectors are busy (`selector_meter`), selection is postponed.

The backlog is in memory, in stores and in the temp store. A subscription to a pattern has messages
of several topics, each with its own store.

(ActiveMQ DurableTopicSubscription, StoreDurableSubscriberCursor; activemq-broker M8, T16 to T23)
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final, cast

from anyio import lowlevel

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.selector import SelectorLimitException, compile_selector
from pyjms.selector.budget import BUSY_DELAY, SelectorsBusyException
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerInfo, MessageId
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference
from pyjms_broker.cursor.memory import (
    MAX_EXPIRED_PER_TURN,
    PAGING_RETRY_DELAY,
    log_paging_failure,
    pending_list,
)
from pyjms_broker.cursor.spilling import (
    MOST_CACHED,
    UNLIMITED,
    MemorySource,
    MessageSource,
    PrioritizedSpillingCursor,
    PrioritizedStoreSource,
    SpillingCursor,
    SpoolSource,
    StoreSource,
    never_short,
)
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.dead_letters import DeadLetterOrdering
from pyjms_broker.region.subscription import (
    SELECTS_NOTHING,
    PrefetchSubscription,
    SubscriptionRequest,
)
from pyjms_broker.store.api import (
    Position,
    Positions,
    StoredMessage,
    StoredSubscription,
    StoreState,
    SubscriptionKey,
    TopicMessageStore,
)

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker
    from pyjms_broker.region.topic import Topic
    from pyjms_broker.store.temp import SpooledMessage

logger = get_logger(__name__)


class _TopicBacklog:
    """The part of the backlog that belongs to one topic."""

    def __init__(
        self, topic: Topic, key: SubscriptionKey, broker: RegionBroker, prioritized: bool
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
            return PrioritizedStoreSource(
                next_messages, self.page_in, self.excluded, recovered, self.topic.page_limit
            )
        return StoreSource(
            next_messages,
            self.page_in,
            recovered,
            self.dead_letter_ordering.positions,
            self.topic.page_limit,
        )

    def retain(self, reference: MessageReference) -> None:
        reference.increment_reference_count()
        reference.stored_holders += 1
        ordering = self.dead_letter_ordering
        if ordering.positions or self.excluded is not None:
            ordering.entered_memory(reference.position)

    def release(self, reference: MessageReference) -> None:
        if self.excluded is not None:
            self.dead_letter_ordering.left_memory(reference.position)
        reference.stored_holders -= 1
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

    def __init__(self, key: SubscriptionKey, broker: RegionBroker, policy: PolicyEntry) -> None:
        self.leaves_in_store = False
        """Whether stored messages are not kept in memory."""
        self._key = key
        self._broker = broker
        self._prioritized = policy.prioritized_messages
        self._page_size = policy.max_page_size
        self._mark = policy.cursor_memory_high_water_mark
        self._topics: dict[RegionDestination, _TopicBacklog] = {}
        self._store_sources: dict[RegionDestination, StoreSource] = {}
        self._unselected: dict[RegionDestination, int] = {}
        """For each topic, the last arrival number for which `must_select` is true."""
        self._in_memory = policy.pending_durable_subscriber_policy == "vmDurableCursor"
        self._cursor = (PrioritizedSpillingCursor if self._prioritized else SpillingCursor)(
            f"{key.client_id}:{key.subscription_name}",
            self._source_of,
            never_short if self._in_memory else self._is_memory_short,
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

    def _is_memory_short(self, reference: MessageReference) -> bool:
        return (
            self.leaves_in_store
            or reference.destination.is_memory_short(reference)
            or self._broker.system_usage.is_short_for_consumers(self._mark)
        )

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


_MEMORY_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks of whether there is memory to page in again."""
_MAX_SELECTOR_EXCESSES: Final = 10  # messages on which the selector may exceed its limits


class DurableTopicSubscription(PrefetchSubscription):
    """A subscription that is active while a consumer uses it; see the module's docstring."""

    def __init__(
        self, request: SubscriptionRequest, key: SubscriptionKey, owner: str | None
    ) -> None:
        super().__init__(request)
        self.key = self.durable_key = key
        self.owner = owner
        """The user who created it; None: unknown, as its store has none, or there are no users."""
        self._matches_memory = None
        self.is_active = False
        self.backlog = SubscriptionBacklog(key, request.broker, request.policy)
        self._pending = self.backlog.pending
        self._keeps_active = request.broker.keep_durable_subs_active
        self.backlog.leaves_in_store = not self._keeps_active
        self._topics: dict[RegionDestination, int | None] = {}
        """The topics, with their last arrival numbers before this subscription; None: no store."""
        self._is_reported_slow = False
        self._redeliveries: dict[MessageId, int] = {}
        self._resume_task: event_loop.BackgroundTask | None = None
        self._postponed: list[MessageReference] = []  # the last message to be selected later
        self._audit = (
            MessageAudit(self.policy.max_audit_depth, self.policy.max_producers_to_audit)
            if self.policy.enable_audit
            else None
        )

    @property
    def stored(self) -> StoredSubscription:
        """The subscription as the store keeps it."""
        info = self.info
        return StoredSubscription(
            self.key, self.requested, info.selector, info.no_local, self.owner
        )

    @property
    def is_slow(self) -> bool:
        return self.is_active and self.prefetch_size > 0 and bool(self._pending) and self.is_full()

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    def oldest_arrival(self) -> int:
        """Return when the first message arrived, in ms since 1970; 0: there is none."""
        first = next(iter(self.dispatched.values()), None)
        if first is None:
            first = next(iter(self.backlog.waiting(1)), None)
        return 0 if first is None else (first.cached or first.message).broker_in_time

    def differs_from(self, info: ConsumerInfo) -> bool:
        """Return whether a consumer with `info` needs a new subscription (activemq-broker T18)."""
        return (
            info.destination != self.requested
            or (info.selector or None) != (self.info.selector or None)
            or info.no_local != self.info.no_local
        )

    def set_info(self, info: ConsumerInfo) -> None:
        super().set_info(info)
        self._selector_excesses = 0

    def selector_exceeded(self, error: SelectorLimitException, reference: MessageReference) -> bool:
        if isinstance(error, SelectorsBusyException) and self.backlog.select_later(reference):
            self._postponed[:] = [reference]
            return True
        self._selector_excesses += 1
        if self._selector_excesses == 1:
            self.close_consumer(error)
        if self._selector_excesses == _MAX_SELECTOR_EXCESSES:
            self.selector = compile_selector(SELECTS_NOTHING)
            logger.error(
                "%s selects nothing until a consumer activates it again: its selector exceeded "
                "its limits on %d messages",
                self,
                _MAX_SELECTOR_EXCESSES,
            )
        return False

    def attach(self, topic: Topic, start: int | None) -> None:
        """Get a topic's messages from now on, and those that its store has for the subscription.

        Only messages whose arrival number is above `start` belong to the subscription.
        """
        self._topics[topic] = start
        self.backlog.add_topic(topic, was_stored=start == 0)
        self.destinations.append(topic)

    def detach(self, topic: Topic) -> None:
        """Detach from a removed topic, and drop its waiting messages."""
        self._topics.pop(topic, None)
        self.destination_removed(topic)
        self.backlog.remove_topic(topic)
        for reference in self.remove_dispatched(topic):
            reference.decrement_reference_count()
        self.window_freed()

    # active and inactive
    def activate(self, context: ConnectionContext, info: ConsumerInfo, prefetch_size: int) -> None:
        """Dispatch to a consumer from now on."""
        if self.is_active:
            raise JMSException(
                f"Durable consumer is in use for client: {self.key.client_id} "
                f"and subscriptionName: {self.key.subscription_name}"
            )
        self.context = context
        self.set_info(info)
        self.prefetch_size = prefetch_size
        self.prefetch_extension = 0
        self.last_ack_time = _clock.now()
        self._is_reported_slow = False
        self.backlog.leaves_in_store = False
        if info.retroactive and not self._pending:
            self._append_kept()
        self.is_active = True
        self.window_freed()

    def recover_kept(self) -> None:
        self._append_kept()
        self.window_freed()

    def _append_kept(self) -> None:
        """Append copies of the messages that topics keep for retroactive consumers.

        No store has them for this subscription, so each activation appends the same ones, even
        those that a consumer has acknowledged.
        """
        for topic in cast("tuple[Topic, ...]", tuple(self._topics)):
            for kept in topic.kept_for(self):
                reference = topic.reference_to(kept.message)
                reference.persistent = False  # its acknowledgement changes no store
                self.backlog.retain(reference)
                self._pending.append(reference)

    def deactivate(self, last_delivered_sequence_id: int) -> None:
        """Return unacknowledged messages to the backlog; keep the subscription.

        Messages that open transactions have acknowledged return if these are rolled back.
        (activemq-broker T20)
        """
        self.is_active = False
        self.backlog.leaves_in_store = not self._keeps_active
        self.close()
        for topic in self._topics:
            for reference, is_certain in self.delivered_messages(topic, last_delivered_sequence_id):
                counter = self._redelivery_counter(reference)
                counter = counter + 1 if is_certain else max(counter, 1)
                self._redeliveries[reference.message_id] = counter
        returned = [r for topic in self._topics for r in self.remove_dispatched(topic)]
        self.dispatched.clear()
        self._pending.requeue(returned)

    def requeue(self, references: list[MessageReference], has_failed: bool) -> None:
        if has_failed:
            for reference in references:
                self._redeliveries[reference.message_id] = self._redelivery_counter(reference) + 1
        self._pending.requeue(references)

    def return_unacknowledged(self, rolled_back: list[MessageReference]) -> None:
        returned = []
        for reference in rolled_back:
            if reference.destination not in self._topics:
                self.undispatch(reference)
                self._release(reference)
            elif not self.is_dispatched(reference):
                returned.append(reference)
        self._pending.requeue(returned)

    def _redelivery_counter(self, reference: MessageReference) -> int:
        return self._redeliveries.get(reference.message_id, reference.redelivery_counter)

    # messages
    def is_full(self) -> bool:
        return not self.is_active or super().is_full()

    def add(self, reference: MessageReference) -> None:
        """Accept a matching message: dispatch it, or append it to the backlog."""
        if self._precedes_subscription(reference):
            return
        if reference.position is None and not (self.is_active or self._keeps_active):
            return
        if self._audit is not None and self._audit.is_duplicate(reference.message_id):
            self.store_acknowledgement(NO_TRANSACTION, reference)
            return
        self.backlog.retain(reference)
        if reference in self._postponed:
            self._pending.append(reference)
            self._resume_later(BUSY_DELAY)
        elif not self._pending and not self.is_full() and not self._must_wait(reference):
            self._send(reference)
        else:
            self._pending.append(reference)
            if not self._is_reported_slow and self.is_slow:
                self._is_reported_slow = True
                self.report_slow()

    def _precedes_subscription(self, reference: MessageReference) -> bool:
        """Return whether the message arrived in the topic's store before this subscription.

        If so, the store has it only for other subscriptions.
        """
        start = self._topics[reference.destination]
        if start is None or not reference.persistent:
            return False
        position = reference.position
        return position is None or position.arrival <= start

    def _must_wait(self, reference: MessageReference) -> bool:
        """Return whether a new message waits in its store, because too many are in flight."""
        topic = cast("Topic", reference.destination)
        return topic.memory.was_short and bool(self.dispatched) and topic.must_not_read()

    def leave_memory(self, *, is_full: bool) -> None:
        """Make stored messages leave memory; see `MemoryRelief`."""
        waiting = self._pending if is_full or not self.is_active else ()
        freed: dict[RegionDestination, int] = {}
        for reference in chain(self.dispatched.values(), waiting):
            topic = cast("Topic", reference.destination)
            is_shared = reference.stored_holders != reference.reference_count
            if reference.cached is not None and not (
                is_shared or topic.policy.advisory_for_consumed
            ):
                freed[topic] = freed.get(topic, 0) + reference.leave_memory()
        for destination, size in freed.items():
            destination.memory.decrease(size)

    def window_freed(self) -> None:
        pending = self._pending
        if self._is_reported_slow and not self.is_full():
            self._is_reported_slow = False
        expired = 0
        while pending and not self.is_full():
            if expired == MAX_EXPIRED_PER_TURN or (pending.must_read and self._must_not_read()):
                self._resume_later()
                return
            try:
                reference = pending.pop()
            except KeyError:  # the store has quarantined messages that the cursor still counted
                return
            except Exception as error:
                log_paging_failure(self, error, self._resume_task)
                self._resume_later(PAGING_RETRY_DELAY)
                return
            self._postponed.clear()
            try:
                is_stored = reference.cached is not None or reference.load()
            except Exception as error:
                pending.requeue([reference])
                log_paging_failure(self, error, self._resume_task)
                self._resume_later(PAGING_RETRY_DELAY)
                return
            if not is_stored:
                self._release(reference)
            elif reference.expiration and reference.is_expired():
                self._expire(reference)
                self._release(reference)
                expired += 1
            elif self.backlog.must_select(reference) and not self.selects(reference):
                # the record that it does not match is not synced, so a crash may have lost it
                self.store_acknowledgement(NO_TRANSACTION, reference)
                self._release(reference)
                expired += 1
            elif self._postponed:
                pending.requeue([reference])
                self._resume_later(BUSY_DELAY)
                return
            else:
                self._send(reference)

    def _must_not_read(self) -> bool:
        """Return whether nothing may be paged in: the store is suspended, or memory is short.

        Short memory counts only while acknowledgements of messages in flight can free some.
        (activemq-broker M8)
        """
        if self.broker.store.state is StoreState.SUSPENDED:
            return True
        topics = cast("tuple[Topic, ...]", tuple(self._topics))
        return bool(self.dispatched) and any(topic.must_not_read() for topic in topics)

    def _resume_later(self, seconds: float = 0) -> None:
        if self._resume_task is None or self._resume_task.done:
            self._resume_task = event_loop.spawn(self._resume, seconds, name=f"dispatch to {self}")

    def close(self) -> None:
        super().close()
        task, self._resume_task = self._resume_task, None
        if task is not None:
            task.cancel()

    async def _resume(self, seconds: float) -> None:
        await (_clock.sleep(seconds) if seconds else lowlevel.checkpoint())
        while self._pending.must_read and self._must_not_read():
            await _clock.sleep(_MEMORY_CHECK_INTERVAL)
        self._resume_task = None
        self.window_freed()

    def _send(self, reference: MessageReference) -> None:
        reference.destination.statistics.dispatched += 1
        self.dispatch(reference, self._redelivery_counter(reference))

    def _expire(self, reference: MessageReference) -> None:
        reference.destination.on_expired(self.context, reference, self)
        self.store_acknowledgement(NO_TRANSACTION, reference, is_dead_letter=True)

    def expire_messages(self, limit: int) -> None:
        """Remove the expired among the first `limit` waiting messages.

        An active subscription does so only if the broker is so configured. (activemq-broker T24)
        """
        if self.is_active and not self.broker.expires_for_active_durables:
            return
        page = [reference for reference, _ in zip(self._pending, range(limit), strict=False)]
        for reference in page:
            if reference.is_expired():
                self._pending.remove(reference)
                self._expire(reference)
                self._release(reference)
        for reference in self.backlog.first_paged_out(limit - len(page)):
            if reference.is_expired() and self.backlog.remove_paged_out(reference):
                self._expire(reference)

    def dead_letter_ordering(self, topic: RegionDestination) -> DeadLetterOrdering:
        """Return the topic's messages to be removed once their dead letters are stored."""
        return self.backlog.dead_letter_ordering(topic)

    def settle(self, reference: MessageReference) -> None:
        self._release(reference)
        reference.destination.on_consumed(self.context, reference)

    def unsettle(self, reference: MessageReference) -> None:
        if reference.destination not in self._topics:
            return
        reference.destination.undo_consumed(reference)
        self._redeliveries[reference.message_id] = self._redelivery_counter(reference) + 1
        self.backlog.retain(reference)
        self._pending.requeue([reference])
        self.window_freed()

    def _release(self, reference: MessageReference) -> None:
        self._redeliveries.pop(reference.message_id, None)
        self.backlog.release(reference)

    # transactions that were prepared before the broker started
    def hide(self, topic: Topic, stored: StoredMessage) -> MessageReference:
        """Hide a message that a prepared transaction has acknowledged from the backlog."""
        return self.backlog.hide(topic, stored)

    def forget_hidden(self, reference: MessageReference) -> None:
        """Settle a message returned by `hide`, as its transaction is committed."""
        if reference.destination in self._topics:
            self.settle(reference)

    def restore(self, reference: MessageReference) -> None:
        """Add a message returned by `hide` again, as its transaction was rolled back."""
        if reference.destination in self._topics:
            self.backlog.restore(reference)
            self.window_freed()
