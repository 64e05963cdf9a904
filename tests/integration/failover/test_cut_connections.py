"""Connections cut while a client with `failover:` works: no message is lost, no caller hangs."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from pyjms import JmsApplication, PyjmsSettings, jms_listener
from pyjms.aio import (
    CachingConnectionFactory,
    DefaultMessageListenerContainer,
    JmsPoolConnectionFactory,
    PooledConnectionFactory,
    SingleConnectionFactory,
)
from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConnectionFailedException, JMSException, TransactionRolledBackException
from pyjms.jms.message import TextMessage
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.messages import text_of
from tests.kit.failures.cut_transfers import FAST, check, cut_while_transferring, factory_of, texts
from tests.kit.failures.cutting_proxy import TO_CLIENT, CuttingProxy
from tests.kit.waiting import LONGEST_WAIT, until


class Listener:
    """Records interruptions, and waits for them."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self.heard: list[str] = []
        self.resumed = anyio.Event()
        connection.add_transport_listener(self)

    def transport_interrupted(self, error: Exception) -> None:
        self.heard.append("interrupted")

    def transport_resumed(self) -> None:
        self.heard.append("resumed")
        self.resumed.set()
        self.resumed = anyio.Event()


async def test_the_listeners_of_a_connection_are_notified_of_a_cut_and_its_sessions_continue(
    proxy: CuttingProxy,
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await factory_of(proxy).create_connection() as connection:
            failures: list[JMSException] = []
            connection.exception_listener = failures.append
            listener = Listener(connection)
            await connection.start()
            session = await connection.create_session()
            queue = session.create_queue("work")
            consumer = await session.create_consumer(queue)
            producer = await session.create_producer(queue)
            await producer.send(session.create_text_message("before"))
            assert text_of(await consumer.receive()) == "before"
            await proxy.cut_now()
            await producer.send(session.create_text_message("after"))
            assert text_of(await consumer.receive()) == "after"
            assert listener.heard == ["interrupted", "resumed"]
            temporary = await session.create_temporary_queue()
            await proxy.cut_now()
            reader = await session.create_consumer(temporary)
            await producer.send(session.create_text_message("more"))
            assert text_of(await consumer.receive()) == "more"
            replier = await session.create_producer(temporary)
            await replier.send(session.create_text_message("reply"))
            assert text_of(await reader.receive()) == "reply"
            assert failures == []
    assert proxy.connections == 3


@pytest.mark.parametrize(
    "wrap", [SingleConnectionFactory, CachingConnectionFactory, PooledConnectionFactory]
)
async def test_the_listeners_of_a_handle_are_notified_of_cuts_until_it_is_closed(
    proxy: CuttingProxy, wrap: Any
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with wrap(factory_of(proxy)) as factory, await factory.create_connection() as kept:
            staying = Listener(kept)
            async with await factory.create_connection() as handle:
                leaving, removed = Listener(handle), Listener(handle)
                handle.remove_transport_listener(removed)
                resumed = staying.resumed
                await proxy.cut_now()
                await resumed.wait()
            resumed = staying.resumed
            await proxy.cut_now()
            await resumed.wait()
    assert staying.heard == ["interrupted", "resumed"] * 2
    assert leaving.heard == ["interrupted", "resumed"]
    assert removed.heard == []


@pytest.mark.parametrize("wrap", [CachingConnectionFactory, JmsPoolConnectionFactory])
async def test_a_container_over_a_cache_or_pool_knows_of_an_outage(
    proxy: CuttingProxy, wrap: Any
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with wrap(factory_of(proxy)) as factory:
            container = DefaultMessageListenerContainer(
                factory, destination_name="work", message_listener=lambda _: None
            )
            await container.start()
            await container.wait_until_listening()
            assert container.has_consumer
            proxy.is_open = False
            await proxy.cut_now()
            await until(lambda: not container.has_consumer)
            proxy.is_open = True
            await until(lambda: container.has_consumer)
            await container.shutdown()


@pytest.mark.parametrize("wrap", [CachingConnectionFactory, PooledConnectionFactory])
async def test_the_listener_of_a_factory_is_notified_of_the_cuts_of_all_its_connections(
    proxy: CuttingProxy, wrap: Any
) -> None:
    heard: list[str] = []
    resumed = anyio.Event()

    class FactorysListener:
        def transport_interrupted(self, error: Exception) -> None:
            heard.append("interrupted")

        def transport_resumed(self) -> None:
            heard.append("resumed")
            resumed.set()

    factory = factory_of(proxy)
    factory.transport_listener = FactorysListener()
    with anyio.fail_after(LONGEST_WAIT):
        async with wrap(factory) as shared, await shared.create_connection() as connection:
            assert heard == []  # the first connection resumes nothing
            await proxy.cut_now()
            await resumed.wait()
            session = await connection.create_session()
            producer = await session.create_producer(session.create_queue("work"))
            await producer.send(session.create_text_message("after"))
            assert heard == ["interrupted", "resumed"]


@pytest.mark.fact("activemq-edges F5")
async def test_a_transaction_continues_if_its_messages_are_redelivered(
    proxy: CuttingProxy, broker: EmbeddedTestBroker
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        query = f"{FAST}&jms.consumerFailoverRedeliveryWaitPeriod=20000"
        async with await factory_of(proxy, query).create_connection() as connection:
            await connection.start()
            listener = Listener(connection)
            session = await connection.create_session(True)
            consumer = await session.create_consumer(session.create_queue("in"))
            producer = await session.create_producer(session.create_queue("out"))
            other = await connection.create_session()
            sender = await other.create_producer(other.create_queue("in"))
            for number in range(3):
                await sender.send(other.create_text_message(f"m{number}"))
            for _ in range(2):
                message = await consumer.receive()
                assert isinstance(message, TextMessage)
                await producer.send(session.create_text_message(f"of {message.text}"))
            resumed = listener.resumed
            await proxy.cut_now()
            await resumed.wait()
            await session.commit()
            assert text_of(await consumer.receive()) == "m2"
            await session.commit()
    direct = ConnectionFactory(await broker.tcp_url())
    assert await texts(direct, "out") == ["of m0", "of m1"]
    assert await texts(direct, "in") == []


@pytest.mark.parametrize("prefetch", [20, 500], ids=["in part", "all prefetched"])
async def test_a_browser_shows_each_message_once(
    proxy: CuttingProxy, broker: EmbeddedTestBroker, prefetch: int
) -> None:
    async with await ConnectionFactory(await broker.tcp_url()).create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer(session.create_queue("in"))
        for number in range(100):
            await producer.send(session.create_text_message(f"m{number}"))
    with anyio.fail_after(LONGEST_WAIT):
        async with await factory_of(proxy).create_connection() as connection:
            await connection.start()
            listener = Listener(connection)
            session = await connection.create_session()
            queue = session.create_queue(f"in?consumer.prefetchSize={prefetch}")
            shown = []
            async for message in await session.create_browser(queue):
                assert isinstance(message, TextMessage)
                shown.append(message.text)
                if len(shown) in {30, 60}:
                    resumed = listener.resumed
                    await proxy.cut_now()
                    await resumed.wait()
    assert shown == [f"m{number}" for number in range(100)]


@pytest.mark.fact("activemq-edges F4", "activemq-broker X9")
async def test_a_commit_in_doubt_is_rolled_back(
    proxy: CuttingProxy, broker: EmbeddedTestBroker
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await factory_of(proxy).create_connection() as connection:
            session = await connection.create_session(True)
            producer = await session.create_producer(session.create_queue("out"))
            await producer.send(session.create_text_message("a"))
            proxy.cut_at(TO_CLIENT, 0)
            with pytest.raises(TransactionRolledBackException, match="in doubt due to failover"):
                await session.commit()
            await producer.send(session.create_text_message("b"))
            await session.commit()
    # the broker had executed the first commit: that is the doubt
    assert await texts(ConnectionFactory(await broker.tcp_url()), "out") == ["a", "b"]


async def test_a_commit_in_doubt_of_a_listener_is_one_warning_without_our_frames(
    proxy: CuttingProxy, broker: EmbeddedTestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[bool] = []
    again = anyio.Event()

    @jms_listener("in", id="orders")
    async def handle(text: str) -> None:
        attempts.append(True)
        if len(attempts) == 1:
            proxy.cut_at(TO_CLIENT, 0)  # the response to the commit
        elif text == "next":
            again.set()

    url = f"failover:({proxy.url})?{FAST}"
    settings = PyjmsSettings.model_validate({"activemq": {"broker_url": url}})
    with anyio.fail_after(LONGEST_WAIT):
        async with JmsApplication(handle, settings=settings) as app:
            await app.template.convert_and_send("in", "first")
            await proxy.wait_for_cuts(1)
            await app.template.convert_and_send("in", "next")
            await again.wait()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    lost, failed = sorted(warnings, key=lambda record: "its commit failed" in record.getMessage())
    assert "is lost" in lost.getMessage()
    assert "Listener orders failed" in failed.getMessage()
    assert "in doubt due to failover" in failed.getMessage()
    assert failed.exc_info is None


@pytest.mark.fact("activemq-edges F6", "activemq-broker T27")
async def test_a_message_whose_response_is_lost_is_not_sent_twice(
    proxy: CuttingProxy, broker: EmbeddedTestBroker
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await factory_of(proxy).create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(session.create_queue("out"))
            for number in range(4):
                if number in {1, 2}:
                    proxy.cut_at(TO_CLIENT, 0, inside=number)
                await producer.send(session.create_text_message(f"m{number}"))
    assert proxy.cuts == 2
    assert await texts(ConnectionFactory(await broker.tcp_url()), "out") == [
        f"m{number}" for number in range(4)
    ]


@pytest.mark.parametrize("seed", [1, 2])
async def test_tens_of_cuts(proxy: CuttingProxy, broker: EmbeddedTestBroker, seed: int) -> None:
    with anyio.fail_after(110):
        account = await cut_while_transferring(proxy, await broker.tcp_url(), 30, 40, seed)
    check(account, 30)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_a_thousand_cuts(proxy: CuttingProxy, broker: EmbeddedTestBroker) -> None:
    account = await cut_while_transferring(proxy, await broker.tcp_url(), 1000, 500, 3)
    check(account, 1000)


@pytest.mark.fact("activemq-edges F8")
async def test_a_transport_that_gives_up_fails_its_connection(
    proxy: CuttingProxy, broker: EmbeddedTestBroker
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        query = f"{FAST}&maxReconnectAttempts=2"
        async with await factory_of(proxy, query).create_connection() as connection:
            failures: list[JMSException] = []
            connection.exception_listener = failures.append
            await connection.start()
            session = await connection.create_session()
            consumer = await session.create_consumer(session.create_queue("q"))
            proxy.is_open = False
            await proxy.cut_now()
            with pytest.raises(ConnectionFailedException):
                await consumer.receive()
            assert len(failures) == 1
            with pytest.raises(ConnectionFailedException):
                await connection.create_session()
