"""A client connection on a mock transport whose broker side is scripted by the test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import pytest
from anyio.lowlevel import checkpoint

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.factory import ConnectionFactory
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import MockTransport, find
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    Command,
    ExceptionResponse,
    MessageDispatch,
    MessageId,
    ProducerId,
    Response,
    Throwable,
)
from pyjms.wire.openwire.primitives import encode_text

C = TypeVar("C", bound=Command)

_names = itertools.count(1)


class Peer:
    """The broker's side of one connection."""

    def __init__(self, connection: ActiveMQConnection, mock: MockTransport[Command]) -> None:
        self.connection = connection
        self.mock = mock
        self._sequence = itertools.count(1)
        self.refuse: Callable[[Command], Throwable | None] = lambda command: None
        self.silent: Callable[[Command], bool] = lambda command: False
        mock.respond = self._answer

    def _answer(self, command: Command) -> list[Command]:
        if not command.response_required or self.silent(command):
            return []
        refusal = self.refuse(command)
        if refusal is not None:
            return [ExceptionResponse(command.command_id, refusal)]
        return [Response(command.command_id)]

    def sent(self, kind: type[C]) -> list[C]:
        """Return the commands of a kind that were sent so far."""
        return [command for command in self.mock.sent if isinstance(command, kind)]

    def clear(self) -> None:
        self.mock.sent.clear()

    async def settle(self) -> None:
        for _ in range(25):
            await checkpoint()

    def dispatch_of(
        self, consumer: ActiveMQMessageConsumer, text: str = "x", counter: int = 0, **headers: Any
    ) -> MessageDispatch:
        number = next(self._sequence)
        producer_id = ProducerId("ID:producer", 1, 1)
        message = ActiveMQTextMessage(
            producer_id=producer_id,
            destination=consumer.destination,
            message_id=MessageId(None, producer_id, number, 100 + number),
            persistent=True,
            priority=4,
            content=encode_text(text),
        )
        for name, value in headers.items():
            setattr(message, name, value)
        return MessageDispatch(consumer.consumer_id, consumer.destination, message, counter)

    async def dispatch(
        self, consumer: ActiveMQMessageConsumer, *texts: str, counter: int = 0, **headers: Any
    ) -> list[MessageDispatch]:
        """Dispatch messages to `consumer`."""
        dispatches = [self.dispatch_of(consumer, text, counter, **headers) for text in texts]
        for dispatch in dispatches:
            self.mock.deliver(dispatch)
        await self.settle()
        return dispatches


OpenPeer: TypeAlias = Callable[..., Awaitable[Peer]]


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock(autojump=True) as clock:
        yield clock


@pytest.fixture
async def open_peer(clock: VirtualClock) -> AsyncIterator[OpenPeer]:
    peers: list[Peer] = []

    async def make(*, start: bool = True, query: str = "", **options: Any) -> Peer:
        name = f"client-{next(_names)}"
        options.setdefault("watch_topic_advisories", False)
        factory = ConnectionFactory(f"mock://{name}{query}", **options)
        connection = await factory.create_connection()
        peer = Peer(connection, find(name))
        peers.append(peer)
        if start:
            await connection.start()
            peer.clear()
        return peer

    yield make
    for peer in peers:
        peer.silent = lambda command: False
        await peer.connection.close()
