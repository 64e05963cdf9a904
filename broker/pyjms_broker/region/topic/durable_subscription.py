"""A durable topic subscription: it stays when its consumer goes, and keeps what comes meanwhile.

(ActiveMQ DurableTopicSubscription; activemq-broker T16 to T21)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from anyio import lowlevel

from pyjms import _clock, _wakeup
from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import ConsumerInfo, MessageId
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import (
    NO_TRANSACTION,
    MessageReference,
    OperationContext,
    StoredMessage,
    SubscriptionKey,
)
from pyjms_broker.policy.audit import MessageAudit
from pyjms_broker.region.subscription.base import LAST_DELIVERED_UNKNOWN, SubscriptionRequest
from pyjms_broker.region.subscription.prefetch import PrefetchSubscription
from pyjms_broker.region.topic.durable_backlog import SubscriptionBacklog
from pyjms_broker.store.api import StoredSubscription, StoreState

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.region.topic.topic import Topic

__all__ = ["DurableTopicSubscription"]

logger = logging.getLogger(__name__)

_EXPIRED_AT_ONCE: Final = 500
"""How many expired messages are done with before the others of the broker have their turn."""
_LOOK_AGAIN: Final = 1.0
"""Seconds until messages are read for whom there was no room."""
_RETRY: Final = 5.0
"""Seconds until a store that failed to give messages back is asked again."""


class DurableTopicSubscription(PrefetchSubscription):
    """Active while a consumer has it. Redelivery counters live in memory only.

    (activemq-broker T20)
    """

    def __init__(self, request: SubscriptionRequest, key: SubscriptionKey) -> None:
        super().__init__(request)
        self.key = key
        self.is_active = False
        self._backlog = SubscriptionBacklog(key, request.broker, request.policy)
        self._pending = self._backlog.pending
        self._topics: dict[RegionDestination, int | None] = {}
        """With the number of the last arrival before it came; None where nothing is stored."""
        self._redeliveries: dict[MessageId, int] = {}
        self._last_delivered = LAST_DELIVERED_UNKNOWN
        self._turn: _wakeup.BackgroundTask | None = None
        self._audit = (
            MessageAudit(self.policy.max_audit_depth, self.policy.max_producers_to_audit)
            if self.policy.enable_audit
            else None
        )

    @property
    def stored(self) -> StoredSubscription:
        """What the store keeps of it."""
        return StoredSubscription(self.key, self.requested, self.info.selector, self.info.no_local)

    @property
    def is_slow(self) -> bool:
        return self.is_active and bool(self._pending) and self.is_full()

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    def is_changed_by(self, info: ConsumerInfo) -> bool:
        """Whether a consumer with these wishes needs a new subscription (activemq-broker T18)."""
        return (
            info.destination != self.requested
            or (info.selector or None) != (self.info.selector or None)
            or info.no_local != self.info.no_local
        )

    def joined(self, topic: Topic, start: int | None) -> None:
        """Remember a topic that it gets messages from, with what its store has for this.

        Of the store's messages it gets those whose arrival has a higher number than `start`.
        """
        self._topics[topic] = start
        self._backlog.join(topic)
        self.destinations.append(topic)

    def left(self, topic: Topic) -> None:
        """Forget a topic that is gone, with what waited from it."""
        self._topics.pop(topic, None)
        self.destination_removed(topic)
        self._backlog.leave(topic)
        for reference in self.release(topic):
            topic.drop(reference)
        self.window_freed()

    # active and not
    def activate(self, context: ConnectionContext, info: ConsumerInfo, prefetch_size: int) -> None:
        """Give what waits to a consumer.

        Raises:
            JMSException: another one has it (activemq-broker T17).
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
        self.is_active = True
        self.window_freed()

    def deactivate(self, last_delivered_sequence_id: int) -> None:
        """Take back what the consumer has not acknowledged; the subscription stays

        (activemq-broker T20).

        What its transactions hold comes back when they are rolled back, whoever is here then.
        """
        self.is_active = False
        self.close()
        for topic in self._topics:
            for reference in self.delivered(topic, last_delivered_sequence_id):
                self._redeliveries[reference.message_id] = self._redelivery(reference) + 1
        returned = [r for topic in self._topics for r in self.release(topic)]
        self.dispatched.clear()
        self._pending.requeue(returned)

    def return_unacknowledged(self, rolled_back: list[MessageReference]) -> None:
        returned = []
        for reference in rolled_back:
            if reference.destination not in self._topics:
                self.undispatch(reference)
                self._forget(reference)
            elif not self.is_dispatched(reference):
                returned.append(reference)
        self._pending.requeue(returned)

    def _redelivery(self, reference: MessageReference) -> int:
        return self._redeliveries.get(reference.message_id, reference.redelivery_counter)

    # messages
    def is_full(self) -> bool:
        return not self.is_active or super().is_full()

    def add(self, reference: MessageReference) -> None:
        """Take a message that matches: send it, or keep it."""
        if self._is_too_old(reference):
            return
        if self._audit is not None and self._audit.is_duplicate(reference.message_id):
            self.store_acknowledgement(NO_TRANSACTION, reference)
            return
        self._backlog.hold(reference)
        if not self._pending and not self.is_full():
            self._send(reference)
        else:
            self._pending.append(reference)

    def _is_too_old(self, reference: MessageReference) -> bool:
        """Whether its topic's store had taken the message, or left it, when this subscribed.

        The store has it for others only: a restart would lose what this had got of it.
        """
        start = self._topics[reference.destination]
        if start is None or not reference.persistent:
            return False
        position = reference.position
        return position is None or position.arrival <= start

    def window_freed(self) -> None:
        pending = self._pending
        expired = 0
        while pending and not self.is_full():
            if expired == _EXPIRED_AT_ONCE or (pending.must_read and self._is_to_wait()):
                self._go_on_soon()
                return
            try:
                reference = pending.take()
            except Exception:
                logger.exception("No more messages for %s can be read now", self)
                self._go_on_soon(_RETRY)
                return
            if reference.expiration and reference.is_expired():
                self._expire(reference)
                self._forget(reference)
                expired += 1
            else:
                self._send(reference)

    def _is_to_wait(self) -> bool:
        """Whether nothing is to be read now: there are messages to be done with first.

        (activemq-broker M8)
        """
        if self.broker.store.state is StoreState.SUSPENDED:
            return True
        mark = self.policy.cursor_memory_high_water_mark
        return bool(self.dispatched) and any(t.memory.is_above(mark) for t in self._topics)

    def _go_on_soon(self, seconds: float = 0) -> None:
        if self._turn is None or self._turn.done:
            self._turn = _wakeup.spawn(self._go_on, seconds, name=f"dispatch to {self}")

    def close(self) -> None:
        super().close()
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.cancel()

    async def _go_on(self, seconds: float) -> None:
        await (_clock.sleep(seconds) if seconds else lowlevel.checkpoint())
        while self._pending.must_read and self._is_to_wait():
            await _clock.sleep(_LOOK_AGAIN)
        self._turn = None
        self.window_freed()

    def _send(self, reference: MessageReference) -> None:
        reference.destination.statistics.dispatched += 1
        self.dispatch(reference, self._redelivery(reference))

    def _expire(self, reference: MessageReference) -> None:
        reference.destination.expired(self.context, reference, self)
        self.store_acknowledgement(NO_TRANSACTION, reference, reference.dead_letter)

    def expire_messages(self, limit: int) -> None:
        """Expire what is over among the first `limit` waiting messages, while inactive.

        (activemq-broker T24)
        """
        if self.is_active:
            return
        page = [reference for reference, _ in zip(self._pending, range(limit), strict=False)]
        for reference in page:
            if reference.is_expired():
                self._pending.remove(reference)
                self._expire(reference)
                self._forget(reference)
        for reference in self._backlog.first_outside(limit - len(page)):
            if reference.is_expired() and self._backlog.take_out(reference):
                self._expire(reference)

    def store_acknowledgement(
        self,
        context: OperationContext,
        reference: MessageReference,
        dead_letter: Completion | None = None,
    ) -> Completion | None:
        if dead_letter is not None:
            leaving = self._backlog.dead_letter_ordering(reference.destination)
            return leaving.remove_behind(
                dead_letter, context, reference, self.store_acknowledgement
            )
        return reference.destination.store_subscriber_acknowledgement(context, self.key, reference)

    def settle(self, reference: MessageReference) -> None:
        reference.destination.statistics.dequeues += 1
        self._forget(reference)
        reference.destination.consumed(self.context, reference)

    def unsettle(self, reference: MessageReference) -> None:
        if reference.destination not in self._topics:
            return
        reference.destination.statistics.dequeues -= 1
        self._redeliveries[reference.message_id] = self._redelivery(reference) + 1
        self._come_back(reference)

    def _come_back(self, reference: MessageReference) -> None:
        self._backlog.hold(reference)
        self._pending.requeue([reference])
        self.window_freed()

    def _forget(self, reference: MessageReference) -> None:
        self._redeliveries.pop(reference.message_id, None)
        self._backlog.release(reference)

    # prepared transactions from before the start
    def hide(self, topic: Topic, stored: StoredMessage) -> MessageReference:
        """Hold a message back that a prepared transaction has acknowledged.

        (activemq-broker T25)
        """
        return self._backlog.hide(topic, stored)

    def forget_hidden(self, reference: MessageReference) -> None:
        """Be done with a message that `hide` returned."""
        if reference.destination in self._topics:
            self.settle(reference)

    def restore(self, reference: MessageReference) -> None:
        """Have a message back that `hide` returned."""
        if reference.destination in self._topics:
            self._backlog.restore(reference)
            self.window_freed()
