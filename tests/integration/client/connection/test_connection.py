"""Connections and their factory: JMS section 4.3."""

from __future__ import annotations

import logging
import socket

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client
from tests.kit.clients.messages import text_of
from tests.kit.values import present


class Doorman(BrokerFilter):
    """Lets in who knows the password."""

    def __init__(self, next_broker: Broker) -> None:
        super().__init__(next_broker)
        self.users: list[str | None] = []

    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        if info.password != "open":
            raise JMSSecurityException(f"User name [{info.user_name}] or password is invalid.")
        self.users.append(info.user_name)
        super().add_connection(context, info)


@pytest.mark.fact("jms-api 1.1", "jms-api 13/JMSSecurityException")
async def test_credentials_are_the_factorys_unless_given_and_refused_on_first_use(
    clock: VirtualClock,
) -> None:
    doormen: list[Doorman] = []

    def plugin(next_broker: Broker) -> Broker:
        doormen.append(Doorman(next_broker))
        return doormen[-1]

    service = BrokerService("guarded", persistent=False, plugins=[plugin])
    async with EmbeddedTestBroker(service) as broker:
        factory = ConnectionFactory(broker.url, user_name="ann", password="open")
        async with await factory.create_connection() as connection:
            await connection.start()
        async with await factory.create_connection("bob", "open") as connection:
            await connection.start()
        assert doormen[0].users == ["ann", "bob"]
        in_url = ConnectionFactory(f"{broker.url}&jms.userName=cid&jms.password=open")
        async with await in_url.create_connection() as connection:
            await connection.create_session()
        assert doormen[0].users == ["ann", "bob", "cid"]
        connection = await factory.create_connection("eve", "wrong")
        with pytest.raises(JMSSecurityException, match=r"User name \[eve\]"):
            await connection.create_session()
        await connection.close()
        assert "open" not in repr(factory) + repr(in_url)


@pytest.mark.fact("jms-api 1.2")
async def test_a_new_connection_is_stopped_sends_work_receives_wait(
    client: Client, clock: VirtualClock
) -> None:
    connection = await client.connect(start=False)
    session = await client.session(connection=connection)
    producer = await session.create_producer(Queue("q"))
    consumer = await session.create_consumer(Queue("q"))
    await producer.send(session.create_text_message("1"))
    before = clock.now()
    assert await consumer.receive(0.2) is None
    assert clock.now() - before == pytest.approx(0.2)
    await connection.start()
    assert client.text(await consumer.receive(1)) == "1"
    recorded = client.oracle("jms-client-rules")
    assert recorded["receive(200) on a connection that was never started"] is None
    assert recorded["receive after start"] == "1"


@pytest.mark.fact("jms-api 1.3")
async def test_stop_waits_for_listeners_then_hands_nothing_out(
    client: Client, clock: VirtualClock
) -> None:
    connection = await client.connect()
    await connection.start()
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    reading = await client.session(connection=connection)
    reader = await reading.create_consumer(Queue("r"))
    called, go_on = anyio.Event(), anyio.Event()
    order: list[object] = []

    async def listener(message: Message) -> None:
        called.set()
        await go_on.wait()
        order.append(client.text(message))

    async def stop() -> None:
        await connection.stop()
        order.append("stopped")

    async def read() -> None:
        order.append(await reader.receive(60))

    await consumer.set_message_listener(listener)
    await client.send("q", "1", "2")
    await called.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        await client.settle()
        assert order == []
        go_on.set()
    assert order == ["1", "stopped"]
    await connection.stop()
    await client.send("r", "while stopped")
    started = clock.now()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)  # its time runs on while stopped
    assert order == ["1", "stopped", None]
    assert clock.now() - started == pytest.approx(60)
    producer = await reading.create_producer(Queue("out"))
    await producer.send(reading.create_text_message("sent while stopped"))
    assert await client.left("out") == ["sent while stopped"]
    await connection.start()
    assert client.text(await reader.receive(1)) == "while stopped"


@pytest.mark.fact("jms-api 1.3")
async def test_a_message_delivered_before_stop_stays_valid(client: Client) -> None:
    await client.send("q", "1")
    connection = await client.connect()
    session = await client.session(AcknowledgeMode.CLIENT, connection=connection)
    message = await (await session.create_consumer(Queue("q"))).receive(1)
    await connection.stop()
    assert client.text(message) == "1"
    assert message is not None
    message.acknowledge()
    await connection.close()
    assert await client.left("q") == []


