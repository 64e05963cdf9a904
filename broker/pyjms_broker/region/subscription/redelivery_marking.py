"""Sending of messages only after the store has marked them as redelivered.

Theory of operation
-------------------

With `persist_jms_redelivered`, a queue's store records that a message may have been delivered
*before* the message is sent. If the broker crashes in between, the message is delivered again with
JMSRedelivered set, which is allowed; without the mark, a message that a consumer has already
received would be delivered again as a new one.

Marking is a store write, so it takes time. Each consumer has one list of messages in dispatch
order, which is sent from its head:

    state of a message      next                            when
    ======================  ==============================  ====================================
    (dispatched)            waiting for its mark            `put`
    waiting for its mark    marked                          the store has recorded it, or the
                                                            queue needs no mark
    waiting for its mark    failed                          the store could not record it
    failed                  waiting for its mark            `_RETRY_DELAY` seconds later
    marked                  sent                            all messages before it were sent
    any                     returned to its queue, unsent   the consumer leaves the queue

Invariants:

- The order of the list is that of `PrefetchSubscription.dispatched`, and messages are sent only in
that order, because acknowledgements refer to ranges of it. That is why a message that needs no
mark waits behind one that does, and why a consumer of several queues has a single list.
- A message in the list counts as dispatched: it occupies the prefetch window and has an owner.
- A message that was never sent does not count as delivered when the consumer leaves (`remove_queue`
returns those messages), although it may be marked in the store.
Marking a message when it is returned, instead of before it is sent, would be cheaper, but after a
crash nothing is returned. (ActiveMQ persistJMSRedelivered)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms_broker.api.completion import COMPLETED, Completion

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.subscription import Subscription

__all__ = ["PendingRedeliveryMarks"]

logger = get_logger(__name__)

_RETRY_DELAY: Final = 5.0
"""Seconds until failed marks are retried."""

_Marker = Callable[["MessageReference"], Completion]
"""Marks a message in its store."""


class _PendingMessage:
    __slots__ = ("has_failed", "is_marked", "redelivery_counter", "reference")

    def __init__(self, reference: MessageReference, redelivery_counter: int) -> None:
        self.reference = reference
        self.redelivery_counter = redelivery_counter
        self.is_marked = False
        self.has_failed = False


class PendingRedeliveryMarks:
    """The messages of one consumer that wait for their marks; see the module's docstring."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._pending: deque[_PendingMessage] = deque()
        self._markers: dict[BrokerDestination, _Marker] = {}
        self._retry: _wakeup.BackgroundTask | None = None

    def add_queue(self, queue: BrokerDestination, mark: _Marker) -> None:
        """Mark the messages of a queue with `mark`; other queues' messages need no mark."""
        self._markers[queue] = mark

    def remove_queue(self, queue: BrokerDestination) -> set[MessageReference]:
        """Stop sending messages of a queue, and return those that were not sent."""
        unsent = {p.reference for p in self._pending if p.reference.destination is queue}
        if unsent:
            self._pending = deque(p for p in self._pending if p.reference.destination is not queue)
            self._send_marked()
        self._markers.pop(queue, None)
        return unsent

    def put(self, reference: MessageReference, redelivery_counter: int) -> None:
        """Send a message after the waiting ones, as soon as the store has its mark."""
        pending = _PendingMessage(reference, redelivery_counter)
        self._pending.append(pending)
        self._mark(pending)

    def close(self) -> None:
        """Stop retrying failed marks."""
        if self._retry is not None:
            self._retry.cancel()

    def _mark(self, pending: _PendingMessage) -> None:
        reference = pending.reference
        mark = self._markers.get(reference.destination)
        try:
            marked = COMPLETED if mark is None else mark(reference)
        except Exception as error:
            self._on_marked(pending, error)
            return
        marked.then(lambda done: self._on_marked(pending, done.error))

    def _on_marked(self, pending: _PendingMessage, error: Exception | None) -> None:
        if error is None:
            pending.is_marked = True
            self._send_marked()
            return
        pending.has_failed = True
        if self._retry is None or self._retry.done:
            logger.error(
                "%s waits: the store of %s failed to mark messages as redelivered, "
                "next attempt in %g s: %s",
                self._subscription,
                pending.reference.destination,
                _RETRY_DELAY,
                error,
            )
            self._retry = _wakeup.spawn(
                self._retry_failed, name=f"redelivery marks for {self._subscription}"
            )

    async def _retry_failed(self) -> None:
        await _clock.sleep(_RETRY_DELAY)
        self._retry = None
        for pending in [pending for pending in self._pending if pending.has_failed]:
            pending.has_failed = False
            self._mark(pending)

    def _send_marked(self) -> None:
        messages, subscription = self._pending, self._subscription
        while messages and messages[0].is_marked:
            pending = messages.popleft()
            reference, connection = pending.reference, subscription.context.connection
            if connection is not None and not reference.dropped:
                connection.dispatch(
                    reference.dispatch_to(subscription.consumer_id, pending.redelivery_counter)
                )
