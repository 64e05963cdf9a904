"""The steps of `embedded_client` at a broker of another process, in real time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message
from tests.kit.brokers.destination_names import destination_name
from tests.kit.clients.embedded import Client

_DEAD_LETTERS = "ActiveMQ.DLQ"


class RemoteClient(Client):
    """Connections to a broker that other tests use as well.

    Names of destinations are the test's own, redelivery is quick, and dead letters are found by
    the correlation id that `send` gives its messages.
    """

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self.prefix = prefix
        self.opened = []

    def factory(self, query: str = "", **options: Any) -> ConnectionFactory:
        factory = ConnectionFactory(f"{self.url}?{query}" if query else self.url, **options)
        factory.redelivery_policy.initial_redelivery_delay = 0.01
        factory.redelivery_policy.redelivery_delay = 0.01
        return factory

    def destination(self, name: str | Destination) -> Destination:
        return Queue(f"{self.prefix}.{name}") if isinstance(name, str) else name

    def topic(self, name: str) -> Destination:
        return Topic(f"{self.prefix}.{name}")

    async def send(self, destination: str | Destination, *texts: str, **how: Any) -> None:
        async with await self.factory().create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(self.destination(destination))
            for text in texts:
                message = session.create_text_message(text)
                message.correlation_id = self.prefix
                await producer.send(message, **how)

    async def dead_letters(self, count: int) -> list[Message]:
        """Consume this number of the test's dead letters, and check that there are no others."""
        async with await self.factory().create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            consumer = await session.create_consumer(
                Queue(_DEAD_LETTERS), f"JMSCorrelationID = '{self.prefix}'"
            )
            found = [await consumer.receive(10) for _ in range(count)]
            assert await consumer.receive(0.1) is None
        return [message for message in found if message is not None]


@asynccontextmanager
async def closing(client: RemoteClient) -> AsyncIterator[RemoteClient]:
    """Close its connections at the end."""
    yield client
    for connection in reversed(client.opened):
        try:
            await connection.close()
        except JMSException:
            assert connection.failure is not None


@pytest.fixture
async def client(real_broker: str, request: pytest.FixtureRequest) -> AsyncIterator[RemoteClient]:
    """At a real ActiveMQ 5.17.2."""
    async with closing(RemoteClient(real_broker, destination_name(request))) as client:
        yield client
