"""Who gets which message: composites, wildcards, browsers, groups, expiry, advisories."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime import clock as _clock
from tests.kit.brokers.comparison import OpenConnection
from tests.kit.waiting import until

pytestmark = pytest.mark.activemq


async def send(session: Any, destination: Any, *texts: str, **how: Any) -> None:
    producer = await session.create_producer(destination)
    for text in texts:
        await producer.send(session.create_text_message(text), **how)
    await producer.close()


async def send_once_known(session: Any, temporary: Any, text: str) -> None:
    """Send to another connection's temporary destination, as soon as the advisory told of it."""
    with _clock.timeout(5):
        while True:
            try:
                return await send(session, temporary, text)
            except InvalidDestinationException:
                await checkpoint()


async def take(consumer: Any, count: int) -> list[str]:
    return [(await consumer.receive(5)).text for _ in range(count)]


async def test_composite_destinations(connect: Any, name: str) -> None:
    session = await (await connect()).create_session()
    topic = await session.create_consumer(Topic(f"{name}.t"))
    both = await session.create_consumer(Queue(f"{name}.c,{name}.d"))
    await send(session, session.create_queue(f"{name}.a,{name}.b,topic://{name}.t"), "x")
    await send(session, Queue(f"{name}.c"), "c")
    await send(session, Queue(f"{name}.d"), "d")
    first = await (await session.create_consumer(Queue(f"{name}.a"))).receive(5)
    assert first.destination == Queue(f"{name}.a")
    assert str(first.original_destination) == f"queue://{name}.a,{name}.b,topic://{name}.t"
    assert await take(await session.create_consumer(Queue(f"{name}.b")), 1) == ["x"]
    assert await take(topic, 1) == ["x"]
    assert await take(both, 2) == ["c", "d"]


async def test_wildcards(connect: Any, name: str) -> None:
    session = await (await connect()).create_session()
    deep = await session.create_consumer(Queue(f"{name}.>"))
    topics = await session.create_consumer(Topic(f"{name}.*"))
    found = []
    for child in ("", ".a", ".a.b"):
        await send(session, Queue(name + child), "x")
        found.append((await deep.receive(5)).destination)
    assert found == [Queue(name), Queue(f"{name}.a"), Queue(f"{name}.a.b")]
    for child in ("", ".a.b", ".a"):
        await send(session, Topic(name + child), child)
    assert await take(topics, 1) == [".a"]


@pytest.mark.fact("activemq-broker D5")
@pytest.mark.parametrize("kind", [Queue, Topic])
async def test_several_final_wildcards_are_one(
    connect: OpenConnection, name: str, kind: Any
) -> None:
    session = await (await connect()).create_session()
    consumer = await session.create_consumer(kind(f"{name}.>.>"))
    sent = ["", ".a", ".a.b", ".a.b.c"]
    for child in sent:
        await send(session, kind(name + child), child)
    assert await take(consumer, len(sent)) == sent


async def test_browsing_leaves_everything(connect: Any, name: str) -> None:
    session = await (await connect()).create_session()
    producer = await session.create_producer(Queue(name))
    for number in range(5):
        message = session.create_text_message(str(number))
        message.properties["number"] = number
        await producer.send(message)
    for selector, expected in ((None, "01234"), ("number > 2", "34")):
        browser = await session.create_browser(Queue(name), selector)
        assert [message.text async for message in browser] == list(expected)
        await browser.close()
    assert await take(await session.create_consumer(Queue(name)), 5) == list("01234")


async def test_no_local(connect: OpenConnection, name: str) -> None:
    session = await (await connect()).create_session()
    consumer = await session.create_consumer(Topic(name), no_local=True)
    await send(session, Topic(name), "mine")
    await send(await (await connect()).create_session(), Topic(name), "theirs")
    assert await take(consumer, 1) == ["theirs"]


async def test_priorities_do_not_count_by_default(connect: OpenConnection, name: str) -> None:
    session = await (await connect()).create_session()
    for priority in (1, 9, 4, 0):
        await send(session, Queue(name), str(priority), priority=priority)
    assert await take(await session.create_consumer(Queue(name)), 4) == list("1940")


async def test_expired_messages_are_dead_letters(connect: Any, name: str) -> None:
    session = await (await connect()).create_session()
    producer = await session.create_producer(Queue(name))
    brief = session.create_text_message("brief")
    brief.correlation_id = name
    await producer.send(brief, time_to_live=0.03)
    await producer.send(session.create_text_message("lasting"), time_to_live=60)
    await _clock.sleep(0.05)
    assert await take(await session.create_consumer(Queue(name)), 1) == ["lasting"]
    dead = await session.create_consumer(Queue("ActiveMQ.DLQ"), f"JMSCorrelationID = '{name}'")
    letter = await dead.receive(5)
    assert letter.original_destination == Queue(name)
    assert letter.expiration == 0
    cause = f"java.lang.Throwable: Message Expired. Expiration:{brief.expiration}"
    assert letter.properties["dlqDeliveryFailureCause"] == cause


async def test_groups_stay_with_their_consumer(connect: Any, name: str) -> None:
    connection = await connect()
    sessions = [await connection.create_session() for _ in range(2)]
    consumers = [await session.create_consumer(Queue(name)) for session in sessions]
    producer = await sessions[0].create_producer(Queue(name))
    for number in range(8):
        message = sessions[0].create_text_message(str(number))
        message.group_id = "odd" if number % 2 else "even"
        await producer.send(message)
    for consumer, expected in zip(consumers, ("0246", "1357"), strict=True):
        received = [await consumer.receive(5) for _ in expected]
        assert [message.text for message in received] == list(expected)
        first = [message.properties.get("JMSXGroupFirstForConsumer") for message in received]
        assert first == [True, *[False] * 3]


