"""Subclasses of consumers for some options: without the option they add no cost per message.

Consumers with a lower limit for inflated bodies than the general one.

ActiveMQ: `jms.maxInflatedDataSizeRatio`, the ratio of that limit to the largest frame.

Consumers whose listeners take turns with all others of the connection.

With `jms.alwaysSessionAsync=false`, the single reading thread of an ActiveMQ connection calls the
listeners of all its sessions. Here only the listeners wait for each other: a listener may wait for
a response from the broker, which in ActiveMQ would never arrive. (activemq-edges N19)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar, cast

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.interfaces import ClientConnection, ClientSession
from pyjms.client.messages import ReroutedSource, limited_source
from pyjms.client.prefetch import DispatchBuffer
from pyjms.errors import JMSException
from pyjms.jms.api import MessageListener
from pyjms.jms.message import Message
from pyjms.management import JMSConsumerStats
from pyjms.runtime import clock as _clock
from pyjms.wire.limits import MAX_INFLATED_SIZE
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch

__all__ = ["browser_kind", "consumer_kind"]

# --- Consumers with statistics, which `jms.statsEnabled` turns on; without it, they cost nothing.


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


def inflated_limit(connection: ClientConnection) -> int | None:
    """Return the maximum bytes of an inflated body; None: only the general limit applies."""
    frame = connection.transport.max_frame_size
    if frame is None:
        return None
    limit = frame * connection.options.max_inflated_data_size_ratio
    return limit if limit < MAX_INFLATED_SIZE else None


class LimitedConsumer(ActiveMQMessageConsumer):
    """A consumer with a separate limit for inflated bodies."""

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self._inflated_limit = inflated_limit(session.connection) or MAX_INFLATED_SIZE

    def _to_message(self, dispatch: MessageDispatch) -> Message:
        message = super()._to_message(dispatch)
        command = dispatch.message
        if command is not None and command.compressed:
            is_rerouted = isinstance(message.source, ReroutedSource)
            source = limited_source(self._inflated_limit, is_rerouted=is_rerouted)(command)
            message.set_received(command.message_id, source, self._acknowledger, dispatch)
        return message


class TurnTakingConsumer(ActiveMQMessageConsumer):
    """A consumer that calls its listener while no other listener of the connection runs."""

    async def deliver_one(self) -> bool:
        turns = self.session.connection.listener_turns
        if not await turns.take(self):
            return False
        try:
            return await super().deliver_one()
        finally:
            turns.give_back()

    def update_flow(self) -> None:
        super().update_flow()
        if not self._flowing:  # a stop or close must not wait for the listener's turn
            self.session.connection.listener_turns.withdraw(self)


C = TypeVar("C", bound=ActiveMQMessageConsumer)


def consumer_kind(session: ClientSession, kind: type[C]) -> type[C]:
    """Return the class of a session's consumers: `kind` with the subclasses for its options."""
    added: list[type[ActiveMQMessageConsumer]] = []
    if session.stats is not None:
        added.append(MeasuredConsumer)
    if not session.connection.options.always_session_async:
        added.append(TurnTakingConsumer)
    kind = browser_kind(session, kind)
    return cast("type[C]", _with(kind, *added)) if added else kind


def browser_kind(session: ClientSession, kind: type[C]) -> type[C]:
    """Return the class of a session's browsers: `kind` with the subclasses for its options."""
    if inflated_limit(session.connection) is None:
        return kind
    return cast("type[C]", _with(kind, LimitedConsumer))


@cache
def _with(kind: type[Any], *added: type[Any]) -> type[Any]:
    name = "".join(each.__name__.removesuffix("Consumer") for each in added)
    return type(f"{name}{kind.__name__}", (*added, kind), {})
