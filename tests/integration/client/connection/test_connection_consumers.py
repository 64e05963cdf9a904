"""Connection consumers: a pool of sessions works on the messages of one consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.session import ActiveMQSession
from pyjms.connection.caching import CachingConnectionFactory, SingleConnectionFactory
from pyjms.connection.server_sessions import SimpleServerSessionPool
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    InvalidSelectorException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import Queue, Topic
from tests.kit.clients.embedded import Client
from tests.kit.clients.jms_provider import JmsProvider

Q = Queue("q")
T = Topic("t")
DLQ = "ActiveMQ.DLQ"
TEXTS = [f"m{number}" for number in range(20)]


class Work:
    """What the listeners of a pool do; settles messages as the mode wants it."""

    def __init__(self, client: Client, expected: int, failing: str | None = None) -> None:
        self.client = client
        self.expected = expected
        self.failing = failing
        self.deliveries: list[tuple[Any, str | None]] = []
        self.done = anyio.Event()
        self.running = 0
        self.most_running = 0
        self.gate: anyio.Event | None = None
        self.entered = anyio.Event()

    @property
    def texts(self) -> list[str]:
        return [str(delivery).split("#")[0] for _, delivery in self.deliveries]

    def listener(self, session: Any) -> Callable[[Any], Any]:
        async def work(message: Any) -> None:
            self.running += 1
            self.most_running = max(self.running, self.most_running)
            self.deliveries.append((session, self.client.delivery(message)))
            self.entered.set()
            try:
                if self.gate is not None:
                    await self.gate.wait()
                await anyio.lowlevel.checkpoint()
                if self.client.text(message) == self.failing:
                    if session.transacted:
                        await session.rollback()
                    raise ValueError("cannot be handled")
                if session.transacted:
                    await session.commit()
                elif session.acknowledge_mode in {
                    AcknowledgeMode.CLIENT,
                    AcknowledgeMode.INDIVIDUAL,
                }:
                    message.acknowledge()
            finally:
                self.running -= 1
                if len(self.deliveries) == self.expected:
                    self.done.set()

        return work


@pytest.fixture
async def connection(client: Client) -> ActiveMQConnection:
    opened: ActiveMQConnection = await client.connect(query="jms.clientID=me")
    return opened


@pytest.mark.fact("activemq-edges N18")
@pytest.mark.parametrize("mode", list(AcknowledgeMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("max_messages", [1, 5])
async def test_each_message_is_settled_once(
    client: Client, connection: ActiveMQConnection, mode: AcknowledgeMode, max_messages: int
) -> None:
    work = Work(client, len(TEXTS))
    transacted = mode == AcknowledgeMode.TRANSACTED
    pool = SimpleServerSessionPool(
        connection, work.listener, size=3, transacted=transacted, acknowledge_mode=mode
    )
    queue = Queue("q?consumer.prefetchSize=15")
    consumer = await connection.create_connection_consumer(queue, None, pool, max_messages)
    assert consumer.server_session_pool is pool
    await client.send(Q, *TEXTS)
    await work.done.wait()
    await consumer.close()
    await consumer.close()
    assert sorted(work.texts) == sorted(TEXTS)
    await pool.close()
    assert await client.left(Q) == []
    with pytest.raises(IllegalStateException, match="pool of server sessions is closed"):
        await pool.get_server_session()


async def test_sessions_work_at_the_same_time(
    client: Client, connection: ActiveMQConnection
) -> None:
    work = Work(client, 3)
    work.gate = anyio.Event()
    async with SimpleServerSessionPool(connection, work.listener, size=3) as pool:
        queue = Queue("q?consumer.prefetchSize=10")
        await connection.create_connection_consumer(queue, None, pool, 1)
        await client.send(Q, "a", "b", "c", "d")
        await client.settle()
        assert work.most_running == 3
        assert len({session for session, _ in work.deliveries}) == 3
        assert work.texts == ["a", "b", "c"]
        work.gate.set()
        await client.settle()
        assert work.texts == ["a", "b", "c", "d"]
        assert work.most_running == 3


async def test_without_an_option_the_prefetch_is_max_messages(
    client: Client, connection: ActiveMQConnection
) -> None:
    work = Work(client, 2)
    work.gate = anyio.Event()
    pool = SimpleServerSessionPool(connection, work.listener, size=3)
    await connection.create_connection_consumer(Q, None, pool, 1)
    await client.send(Q, "a", "b")
    await client.settle()
    assert work.texts == ["a"]
    work.gate.set()
    await work.done.wait()
    assert work.texts == ["a", "b"]


class CountingPool:
    """One session, whose runs count their messages."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.chunks: list[list[str]] = []
        self.idle = anyio.Semaphore(1)

    async def get_server_session(self) -> CountingPool:
        await self.idle.acquire()
        return self

    async def start(self) -> None:
        self.chunks.append([])
        await self.session.run()
        self.idle.release()


