"""A consumer of one or several queues. (ActiveMQ QueueSubscription)"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from pyjms.wire.openwire.commands import ConsumerInfo
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.queue.bridge_replay import ConditionalBridgeFilter
from pyjms_broker.region.queue.consumer_ring import Candidate
from pyjms_broker.region.subscription.base import SubscriptionRequest
from pyjms_broker.region.subscription.prefetch import PrefetchSubscription
from pyjms_broker.region.subscription.redelivery_marking import PendingRedeliveryMarks

if TYPE_CHECKING:
    from pyjms_broker.region.queue.queue import Queue

__all__ = ["QueueSubscription"]


class QueueSubscription(PrefetchSubscription):
    """A consumer with an entry in the consumer ring of each of its queues."""

    def __init__(self, request: SubscriptionRequest) -> None:
        super().__init__(request)
        self._candidates: dict[Queue, Candidate] = {}
        self._detached: list[Queue] = []
        """The queues that it left, and to which it has not returned all messages yet."""

    def _bridge_filter(self, info: ConsumerInfo) -> Callable[[MessageReference], bool] | None:
        conditions, bridge = self.policy.network_bridge_filter_factory, info.additional_predicate
        if bridge is None or conditions is None:
            return super()._bridge_filter(info)
        return ConditionalBridgeFilter(bridge, conditions)

    @property
    def pending_count(self) -> int:
        """Always 0: messages wait in their queues, not in the subscription."""
        return 0

    @property
    def is_slow(self) -> bool:
        """Whether it is slow; never without prefetch, where the consumer requests each message."""
        return (
            self.prefetch_size > 0
            and self.is_full()
            and any(q.dispatcher.pending_count for q in self._candidates)
        )

    def attach(self, queue: Queue, candidate: Candidate) -> None:
        """Consume from a queue from now on; `candidate` is the entry in the queue's ring."""
        self._candidates[queue] = candidate
        self.destinations.append(queue)
        if queue.marks_redelivered:
            if self.redelivery_marking is None:
                self.redelivery_marking = PendingRedeliveryMarks(self)
            self.redelivery_marking.add_queue(queue, queue.mark_redelivered)

    def detach(self, queue: Queue, last_delivered_sequence_id: int) -> None:
        """Leave a queue; unacknowledged messages return to it, after open transactions."""
        self._candidates.pop(queue, None)
        self.destination_removed(queue)
        unsent = (
            set()
            if self.redelivery_marking is None
            else self.redelivery_marking.remove_queue(queue)
        )
        for reference in self.delivered_messages(queue, last_delivered_sequence_id):
            if reference not in unsent:
                reference.redelivery_counter += 1
        self._detached.append(queue)
        self.return_unacknowledged([])

    def add_transacted(self, references: list[MessageReference]) -> None:
        super().add_transacted(references)
        for reference in references:
            reference.acked = True

    def remove_transacted(self, references: list[MessageReference]) -> None:
        super().remove_transacted(references)
        for reference in references:
            reference.acked = False

    def return_unacknowledged(self, rolled_back: list[MessageReference]) -> None:
        """Return the messages of queues that it left, once no local transaction is open.

        They are returned all at once, so that a queue gets them back in order.
        """
        if self._open_transactions or not self._detached:
            return
        detached, self._detached = self._detached, []
        for queue in detached:
            returned = self.remove_dispatched(queue)
            if any(reference.destination is queue for reference in self.dispatched.values()):
                self._detached.append(queue)  # an XA transaction has acknowledged some messages
            if returned:
                queue.requeue(returned)

    def window_freed(self) -> None:
        for queue, candidate in tuple(self._candidates.items()):
            queue.dispatcher.window_freed(candidate)

    def settle(self, reference: MessageReference) -> None:
        reference.destination.consumed(self.context, reference)
        if self.info.network_subscription:  # another broker may send the message back
            cast("Queue", reference.destination).forget_duplicate(reference)

    def unsettle(self, reference: MessageReference) -> None:
        reference.destination.undo_consumed(reference)