@pytest.mark.fact("jms-api 1.5")
async def test_close_closes_all_and_everything_is_refused_afterwards(client: Client) -> None:
    await client.send("q", "unacknowledged")
    connection = await client.connect()
    session = await client.session(AcknowledgeMode.CLIENT, connection=connection)
    transacted = await client.session(AcknowledgeMode.TRANSACTED, connection=connection)
    producer = await transacted.create_producer(Queue("out"))
    await producer.send(transacted.create_text_message("rolled back"))
    consumer = await session.create_consumer(Queue("q"))
    waiting = await session.create_consumer(Queue("empty"))
    browser = await session.create_browser(Queue("q"))
    temporary = await session.create_temporary_queue()
    message = await consumer.receive(1)
    results: list[object] = []

    async def wait() -> None:
        results.append(await waiting.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await client.settle()
        await connection.close()
    assert results == [None]
    await connection.close()
    for call in (
        connection.start,
        connection.stop,
        connection.create_session,
        transacted.commit,
        session.recover,
        session.create_temporary_queue,
        lambda: session.create_producer(Queue("q")),
        lambda: producer.send(Message()),
        consumer.receive,
    ):
        with pytest.raises(IllegalStateException):
            await call()
    assert message is not None
    for refused in (
        lambda: connection.client_id,
        lambda: connection.metadata,
        session.create_message,
        lambda: consumer.message_selector,
        lambda: browser.message_selector,
        message.acknowledge,
    ):
        with pytest.raises(IllegalStateException):
            refused()
    with pytest.raises(ConnectionClosedException):
        await connection.start()
    for child in (session, producer, consumer, browser):
        await child.close()
    assert await client.left("q") == ["unacknowledged"]
    assert await client.left("out") == []
    assert temporary not in client.broker.service.region_broker.destinations()


@pytest.mark.fact("jms-api 1.6")
async def test_the_client_id_is_set_first_or_not_at_all(client: Client) -> None:
    connection = await client.connect(start=False)
    assert connection.client_id is None
    await connection.set_client_id("mine")
    assert connection.client_id == "mine"
    with pytest.raises(IllegalStateException):  # type: ignore[unreachable]
        await connection.set_client_id("other")
    used = await client.connect(start=False)
    await used.create_session()
    with pytest.raises(IllegalStateException):
        await used.set_client_id("late")
    assert present(used.client_id).startswith("ID:")
    given = await client.connect(start=False, client_id="given")
    assert given.client_id == "given"
    with pytest.raises(IllegalStateException):
        await given.set_client_id("other")
    fresh = await client.connect(start=False)
    for bad in ("", " "):
        with pytest.raises(InvalidClientIDException):
            await fresh.set_client_id(bad)
    with pytest.raises(InvalidClientIDException, match="mine"):
        await fresh.set_client_id("mine")
    twin = await client.connect(start=False, client_id="mine")
    with pytest.raises(InvalidClientIDException, match="already connected"):
        await twin.start()


@pytest.mark.fact("jms-api 13/InvalidClientIDException")
async def test_a_refused_client_id_is_an_invalid_client_id_exception(client: Client) -> None:
    await client.connect(client_id="one")
    with pytest.raises(InvalidClientIDException):
        await client.connect(client_id="one")
    with pytest.raises(InvalidClientIDException):
        await (await client.connect(start=False)).set_client_id("")


@pytest.mark.fact("jms-api 1.8")
async def test_the_exception_listener_gets_what_no_caller_would_see(client: Client) -> None:
    heard: list[JMSException] = []
    connection = await client.connect()
    connection.exception_listener = heard.append
    session = await client.session(connection=connection)
    with pytest.raises(InvalidDestinationException):
        await session.unsubscribe("unknown")
    assert heard == []
    consumer = await session.create_consumer(Queue("q"))
    results: list[object] = []

    async def wait() -> None:
        with pytest.raises(ConnectionFailedException) as raised:
            await consumer.receive()
        results.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await client.settle()
        await client.broker.stop()
    assert len(results) == 1
    assert len(heard) == 1
    with pytest.raises(ConnectionFailedException, match="The JMS connection has failed"):
        await consumer.receive()
    with pytest.raises(ConnectionFailedException):
        await connection.create_session()
    await connection.close()
    assert len(heard) == 1


def broken(error: Exception) -> None:
    raise ZeroDivisionError from error


async def test_an_exception_listener_that_fails_is_logged(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await client.connect()
    connection.exception_listener = broken
    with caplog.at_level(logging.ERROR, "pyjms.client"):
        connection.report(JMSException("trouble"))
    assert "The exception listener of" in caplog.text


@pytest.mark.fact("jms-api 1.9", "jms-api 14/API")
async def test_metadata_is_activemqs(client: Client) -> None:
    metadata = (await client.connect(start=False)).metadata
    assert (metadata.jms_version, metadata.jms_major_version, metadata.jms_minor_version) == (
        "1.1",
        1,
        1,
    )
    recorded = client.oracle("jms-client-rules")["metadata"]
    assert metadata.jms_provider_name == recorded["provider"]
    assert list(metadata.jmsx_property_names) == recorded["JMSXPropertyNames"]
    assert metadata.provider_version.startswith("5.17")


@pytest.mark.fact("jms-api 1.10")
async def test_the_modes_that_sessions_can_have(client: Client) -> None:
    connection = await client.connect()
    transacted = await connection.create_session(True, AcknowledgeMode.CLIENT)
    assert (transacted.transacted, transacted.acknowledge_mode) == (True, 0)
    for number in (1, 2, 3, 4):
        session = await connection.create_session(acknowledge_mode=number)
        assert (session.transacted, session.acknowledge_mode) == (False, number)
    assert (await connection.create_session()).acknowledge_mode == AcknowledgeMode.AUTO
    for number in (0, 9):
        with pytest.raises(JMSException) as refusal:
            await connection.create_session(False, number)
        assert type(refusal.value) is JMSException


@pytest.mark.fact("jms-api 1.7")
async def test_client_id_and_name_identify_a_durable_subscription(client: Client) -> None:
    for owner in ("ann", "bob"):
        async with await client.connect(client_id=owner) as connection:
            session = await connection.create_session()
            await session.create_durable_subscriber(Topic("t"), "news")
    await client.send(Topic("t"), "1")
    for owner in ("ann", "bob"):
        session = await client.session(client_id=owner)
        subscriber = await session.create_durable_subscriber(Topic("t"), "news")
        assert client.text(await subscriber.receive(1)) == "1"


@pytest.mark.fact("jms-api 12.1")
async def test_sessions_of_one_connection_run_in_parallel(client: Client) -> None:
    connection = await client.connect()
    await client.send("q", "1", "2")
    both = anyio.Event()
    running = 0

    async def listener(message: Message) -> None:
        nonlocal running
        running += 1
        if running == 2:
            both.set()
        await both.wait()

    for _ in range(2):
        session = await connection.create_session()
        consumer = await session.create_consumer(Queue("q?consumer.prefetchSize=1"))
        await consumer.set_message_listener(listener)
    await both.wait()
    assert running == 2


@pytest.mark.fact("activemq-edges N7")
async def test_messages_on_an_unstarted_connection_are_warned_of_once(
    client: Client, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await client.connect(start=False)
    quiet = await client.connect(start=False, warn_about_unstarted_connection_timeout=0)
    for each in (connection, quiet):
        session = await each.create_session()
        await session.create_consumer(Topic("t"))
    await client.send(Topic("t"), "at once")
    await client.settle()
    assert "not yet started" not in caplog.text
    await clock.sleep(0.6)
    await client.send(Topic("t"), "later", "later still")
    await client.settle()
    warnings = [r for r in caplog.records if "not yet started" in r.getMessage()]
    assert len(warnings) == 1
    assert str(connection.connection_id) in warnings[0].getMessage()


@pytest.mark.parametrize("pause", [0.0, 0.6])
async def test_a_receive_on_an_unstarted_connection_warns_of_what_it_does_not_get(
    pause: float, client: Client, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await client.connect(start=False)
    session = await connection.create_session()
    await client.send("q", "1")
    consumer = await session.create_consumer(Queue("q"))
    await client.settle()
    await clock.sleep(pause)
    assert await consumer.receive(1.0) is None
    assert "Have you forgotten to call Connection.start()?" in caplog.text
    await connection.start()
    assert client.text(await consumer.receive(1.0)) == "1"


async def test_a_connection_that_was_stopped_is_not_one_that_was_never_started(
    client: Client, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await client.connect()
    session = await connection.create_session()
    await session.create_consumer(Topic("t"))
    await connection.stop()
    await clock.sleep(0.6)
    await client.send(Topic("t"), "later")
    await client.settle()
    assert "not yet started" not in caplog.text


async def test_an_unreachable_broker_is_reported_with_the_url() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    factory = ConnectionFactory(f"tcp://127.0.0.1:{port}")
    with pytest.raises(ConnectionFailedException, match=f"Could not connect to broker URL.*{port}"):
        await factory.create_connection()


async def test_the_same_over_tcp() -> None:
    async with EmbeddedTestBroker() as broker:
        factory = ConnectionFactory(await broker.tcp_url())
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session(True)
            producer = await session.create_producer(Queue("q"))
            consumer = await session.create_consumer(Queue("q"))
            for number in range(500):
                await producer.send(session.create_text_message(str(number)))
            await session.commit()
            got = [text_of(await consumer.receive(5)) for _ in range(500)]
            assert got == [str(n) for n in range(500)]
            await session.commit()
            await broker.drained("q")
