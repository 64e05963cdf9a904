"""A look at what queues hold, taking nothing.

(ActiveMQ QueueBrowserSubscription; activemq-broker Q31)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from anyio import lowlevel

from pyjms import _wakeup
from pyjms.wire.openwire.commands import AckType, MessageAck
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.exchange import ConsumerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.subscription.base import AbstractSubscription

__all__ = ["QueueBrowserSubscription"]

_OPENS_WINDOW = (AckType.STANDARD, AckType.INDIVIDUAL, AckType.DELIVERED, AckType.EXPIRED)
_AT_ONCE: Final = 5000
"""How many messages are looked at before the others of the broker have their turn."""


class QueueBrowserSubscription(AbstractSubscription):
    """Gets the messages that are there when it comes, each once, and then a dispatch without one.

    They are read as there is room for them. Acknowledgements only make room for more.
    """

    _left_to_look_at: Iterator[MessageReference | None]

    def begin(self, queues: list[BrokerDestination]) -> None:
        """Start showing what the queues have."""
        self._in_flight = 0
        self._has_ended = False
        self._next: MessageReference | None = None
        self._turn: _wakeup.BackgroundTask | None = None
        self._left_to_look_at = chain.from_iterable(self._shown_of(queue) for queue in queues)
        self.window_freed()

    def _shown_of(self, queue: BrokerDestination) -> Iterator[MessageReference | None]:
        """Go through what is shown of a queue; None stands for a message that is not."""
        matching = self._matching(queue)
        limit = self.policy.max_browse_page_size
        return matching if limit is None else _limited(matching, limit)

    def _matching(self, queue: BrokerDestination) -> Iterator[MessageReference | None]:
        for reference in queue.messages():  # compiled, an expression reads all
            yield reference if self.matches(reference) else None

    def is_full(self) -> bool:
        if self.context.congested:
            return True
        if self.prefetch_size == 0:
            return self._pulls == 0
        return self._in_flight >= self.prefetch_size

    @property
    def is_slow(self) -> bool:
        """Never: nothing waits for a browser."""
        return False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def pending_count(self) -> int:
        """0 or 1: what comes after the next message is not known before."""
        return 0 if self._next is None else 1

    def window_freed(self) -> None:
        if self._has_ended:
            return
        for _ in range(_AT_ONCE):
            if self._next is None and not self._look_further():
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
        self._go_on_soon()

    def _look_further(self) -> bool:
        """Look at one more message; False at the end, which is told where it may be."""
        try:
            reference = next(self._left_to_look_at)
        except StopIteration:
            if self.prefetch_size or self._pulls:
                self._has_ended = True
                self._pulls = 0
                self.dispatch_nothing()
            return False
        if reference is not None and not (reference.dropped or reference.acked):
            self._next = reference
        return True

    def _go_on_soon(self) -> None:
        if self._turn is None or self._turn.done:
            self._turn = _wakeup.spawn(self._go_on, name=f"browser {self.consumer_id}")

    async def _go_on(self) -> None:
        await lowlevel.checkpoint()
        self._turn = None
        self.window_freed()

    def close(self) -> None:
        super().close()
        self._has_ended = True
        if self._turn is not None:
            self._turn.cancel()

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion | None:
        if ack.ack_type in _OPENS_WINDOW:
            self._in_flight = max(0, self._in_flight - ack.message_count)
            self.dequeue_count += ack.message_count
            self.window_freed()
        return None


def _limited(
    messages: Iterator[MessageReference | None], limit: int
) -> Iterator[MessageReference | None]:
    for reference in messages:
        if reference is not None:
            limit -= 1
        yield reference
        if not limit:
            return