async def test_a_session_gets_at_most_max_messages(
    client: Client, connection: ActiveMQConnection
) -> None:
    session = await connection.create_queue_session()
    pool = CountingPool(session)
    done = anyio.Event()

    def listen(message: Any) -> None:
        pool.chunks[-1].append(message.text)
        if message.text == "m6":
            done.set()

    await session.set_message_listener(listen)
    await connection.stop()
    queue = Queue("q?consumer.prefetchSize=100")
    consumer = await connection.create_connection_consumer(queue, None, pool, 3)
    await client.send(Q, *TEXTS[:7])
    await client.settle()
    assert pool.chunks == []
    await connection.start()
    await done.wait()
    assert pool.chunks == [["m0", "m1", "m2"], ["m3", "m4", "m5"], ["m6"]]
    await consumer.close()


async def test_a_selector_and_messages_of_the_own_connection(
    client: Client, connection: ActiveMQConnection
) -> None:
    work = Work(client, 1)
    pool = SimpleServerSessionPool(connection, work.listener)
    create = connection.create_connection_consumer
    await create(T, "JMSPriority > 5", pool, 10, no_local=True)
    session = await connection.create_session()
    await (await session.create_producer(T)).send(session.create_text_message("own"), priority=9)
    await client.send(T, "low", priority=1)
    await client.send(T, "high", priority=9)
    await work.done.wait()
    assert work.texts == ["high"]
    with pytest.raises(InvalidSelectorException):
        await create(Q, "a = ", pool, 1)
    with pytest.raises(JMSException, match="max_messages must be 1 or higher, not 0"):
        await create(Q, None, pool, 0)


async def test_a_durable_subscription_outlives_its_consumer(
    client: Client, connection: ActiveMQConnection
) -> None:
    work = Work(client, 3)
    pool = SimpleServerSessionPool(connection, work.listener, size=2)
    create = connection.create_durable_connection_consumer
    consumer = await create(T, "mail", "JMSPriority > 3", pool, 2)
    await client.send(T, "a")
    await work.entered.wait()
    await consumer.close()
    await client.send(T, "b", "c")
    await client.send(T, "low", priority=1)
    await create(T, "mail", "JMSPriority > 3", pool, 2)
    await work.done.wait()
    assert work.texts == ["a", "b", "c"]
    anonymous = await client.connect()
    with pytest.raises(JMSException, match="unique clientID"):
        await anonymous.create_durable_connection_consumer(T, "mail", None, pool, 1)


@pytest.mark.parametrize(
    "mode", [AcknowledgeMode.AUTO, AcknowledgeMode.INDIVIDUAL, AcknowledgeMode.TRANSACTED]
)
async def test_a_message_whose_listener_fails_is_redelivered_then_a_dead_letter(
    client: Client, mode: AcknowledgeMode
) -> None:
    connection = await client.connect(query="jms.redeliveryPolicy.maximumRedeliveries=2")
    work = Work(client, 5, failing="b")
    transacted = mode == AcknowledgeMode.TRANSACTED
    pool = SimpleServerSessionPool(
        connection, work.listener, size=2, transacted=transacted, acknowledge_mode=mode
    )
    consumer = await connection.create_connection_consumer(Q, None, pool, 2)
    await client.send(Q, "a", "b", "c")
    await work.done.wait()
    await client.settle()
    deliveries = sorted(str(delivery) for _, delivery in work.deliveries)
    assert deliveries == ["a#1", "b#1", "b#2*", "b#3*", "c#1"]
    await consumer.close()
    assert await client.left(Q) == []
    assert await client.left(DLQ) == ["b"]


