"""A real broker in memory, over vm://, in virtual time: a delay of a second costs nothing.

The fixture `client` makes connections and sessions, and does what many tests do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.api import MessageConsumer
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.data import spring_oracle

_TURNS = 25


class Client:
    """Connections to the test's broker, closed at its end, and steps of tests."""

    def __init__(self, broker: EmbeddedTestBroker) -> None:
        self.broker = broker
        self.opened: list[ActiveMQConnection] = []

    def factory(self, query: str = "", **options: Any) -> ConnectionFactory:
        return ConnectionFactory(f"{self.broker.url}&{query}", **options)

    async def connect(
        self, *, start: bool = True, query: str = "", **options: Any
    ) -> ActiveMQConnection:
        connection = await self.factory(query, **options).create_connection()
        self.opened.append(connection)
        if start:
            await connection.start()
        return connection

    async def session(
        self,
        mode: AcknowledgeMode = AcknowledgeMode.AUTO,
        *,
        connection: ActiveMQConnection | None = None,
        **options: Any,
    ) -> ActiveMQSession:
        """A session, on a new started connection if none is given."""
        connection = connection or await self.connect(**options)
        transacted = mode == AcknowledgeMode.TRANSACTED
        return await connection.create_session(transacted, mode)

    async def send(self, destination: str | Destination, *texts: str, **how: Any) -> None:
        connection = await self.factory().create_connection()
        async with connection:
            session = await connection.create_session()
            producer = await session.create_producer(self.destination(destination))
            for text in texts:
                await producer.send(session.create_text_message(text), **how)

    async def left(self, destination: str | Destination) -> list[str | None]:
        """Consume a queue and return its texts."""
        return [self.text(message) for message in await self.take(destination)]

    async def take(self, destination: str | Destination) -> list[Message]:
        connection = await self.factory().create_connection()
        async with connection:
            await connection.start()
            session = await connection.create_session()
            consumer = await session.create_consumer(self.destination(destination))
            return await self.receive_all(consumer)

    async def receive_all(self, consumer: MessageConsumer, timeout: float = 0.2) -> list[Message]:
        messages = []
        while (message := await consumer.receive(timeout)) is not None:
            messages.append(message)
        return messages

    async def settle(self) -> None:
        """Let every other task run as far as it can without the clock."""
        for _ in range(_TURNS):
            await checkpoint()

    def destination(self, name: str | Destination) -> Destination:
        return Queue(name) if isinstance(name, str) else name

    def topic(self, name: str) -> Destination:
        return Topic(name)

    def text(self, message: Message | None) -> str | None:
        """The text of the received message; None if there was none."""
        if message is None:
            return None
        assert isinstance(message, TextMessage)
        return message.text

    def delivery(self, message: Message | None) -> str | None:
        """`text#count`, with `*` when it is redelivered: as the recording writes it."""
        if message is None:
            return None
        star = "*" if message.redelivered else ""
        return f"{self.text(message)}#{message.delivery_count}{star}"

    def oracle(self, scenario: str) -> Any:
        """Return the recorded behaviour of the real ActiveMQ."""
        return spring_oracle()[scenario]


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock(autojump=True) as clock:
        yield clock


@pytest.fixture
async def broker(clock: VirtualClock) -> AsyncIterator[EmbeddedTestBroker]:
    async with EmbeddedTestBroker() as broker:
        yield broker


@pytest.fixture
async def client(broker: EmbeddedTestBroker) -> AsyncIterator[Client]:
    client = Client(broker)
    yield client
    for connection in reversed(client.opened):
        try:
            await connection.close()
        except JMSException:
            assert connection.failure is not None
