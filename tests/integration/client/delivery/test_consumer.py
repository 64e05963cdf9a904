"""Consumers: JMS section 4.5."""

from __future__ import annotations

import anyio
import pytest

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.embedded import Client

TRANSACTED = AcknowledgeMode.TRANSACTED


@pytest.mark.fact("jms-api 4.1")
async def test_receive_waits_for_its_timeout_and_never_returns_expired_messages(
    client: Client, clock: VirtualClock
) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    before = clock.now()
    assert await consumer.receive(0) is None
    assert await consumer.receive_no_wait() is None
    assert clock.now() == before
    assert await consumer.receive(1.5) is None
    assert clock.now() - before == pytest.approx(1.5)
    results: list[object] = []

    async def wait_for_ever() -> None:
        results.append(client.text(await consumer.receive()))
        results.append(await consumer.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for_ever)
        await clock.sleep(20)
        assert results == []
        await client.send("q", "1")
        await client.settle()
        assert results == ["1"]
        await consumer.close()
    assert results == ["1", None]

    stopped = await client.connect(start=False)
    session = await client.session(connection=stopped)
    consumer = await session.create_consumer(Queue("e"))
    await client.send("e", "short", time_to_live=1)
    await client.send("e", "long", time_to_live=60)
    await clock.sleep(2)
    await stopped.start()
    assert client.text(await consumer.receive(1)) == "long"


@pytest.mark.parametrize("query", ["", "?consumer.prefetchSize=0"])
@pytest.mark.fact("activemq-edges N9", "activemq-edges N10")
async def test_the_timeout_covers_expired_messages_skipped_meanwhile(
    client: Client, clock: VirtualClock, query: str
) -> None:
    connection = await client.connect()
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue(f"q{query}"))
    before = clock.now()

    async def let_it_expire_in_the_buffer() -> None:
        await connection.stop()
        await client.send("q", "dead", time_to_live=1)
        await clock.sleep(2)
        await connection.start()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(let_it_expire_in_the_buffer)
        assert await consumer.receive(3) is None
    assert clock.now() - before == pytest.approx(3)
    assert client.broker.queue_statistics("q").messages == 0
    assert [client.text(m) for m in await client.take("ActiveMQ.DLQ")] == ["dead"]


async def test_without_the_expiry_check_the_expired_are_received(
    client: Client, clock: VirtualClock
) -> None:
    connection = await client.connect(consumer_expiry_check_enabled=False)
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    await client.send("q", "dead", time_to_live=1)
    await client.settle()
    await clock.sleep(2)
    assert client.text(await consumer.receive(1)) == "dead"


@pytest.mark.fact("jms-api 4.2")
async def test_a_queue_message_goes_to_one_a_topic_message_to_all_active(client: Client) -> None:
    session = await client.session()
    await client.send(Topic("t"), "before")
    queue = [await session.create_consumer(Queue("q")) for _ in range(2)]
    topic = [await session.create_consumer(Topic("t")) for _ in range(2)]
    await client.send("q", "1", "2", "3", "4")
    await client.send(Topic("t"), "now")
    got = [m for c in queue for m in await client.receive_all(c)]
    assert sorted(str(client.text(message)) for message in got) == ["1", "2", "3", "4"]
    for consumer in topic:
        assert [client.text(m) for m in await client.receive_all(consumer)] == ["now"]
    recorded = client.oracle("jms-raw-listeners")
    assert recorded["topic message without subscriber is kept"] is False


@pytest.mark.fact("jms-api 4.3", "jms-api 13/InvalidSelectorException")
async def test_a_blank_selector_is_none_and_a_bad_one_is_refused(client: Client) -> None:
    session = await client.session()
    for blank in (None, "", "  "):
        consumer = await session.create_consumer(Queue("q"), blank)
        assert consumer.message_selector is None
        await consumer.close()
    with pytest.raises(InvalidSelectorException):
        await session.create_consumer(Queue("q"), "a = ")
    consumer = await session.create_consumer(Queue("q"), "colour = 'red'")
    assert consumer.message_selector == "colour = 'red'"
    producer = await session.create_producer(Queue("q"))
    for colour in ("blue", "red"):
        message = session.create_text_message(colour)
        message.properties["colour"] = colour
        await producer.send(message)
    assert [client.text(m) for m in await client.receive_all(consumer)] == ["red"]


