"""Our client on each broker: the same expectations, but for the differences of docs/peers.md."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
)
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.types import Byte, Char, Float, Long, Short
from tests.kit.brokers.comparison import OpenConnection
from tests.kit.clients.messages import text_of
from tests.kit.servers.peers import Peer


def texts(messages: list[Message]) -> list[str | None]:
    assert all(isinstance(m, TextMessage) for m in messages)
    return [m.text for m in messages if isinstance(m, TextMessage)]


async def receive_all(consumer: ActiveMQMessageConsumer, timeout: float = 0.3) -> list[Message]:
    got = []
    while (message := await consumer.receive(timeout)) is not None:
        got.append(message)
    return got


@pytest.mark.parametrize("compressed", [False, True])
async def test_each_message_kind_with_headers_and_properties(
    connect: OpenConnection, name: str, compressed: bool
) -> None:
    connection = await connect(use_compression=compressed)
    session = await connection.create_session()
    producer = await session.create_producer(Queue(name))
    consumer = await session.create_consumer(Queue(name))

    text = session.create_text_message("grüße, 世界 \U0001f600\0" * 300)
    data = session.create_bytes_message(bytes(range(256)) * 8)
    mapped = session.create_map_message()
    mapped.set_string("s", "v")
    mapped.set_int("i", -7)
    mapped.set_bytes("b", b"\0\1")
    stream = session.create_stream_message()
    for value in (True, Byte(-3), Short(300), 70000, Long(5), Float(1.5), 2.25, "x", Char("c")):
        stream.write_object(value)
    serialized = session.create_object_message(bytes.fromhex("aced000574000568656c6c6f"))
    plain = session.create_message()
    sent = [text, data, mapped, stream, serialized, plain]
    for message in sent:
        message.correlation_id = "corr"
        message.type = "kind"
        message.reply_to = Topic("answers")
        message.properties["n"] = 42
        message.properties["s"] = "value"
        message.properties["JMSXGroupID"] = "group"
        await producer.send(message, priority=7, time_to_live=60)
    received = await receive_all(consumer)
    assert [type(m) for m in received] == [
        TextMessage,
        BytesMessage,
        MapMessage,
        StreamMessage,
        ObjectMessage,
        Message,
    ]
    for before, after in zip(sent, received, strict=True):
        assert after.message_id == before.message_id
        assert after.timestamp == before.timestamp
        assert after.expiration == before.timestamp + 60_000
        assert (after.priority, after.delivery_mode) == (7, DeliveryMode.PERSISTENT)
        assert (after.correlation_id, after.type, after.group_id) == ("corr", "kind", "group")
        assert after.reply_to == Topic("answers")
        assert after.destination == Queue(name)
        assert after.properties["n"] == 42
        assert after.properties["s"] == "value"
        assert (after.redelivered, after.delivery_count) == (False, 1)
    got_text, got_data, got_map, got_stream, got_object, _ = received
    assert isinstance(got_text, TextMessage)
    assert got_text.text == text.text
    assert isinstance(got_data, BytesMessage)
    assert got_data.data == bytes(range(256)) * 8
    assert isinstance(got_map, MapMessage)
    assert isinstance(got_stream, StreamMessage)
    assert dict(got_map.items()) == {"s": "v", "i": -7, "b": b"\0\1"}
    values = [got_stream.read_object() for _ in range(9)]
    assert values == [True, -3, 300, 70000, 5, 1.5, 2.25, "x", "c"]
    assert [type(v) for v in values] == [bool, Byte, Short, int, Long, Float, float, str, Char]
    assert isinstance(got_object, ObjectMessage)
    assert got_object.data == serialized.data


async def test_commit_and_rollback(connect: OpenConnection, name: str) -> None:
    connection = await connect()
    session = await connection.create_session(transacted=True)
    other = await connection.create_session()
    producer = await session.create_producer(Queue(name))
    watcher = await other.create_consumer(Queue(name))
    await producer.send(session.create_text_message("dropped"))
    await session.rollback()
    await producer.send(session.create_text_message("1"))
    await producer.send(session.create_text_message("2"))
    assert await watcher.receive(0.2) is None
    await session.commit()
    assert texts(await receive_all(watcher)) == ["1", "2"]


async def test_rollback_redelivers_then_dead_letters(connect: Any, name: str, peer: Peer) -> None:
    connection = await connect()
    connection.redelivery_policy.maximum_redeliveries = 2
    session = await connection.create_session(transacted=True)
    producer = await session.create_producer(Queue(name))
    for text in ("good", "bad", "after"):
        await producer.send(session.create_text_message(text))
    await session.commit()
    consumer = await session.create_consumer(Queue(name))
    deliveries = []
    while (message := await consumer.receive(0.5)) is not None:
        deliveries.append((message.text, message.delivery_count, message.redelivered))
        await (session.rollback() if message.text == "bad" else session.commit())
    assert deliveries == [
        ("good", 1, False),
        ("bad", 1, False),
        ("bad", 2, True),
        ("bad", 3, True),
        ("after", 1, False),
    ]
    reader = await connection.create_session()
    dlq = await reader.create_consumer(peer.dead_letters)
    dead = peer.dead_from(Queue(name), await receive_all(dlq), ["bad"])
    assert texts(dead) == ["bad"]
    assert peer.names(dead[0]) == ["dlqDeliveryFailureCause"]
    cause = str(dead[0].properties["dlqDeliveryFailureCause"])
    assert cause.startswith(
        "java.lang.Throwable: Delivery[3] exceeds redelivery policy limit:RedeliveryPolicy {"
    )


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
async def test_acknowledge_modes(connect: Any, name: str, mode: AcknowledgeMode) -> None:
    connection = await connect()
    session = await connection.create_session(acknowledge_mode=mode)
    producer = await session.create_producer(Queue(name))
    for text in "abcdefgh":
        await producer.send(session.create_text_message(text))
    consumer = await session.create_consumer(Queue(f"{name}?consumer.prefetchSize=4"))
    got = [await consumer.receive(1) for _ in range(6)]
    assert texts(got) == list("abcdef")
    got[1].acknowledge()
    await session.close()
    session = await connection.create_session()
    rest = await receive_all(await session.create_consumer(Queue(name)))
    if mode == AcknowledgeMode.CLIENT:
        assert [(text_of(m), m.delivery_count) for m in rest] == [("g", 1), ("h", 1)]
    else:
        assert texts(rest) == list("acdefgh")
        assert [m.redelivered for m in rest] == [True] * 5 + [False] * 2


async def test_recover(connect: Any, name: str) -> None:
    connection = await connect()
    session = await connection.create_session(acknowledge_mode=AcknowledgeMode.CLIENT)
    producer = await session.create_producer(Queue(name))
    for text in "abc":
        await producer.send(session.create_text_message(text))
    consumer = await session.create_consumer(Queue(name))
    assert texts([await consumer.receive(1), await consumer.receive(1)]) == ["a", "b"]
    await session.recover()
    got = await receive_all(consumer)
    assert [(text_of(m), m.delivery_count) for m in got] == [("a", 2), ("b", 2), ("c", 1)]
    got[-1].acknowledge()
    await session.close()
    session = await connection.create_session()
    assert await receive_all(await session.create_consumer(Queue(name))) == []


async def test_a_failing_listener_dead_letters(connect: Any, name: str, peer: Peer) -> None:
    connection = await connect()
    connection.redelivery_policy.maximum_redeliveries = 1
    session = await connection.create_session()
    producer = await session.create_producer(Queue(name))
    consumer = await session.create_consumer(Queue(name))
    seen: list[tuple[str, int]] = []
    done = anyio.Event()

    async def listener(message: TextMessage) -> None:
        seen.append((str(message.text), message.delivery_count))
        if message.text == "good":
            done.set()
        else:
            raise ValueError("boom")

    await consumer.set_message_listener(listener)
    for text in ("bad", "good"):
        await producer.send(session.create_text_message(text))
    await done.wait()
    assert seen == [("bad", 1), ("bad", 2), ("good", 1)]
    reader = await connection.create_session()
    dead = await receive_all(await reader.create_consumer(peer.dead_letters))
    mine = peer.dead_from(Queue(name), dead, ["bad"])
    assert texts(mine) == ["bad"]
    assert str(mine[0].properties["dlqDeliveryFailureCause"]).endswith("cause:ValueError: boom")


async def test_request_and_reply_over_a_temporary_queue(connect: Any, name: str) -> None:
    asking, answering = await connect(), await connect()
    session = await asking.create_session()
    replies = await session.create_temporary_queue()
    inbox = await session.create_consumer(replies)
    other = await answering.create_session()
    service = await other.create_consumer(Queue(name))
    replier = await other.create_producer()

    async def answer(message: TextMessage) -> None:
        reply = other.create_text_message(f"re: {message.text}")
        reply.correlation_id = message.message_id
        await replier.send(reply, destination=message.reply_to)

    await service.set_message_listener(answer)
    producer = await session.create_producer(Queue(name))
    for number in range(5):
        request = session.create_text_message(str(number))
        request.reply_to = replies
        await producer.send(request)
        reply = await inbox.receive(5)
        assert (reply.text, reply.correlation_id) == (f"re: {number}", request.message_id)
    await inbox.close()
    await session.delete_temporary(replies)
    with pytest.raises(InvalidDestinationException):
        await producer_to(session, replies)


async def producer_to(session: ActiveMQSession, destination: Queue | TemporaryQueue) -> None:
    producer = await session.create_producer()
    await producer.send(session.create_text_message("x"), destination=destination)


async def test_a_virtual_topic(connect: Any, name: str, peer: Peer) -> None:
    connection = await connect()
    session = await connection.create_session()
    topic = Topic(f"VirtualTopic.{name}")
    queues = [Queue(f"Consumer.{who}.{topic.physical_name}") for who in "AB"]
    consumers = [await session.create_consumer(queue) for queue in queues]
    plain = await session.create_consumer(topic)
    producer = await session.create_producer(topic)
    for text in ("1", "2", "3"):
        await producer.send(session.create_text_message(text))
    for consumer, queue in zip(consumers, queues, strict=True):
        got = [await consumer.receive(5) for _ in range(3)]
        assert texts(got) == ["1", "2", "3"]
        if peer.differs("virtual_topic_headers"):
            assert {m.destination.physical_name for m in got} == {topic.physical_name}
            assert {m.original_destination for m in got} == {None}
        else:
            assert {m.destination for m in got} == {queue}
            assert {m.original_destination for m in got} == {topic}
    assert texts([await plain.receive(5) for _ in range(3)]) == ["1", "2", "3"]
    assert await receive_all(plain) == []


async def test_topics_selectors_and_durable_subscriptions(
    connect: OpenConnection, name: str
) -> None:
    async def subscribe() -> list[str | None]:
        connection = await connect(client_id=f"client.{name}")
        session = await connection.create_session()
        subscriber = await session.create_durable_subscriber(Topic(name), "s", "n > 1")
        got = texts(await receive_all(subscriber))
        await connection.close()
        return got

    connection = await connect()
    session = await connection.create_session()
    assert await subscribe() == []
    producer = await session.create_producer(Topic(name))
    for n in (1, 2, 3):
        message = session.create_text_message(str(n))
        message.properties["n"] = n
        await producer.send(message)
    assert await subscribe() == ["2", "3"]
    owner = await connect(client_id=f"client.{name}")
    with pytest.raises(InvalidClientIDException):
        await connect(client_id=f"client.{name}")
    owning = await owner.create_session()
    await owning.unsubscribe("s")
    with pytest.raises(InvalidDestinationException):
        await owning.unsubscribe("s")
    with pytest.raises(InvalidSelectorException):
        await session.create_consumer(Topic(name), "not a selector")


async def test_browse_pull_and_many_messages(connect: Any, name: str) -> None:
    connection = await connect()
    session = await connection.create_session()
    producer = await session.create_producer(Queue(name))
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    wanted = [str(n) for n in range(3000)]
    for text in wanted:
        await producer.send(session.create_text_message(text))
    await producer_to(session, Queue(f"{name}.barrier"))
    browser = await session.create_browser(Queue(name))
    assert len([m async for m in browser]) > 0
    puller = await session.create_consumer(Queue(f"{name}?consumer.prefetchSize=0"))
    assert texts([await puller.receive(1), await puller.receive_no_wait()]) == wanted[:2]
    await puller.close()
    consumer = await session.create_consumer(Queue(name))
    got = [await consumer.receive(5) for _ in range(2998)]
    assert texts(got) == wanted[2:]
    empty = await session.create_consumer(Queue(f"{name}.empty?consumer.prefetchSize=0"))
    assert await empty.receive_no_wait() is None
    assert await empty.receive(0.1) is None


async def test_a_transaction_larger_than_the_prefetch(connect: Any, name: str) -> None:
    connection = await connect()
    session = await connection.create_session(transacted=True)
    producer = await session.create_producer(Queue(name))
    for n in range(50):
        await producer.send(session.create_text_message(str(n)))
    await session.commit()
    consumer = await session.create_consumer(Queue(f"{name}?consumer.prefetchSize=5"))
    got = [await consumer.receive(2) for _ in range(50)]
    assert texts(got) == [str(n) for n in range(50)]
    await session.commit()
    assert await consumer.receive(0.2) is None


@pytest.mark.parametrize(
    "options",
    [
        {"optimize_acknowledge": True},
        {"send_acks_async": False},
        {"producer_window_size": 4096, "use_async_send": True},
        {"always_sync_send": True},
        {"transacted_individual_ack": True},
        {"message_priority_supported": True},
        {"watch_topic_advisories": False},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_with_options(connect: Any, name: str, peer: Peer, options: dict[str, Any]) -> None:
    connection = await connect(**options)
    individual = options.keys() & {"transacted_individual_ack", "message_priority_supported"}
    stops_at_prefetch = bool(individual) and peer.differs("credit_in_a_transaction")
    for transacted in (False, True):
        queue = Queue(f"{name}.{next(iter(options))}.{transacted}")
        session = await connection.create_session(transacted)
        producer = await session.create_producer(queue)
        consumer = await session.create_consumer(
            Queue(f"{queue.physical_name}?consumer.prefetchSize=10")
        )
        for n in range(40):
            await producer.send(session.create_text_message(str(n)))
        if transacted:
            await session.commit()
        batch = 10 if transacted and stops_at_prefetch else 40
        for start in range(0, 40, batch):
            got = [await consumer.receive(5) for _ in range(batch)]
            assert texts(got) == [str(n) for n in range(start, start + batch)]
            if batch < 40:
                assert await consumer.receive(0.2) is None
            if transacted:
                await session.commit()
        await session.close()
        session = await connection.create_session()
        assert await receive_all(await session.create_consumer(queue)) == []


async def test_what_the_broker_refuses_is_raised(connect: OpenConnection, peer: Peer) -> None:
    connection = await connect(watch_topic_advisories=False)
    session = await connection.create_session()
    temporary = await session.create_temporary_queue()
    await session.delete_temporary(temporary)
    if peer.differs("deleted_temporary"):  # it creates it again
        await producer_to(session, temporary)
        return
    with pytest.raises(JMSException):
        await producer_to(session, temporary)
