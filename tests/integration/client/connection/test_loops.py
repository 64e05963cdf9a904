"""One embedded broker, reached through vm:// from several event loops and threads."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from functools import partial
from typing import Any

import anyio
import pytest

from pyjms import ConnectionFactory as BlockingFactory
from pyjms import JmsTemplate as BlockingTemplate
from pyjms.aio import ConnectionFactory, DeliveryMode, JmsTemplate, Queue
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.testing.clock import VirtualClock
from pyjms_broker import BrokerService
from pyjms_broker.connector.vm import registry

_numbers = itertools.count(1)
BACKENDS = ["asyncio", "trio"]


@pytest.fixture
async def broker() -> AsyncIterator[BrokerService]:
    async with BrokerService(f"loops-{next(_numbers)}", persistent=False) as broker:
        yield broker


async def elsewhere(function: Callable[[], Any], backend: str = "asyncio") -> None:
    """Run a coroutine function on a new event loop in a thread, and wait for it."""
    await anyio.to_thread.run_sync(partial(anyio.run, function, backend=backend))


def url(broker: BrokerService, query: str = "") -> str:
    return f"vm://{broker.broker_name}?create=false{query}"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("query", ["", "&marshal=true"], ids=["objects", "bytes"])
async def test_a_client_on_another_loop(broker: BrokerService, backend: str, query: str) -> None:
    received: list[str | None] = []

    async def client() -> None:
        factory = ConnectionFactory(url(broker, query))
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session(transacted=True)
            producer = await session.create_producer(Queue("q"))
            for text in "abc":
                await producer.send(session.create_text_message(text))
            await session.commit()
            consumer = await session.create_consumer(Queue("q"))
            for _ in range(3):
                received.append((await consumer.receive(10)).text)  # type: ignore[union-attr]
            await session.commit()

    await elsewhere(client, backend)
    assert received == ["a", "b", "c"]
    assert not broker.connections.by_id
    template = JmsTemplate(ConnectionFactory(url(broker)), receive_timeout=0)
    assert await template.receive("q") is None


async def test_loops_send_to_each_other(broker: BrokerService) -> None:
    async def answer() -> None:
        factory = ConnectionFactory(url(broker))
        template = JmsTemplate(factory, receive_timeout=10)
        for _ in range(5):
            text = await template.receive_and_convert("ask")
            await template.convert_and_send("answer", f"{text}!")

    template = JmsTemplate(ConnectionFactory(url(broker)), receive_timeout=10)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(elsewhere, answer)
        for number in range(5):
            await template.convert_and_send("ask", str(number))
            assert await template.receive_and_convert("answer") == f"{number}!"


async def test_blocking_clients_reach_the_broker_of_a_coroutine_application(
    broker: BrokerService,
) -> None:
    def send_and_receive() -> Any:
        template = BlockingTemplate(BlockingFactory(url(broker)), receive_timeout=10)
        template.convert_and_send("q", {"a": 1})
        return template.receive_and_convert("q")

    assert await anyio.to_thread.run_sync(send_and_receive) == {"a": 1}


async def test_a_received_message_is_not_the_senders_object(broker: BrokerService) -> None:
    async def send() -> None:
        async with await ConnectionFactory(url(broker)).create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Queue("q"))
            message = session.create_map_message()
            message["list"] = shared = [1]
            await producer.send(message)
            shared.append(2)
            message["list"] = None

    await elsewhere(send)
    async with await ConnectionFactory(url(broker)).create_connection() as connection:
        await connection.start()
        consumer = await (await connection.create_session()).create_consumer(Queue("q"))
        message: Any = await consumer.receive(10)
        assert message["list"] == [1]


async def test_more_messages_than_may_be_under_way(broker: BrokerService) -> None:
    """Flow control in both directions: the sender is far faster than the receiver."""
    count = 6000

    async def send() -> None:
        factory = ConnectionFactory(url(broker))
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Queue("q"))
            producer.delivery_mode = DeliveryMode.NON_PERSISTENT
            for number in range(count):
                await producer.send(session.create_text_message(str(number)))

    async def receive() -> None:
        factory = ConnectionFactory(url(broker, "&jms.prefetchPolicy.all=32000"))
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session(False, AcknowledgeMode.DUPS_OK)
            consumer = await session.create_consumer(Queue("q"))
            for number in range(count):
                message: Any = await consumer.receive(30)
                assert message.text == str(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(elsewhere, receive)
        tasks.start_soon(elsewhere, send)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_cancelled_receive_loses_no_message(broker: BrokerService, backend: str) -> None:
    got: list[Any] = []

    async def client() -> None:
        async with await ConnectionFactory(url(broker)).create_connection() as connection:
            await connection.start()
            consumer = await (await connection.create_session()).create_consumer(Queue("q"))
            with anyio.move_on_after(0.01):
                await consumer.receive()
            waiting.set()
            got.append(await consumer.receive(10))

    waiting = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(elsewhere, client, backend)
        await anyio.to_thread.run_sync(waiting.wait, 10)
        await JmsTemplate(ConnectionFactory(url(broker))).convert_and_send("q", "a")
    assert [message.text for message in got] == ["a"]


async def test_a_client_is_notified_of_the_end_of_the_broker() -> None:
    """The broker stops, or its loop ends without a stop: a client on another loop is told."""
    for orderly in (True, False):
        name = f"loops-{next(_numbers)}"
        started, connected = threading.Event(), threading.Event()

        async def serve(name: str = name, orderly: bool = orderly, started: Any = started,
                        connected: Any = connected) -> None:  # fmt: skip
            broker = BrokerService(name, persistent=False)
            await broker.start()
            started.set()
            await anyio.to_thread.run_sync(connected.wait)
            if orderly:
                await broker.stop()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(elsewhere, serve)
            await anyio.to_thread.run_sync(started.wait, 10)
            factory = ConnectionFactory(f"vm://{name}?create=false")
            connection = await factory.create_connection()
            failed = anyio.Event()
            connection.exception_listener = lambda error, failed=failed: failed.set()
            await connection.start()
            connected.set()
            with anyio.fail_after(10):
                await failed.wait()
            with pytest.raises(JMSException):
                await connection.create_session()
            await connection.close()


async def test_the_broker_is_notified_of_the_end_of_a_clients_loop(broker: BrokerService) -> None:
    kept: list[Any] = []

    async def client() -> None:  # ends without closing its connection
        connection = await ConnectionFactory(url(broker)).create_connection()
        await connection.start()
        kept.append(connection)

    await elsewhere(client)
    with anyio.fail_after(10):
        while broker.connections.by_id:
            await anyio.lowlevel.checkpoint()


async def test_loops_that_create_a_broker_at_once_get_the_same_one() -> None:
    name = f"loops-{next(_numbers)}"
    together = threading.Barrier(4)
    sent: list[str] = []

    async def client() -> None:
        factory = ConnectionFactory(f"vm://{name}?broker.persistent=false")
        await anyio.to_thread.run_sync(together.wait)
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Queue("q"))
            await producer.send(session.create_text_message("here"))
            sent.append("here")
            await anyio.to_thread.run_sync(together.wait)

    async def counting() -> None:
        factory = ConnectionFactory(f"vm://{name}?broker.persistent=false")
        await anyio.to_thread.run_sync(together.wait)
        async with await factory.create_connection() as connection:
            await connection.start()
            consumer = await (await connection.create_session()).create_consumer(Queue("q"))
            for _ in range(3):
                assert await consumer.receive(10)
            await anyio.to_thread.run_sync(together.wait)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(elsewhere, client)
        tasks.start_soon(elsewhere, counting)
    assert len(sent) == 3
    with pytest.raises(ConnectionFailedException, match="does not exist"):  # it ended with the last
        await ConnectionFactory(f"vm://{name}?create=false").create_connection()


class Loop:
    """An event loop in a thread, which can stop or close without ending what runs on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], Any]) -> Any:
        # the context of a trio test names trio as the library that runs
        future = Context().run(asyncio.run_coroutine_threadsafe, function(), self._loop)
        return await anyio.to_thread.run_sync(future.result, 10)

    def block(self, until: threading.Event) -> None:
        self._loop.call_soon_threadsafe(until.wait, 10)

    async def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        await anyio.to_thread.run_sync(self._thread.join, 10)

    async def close(self) -> None:
        await self.stop()
        self._loop.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_start_that_asyncio_cancels_ends_and_leaves_no_connection() -> None:
    """As `asyncio.timeout` does, which no shield of anyio holds back."""
    loop, blocked = Loop(), threading.Event()
    broker = BrokerService(f"loops-{next(_numbers)}", persistent=False)
    await loop.run(broker.start)
    loop.block(blocked)
    connecting = asyncio.create_task(ConnectionFactory(url(broker)).create_connection())
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    connecting.cancel()
    blocked.set()
    done, _ = await asyncio.wait([connecting], timeout=10)
    assert done
    assert connecting.cancelled()
    found = registry.find(broker.broker_name)
    assert found
    assert not found.connector.connections
    await loop.run(broker.stop)


async def test_messages_for_a_loop_that_was_closed_go_to_other_consumers(
    broker: BrokerService,
) -> None:
    loop = Loop()
    kept: list[Any] = []

    async def consume() -> None:
        connection = await ConnectionFactory(url(broker)).create_connection()
        await connection.start()
        kept.append(await (await connection.create_session()).create_consumer(Queue("q")))

    await loop.run(consume)
    await loop.close()
    template = JmsTemplate(ConnectionFactory(url(broker)), receive_timeout=10)
    for text in "abc":
        await template.convert_and_send("q", text)
    assert [await template.receive_and_convert("q") for _ in range(3)] == list("abc")


async def test_a_close_does_not_wait_for_a_loop_that_has_stopped() -> None:
    loop = Loop()
    broker = BrokerService(f"loops-{next(_numbers)}", persistent=False)
    await loop.run(broker.start)

    async def client() -> None:
        connection = await ConnectionFactory(url(broker)).create_connection()
        await loop.stop()
        async with VirtualClock(autojump=True):
            await connection.close()

    thread = threading.Thread(target=partial(anyio.run, client), daemon=True)
    thread.start()
    await anyio.to_thread.run_sync(thread.join, 20)
    assert not thread.is_alive()
