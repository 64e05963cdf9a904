"""A look at what queues hold, taking nothing. (ActiveMQ QueueBrowserSubscription; Q31)"""

from __future__ import annotations

from collections import deque

from broker.completion import Completion
from broker.context import ConnectionContext
from broker.region.destination import BrokerDestination
from broker.region.message import MessageReference
from broker.region.subscription import Subscription
from pyjms.wire.openwire.commands import AckType, MessageAck

__all__ = ["QueueBrowserSubscription"]

_OPENS_WINDOW = (AckType.STANDARD, AckType.INDIVIDUAL, AckType.DELIVERED, AckType.EXPIRED)


class QueueBrowserSubscription(Subscription):
    """Gets the messages that are there when it comes, each once, and then a dispatch without one.

    Acknowledgements only make room for more.
    """

    _left_to_show: deque[MessageReference]

    def begin(self, queues: list[BrokerDestination]) -> None:
        """Take the snapshot and start showing it."""
        limit = self.policy.max_browse_page_size
        self._in_flight = 0
        self._has_ended = False
        self._left_to_show = deque()
        for queue in queues:
            matching = [r for r in queue.browse() if self.matches(r)]
            self._left_to_show.extend(matching if limit is None else matching[:limit])
        self.window_freed()

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
        return len(self._left_to_show)

    def window_freed(self) -> None:
        left = self._left_to_show
        while left and not self.is_full():
            reference = left.popleft()
            if reference.dropped or reference.acked:
                continue
            self._in_flight += 1
            self.enqueue_count += 1
            self.transmit(reference, reference.redelivery_counter)
        if not left and not self._has_ended and (self.prefetch_size or self._pulls):
            self._has_ended = True
            self._pulls = 0
            self.dispatch_nothing()

    def acknowledge(self, context: ConnectionContext, ack: MessageAck) -> Completion | None:
        if ack.ack_type in _OPENS_WINDOW:
            self._in_flight = max(0, self._in_flight - ack.message_count)
            self.dequeue_count += ack.message_count
            self.window_freed()
        return None
