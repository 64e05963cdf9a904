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

(ActiveMQ DurableTopicSubscription; activemq-broker T16 to T21)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from anyio import lowlevel

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms.selector import SelectorLimitException, compile_selector
from pyjms.wire.openwire.commands import ConsumerInfo, MessageId
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference
from pyjms_broker.cursor.base import MAX_EXPIRED_PER_TURN, PAGING_RETRY_DELAY, log_paging_failure
from pyjms_broker.policy.audit import MessageAudit
from pyjms_broker.region.dead_letter.ordering import DeadLetterOrdering
from pyjms_broker.region.flow.selector_meter import BUSY_DELAY, SelectorsBusyException
from pyjms_broker.region.subscription.base import (
    SELECTS_NOTHING,
    SubscriptionRequest,
)
from pyjms_broker.region.subscription.prefetch import PrefetchSubscription
from pyjms_broker.region.topic.durable_backlog import SubscriptionBacklog
from pyjms_broker.store.api import StoredMessage, StoredSubscription, StoreState, SubscriptionKey

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.region.topic.topic import Topic

__all__ = ["DurableTopicSubscription"]

logger = get_logger(__name__)

_MEMORY_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks of whether there is memory to page in again."""
_MAX_SELECTOR_EXCESSES: Final = 10  # messages on which the selector may exceed its limits


class DurableTopicSubscription(PrefetchSubscription):
    """A subscription that is active while a consumer uses it; see the module's docstring."""

    def __init__(self, request: SubscriptionRequest, key: SubscriptionKey) -> None:
        super().__init__(request)
        self.key = self.durable_key = key
        self.is_active = False
        self.backlog = SubscriptionBacklog(key, request.broker, request.policy)
        self._pending = self.backlog.pending
        self._topics: dict[RegionDestination, int | None] = {}
        """The topics, with their last arrival numbers before this subscription; None: no store."""
        self._is_reported_slow = False
        self._redeliveries: dict[MessageId, int] = {}
        self._resume_task: _wakeup.BackgroundTask | None = None
        self._postponed: list[MessageReference] = []  # the last message to be selected later
        self._audit = (
            MessageAudit(self.policy.max_audit_depth, self.policy.max_producers_to_audit)
            if self.policy.enable_audit
            else None
        )

    @property
    def stored(self) -> StoredSubscription:
        """The subscription as the store keeps it."""
        return StoredSubscription(self.key, self.requested, self.info.selector, self.info.no_local)

    @property
    def is_slow(self) -> bool:
        return self.is_active and self.prefetch_size > 0 and bool(self._pending) and self.is_full()

    @property
    def pending_count(self) -> int:
        return len(self._pending)

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
        """Dispatch to a consumer from now on.

        Raises:
            JMSException: another consumer uses the subscription (activemq-broker T17).
        """
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
        if info.retroactive and not self._pending:
            self._recover()
        self.is_active = True
        self.window_freed()

    def _recover(self) -> None:
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
        self.close()
        for topic in self._topics:
            for reference in self.delivered_messages(topic, last_delivered_sequence_id):
                self._redeliveries[reference.message_id] = self._redelivery_counter(reference) + 1
        returned = [r for topic in self._topics for r in self.remove_dispatched(topic)]
        self.dispatched.clear()
        self._pending.requeue(returned)

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
        if self._audit is not None and self._audit.is_duplicate(reference.message_id):
            self.store_acknowledgement(NO_TRANSACTION, reference)
            return
        self.backlog.retain(reference)
        if reference in self._postponed:
            self._pending.append(reference)
            self._resume_later(BUSY_DELAY)
        elif not self._pending and not self.is_full():
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
            if reference.expiration and reference.is_expired():
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
        mark = self.policy.cursor_memory_high_water_mark
        return bool(self.dispatched) and any(t.memory.is_above(mark) for t in self._topics)

    def _resume_later(self, seconds: float = 0) -> None:
        if self._resume_task is None or self._resume_task.done:
            self._resume_task = _wakeup.spawn(self._resume, seconds, name=f"dispatch to {self}")

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
        reference.destination.expired(self.context, reference, self)
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
        reference.destination.consumed(self.context, reference)

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
        """Hide a message that a prepared transaction has acknowledged from the backlog.

        (activemq-broker T25)
        """
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
