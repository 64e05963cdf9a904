"""Statistics of connections, sessions, producers and consumers, and their observers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pyjms import ConnectionFactory as BlockingFactory
from pyjms.aio import (
    CachingConnectionFactory,
    ConnectionFactory,
    PooledConnectionFactory,
    Queue,
    Topic,
)
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.enums import AcknowledgeMode
from pyjms.management import (
    CountStatistic,
    Statistics,
    TimeStatistic,
    add_metrics_observer,
    remove_metrics_observer,
)
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.embedded import Client
from tests.kit.values import present

STATS = "jms.statsEnabled=true"


class Recorder:
    """An observer that adds up reported values."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, str]] = Counter()
        self.closed: list[str] = []

    def on_change(self, stats: Statistics, name: str, value: float) -> None:
        self.totals[stats.KIND, name] += value  # type: ignore[assignment]

    def on_closed(self, stats: Statistics) -> None:
        self.closed.append(stats.KIND)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    add_metrics_observer(recorder)
    add_metrics_observer(recorder)
    yield recorder
    remove_metrics_observer(recorder)
    remove_metrics_observer(recorder)


class HandlerStats(Statistics):
    KIND = "handler"
    handled: CountStatistic
    took: TimeStatistic


def test_statistics_of_a_class_are_its_annotated_attributes() -> None:
    total = HandlerStats("all")
    one = HandlerStats("one", total)
    one.handled.increment(2)
    one.took.add_time(0.5)
    assert HandlerStats.NAMES == ("handled", "took")
    assert total.as_dict() == one.as_dict()
    assert (one.handled.count, one.took.total_time) == (2, 0.5)
    one.reset()
    assert (one.handled.count, total.handled.count) == (0, 2)


async def test_off_by_default_and_without_cost(client: Client) -> None:
    connection = await client.connect()
    session = await client.session(connection=connection)
    producer = await session.create_producer(Queue("q"))
    consumer = await session.create_consumer(Queue("q"))
    made: tuple[Any, ...] = (connection, session, producer, consumer)
    assert [each.stats for each in made] == [None] * 4
    # the classes without any code for statistics
    assert type(producer) is ActiveMQMessageProducer
    assert type(consumer) is ActiveMQMessageConsumer


async def test_what_is_counted(client: Client) -> None:
    connection = await client.connect(query=STATS)
    session = await client.session(connection=connection)
    producer = await session.create_producer(Queue("q"))
    for text in "abc":
        await producer.send(session.create_text_message(text))
    assert present(producer.stats).message_count.count == 3
    assert present(producer.stats).message_rate_time.count == 2
    assert present(producer.stats).destination == "q"
    consumer = await session.create_consumer(Queue("q"))
    await client.settle()
    assert present(consumer.stats).pending_message_count.count == 3
    assert await consumer.receive(1)
    assert await consumer.receive(1)
    assert present(consumer.stats).message_count.count == 2
    assert present(consumer.stats).pending_message_count.count == 1
    assert present(consumer.stats).origin == "q"
    for parent in (session, connection):
        assert present(parent.stats).message_count.count == 5
        assert present(parent.stats).pending_message_count.count == 1
    assert present(connection.stats).sessions == [session.stats]
    assert present(session.stats).producers == [producer.stats]
    assert present(session.stats).consumers == [consumer.stats]
    await consumer.close()
    await producer.close()
    assert (present(session.stats).producers, present(session.stats).consumers) == ([], [])
    assert present(session.stats).pending_message_count.count == 0
    assert present(session.stats).message_count.count == 5
    await session.close()
    assert present(connection.stats).sessions == []
    present(connection.stats).reset()
    assert set(present(connection.stats).as_dict().values()) == {0}


@pytest.mark.fact("activemq-edges N0")
async def test_a_factory_has_those_of_its_open_connections() -> None:
    url = "vm://factory-statistics?broker.persistent=false"
    factory = ConnectionFactory(f"{url}&{STATS}")
    assert factory.stats.connections == []
    async with await factory.create_connection() as first, await factory.create_connection() as two:
        assert {s.name for s in factory.stats.connections} == {
            present(first.stats).name,
            present(two.stats).name,
        }
        await two.close()
        assert factory.stats.connections == [first.stats]
        without = ConnectionFactory(url)
        async with await without.create_connection():
            assert without.stats.connections == []
    assert factory.stats.connections == []


def test_a_blocking_factory_has_statistics() -> None:
    factory = BlockingFactory(f"vm://blocking-statistics?broker.persistent=false&{STATS}")
    with factory.create_connection() as connection:
        assert factory.stats.connections == [connection.stats]