async def test_close_waits_for_the_listener_and_returns_the_rest(
    client: Client, connection: ActiveMQConnection
) -> None:
    work = Work(client, 1)
    work.gate = anyio.Event()
    pool = SimpleServerSessionPool(connection, work.listener)
    consumer = await connection.create_connection_consumer(Q, None, pool, 3)
    await client.send(Q, "a", "b", "c", "d")
    await work.entered.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.close)
        await client.settle()
        assert work.running == 1
        work.gate.set()
    assert work.texts == ["a"]
    assert await client.left(Q) == ["b", "c", "d"]


async def test_a_listener_may_close_its_own_consumer(
    client: Client, connection: ActiveMQConnection
) -> None:
    closed = anyio.Event()

    def listener_of(session: Any) -> Any:
        async def listen(message: Any) -> None:
            await consumer.close()
            closed.set()

        return listen

    pool = SimpleServerSessionPool(connection, listener_of)
    consumer = await connection.create_connection_consumer(Q, None, pool, 1)
    await client.send(Q, "a", "b")
    await closed.wait()
    await client.settle()
    await pool.close()
    assert await client.left(Q) == ["b"]


@pytest.mark.parametrize("commits", [True, False])
async def test_a_transaction_can_end_after_the_close(
    client: Client, connection: ActiveMQConnection, commits: bool
) -> None:
    delivered: list[Any] = []
    session = await connection.create_session(True)
    await session.set_message_listener(delivered.append)
    pool = CountingPool(session)
    queue = Queue("q?consumer.prefetchSize=10")
    consumer = await connection.create_connection_consumer(queue, None, pool, 2)
    await client.send(Q, "a", "b")
    await client.settle()
    assert [client.text(message) for message in delivered] == ["a", "b"]
    await consumer.close()
    assert await client.left(Q) == []  # they belong to the transaction
    await (session.commit() if commits else session.rollback())
    assert [client.text(m) for m in await client.take(Q)] == ([] if commits else ["a", "b"])


@pytest.mark.parametrize("closes", ["session", "connection"])
async def test_what_is_not_settled_at_the_end_of_a_session_is_delivered_again(
    client: Client, connection: ActiveMQConnection, closes: str
) -> None:
    delivered: list[Any] = []

    async def open_session() -> ActiveMQSession:
        session = await connection.create_session(False, AcknowledgeMode.CLIENT)
        await session.set_message_listener(lambda m: delivered.append(client.delivery(m)))
        return session

    pool = CountingPool(await open_session())
    queue = Queue("q?consumer.prefetchSize=10")
    await connection.create_connection_consumer(queue, None, pool, 2)
    await client.send(Q, "a", "b", "c")
    await client.settle()
    assert delivered == ["a#1", "b#1", "c#1"]
    if closes == "session":
        first, pool.session = pool.session, await open_session()
        await first.close()
        await client.settle()
        assert delivered[3:] == ["a#2*", "b#2*", "c#2*"]
    await connection.close()
    assert sorted(map(str, await client.left(Q))) == ["a", "b", "c"]


async def test_stop_pauses_between_messages(client: Client, connection: ActiveMQConnection) -> None:
    work = Work(client, 4)
    work.gate = anyio.Event()
    pool = SimpleServerSessionPool(connection, work.listener)
    await connection.create_connection_consumer(Q, None, pool, 4)
    await client.send(Q, "a", "b", "c", "d")
    await work.entered.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.stop)
        await client.settle()
        work.gate.set()
    await client.settle()
    assert work.texts == ["a"]
    await connection.start()
    await work.done.wait()
    assert work.texts == ["a", "b", "c", "d"]


async def test_closing_the_connection_waits_for_the_listeners(
    client: Client, connection: ActiveMQConnection
) -> None:
    work = Work(client, 1)
    work.gate = anyio.Event()
    pool = SimpleServerSessionPool(connection, work.listener)
    await connection.create_connection_consumer(Q, None, pool, 1)
    await client.send(Q, "a", "b")
    await work.entered.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.close)
        await client.settle()
        assert work.running == 1
        work.gate.set()
    assert await client.left(Q) == ["b"]


