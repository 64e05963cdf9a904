"""Brokers that are stopped and started under applications with `failover:`, and their outages."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import pyjms
from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory, SingleConnectionFactory
from pyjms.connection.pool import PooledConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import TransactionRolledBackException
from pyjms.jms.message import Message
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.simple_container import SimpleMessageListenerContainer
from pyjms.template.template import JmsTemplate
from pyjms.transport.uri import TransportURI
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.messages import text_of
from tests.kit.failures.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.stores.small import SMALL_SEGMENTS
from tests.kit.waiting import LONGEST_WAIT

_names = itertools.count(1)
FAST = "initialReconnectDelay=5&maxReconnectDelay=20"


class Site:
    """Two brokers that share a store, one at a time, behind one address."""

    def __init__(self, folder: Path, proxy: CuttingProxy) -> None:
        self.folder = folder
        self.name = f"site-{next(_names)}"
        self.proxy = proxy
        self.broker: EmbeddedTestBroker
        self.url = f"failover:({proxy.url})?{FAST}"

    async def start(self) -> None:
        service = BrokerService(self.name, data_directory=self.folder, persistence=SMALL_SEGMENTS)
        self.broker = EmbeddedTestBroker(service)
        await self.broker.start()
        port = TransportURI.parse(await self.broker.tcp_url()).port
        assert port is not None
        self.proxy.broker_port = port
        self.proxy.is_open = True

    async def stop(self) -> None:
        self.proxy.is_open = False
        await self.broker.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()


@asynccontextmanager
async def running_site(folder: Path) -> AsyncIterator[Site]:
    async with cutting_proxy(0) as proxy:
        site = Site(folder, proxy)
        await site.start()
        try:
            yield site
        finally:
            await site.stop()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        yield site


CONTAINERS: dict[str, Callable[..., Any]] = {
    "default": lambda factory, handle: DefaultMessageListenerContainer(
        factory,
        destination_name="in",
        message_listener=handle,
        concurrent_consumers=2,
        session_transacted=True,
        receive_timeout=0.2,
    ),
    "simple": lambda factory, handle: SimpleMessageListenerContainer(
        factory,
        destination_name="in",
        message_listener=handle,
        concurrent_consumers=2,
        session_transacted=True,
    ),
}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize(
    "factory_class", [ConnectionFactory, CachingConnectionFactory, PooledConnectionFactory]
)
async def test_listeners_and_templates_work_through_restarts(
    site: Site, kind: str, factory_class: type, caplog: pytest.LogCaptureFixture
) -> None:
    core = ConnectionFactory(f"{site.url}&jms.redeliveryPolicy.maximumRedeliveries=-1")
    sending = factory_class(site.url) if factory_class is ConnectionFactory else factory_class(core)
    template = JmsTemplate(sending)
    handled: set[str] = set()
    everything = anyio.Event()
    count = 30

    async def handle(message: Message) -> None:
        handled.add(str(message.text))  # type: ignore[attr-defined]
        if len(handled) == count:
            everything.set()

    container = CONTAINERS[kind](core, handle)
    with anyio.fail_after(LONGEST_WAIT), caplog.at_level(logging.ERROR):
        await container.start()
        try:
            for number in range(count):
                if number % 10 == 5:
                    await site.restart()
                await template.convert_and_send("in", f"m{number}")
            await everything.wait()
        finally:
            await container.shutdown()
            if not isinstance(sending, ConnectionFactory):
                await sending.destroy()
    assert handled == {f"m{number}" for number in range(count)}
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_blocking_template_works_through_restarts(site: Site) -> None:
    template = pyjms.JmsTemplate(pyjms.ConnectionFactory(site.url))
    count = 12
    with anyio.fail_after(LONGEST_WAIT):
        for number in range(count):
            if number % 4 == 2:
                await site.stop()
            async with anyio.create_task_group() as group:
                send = partial(template.convert_and_send, "in", f"m{number}")
                group.start_soon(anyio.to_thread.run_sync, send)
                if number % 4 == 2:
                    await site.start()
        received = []
        for number in range(count):
            if number % 4 == 2:
                await site.restart()
            receive = partial(template.receive_and_convert, "in")
            received.append(await anyio.to_thread.run_sync(receive))
    assert received == [f"m{number}" for number in range(count)]


@pytest.mark.fact("activemq-edges F2")
async def test_what_was_handled_in_auto_mode_is_not_handled_twice(site: Site) -> None:
    """The acknowledgement is lost with the broker: the copy is acknowledged, not dead-lettered."""
    with anyio.fail_after(LONGEST_WAIT):
        async with await ConnectionFactory(site.url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            consumer = await session.create_consumer(session.create_queue("in"))
            other = await connection.create_session()
            sender = await other.create_producer(other.create_queue("in"))
            handled: list[str] = []
            began, lost, dealt_with = anyio.Event(), anyio.Event(), anyio.Event()

            async def handle(message: Message) -> None:
                handled.append(str(message.text))  # type: ignore[attr-defined]
                if len(handled) == 1:
                    began.set()
                    await lost.wait()
                else:
                    dealt_with.set()

            await consumer.set_message_listener(handle)
            await sender.send(other.create_text_message("a"))
            await began.wait()
            await site.restart()
            lost.set()
            await sender.send(other.create_text_message("b"))
            await dealt_with.wait()
            assert handled == ["a", "b"]
            for name in ("in", "ActiveMQ.DLQ"):
                browser = await other.create_browser(other.create_queue(name))
                assert [message async for message in browser] == []


@pytest.mark.fact("activemq-edges F2")
@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
async def test_unacknowledged_messages_are_redelivered(site: Site, mode: AcknowledgeMode) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await ConnectionFactory(site.url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session(False, mode)
            consumer = await session.create_consumer(session.create_queue("in"))
            producer = await session.create_producer(session.create_queue("in"))
            for text in ("a", "b"):
                await producer.send(session.create_text_message(text))
            first = await consumer.receive()
            await site.restart()
            again = [await consumer.receive() for _ in range(2)]
            assert [text_of(message) for message in again] == ["a", "b"]
            assert first is not None
            await first.acknowledge()
            for message in again:
                assert message is not None
                await message.acknowledge()


@pytest.mark.fact("activemq-edges F5")
async def test_a_transaction_whose_messages_are_not_redelivered_is_rolled_back(site: Site) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await ConnectionFactory(site.url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session(True)
            consumer = await session.create_consumer(session.create_queue("in"))
            producer = await session.create_producer(session.create_queue("in"))
            await producer.send(session.create_text_message("a"))
            await session.commit()
            assert text_of(await consumer.receive()) == "a"
            await producer.send(session.create_text_message("not to be seen"))
            await site.stop()  # while there is no broker, nothing comes again
            with pytest.raises(TransactionRolledBackException, match="1 previously delivered"):
                await session.commit()
            await site.start()
            assert text_of(await consumer.receive()) == "a"
            await session.commit()
            assert await consumer.receive(0.2) is None


@pytest.mark.fact("activemq-edges F3")
async def test_a_pull_waits_for_its_time_through_an_outage(site: Site) -> None:
    template = JmsTemplate(ConnectionFactory(site.url))
    template.receive_timeout = 0.5
    shared = SingleConnectionFactory(ConnectionFactory(site.url))
    pulling = JmsTemplate(shared)
    pulling.receive_timeout = 30
    with anyio.fail_after(LONGEST_WAIT):
        try:
            received: list[object] = []

            async def receive() -> None:
                received.append(await pulling.receive_and_convert("in"))

            async with anyio.create_task_group() as group:
                group.start_soon(receive)
                await template.convert_and_send("elsewhere", "x")
                await site.restart()
                await template.convert_and_send("in", "late")
            assert received == ["late"]
            pulling.receive_timeout = 0.3
            await site.stop()
            assert await pulling_session(shared, site) is None
            await site.start()
        finally:
            await shared.destroy()


async def pulling_session(factory: SingleConnectionFactory, site: Site) -> object:
    """Receive with a consumer that was made before the broker was stopped."""
    await site.start()
    connection = await factory.create_connection()
    await connection.start()
    session = await connection.create_session()
    consumer = await session.create_consumer(
        session.create_queue("nothing?consumer.prefetchSize=0")
    )
    await site.stop()
    return await consumer.receive(0.3)


async def test_closing_does_not_wait_for_a_broker(site: Site) -> None:
    connection = await ConnectionFactory(site.url).create_connection()
    session = await connection.create_session(True)
    producer = await session.create_producer(session.create_queue("in"))
    consumer = await session.create_consumer(session.create_queue("in"))
    await producer.send(session.create_text_message("a"))
    await site.stop()
    with anyio.fail_after(LONGEST_WAIT):
        closings: list[Callable[[], Awaitable[None]]] = [
            session.rollback, consumer.close, producer.close, session.close, connection.close,
        ]  # fmt: skip
        for close in closings:
            await close()
    await site.start()
