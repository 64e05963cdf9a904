"""Queue browsers: consumers that get copies of messages and remove nothing.

(ActiveMQ QueueBrowserSubscription; activemq-broker Q31)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from anyio import lowlevel

from pyjms import _wakeup
from pyjms.wire.openwire.commands import AckType, MessageAck
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.exchange import ConsumerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.subscription.base import AbstractSubscription

__all__ = ["QueueBrowserSubscription"]

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
        return matching if limit is None else _limited(matching, limit)

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


def _limited(
    messages: Iterator[MessageReference | None], limit: int
) -> Iterator[MessageReference | None]:
    for reference in messages:
        if reference is not None:
            limit -= 1
        yield reference
        if not limit:
            return
