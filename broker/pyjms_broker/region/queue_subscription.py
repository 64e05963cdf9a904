"""The consumers of queues: those that consume, and browsers, which get copies and remove nothing.

(ActiveMQ QueueSubscription, QueueBrowserSubscription; activemq-broker Q31)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

from anyio import lowlevel

from pyjms.runtime import event_loop as _wakeup
from pyjms.wire.openwire.commands import AckType, ConsumerInfo, MessageAck
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConsumerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.bridge_filter import ConditionalBridgeFilter
from pyjms_broker.region.prefetch_subscription import PrefetchSubscription
from pyjms_broker.region.subscription import (
    AbstractSubscription,
    PendingRedeliveryMarks,
    SubscriptionRequest,
)

if TYPE_CHECKING:
    from pyjms_broker.region.queue import Queue
    from pyjms_broker.region.queue_dispatcher import Candidate


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
        reference.destination.on_consumed(self.context, reference)
        if self.info.network_subscription:  # another broker may send the message back
            cast("Queue", reference.destination).forget_duplicate(reference)

    def unsettle(self, reference: MessageReference) -> None:
        reference.destination.undo_consumed(reference)


_OPENS_WINDOW = (AckType.STANDARD, AckType.INDIVIDUAL, AckType.DELIVERED, AckType.EXPIRED)
_MAX_MESSAGES_PER_TURN: Final = 5000
"""The number of messages that are inspected before other tasks run."""


class QueueBrowserSubscription(AbstractSubscription):
    """Gets each message in the queues at its start once, and then an empty dispatch.

    Messages are read as space in the prefetch window permits. Acknowledgements only free the
    window.
    """

    _messages: Iterator[MessageReference | None]

    def begin(self, queues: list[BrokerDestination]) -> None:
        """Start dispatching the messages of the queues."""
        self._in_flight = 0
        self._has_ended = False
        self._next: MessageReference | None = None
        self._resume_task: _wakeup.BackgroundTask | None = None
        self._messages = chain.from_iterable(self._browse(queue) for queue in queues)
        self.window_freed()

    def _browse(self, queue: BrokerDestination) -> Iterator[MessageReference | None]:
        """Iterate over the messages of a queue, yielding None for those that do not match."""
        matching = self._matching(queue)
        limit = self.policy.max_browse_page_size
        return matching if limit is None else _limit(matching, limit)

    def _matching(self, queue: BrokerDestination) -> Iterator[MessageReference | None]:
        for reference in queue.messages():  # mypyc evaluates a generator expression eagerly
            yield reference if self.matches(reference) else None

    def is_full(self) -> bool:
        if self.context.congested:
            return True
        if self.prefetch_size == 0:
            return self._pulls == 0
        return self._in_flight >= self.prefetch_size

    @property
    def is_slow(self) -> bool:
        """False: a browser makes no message wait."""
        return False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def pending_count(self) -> int:
        """The number of pending messages: 0 or 1, because only the next message is known."""
        return 0 if self._next is None else 1

    def window_freed(self) -> None:
        if self._has_ended:
            return
        for _ in range(_MAX_MESSAGES_PER_TURN):
            if self._next is None and not self._read_next():
                return
            reference = self._next
            if reference is None:
                continue
            if self.is_full():
                return
            self._next = None
            self._in_flight += 1
            self.enqueue_count += 1
            self.transmit(reference, reference.redelivery_counter)
        self._resume_later()

    def _read_next(self) -> bool:
        """Read one more message, into `_next` if it matches; return False at the end.

        The end is reported to the client, if its prefetch or a pull allows.
        """
        try:
            reference = next(self._messages)
        except StopIteration:
            if self.prefetch_size or self._pulls:
                self._has_ended = True
                self._pulls = 0
                self.dispatch_nothing()
            return False
        if reference is not None and not (reference.dropped or reference.acked):
            self._next = reference
        return True

    def _resume_later(self) -> None:
        if self._resume_task is None or self._resume_task.done:
            self._resume_task = _wakeup.spawn(self._resume, name=f"browser {self.consumer_id}")

    async def _resume(self) -> None:
        await lowlevel.checkpoint()
        self._resume_task = None
        self.window_freed()

    def close(self) -> None:
        super().close()
        self._has_ended = True
        if self._resume_task is not None:
            self._resume_task.cancel()

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        if ack.ack_type in _OPENS_WINDOW:
            self._in_flight = max(0, self._in_flight - ack.message_count)
            self.dequeue_count += ack.message_count
            self.window_freed()
        return COMPLETED


def _limit(
    messages: Iterator[MessageReference | None], limit: int
) -> Iterator[MessageReference | None]:
    for reference in messages:
        if reference is not None:
            limit -= 1
        yield reference
        if not limit:
            return