class BrokenPool(CountingPool):
    """Fails once."""

    error: Exception | None = ValueError("no session left")

    async def get_server_session(self) -> Any:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return await super().get_server_session()


async def test_a_failing_pool_is_reported_and_asked_again(
    client: Client, connection: ActiveMQConnection
) -> None:
    reported: list[Any] = []
    connection.exception_listener = reported.append
    received: list[Any] = []
    session = await connection.create_session()
    await session.set_message_listener(received.append)
    await connection.create_connection_consumer(Q, None, BrokenPool(session), 2)
    await client.send(Q, "a")
    await client.settle()
    assert [str(error).count("no session left") for error in reported] == [1]
    assert received == []
    await client.send(Q, "b")
    await client.settle()
    assert [client.text(message) for message in received] == ["a", "b"]
    assert len(reported) == 1


async def test_sessions_of_others_are_refused(
    client: Client, connection: ActiveMQConnection
) -> None:
    reported: list[str] = []
    connection.exception_listener = lambda error: reported.append(str(error))
    other = await client.connect()
    caching = CachingConnectionFactory(client.factory())
    cached = await caching.create_connection()
    for owner, message in [
        (other, "a session of another connection"),
        (cached, "an invalid session type"),
    ]:
        pool = SimpleServerSessionPool(owner, Work(client, 1).listener)
        consumer = await connection.create_connection_consumer(Q, None, pool, 1)
        await client.send(Q, "a")
        await client.settle()
        assert f"Session pool provided {message}" in reported[-1]
        await consumer.close()
        assert await client.left(Q) == ["a"]
    await caching.destroy()


async def test_a_shared_connection_has_connection_consumers(client: Client) -> None:
    factory = SingleConnectionFactory(client.factory(client_id="me"))
    async with factory, await factory.create_connection() as connection:
        await connection.start()
        work = Work(client, 2)
        pool = SimpleServerSessionPool(connection, work.listener)
        queue = await connection.create_connection_consumer(Q, None, pool, 1)
        topic = await connection.create_durable_connection_consumer(T, "s", None, pool, 1)
        await client.send(Q, "a")
        await client.send(T, "b")
        await work.done.wait()
        assert sorted(work.texts) == ["a", "b"]
        await queue.close()
        await topic.close()


@pytest.mark.fact("activemq-edges N18")
async def test_run_is_not_for_listeners(client: Client, connection: ActiveMQConnection) -> None:
    session = await connection.create_session()
    with pytest.raises(IllegalStateException, match="needs a listener"):
        await session.run()
    refused = []

    async def listen(message: Any) -> None:
        with pytest.raises(IllegalStateException, match="cannot be called by a listener") as error:
            await session.run()
        refused.append(error)

    await session.set_message_listener(listen)
    consumer = await session.create_consumer(Q)
    with pytest.raises(IllegalStateException, match="Cannot synchronously receive"):
        await consumer.receive(0)
    await client.send(Q, "a")
    await client.settle()
    assert refused == []
    await session.run()
    assert len(refused) == 1


async def test_closing_the_session_ends_a_run(
    client: Client, connection: ActiveMQConnection
) -> None:
    session = await connection.create_session()
    entered = anyio.Event()

    async def listen(message: Any) -> None:
        entered.set()
        await session.close()

    await session.set_message_listener(listen)
    await session.create_consumer(Q)
    await client.send(Q, "a", "b")
    await client.settle()
    await session.run()
    assert entered.is_set()


async def test_a_provider_without_them_says_so(
    client: Client, connection: ActiveMQConnection
) -> None:
    pool = SimpleServerSessionPool(connection, Work(client, 1).listener)
    other = await JmsProvider().create_connection()
    with pytest.raises(UnsupportedOperationException, match="has no connection consumers"):
        await other.create_connection_consumer(Q, None, pool, 1)
    with pytest.raises(UnsupportedOperationException, match="has no connection consumers"):
        await other.create_durable_connection_consumer(T, "s", None, pool, 1)
    with pytest.raises(ValueError, match="size must be 1 or higher, not 0"):
        SimpleServerSessionPool(connection, Work(client, 1).listener, size=0)