@pytest.mark.fact("jms-api 4.4")
async def test_no_local_keeps_a_connections_own_topic_messages_away(client: Client) -> None:
    connection = await client.connect()
    session = await client.session(connection=connection)
    own = await session.create_consumer(Topic("t"), no_local=True)
    other = await (await client.session()).create_consumer(Topic("t"), no_local=True)
    queue = await session.create_consumer(Queue("q"), no_local=True)
    for destination in (Topic("t"), Queue("q")):
        producer = await session.create_producer(destination)
        await producer.send(session.create_text_message("x"))
    assert client.text(await other.receive(1)) == "x"
    assert await own.receive(0.2) is None
    assert client.text(await queue.receive(1)) == "x"
    recorded = client.oracle("jms-raw-listeners")
    assert recorded["noLocal consumer gets own connection's message"] is False
    assert recorded["other consumer gets it"] is True


@pytest.mark.fact("jms-api 4.5")
async def test_none_removes_the_listener(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    seen: list[Message] = []
    await consumer.set_message_listener(seen.append)
    assert consumer.message_listener == seen.append
    await client.send("q", "1")
    await client.settle()
    await consumer.set_message_listener(None)
    assert consumer.message_listener is None
    await client.send("q", "2")  # type: ignore[unreachable]
    assert client.text(await consumer.receive(1)) == "2"
    assert [client.text(m) for m in seen] == ["1"]


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (AcknowledgeMode.AUTO, "AUTO_ACKNOWLEDGE"),
        (AcknowledgeMode.CLIENT, "CLIENT_ACKNOWLEDGE"),
        (AcknowledgeMode.DUPS_OK, "DUPS_OK_ACKNOWLEDGE"),
        (AcknowledgeMode.INDIVIDUAL, "INDIVIDUAL_ACKNOWLEDGE(4)"),
        (AcknowledgeMode.TRANSACTED, "transacted"),
    ],
)
@pytest.mark.fact("jms-api 4.6", "activemq-broker R2", "activemq-broker R4")
async def test_what_a_failing_listener_leads_to_in_each_mode(
    client: Client, mode: AcknowledgeMode, name: str
) -> None:
    recorded = client.oracle("jms-raw-listeners")[f"listener throws on m2, {name}"]
    await client.send("q", "m1", "m2", "m3")
    session = await client.session(mode)
    consumer = await session.create_consumer(Queue("q"))
    deliveries: list[str | None] = []
    done = anyio.Event()

    def listener(message: Message) -> None:
        deliveries.append(client.delivery(message))
        if client.text(message) == "m3":
            done.set()
        if client.text(message) == "m2":
            raise RuntimeError("listener fails")

    await consumer.set_message_listener(listener)
    await done.wait()
    await client.settle()
    await session.close()
    assert deliveries == recorded["deliveries"]
    dead = await client.take("ActiveMQ.DLQ")
    assert [client.text(m) for m in dead] == recorded["dlq"]
    if dead:
        cause = dead[-1].properties["dlqDeliveryFailureCause"]
        assert str(cause).startswith(
            "java.lang.Throwable: Delivery[7] exceeds redelivery policy limit:RedeliveryPolicy {"
        )
        assert str(cause).endswith("}, cause:RuntimeError: listener fails")
    assert await client.left("q") == recorded["leftAfterClose"]


class Unprintable(Exception):
    """An application's mistake."""

    def __str__(self) -> str:
        raise TypeError("no text")


