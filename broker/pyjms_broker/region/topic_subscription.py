"""A non-durable consumer of topics: a prefetch window, and pending messages beyond it.

Messages in flight are only counted: unacknowledged ones are not redelivered. Pending messages wait
in memory, and in the temp store when memory is short, so that a slow consumer does not exhaust the
memory for the others.
(ActiveMQ TopicSubscription; activemq-broker T1, T7 to T10)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from pyjms.errors import JMSException, LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import AckType, MessageAck, Throwable
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConsumerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.transaction import Synchronization, Transaction
from pyjms_broker.cursor.spilling import RetainedPendingList, SpoolingCursor
from pyjms_broker.region.subscription import AbstractSubscription, SubscriptionRequest

if TYPE_CHECKING:
    from pyjms_broker.region.topic import Topic

logger = get_logger(__name__)

_SpoolingListener: TypeAlias = Callable[["TopicSubscription", bool], None]
_EVICTION_PAGE: Final = 1000
"""The number of spooled messages read at once for the eviction strategy, as in ActiveMQ."""
_CONSUMES: Final = (AckType.STANDARD, AckType.POISON, AckType.INDIVIDUAL)


class TopicSubscription(AbstractSubscription):
    """Gets every matching message, or with a pending message limit only the latest ones."""

    discarded_count: int = 0
    expired_count: int = 0
    is_spooling: bool = False
    """Whether pending messages are in the temp store."""
    _is_slow: bool = False
    _transacted_count: int = 0
    """The number of messages acknowledged in open transactions."""

    def __init__(self, request: SubscriptionRequest) -> None:
        super().__init__(request)
        self.maximum_pending_message_limit = self._limit()
        self._most_unevicted = self._eviction_threshold()
        self._earliest_expiration = math.inf  # no pending message expires before it
        self._pending = self._make_pending()
        self._spooling_listeners: dict[BrokerDestination, _SpoolingListener] = {}
        self._audit = (
            MessageAudit(self.policy.max_audit_depth, self.policy.max_producers_to_audit)
            if self.policy.audits_topic_subscriptions
            else None
        )

    def _limit(self) -> int:
        """Return the policy's limit, which the consumer's own may lower; -1: no limit."""
        strategy = self.policy.pending_message_limit_strategy
        limit = (
            -1 if strategy is None else strategy.maximum_pending_message_limit(self.prefetch_size)
        )
        own = self.info.maximum_pending_message_limit
        if own > 0:
            return own if limit < 0 else min(limit, own)
        return limit

    def _eviction_threshold(self) -> int:
        """Return the number of pending messages above which expired ones are evicted; -1: none."""
        watermark = self.policy.message_eviction_strategy.evict_expired_messages_high_watermark
        return min(self.maximum_pending_message_limit, watermark)

    def _make_pending(self) -> RetainedPendingList | SpoolingCursor:
        temp_store = self.broker.temp_store
        if temp_store is None or self.policy.pending_subscriber_policy == "vmCursor":
            return RetainedPendingList()
        is_short = self.broker.system_usage.is_short_for_consumers
        return SpoolingCursor(str(self), temp_store, self.policy, is_short)

    def attach(self, topic: BrokerDestination, spooling_changed: _SpoolingListener) -> None:
        """Get the messages of a topic.

        `spooling_changed` is called when spooling to the temp store begins or ends.
        """
        self.destinations.append(topic)
        self._spooling_listeners[topic] = spooling_changed
        if self.is_spooling:
            spooling_changed(self, True)

    def detach(self, topic: BrokerDestination) -> None:
        """Leave a topic."""
        self._spooling_listeners.pop(topic, None)
        self.destination_removed(topic)

    # the window
    @property
    def is_slow(self) -> bool:
        return self._is_slow

    def is_full(self) -> bool:
        if self.context.congested:
            return True
        if self.prefetch_size == 0:
            return self._pulls == 0
        return self.in_flight - self.prefetch_extension >= self.prefetch_size

    @property
    def in_flight(self) -> int:
        return self.dispatched_count - self.dequeue_count

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    # messages
    def add(self, reference: MessageReference) -> None:
        """Accept a matching message: dispatch it, or keep it until the window has space."""
        if self._audit is not None and self._audit.is_duplicate(reference.message_id):
            return
        self.enqueue_count += 1
        pending = self._pending
        if not pending and not self.is_full():
            self._dispatch(reference)
            return
        pending.append(reference)
        if pending.is_spilling is not self.is_spooling:
            self._update_spooling()
        self._update_slow()
        if self._most_unevicted >= 0:
            if reference.expiration:
                self._earliest_expiration = min(self._earliest_expiration, reference.expiration)
            if self._most_unevicted < len(pending):
                self.broker.evictions.run(self._evict)

    def add_run(self, references: list[MessageReference]) -> None:
        """Accept those of these messages of a topic that match, as `add` does each."""
        count = 0
        if self.matches_all and self._audit is None and not self._pending and not self.is_full():
            room = self.prefetch_size - self.in_flight + self.prefetch_extension
            count = self.transmit_run(references, room)
            self.enqueue_count += count
            references[0].destination.statistics.dispatched += count
        for reference in islice(references, count, None):
            if self.matches(reference):
                self.add(reference)

    def recover_kept(self) -> None:
        for topic in cast("list[Topic]", self.destinations):
            for reference in topic.kept_for(self):
                if reference not in self._pending:  # it would be counted twice
                    self.add(reference)

    def _update_spooling(self) -> None:
        """Notify the topics whether their messages need space in the temp store."""
        self.is_spooling = self._pending.is_spilling
        for listener in self._spooling_listeners.values():
            listener(self, self.is_spooling)

    def _update_slow(self) -> None:
        if self._is_slow or self.prefetch_size <= 1:
            return
        if len(self._pending) - 1 <= self.prefetch_size:  # the new one does not count
            return
        self._is_slow = True
        logger.warning("%s: has twice its prefetch limit pending; it appears to be slow", self)
        self.report_slow()

    def _evict(self) -> None:
        strategy = self.policy.message_eviction_strategy
        limit = self.maximum_pending_message_limit
        pending = self._pending
        if self._earliest_expiration < _clock.time_ms():
            self._evict_expired()
        while len(pending) > limit:
            pending.read_ahead(_EVICTION_PAGE)
            for reference in strategy.evict(pending):
                if pending.remove(reference):
                    self._discard(reference)

    def _evict_expired(self) -> None:
        pending = self._pending
        for reference in [r for r in pending if r.expiration and r.is_expired()]:
            pending.remove(reference)
            self._expire(reference)
        if not pending.is_spilling:  # otherwise there are more in the temp store
            self._earliest_expiration = min(
                (r.expiration for r in pending if r.expiration), default=math.inf
            )

    def _discard(self, reference: MessageReference) -> None:
        self.discarded_count += 1
        root = self.broker.root
        if self.policy.advisory_for_discarding_messages:
            root.message_discarded(self.context, reference, self)
        if reference.persistent:
            cause = Throwable("java.lang.Throwable", f"TopicSubDiscard. ID:{self.consumer_id}")
            root.send_to_dead_letter_queue(self.context, reference, self, cause)
        reference.decrement_reference_count()

    def _expire(self, reference: MessageReference) -> None:
        self.expired_count += 1
        reference.destination.on_expired(self.context, reference, self)
        reference.decrement_reference_count()

    def on_unwritable(self, reference: MessageReference, error: LocalProtocolError) -> None:
        super().on_unwritable(reference, error)
        self.discarded_count += 1
        if self.policy.advisory_for_discarding_messages:
            self.broker.root.message_discarded(self.context, reference, self)

    def _dispatch(self, reference: MessageReference) -> None:
        statistics = reference.destination.statistics
        statistics.dispatched += 1
        self.transmit(reference, reference.redelivery_counter)

    def window_freed(self) -> None:
        pending = self._pending
        while pending and not self.is_full():
            try:
                reference = pending.pop()
            except Exception:
                logger.exception("%s: messages that were in the temp store are lost", self)
                continue
            if reference.expiration and reference.is_expired():
                self._expire(reference)
                continue
            self._dispatch(reference)
            reference.decrement_reference_count()
        if pending.is_spilling is not self.is_spooling:
            self._update_spooling()
        if len(pending) < self.prefetch_size:
            self._is_slow = False

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        if self.times_acks:
            self.last_ack_time = _clock.now()
        kind = ack.ack_type
        if kind in _CONSUMES:
            transaction = exchange.transaction
            if transaction is None:
                self.count_consumed(ack.destination, ack.message_count)
            else:
                self._acknowledge_in_transaction(transaction, ack)
        elif kind == AckType.DELIVERED:
            if self.use_prefetch_extension and self.prefetch_size:
                self.prefetch_extension += ack.message_count
                self.window_freed()
        elif kind == AckType.EXPIRED:
            self.expired_count += ack.message_count
            self.count_consumed(ack.destination, ack.message_count)
        elif kind != AckType.REDELIVERED:
            raise JMSException(f"Invalid acknowledgment: {ack}")
        return COMPLETED

    def acknowledge_run(self, acks: deque[MessageAck]) -> Completion:
        """Count messages as consumed of which each has its own acknowledgement, all at once."""
        first, left, count = acks[0], self.in_flight, 0
        while acks and count < left and not self.times_acks:
            ack = acks[0]
            if (
                ack.consumer_id is not first.consumer_id
                or ack.destination is not first.destination
                or ack.ack_type != AckType.STANDARD
                or ack.message_count != 1
            ):
                break
            acks.popleft()
            count += 1
        if count:
            self.count_consumed(first.destination, count)
        return COMPLETED

    def _acknowledge_in_transaction(self, transaction: Transaction, ack: MessageAck) -> None:
        count = min(ack.message_count, self.in_flight - self._transacted_count)
        if count > 0:  # an acknowledgement of no messages must not add work to the transaction
            self._transacted_count += count
            transaction.add(_Acknowledgement(self, ack, count))

    def transaction_ended(self, count: int) -> None:
        """Handle the end of a transaction that has acknowledged `count` messages."""
        self._transacted_count -= count

    def count_consumed(self, acknowledged: Destination | None, messages: int) -> None:
        """Count messages of a topic (None: the first) as consumed, and fill the window."""
        count = max(0, min(messages, self.in_flight))
        self.dequeue_count += count
        self.prefetch_extension = max(0, self.prefetch_extension - messages)
        for destination in self.destinations:
            if acknowledged is None or destination.destination == acknowledged:
                destination.statistics.dequeues += count
                break
        self.window_freed()

    def close(self) -> None:
        super().close()
        self._pending.clear()
        self._is_slow = False


class _Acknowledgement(Synchronization):
    __slots__ = ("_ack", "_count", "_subscription")

    def __init__(self, subscription: TopicSubscription, ack: MessageAck, count: int) -> None:
        self._subscription = subscription
        self._ack = ack
        self._count = count

    def after_commit(self) -> None:
        self._subscription.transaction_ended(self._count)
        self._subscription.count_consumed(self._ack.destination, self._ack.message_count)

    def after_rollback(self) -> None:
        self._subscription.transaction_ended(self._count)
