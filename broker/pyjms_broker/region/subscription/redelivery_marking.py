"""The line in which messages wait until the store knows that they may be seen soon.

A message that is sent before that would be taken for a new one after a crash. All that a
consumer gets goes into its one line, for the order: acknowledgements name ranges of it.
(ActiveMQ persistJMSRedelivered)
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from pyjms import _clock, _wakeup

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.subscription import Subscription

__all__ = ["PendingRedeliveryMarks"]

logger = logging.getLogger(__name__)

_RETRY: Final = 5.0
"""Seconds until a store that failed to take a mark is asked again."""


class _Waiting:
    """A message in the line."""

    __slots__ = ("has_failed", "is_marked", "redelivery_counter", "reference")

    def __init__(self, reference: MessageReference, redelivery_counter: int) -> None:
        self.reference = reference
        self.redelivery_counter = redelivery_counter
        self.is_marked = False
        self.has_failed = False


class PendingRedeliveryMarks:
    """The line of one consumer. Its messages count as dispatched already."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._line: deque[_Waiting] = deque()
        self._retry: _wakeup.BackgroundTask | None = None

    def put(self, reference: MessageReference, redelivery_counter: int) -> None:
        """Send a message behind those that wait, as soon as its store has the mark."""
        waiting = _Waiting(reference, redelivery_counter)
        self._line.append(waiting)
        self._mark(waiting)

    def withdraw(self, destination: BrokerDestination) -> set[MessageReference]:
        """Send nothing more of a destination; return what has not been sent."""
        withdrawn = {w.reference for w in self._line if w.reference.destination is destination}
        if withdrawn:
            left = [w for w in self._line if w.reference.destination is not destination]
            self._line = deque(left)
            self._send()
        return withdrawn

    def close(self) -> None:
        """Try no more what has failed."""
        if self._retry is not None:
            self._retry.cancel()

    def _mark(self, waiting: _Waiting) -> None:
        reference = waiting.reference
        try:
            marked = reference.destination.mark_redelivered(reference)
        except Exception as error:
            self._marked(waiting, error)
            return
        if marked is None:
            self._marked(waiting, None)
        else:
            marked.then(lambda done: self._marked(waiting, done.error))

    def _marked(self, waiting: _Waiting, error: Exception | None) -> None:
        if error is None:
            waiting.is_marked = True
            self._send()
            return
        waiting.has_failed = True
        if self._retry is None or self._retry.done:
            where = waiting.reference.destination
            logger.error(
                "%s waits: the store cannot note of messages of %s that they may have been seen, "
                "it is asked again in %g seconds: %s",
                self._subscription,
                where,
                _RETRY,
                error,
            )
            self._retry = _wakeup.spawn(self._try_again, name=f"marks for {self._subscription}")

    async def _try_again(self) -> None:
        await _clock.sleep(_RETRY)
        self._retry = None
        for waiting in [waiting for waiting in self._line if waiting.has_failed]:
            waiting.has_failed = False
            self._mark(waiting)

    def _send(self) -> None:
        line, subscription = self._line, self._subscription
        while line and line[0].is_marked:
            waiting = line.popleft()
            reference, connection = waiting.reference, subscription.context.connection
            if connection is not None and not reference.dropped:
                connection.dispatch(
                    reference.dispatch_to(subscription.consumer_id, waiting.redelivery_counter)
                )
