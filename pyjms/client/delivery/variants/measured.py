"""Consumers with statistics, which `jms.statsEnabled` turns on; without it, they cost nothing."""

from __future__ import annotations

from collections.abc import Iterator

from pyjms import _clock
from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
from pyjms.client.delivery.prefetch import DispatchBuffer
from pyjms.client.interfaces import ClientSession
from pyjms.errors import JMSException
from pyjms.jms.api import MessageListener
from pyjms.jms.message import Message
from pyjms.management.jms_stats import JMSConsumerStats
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch

__all__ = ["MeasuredConsumer"]


class MeasuredBuffer:
    """A prefetch buffer that measures how many messages wait in it, and for how long."""

    def __init__(self, buffer: DispatchBuffer, stats: JMSConsumerStats) -> None:
        self._buffer = buffer
        self._stats = stats
        self._arrivals: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._buffer)

    def __iter__(self) -> Iterator[MessageDispatch]:
        return iter(self._buffer)

    def append(self, dispatch: MessageDispatch) -> None:
        """Add a message."""
        self._buffer.append(dispatch)
        self._arrived(dispatch)

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Put `dispatches`, oldest first, before all others."""
        self._buffer.requeue(dispatches)
        for dispatch in dispatches:
            self._arrived(dispatch)

    def popleft(self) -> MessageDispatch:
        """Remove and return the next message."""
        dispatch = self._buffer.popleft()
        self._stats.pending_message_count.decrement()
        self._stats.message_wait_time.add_time(_clock.now() - self._arrivals.pop(id(dispatch)))
        return dispatch

    def clear(self) -> None:
        """Drop all messages."""
        self._stats.pending_message_count.decrement(len(self._buffer))
        self._buffer.clear()
        self._arrivals.clear()

    def _arrived(self, dispatch: MessageDispatch) -> None:
        self._arrivals[id(dispatch)] = _clock.now()
        self._stats.pending_message_count.increment()


class MeasuredConsumer(ActiveMQMessageConsumer):
    """A consumer that counts its messages, and measures waiting and processing times."""

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        assert session.stats is not None
        self._measured = session.stats.add_consumer(
            str(self.consumer_id),
            self.destination.physical_name,
            durable=info.subscription_name is not None,
        )
        self.stats: JMSConsumerStats | None = self._measured
        self._buffer = MeasuredBuffer(self._buffer, self._measured)

    def receive_buffered(self) -> Message | None:
        message = super().receive_buffered()
        if message is not None:
            self._measured.on_message()
        return message

    async def call_listener(self, listener: MessageListener, dispatch: MessageDispatch) -> None:
        began = _clock.now()
        try:
            await super().call_listener(listener, dispatch)
        finally:
            self._measured.message_process_time.add_time(_clock.now() - began)
            self._measured.on_message()

    def dispose(self, failure: JMSException | None = None) -> None:
        super().dispose(failure)
        self._measured.closed()

    def _refuse_expired(self, dispatch: MessageDispatch) -> None:
        super()._refuse_expired(dispatch)
        self._measured.expired_message_count.increment()