@pytest.mark.parametrize(
    ("mode", "end"),
    [(TRANSACTED, "rollback"), (AcknowledgeMode.CLIENT, "recover")],
)
async def test_a_rollback_tells_the_last_listener_that_failed(
    client: Client, mode: AcknowledgeMode, end: str
) -> None:
    await client.send("q", "1", "2", "3")
    connection = await client.connect()
    connection.redelivery_policy.maximum_redeliveries = 0
    session = await client.session(mode, connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    done = anyio.Event()

    async def listener(message: Message) -> None:
        if client.text(message) == "1":
            raise ValueError("first")
        if client.text(message) == "2":
            raise Unprintable
        done.set()

    await consumer.set_message_listener(listener)
    await done.wait()
    await getattr(session, end)()
    dead = await client.take("ActiveMQ.DLQ")
    assert [client.text(m) for m in dead] == ["1", "2", "3"]
    for letter in dead:
        assert str(letter.properties["dlqDeliveryFailureCause"]).endswith(
            f"}}, cause:{__name__}.Unprintable: its text is not available: TypeError"
        )


@pytest.mark.fact("jms-api 4.7", "activemq-broker X7")
async def test_messages_of_a_closed_consumer_stay_with_the_session(client: Client) -> None:
    await client.send("q", "1", "2", "3", "4")
    session = await client.session(TRANSACTED)
    consumer = await session.create_consumer(Queue("q"))
    await consumer.receive(1)
    await consumer.receive(1)
    await consumer.close()
    await consumer.close()
    for call in (consumer.receive, lambda: consumer.set_message_listener(None)):
        with pytest.raises(IllegalStateException, match="The Consumer is closed"):
            await call()
    await session.commit()
    assert await client.left("q") == ["3", "4"]

    await client.send("q", "5", "6")
    session = await client.session(AcknowledgeMode.CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    message = await consumer.receive(1)
    await consumer.close()
    assert message is not None
    message.acknowledge()
    assert await client.left("q") == ["6"]


@pytest.mark.fact("jms-api 4.8", "jms-api 2.16")
async def test_durable_subscriptions(client: Client) -> None:
    recorded = client.oracle("jms-raw-listeners")["durable subscription"]
    anonymous = await client.session()
    with pytest.raises(JMSException) as refusal:
        await anonymous.create_durable_subscriber(Topic("t"), "s")
    assert type(refusal.value) is JMSException
    got: list[str | None] = []

    async def look(topic: str, selector: str | None) -> None:
        async with await client.connect(client_id="me") as connection:
            session = await connection.create_session()
            subscriber = await session.create_durable_subscriber(Topic(topic), "s", selector)
            got.append(client.text(await subscriber.receive(0.2)))

    await look("t", None)
    await client.send(Topic("t"), "kept1", "kept2")
    await look("t", "")  # the same as None
    await look("t", "n = 1")
    await client.send(Topic("t"), "lost")
    await look("t", None)
    await client.send(Topic("t"), "lost too")
    await look("u", None)
    assert got == [None, "kept1", None, None, None]
    assert recorded[0] == "kept1"
    assert [line.rpartition(" ")[2] for line in recorded[1:]] == ["null"] * 3

    connection = await client.connect(client_id="me")
    session = await connection.create_session()
    await session.create_durable_subscriber(Topic("u"), "s")
    with pytest.raises(JMSException, match="in use"):
        await session.create_durable_subscriber(Topic("u"), "s")


@pytest.mark.fact("jms-api 4.10")
async def test_only_the_owner_consumes_from_a_temporary_destination(client: Client) -> None:
    owner, other = await client.session(), await client.session()
    for create in (owner.create_temporary_queue, owner.create_temporary_topic):
        temporary = await create()
        await client.settle()
        with pytest.raises(
            InvalidDestinationException,
            match="Cannot use a Temporary destination from another Connection",
        ):
            await other.create_consumer(temporary)
        await owner.create_consumer(temporary)


@pytest.mark.fact("jms-api 4.11", "activemq-broker Q14")
async def test_buffered_messages_go_to_a_later_listener_and_pull_has_none(client: Client) -> None:
    await client.send("q", "1", "2", "3")
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    await client.settle()
    assert consumer.buffered == 3
    seen: list[str | None] = []
    await consumer.set_message_listener(lambda m: seen.append(client.text(m)))
    await client.broker.drained("q")
    assert seen == ["1", "2", "3"]
    pulling = await session.create_consumer(Queue("p?consumer.prefetchSize=0"))
    for listener in (None, seen.append):
        with pytest.raises(JMSException, match="Illegal prefetch size of zero"):
            await pulling.set_message_listener(listener)  # type: ignore[arg-type]
    await pulling.close()
    with pytest.raises(IllegalStateException, match="The Consumer is closed"):
        await pulling.receive(0)


@pytest.mark.fact("activemq-broker Q14")
async def test_pull_requests_one_message_at_a_time(client: Client, clock: VirtualClock) -> None:
    await client.send("q", "1", "2", "3")
    session = await client.session()
    consumer = await session.create_consumer(Queue("q?consumer.prefetchSize=0"))
    await client.settle()
    assert consumer.buffered == 0
    assert client.text(await consumer.receive(1)) == "1"
    assert client.text(await consumer.receive_no_wait()) == "2"
    assert await client.left("q") == ["3"]
    before = clock.now()
    assert await consumer.receive_no_wait() is None
    assert clock.now() == before
    assert await consumer.receive(2) is None
    assert clock.now() - before == pytest.approx(2)


async def test_a_cancelled_receive_loses_nothing(client: Client, clock: VirtualClock) -> None:
    for query in ("", "?consumer.prefetchSize=0"):
        session = await client.session()
        consumer = await session.create_consumer(Queue(f"q{query}"))
        for timeout in (None, 60):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consumer.receive, timeout)
                    await client.settle()
                    scope.cancel()
        await client.send("q", "1", "2")
        assert client.text(await consumer.receive(5)) == "1"
        assert client.text(await consumer.receive(5)) == "2"
        before = clock.now()
        assert await consumer.receive(1) is None
        assert clock.now() - before <= 1.001
        await session.close()


@pytest.mark.parametrize("turns", range(8))
async def test_cancelled_at_any_moment_a_message_is_received_or_still_there(
    client: Client, turns: int
) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    producer = await session.create_producer(Queue("q"))
    got: list[Message] = []

    async def receive() -> None:
        message = await consumer.receive()
        assert message is not None
        got.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await client.settle()
        await producer.send(
            session.create_text_message("1"), delivery_mode=DeliveryMode.NON_PERSISTENT
        )
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    await session.close()
    assert len(got) + len(await client.left("q")) == 1


@pytest.mark.fact("jms-api 12.4")
async def test_closing_gives_undelivered_messages_back_without_counting(client: Client) -> None:
    await client.send("q", "1", "2", "3")
    session = await client.session(AcknowledgeMode.CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    await consumer.receive(1)
    await client.settle()
    assert consumer.buffered == 2
    await session.close()
    assert [client.delivery(m) for m in await client.take("q")] == ["1#2*", "2#1", "3#1"]
    session = await client.session()
    await client.send("q", "4")
    consumer = await session.create_consumer(Queue("q"))
    await client.settle()
    await consumer.close()
    assert [client.delivery(m) for m in await client.take("q")] == ["4#1"]


async def test_options_in_the_name_configure_the_consumer(client: Client) -> None:
    session = await client.session(query="jms.prefetchPolicy.queuePrefetch=12")
    plain = await session.create_consumer(Queue("q"))
    assert plain.info.prefetch_size == 12
    named = await session.create_consumer(
        Queue("q?consumer.prefetchSize=3&consumer.priority=7&consumer.exclusive=true&other=1")
    )
    assert (named.info.prefetch_size, named.info.priority, named.info.exclusive) == (3, 7, True)
    chosen = await session.create_consumer(Queue("q?consumer.selector=a=1"), "b = 2")
    assert chosen.info.selector == "b = 2"
    with pytest.raises(ConfigurationException, match="There are 1 consumer options") as refusal:
        await session.create_consumer(Queue("q?consumer.prefetchsize=3"))
    assert "did you mean 'prefetchSize'?" in str(refusal.value)
    with pytest.raises(ConfigurationException, match=r"consumer\.prefetchSize"):
        await session.create_consumer(Queue("q?consumer.prefetchSize=many"))
    with pytest.raises(ConfigurationException, match="There are 1 producer options"):
        await session.create_producer(Queue("q?producer.window=3"))
    with pytest.raises(InvalidDestinationException):
        await session.create_consumer(None)  # type: ignore[arg-type]


async def test_a_loop_over_a_consumer_ends_when_it_is_closed(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    seen: list[str] = []

    async def loop() -> None:
        async for message in consumer:
            seen.append(str(client.text(message)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(loop)
        for text in ("1", "2"):
            await client.send("q", text)
            await client.settle()
        assert seen == ["1", "2"]
        await consumer.close()
    assert [m async for m in consumer] == []

    other = await session.create_consumer(Queue("q"))
    await client.send("q", "3")
    async for message in other:
        seen.append(str(client.text(message)))
        await other.close()
    assert seen == ["1", "2", "3"]


async def test_a_loop_over_a_consumer_does_not_hide_errors(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    await consumer.set_message_listener(lambda message: None)
    with pytest.raises(IllegalStateException, match="when a MessageListener is set"):
        [m async for m in consumer]
    await consumer.set_message_listener(None)
    session.connection.transport.listener.on_exception(OSError("cable"))
    await client.settle()
    with pytest.raises(ConnectionFailedException):
        [m async for m in consumer]


@pytest.mark.parametrize("pulls", [False, True])
async def test_a_consumer_refused_by_the_broker_does_not_fail_the_connection(
    client: Client, pulls: bool
) -> None:
    """It is not registered, so it is not removed either: the broker would report an error."""
    failures: list[BaseException] = []
    async with await client.factory().create_connection() as other:
        other.exception_listener = failures.append
        await other.start()
        session = await other.create_session()
        create = session.create_pull_consumer if pulls else session.create_consumer
        with pytest.raises(JMSException, match="reserved for the broker"):
            await create(Queue("PyJMS.x"))
        await session.create_consumer(Queue("q"))  # an answer comes after errors sent before
        assert failures == []
