"""The time limit of a producer's sends: ActiveMQ's setSendTimeout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.pool import JmsPoolConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException, RequestTimeoutException
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client

Q = Queue("q")


class Silence(BrokerFilter):
    """Never answers the send of a message with a `silent` body."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if b"silent" in (message.content or b""):
            return Completion()
        return self.next.send(exchange, message)


@pytest.fixture
async def silent(clock: VirtualClock) -> AsyncIterator[Client]:
    service = BrokerService("silent", persistent=False, plugins=[Silence])
    async with EmbeddedTestBroker(service) as broker:
        client = Client(broker)
        yield client
        for connection in client.opened:
            await connection.close()


@pytest.mark.fact("activemq-edges N2")
async def test_every_send_waits_for_the_broker_up_to_the_producers_own_limit(
    silent: Any,
) -> None:
    session = await silent.session()
    producer = await session.create_producer(Q)
    assert producer.send_timeout is None
    producer.send_timeout = 0.5
    for mode in DeliveryMode:
        with pytest.raises(RequestTimeoutException):
            await producer.send(session.create_text_message("silent"), delivery_mode=mode)
    await producer.send(session.create_text_message("x"))
    producer.send_timeout = 0
    assert producer.send_timeout is None
    await producer.send(
        session.create_text_message("silent"), delivery_mode=DeliveryMode.NON_PERSISTENT
    )
    assert await silent.left("q") == ["x"]


async def test_the_limit_is_the_factorys_unless_the_producer_has_its_own(silent: Client) -> None:
    session = await silent.session(query="jms.sendTimeout=700")
    own, other = await session.create_producer(Q), await session.create_producer(Q)
    own.send_timeout = None
    assert (own.send_timeout, other.send_timeout) == (None, 0.7)
    await own.send(session.create_text_message("silent"), delivery_mode=DeliveryMode.NON_PERSISTENT)
    with pytest.raises(RequestTimeoutException):
        await other.send(session.create_text_message("silent"))


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")], ids=str)
async def test_a_limit_that_is_not_a_duration_is_refused(client: Client, value: float) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    with pytest.raises(ValueError, match="send_timeout"):
        producer.send_timeout = value
    with pytest.raises(TypeError, match="send_timeout"):
        producer.send_timeout = "1s"  # type: ignore[assignment]
    await producer.close()
    with pytest.raises(IllegalStateException, match="The producer is closed"):
        producer.send_timeout = 1.0


@pytest.mark.parametrize("shared", [CachingConnectionFactory, JmsPoolConnectionFactory])
async def test_handles_on_shared_producers_have_the_factorys_limit(
    client: Client, shared: Any
) -> None:
    factory = shared(ConnectionFactory(client.broker.url, send_timeout=0.7))
    async with await factory.create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer(Q)
        assert producer.send_timeout == 0.7
        with pytest.raises(AttributeError, match="send_timeout"):
            producer.send_timeout = 1.0
    await (factory.destroy() if shared is CachingConnectionFactory else factory.stop())
