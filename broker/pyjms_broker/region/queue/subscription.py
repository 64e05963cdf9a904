"""A consumer of one or several queues. (ActiveMQ QueueSubscription)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_broker.api.completion import Completion
from pyjms_broker.api.message import MessageReference, OperationContext
from pyjms_broker.region.queue.consumer_ring import Candidate
from pyjms_broker.region.subscription.base import SubscriptionRequest
from pyjms_broker.region.subscription.prefetch import PrefetchSubscription
from pyjms_broker.region.subscription.redelivery_marking import PendingRedeliveryMarks

if TYPE_CHECKING:
    from pyjms_broker.region.queue.queue import Queue

__all__ = ["QueueSubscription"]


class QueueSubscription(PrefetchSubscription):
    """Has a place in each queue that it consumes from."""

    def __init__(self, request: SubscriptionRequest) -> None:
        super().__init__(request)
        self._places: dict[Queue, Candidate] = {}
        self._left: list[Queue] = []

    @property
    def pending_count(self) -> int:
        """Nothing waits in the subscription: messages wait in their queues."""
        return 0

    @property
    def is_slow(self) -> bool:
        return self.is_full() and any(q.dispatcher.pending_count for q in self._places)

    def joined(self, queue: Queue, place: Candidate) -> None:
        """Remember the place in a queue."""
        self._places[queue] = place
        self.destinations.append(queue)
        if queue.marks_redelivered and self.redelivery_marking is None:
            self.redelivery_marking = PendingRedeliveryMarks(self)

    def left(self, queue: Queue, last_delivered_sequence_id: int) -> None:
        """Leave a queue; it gets back what was not acknowledged, after open transactions."""
        self._places.pop(queue, None)
        self.destination_removed(queue)
        unsent = (
            set() if self.redelivery_marking is None else self.redelivery_marking.withdraw(queue)
        )
        for reference in self.delivered(queue, last_delivered_sequence_id):
            if reference not in unsent:
                reference.redelivery_counter += 1
        self._left.append(queue)
        self.return_unacknowledged([])

    def hold(self, references: list[MessageReference]) -> None:
        super().hold(references)
        for reference in references:
            reference.acked = True

    def unhold(self, references: list[MessageReference]) -> None:
        super().unhold(references)
        for reference in references:
            reference.acked = False

    def return_unacknowledged(self, rolled_back: list[MessageReference]) -> None:
        """See PrefetchSubscription; local transactions end first, for the messages' order."""
        if self._unsettled or not self._left:
            return
        left, self._left = self._left, []
        for queue in left:
            returned = self.release(queue)
            if any(reference.destination is queue for reference in self.dispatched.values()):
                self._left.append(queue)  # an XA branch holds some still
            if returned:
                queue.take_back(returned)

    def window_freed(self) -> None:
        for queue, place in tuple(self._places.items()):
            queue.dispatcher.window_freed(place)

    def store_acknowledgement(
        self,
        context: OperationContext,
        reference: MessageReference,
        dead_letter: Completion | None = None,
    ) -> Completion | None:
        if not reference.persistent:
            return None
        return reference.destination.store_removal(context, reference, dead_letter)

    def settle(self, reference: MessageReference) -> None:
        destination = reference.destination
        destination.drop(reference)
        destination.consumed(self.context, reference)

    def unsettle(self, reference: MessageReference) -> None:
        reference.destination.requeue(reference)
