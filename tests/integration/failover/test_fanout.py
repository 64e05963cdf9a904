"""`fanout:`: a client at two brokers at once. (activemq-edges U6)"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    InvalidClientIDException,
    JMSException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.transport.uri import TransportURI
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.messages import text_of
from tests.kit.failures.cut_transfers import FAST, texts
from tests.kit.failures.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.waiting import LONGEST_WAIT

Q = Queue("q")
T = Topic("t")


class Brokers:
    """Two brokers behind proxies, and a subscriber of the topic at each."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.direct: list[ConnectionFactory] = []
        self.proxies: list[CuttingProxy] = []
        self.subscribers: list[Any] = []

    async def add(self) -> None:
        broker = await self._stack.enter_async_context(EmbeddedTestBroker())
        url = await broker.tcp_url()
        port = TransportURI.parse(url).port
        assert port is not None
        self.proxies.append(await self._stack.enter_async_context(cutting_proxy(port)))
        self.direct.append(ConnectionFactory(url))
        connection = await self._stack.enter_async_context(
            await self.direct[-1].create_connection()
        )
        await connection.start()
        session = await connection.create_session()
        self.subscribers.append(await session.create_consumer(T))

    def factory(self, options: str = FAST) -> ConnectionFactory:
        urls = ",".join(proxy.url for proxy in self.proxies)
        return ConnectionFactory(f"fanout:(static:({urls}))?{options}")

    async def published(self, count: int) -> list[list[str]]:
        """Return so many texts of the topic at each broker."""
        return [
            [(await subscriber.receive(10)).text for _ in range(count)]
            for subscriber in self.subscribers
        ]

    async def stored(self) -> list[list[str]]:
        """Return the texts in the queue at each broker; the fuller one first."""
        return sorted([await texts(each, "q") for each in self.direct], reverse=True)


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        brokers = Brokers(stack)
        for _ in range(2):
            await brokers.add()
        yield brokers


async def send(session: ActiveMQSession, destination: Topic | Queue, *bodies: str) -> None:
    producer = await session.create_producer(destination)
    for body in bodies:
        await producer.send(session.create_text_message(body))
    await producer.close()


@pytest.mark.fact("activemq-edges U6")
@pytest.mark.parametrize("fan_out_queues", [False, True])
async def test_topics_fan_out_and_queues_if_they_shall(
    brokers: Brokers, fan_out_queues: bool
) -> None:
    options = f"{FAST}&fanOutQueues={str(fan_out_queues).lower()}"
    with anyio.fail_after(LONGEST_WAIT):
        async with await brokers.factory(options).create_connection() as connection:
            session = await connection.create_session()
            await send(session, T, "a", "b")
            await send(session, Q, "c")
        assert await brokers.published(2) == [["a", "b"], ["a", "b"]]
        assert await brokers.stored() == [["c"], ["c"] if fan_out_queues else []]


async def test_transactions_are_those_of_all_brokers(brokers: Brokers) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await brokers.factory().create_connection() as connection:
            session = await connection.create_session(True)
            await send(session, T, "a")
            await session.rollback()
            await send(session, T, "b")
            await session.commit()
        assert await brokers.published(1) == [["b"], ["b"]]


async def test_messages_are_received_from_one_broker(brokers: Brokers) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await brokers.factory(f"{FAST}&fanOutQueues=true").create_connection() as made:
            await made.start()
            session = await made.create_session()
            consumer = await session.create_consumer(Q)
            await send(session, Q, "a", "b")
            received = [text_of(await consumer.receive(10)) for _ in range(2)]
            await consumer.close()
        assert received == ["a", "b"]
        assert await brokers.stored() == [["a", "b"], []]


@pytest.mark.fact("activemq-edges U6")
async def test_a_send_waits_until_enough_brokers_have_it(brokers: Brokers) -> None:
    sent = anyio.Event()
    with anyio.fail_after(LONGEST_WAIT):
        async with await brokers.factory().create_connection() as connection:
            session = await connection.create_session()
            await send(session, T, "before")
            lost = brokers.proxies[1]
            lost.is_open = False
            await lost.cut_now()

            async def send_after() -> None:
                await send(session, T, "after")
                sent.set()

            async with anyio.create_task_group() as group:
                group.start_soon(send_after)
                await lost.refused()
                assert not sent.is_set()
                lost.is_open = True
            assert await brokers.published(2) == [["before", "after"]] * 2


async def test_a_broker_that_is_lost_misses_what_the_others_get(brokers: Brokers) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        factory = brokers.factory(f"{FAST}&minAckCount=1")
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(T)
            await producer.send(session.create_text_message("1"))
            assert await brokers.published(1) == [["1"], ["1"]]
            lost = brokers.proxies[1]
            lost.is_open = False
            await lost.cut_now()
            await lost.refused()
            await producer.send(session.create_text_message("2"))
            assert (await brokers.subscribers[0].receive(10)).text == "2"
            lost.is_open = True
            number = 2
            while True:  # until it is connected again, with the producer that it does not know
                number += 1
                await producer.send(session.create_text_message(str(number)))
                assert (await brokers.subscribers[0].receive(10)).text == str(number)
                message = await brokers.subscribers[1].receive(0.2)
                if message is not None:
                    break
            assert message.text != "2"


async def test_an_error_of_a_broker_is_raised(brokers: Brokers) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await brokers.direct[1].create_connection() as other:
            await other.set_client_id("me")
            await other.create_session()
            async with await brokers.factory().create_connection() as connection:
                with pytest.raises(InvalidClientIDException):
                    await connection.set_client_id("me")
                    await connection.create_session()


async def test_it_gives_up_with_too_few_brokers(brokers: Brokers) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        factory = brokers.factory(f"{FAST}&maxReconnectAttempts=2")
        async with await factory.create_connection() as connection:
            failures: list[JMSException] = []
            connection.exception_listener = failures.append
            session = await connection.create_session()
            for proxy in brokers.proxies:
                proxy.is_open = False
                await proxy.cut_now()
            with pytest.raises(ConnectionFailedException):
                await send(session, T, "a")
            assert len(failures) == 1
        with pytest.raises(ConnectionFailedException):
            await factory.create_connection()


@pytest.mark.fact("activemq-edges U6")
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("fanout:(static:(tcp://a:1))", "minAckCount is 2"),
        ("fanout:(static:(tcp://a:1,tcp://b:1))?minAckCount=0", "1 or more"),
        ("fanout:(tcp://a:1,tcp://b:1)", "names no agent that finds brokers"),
        ("fanout:(static:(tcp://a:1,tcp://b:1))?randomize=true", "Invalid connect parameters"),
        ("fanout:(static:(tcp://a:1,tcp://b))", "names no port"),
    ],
    ids=["too-few", "none", "no-agent", "unknown", "port"],
)
async def test_mistakes_in_the_url(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason):
        await ConnectionFactory(url).create_connection()