async def test_exclusive_consumers(connect: OpenConnection, name: str) -> None:
    connection = await connect()
    sessions = [await connection.create_session() for _ in range(2)]
    exclusive = Queue(f"{name}?consumer.exclusive=true")
    first, waiting = [await session.create_consumer(exclusive) for session in sessions]
    await send(sessions[0], Queue(name), "1", "2")
    assert await take(first, 2) == ["1", "2"]
    await first.close()
    await send(sessions[0], Queue(name), "3")
    assert await take(waiting, 1) == ["3"]


async def test_dups_ok(connect: OpenConnection, name: str) -> None:
    connection = await connect()
    session = await connection.create_session(acknowledge_mode=AcknowledgeMode.DUPS_OK)
    queue = await session.create_consumer(Queue(name))
    topic = await session.create_consumer(Topic(f"{name}?consumer.prefetchSize=4"))
    texts = [str(number) for number in range(20)]
    await send(session, Queue(name), *texts)
    await send(session, Topic(name), *texts)
    assert await take(queue, 20) == texts
    assert await take(topic, 20) == texts
    await session.close()
    session = await connection.create_session()
    assert await (await session.create_consumer(Queue(name))).receive(0.2) is None


async def test_another_connection_learns_that_a_temporary_queue_was_deleted(
    connect: OpenConnection,
) -> None:
    owner, other = await connect(), await connect()
    owning = await owner.create_session()
    temporary = await owning.create_temporary_queue()
    session = await other.create_session()
    await send_once_known(session, temporary, "there")
    assert await take(await owning.create_consumer(temporary), 1) == ["there"]
    with pytest.raises(InvalidDestinationException, match="from another Connection"):
        await session.create_consumer(temporary)
    await owner.close()
    with pytest.raises(JMSException, match=r"temp-queue://|deleted"):
        for _ in range(100):  # until the advisory or the broker says so
            await send(session, temporary, "gone")


async def test_temporary_topics(connect: OpenConnection) -> None:
    owner, other = await connect(), await connect()
    owning, session = await owner.create_session(), await other.create_session()
    temporary = await owning.create_temporary_topic()
    listening = await owning.create_consumer(temporary)
    await send_once_known(session, temporary, "x")
    assert await take(listening, 1) == ["x"]
    await listening.close()
    await owning.delete_temporary(temporary)
    with pytest.raises(JMSException):
        await send(owning, temporary, "y")


async def test_offline_durable_subscribers_catch_up(connect: OpenConnection, name: str) -> None:
    topic = Topic(name)
    first = await connect(client_id=name)
    session = await first.create_session()
    subscriber = await session.create_durable_subscriber(topic, "sub")
    await send(session, topic, "live")
    assert await take(subscriber, 1) == ["live"]
    with pytest.raises(JMSException, match="Durable consumer is in use"):
        await session.unsubscribe("sub")
    await first.close()
    sending = await (await connect()).create_session()
    await send(sending, topic, "persistent")
    await send(sending, topic, "brief", delivery_mode=DeliveryMode.NON_PERSISTENT)
    again = await (await connect(client_id=name)).create_session()
    subscriber = await again.create_durable_subscriber(topic, "sub")
    assert sorted(await take(subscriber, 2)) == ["brief", "persistent"]
    await subscriber.close()
    await again.unsubscribe("sub")


async def test_what_a_lost_connection_held_goes_to_another(connect: Any, name: str) -> None:
    holder = await connect()
    session = await holder.create_session(acknowledge_mode=AcknowledgeMode.CLIENT)
    await send(session, Queue(name), "1", "2")
    consumer = await session.create_consumer(Queue(name))
    assert await take(consumer, 1) == ["1"]
    with _clock.timeout(30):
        await until(lambda: consumer._buffer)
    await holder.transport.stop()
    other = await (await connect()).create_session()
    waiting = await other.create_consumer(Queue(name))
    received = [await waiting.receive(5) for _ in range(2)]
    assert [(m.text, m.delivery_count, m.redelivered) for m in received] == [
        ("1", 2, True),
        ("2", 2, True),
    ]


async def test_a_listener_on_an_idle_connection_is_kept_alive(
    connect: OpenConnection, name: str
) -> None:
    connection = await connect("wireFormat.maxInactivityDuration=300")
    session = await connection.create_session()
    heard = anyio.Event()
    consumer = await session.create_consumer(Queue(name))
    await consumer.set_message_listener(lambda _: heard.set())
    await _clock.sleep(1)
    await send(await (await connect()).create_session(), Queue(name), "still there")
    await heard.wait()
    assert connection.failure is None


@pytest.mark.fact("activemq-broker V7")
@pytest.mark.parametrize("pattern", ["*.it", ">"])
async def test_a_pattern_of_the_queues_of_virtual_topics(
    connect: OpenConnection, name: str, pattern: str
) -> None:
    session = await (await connect()).create_session()
    queue = Queue(f"Consumer.a.VirtualTopic.{name}.{pattern}")
    consumer = await session.create_consumer(queue)
    for each in "xy":
        await send(session, Topic(f"VirtualTopic.{name}.{each}.it"), each)
    assert await take(consumer, 2) == ["x", "y"]
    assert await consumer.receive(0.2) is None
