"""Our client at a real ActiveMQ 5.17.2 and at our own broker process, which must behave alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from tests.kit.brokers.destination_names import destination_name

MakeFactory: TypeAlias = Callable[..., ConnectionFactory]
OpenConnection: TypeAlias = Callable[..., Awaitable[ActiveMQConnection]]


@pytest.fixture(params=["activemq", "pyjms"])
def broker_url(request: pytest.FixtureRequest) -> str:
    broker = "real_broker" if request.param == "activemq" else "our_broker"
    return str(request.getfixturevalue(broker))


@pytest.fixture
def quick_factory(broker_url: str) -> MakeFactory:
    """Makes factories with short redelivery delays: `quick_factory("option=...", ...)`."""

    def make(query: str = "", **options: Any) -> ConnectionFactory:
        factory = ConnectionFactory(f"{broker_url}?{query}" if query else broker_url, **options)
        factory.redelivery_policy.initial_redelivery_delay = 0.01
        factory.redelivery_policy.redelivery_delay = 0.01
        return factory

    return make


@pytest.fixture
async def connect(quick_factory: MakeFactory) -> AsyncIterator[OpenConnection]:
    """Makes connections, closed after the test."""
    opened: list[ActiveMQConnection] = []

    async def make(query: str = "", *, start: bool = True, **options: Any) -> ActiveMQConnection:
        connection = await quick_factory(query, **options).create_connection()
        opened.append(connection)
        if start:
            await connection.start()
        return connection

    yield make
    for connection in opened:
        await connection.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A destination name that no other test uses."""
    return destination_name(request)