async def test_how_long_messages_wait_and_take(client: Client, clock: VirtualClock) -> None:
    connection = await client.connect(query=STATS)
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    await client.send("q", "a", "b")
    await client.settle()
    await clock.sleep(3)
    assert await consumer.receive(1)
    waited = present(consumer.stats).message_wait_time
    assert (waited.count, waited.max_time) == (1, 3.0)

    async def listener(message: Any) -> None:
        await clock.sleep(5)

    await consumer.set_message_listener(listener)
    await clock.sleep(6)
    took = present(consumer.stats).message_process_time
    assert (took.count, took.total_time, took.average_time) == (1, 5.0, 5.0)
    assert present(consumer.stats).message_count.count == 2


async def test_expired_messages_and_durable_subscriptions(
    client: Client, clock: VirtualClock
) -> None:
    connection = await client.connect(query=f"{STATS}&jms.clientID=me")
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    await client.send("q", "late", time_to_live=2)
    await client.send("q", "kept")
    await client.settle()
    await clock.sleep(3)
    assert client.text(await consumer.receive(1)) == "kept"
    assert present(consumer.stats).expired_message_count.count == 1
    assert present(connection.stats).expired_message_count.count == 1
    subscriber = await session.create_durable_subscriber(Topic("t"), "mine")
    assert present(session.stats).durable_subscription_count.count == 1
    await subscriber.close()
    assert present(session.stats).durable_subscription_count.count == 0


async def test_a_rollback_makes_messages_pending_again(client: Client) -> None:
    query = f"{STATS}&jms.redeliveryPolicy.initialRedeliveryDelay=0"
    session = await client.session(AcknowledgeMode.TRANSACTED, query=query)
    consumer = await session.create_consumer(Queue("q"))
    await client.send("q", "a")
    assert await consumer.receive(1)
    await session.rollback()
    assert present(consumer.stats).pending_message_count.count == 1
    assert await consumer.receive(1)
    assert present(consumer.stats).message_count.count == 2
    assert present(consumer.stats).message_wait_time.count == 2


async def test_priority_buffers_are_measured_too(client: Client) -> None:
    session = await client.session(query=f"{STATS}&jms.messagePrioritySupported=true")
    consumer = await session.create_consumer(Queue("q"))
    await client.send("q", "low", priority=1)
    await client.send("q", "high", priority=9)
    await client.settle()
    assert [client.text(await consumer.receive(1)) for _ in range(2)] == ["high", "low"]
    assert present(consumer.stats).message_wait_time.count == 2
    assert present(consumer.stats).pending_message_count.count == 0


async def test_observers_are_notified_of_every_change(client: Client, recorder: Recorder) -> None:
    connection = await client.connect(query=STATS)
    session = await client.session(connection=connection)
    producer = await session.create_producer(Queue("q"))
    consumer = await session.create_consumer(Queue("q"))
    await producer.send(session.create_text_message("a"))
    assert await consumer.receive(1)
    await connection.close()
    counts = {kind: recorder.totals[kind, "message_count"] for kind in
              ("producer", "consumer", "session", "connection")}  # fmt: skip
    assert counts == {"producer": 1, "consumer": 1, "session": 2, "connection": 2}
    assert recorder.totals["consumer", "pending_message_count"] == 0
    assert sorted(recorder.closed) == ["connection", "consumer", "producer", "session"]


async def test_an_observer_that_fails_is_logged_and_harms_nothing(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Recorder):
        def on_change(self, stats: Statistics, name: str, value: float) -> None:
            raise RuntimeError("no metrics today")

    failing = Failing()
    add_metrics_observer(failing)
    try:
        session = await client.session(query=STATS)
        producer = await session.create_producer(Queue("q"))
        await producer.send(session.create_text_message("a"))
    finally:
        remove_metrics_observer(failing)
    assert "A metrics observer failed on message_count" in caplog.text
    assert await client.left("q") == ["a"]


@pytest.mark.parametrize("kind", [CachingConnectionFactory, PooledConnectionFactory])
async def test_handles_have_the_statistics_of_their_targets(
    client: Client, recorder: Recorder, kind: Any
) -> None:
    factory = kind(client.factory(STATS))
    async with factory, await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(Queue("q"))
        consumer = await session.create_consumer(Queue("q"))
        await producer.send(session.create_text_message("a"))
        assert await consumer.receive(1)
        assert producer.stats.message_count.count == 1
        assert consumer.stats.message_count.count == 1
        assert session.stats.message_count.count == 2
        assert connection.stats.message_count.count == 2
    if kind is PooledConnectionFactory:
        assert recorder.totals["pool", "created_connections"] == 1
