"""Producers: JMS section 4.6."""

from __future__ import annotations

import gc
import weakref
from fractions import Fraction
from typing import Any, cast

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    DestinationDoesNotExistException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    MessageFormatException,
    MessageNotWriteableException,
    ResourceAllocationException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import MapMessage, TextMessage
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client
from tests.kit.clients.messages import text_of
from tests.kit.values import present


@pytest.mark.fact("jms-api 3.1", "activemq-edges N5")
async def test_bound_producers_send_to_their_destination_and_unbound_ones_to_the_named_one(
    client: Client,
) -> None:
    session = await client.session()
    message = session.create_text_message("x")
    bound = await session.create_producer(Queue("q"))
    assert bound.destination == Queue("q")
    await bound.send(message)
    await bound.send(message, destination=Queue("q"))
    with pytest.raises(
        UnsupportedOperationException, match="This producer can only send messages to: q"
    ):
        await bound.send(message, destination=Queue("other"))
    unbound = await session.create_producer()
    assert unbound.destination is None
    with pytest.raises(UnsupportedOperationException, match="A destination must be specified"):
        await unbound.send(message)
    for bad in ("q", 7):
        with pytest.raises(InvalidDestinationException):
            await unbound.send(message, destination=bad)  # type: ignore[arg-type]
    await unbound.send(message, destination=Queue("other"))
    assert await client.left("q") == ["x", "x"]
    assert await client.left("other") == ["x"]


@pytest.mark.fact("jms-api 3.1")
async def test_a_destination_comes_first_as_in_jms(client: Client) -> None:
    session = await client.session()
    message = session.create_text_message("x")
    unbound = await session.create_producer()
    bound = await session.create_producer(Queue("q"))
    await unbound.send(Queue("q"), message, priority=7)
    assert message.priority == 7
    await bound.send(Queue("q"), message)
    with pytest.raises(UnsupportedOperationException, match="can only send messages to: q"):
        await bound.send(Queue("other"), message)
    with pytest.raises(InvalidDestinationException, match="null destinations"):
        await unbound.send(None, message)  # type: ignore[arg-type]
    with pytest.raises(InvalidDestinationException, match="A str is not a destination: 'q'"):
        await unbound.send("q", message)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="The destination comes first"):
        await unbound.send(message, Queue("q"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Two destinations"):
        await unbound.send(Queue("q"), message, destination=Queue("q"))
    with pytest.raises(TypeError, match="sends messages, not a dict"):
        await unbound.send(Queue("q"), {"password": "secret"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sends messages, not a Queue"):
        await unbound.send(Queue("q"))
    assert await client.left("q") == ["x", "x"]


async def test_what_is_not_a_message_is_refused_without_quoting_it(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    for payload in ("secret", {"password": "secret"}):
        with pytest.raises(TypeError, match=r"sends messages, not a (str|dict)") as refused:
            await producer.send(payload)  # type: ignore[arg-type]
        assert "session.create_text_message" in str(refused.value)
        assert "secret" not in str(refused.value)
    with pytest.raises(InvalidDestinationException) as swapped:
        await session.create_producer({"password": "secret"})  # type: ignore[arg-type]
    assert str(swapped.value).startswith("A dict is not a destination (")
    assert await client.left("q") == []


async def test_arguments_of_wrong_types_are_named(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    consumer = await session.create_consumer(Queue("q"))
    message: Any = session.create_text_message("x")
    text: Any = "high"
    with pytest.raises(TypeError, match="not 'high'"):
        producer.priority = text
    for name, start in (
        ("priority", "priority is an int"),
        ("time_to_live", "time_to_live is a number of seconds"),
        ("delivery_delay", "delivery_delay is a number of seconds"),
    ):
        with pytest.raises(TypeError, match=f"{start}.*, not 'high'"):
            await producer.send(message, **{name: text})
    with pytest.raises(TypeError, match="timeout is a number of seconds"):
        await consumer.receive(text)
    with pytest.raises(TypeError, match="must be a str"):
        await session.create_consumer(Queue("q"), selector=cast("str", 5))
    assert await client.left("q") == []


async def test_numbers_of_other_classes_are_numbers(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    half: Any = Fraction(1, 2)
    await producer.send(session.create_text_message("x"), time_to_live=half, priority=True)
    producer.send_timeout = half
    consumer = await session.create_consumer(Queue("q"))
    received = await consumer.receive(half)
    assert received is not None
    assert (received.priority, received.expiration - received.timestamp) == (1, 500)
    assert await consumer.receive(half) is None


@pytest.mark.usefixtures("young_garbage")
async def test_objects_of_a_client_may_be_referenced_weakly(client: Client) -> None:
    connection = await client.connect()
    session = await connection.create_session()
    producer = await session.create_producer(Queue("q"))
    consumer = await session.create_consumer(Queue("q"))
    known = [weakref.ref(each) for each in (session, producer, consumer)]
    assert [each() for each in known] == [session, producer, consumer]
    await session.close()
    del session, producer, consumer
    gc.collect(0)
    assert [each() for each in known] == [None, None, None]


@pytest.mark.fact("jms-api 3.2")
async def test_the_defaults_of_a_producer(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    assert producer.delivery_mode == DeliveryMode.PERSISTENT
    assert int(DeliveryMode.PERSISTENT) == 2
    assert producer.priority == 4
    assert producer.time_to_live == 0
    assert producer.disable_message_id is False
    assert producer.disable_message_timestamp is False
    await producer.send(session.create_text_message("x"))
    (message,) = await client.take("q")
    assert (message.delivery_mode, message.priority, message.expiration) == (2, 4, 0)


@pytest.mark.fact("jms-api 3.3")
async def test_setters_refuse_what_a_send_cuts(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    for name, value in (
        ("priority", 10),
        ("priority", -1),
        ("delivery_mode", 5),
        ("time_to_live", -1),
    ):
        with pytest.raises(IllegalStateException):
            setattr(producer, name, value)
    message = session.create_text_message("x")
    with pytest.raises(IllegalStateException, match="Unknown delivery mode: 'persistent'"):
        await producer.send(message, delivery_mode="persistent")  # type: ignore[arg-type]
    await producer.send(message, priority=15, delivery_mode=cast("DeliveryMode", 7))
    await producer.send(message, priority=-3, delivery_mode=DeliveryMode.PERSISTENT)
    received = await client.take("q")
    assert [m.priority for m in received] == [9, 0]
    assert [m.delivery_mode for m in received] == [
        DeliveryMode.NON_PERSISTENT,
        DeliveryMode.PERSISTENT,
    ]
    assert client.oracle("jms-client-rules")["send with priority 15 arrives with priority"] == 9


async def test_a_priority_out_of_range_is_told_once(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("urgent.told"))
    for _ in range(3):
        await producer.send(session.create_text_message("x"), priority=12)
    told = [line for line in caplog.messages if "urgent.told are sent with priority 9" in line]
    assert len(told) == 1


@pytest.mark.fact("jms-api 3.4")
async def test_send_sets_the_headers_of_the_senders_object(
    client: Client, clock: VirtualClock
) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    message = session.create_text_message("first")
    message.message_id = "ID:mine"
    message.delivery_mode = DeliveryMode.NON_PERSISTENT
    message.priority = 9
    message.expiration = 1
    message.timestamp = 1
    message.destination = Queue("elsewhere")
    await producer.send(message, time_to_live=60, priority=7)
    now = clock.time_ms()
    assert message.destination == Queue("q")
    assert message.delivery_mode == DeliveryMode.PERSISTENT
    assert message.priority == 7
    assert message.timestamp == now
    assert message.expiration == now + 60_000
    first_id = message.message_id
    assert first_id.startswith("ID:")
    assert first_id == f"{producer.producer_id}:1"
    message.text = "second"
    await producer.send(message)
    assert message.message_id == f"{producer.producer_id}:2"
    received = await client.take("q")
    assert [text_of(m) for m in received] == ["first", "second"]
    assert [m.message_id for m in received] == [first_id, message.message_id]
    recorded = client.oracle("jms-raw-listeners")
    assert recorded["same message object sent twice has a new id"] is True


@pytest.mark.fact("jms-api 3.5", "jms-api 14/TTL with timestamps disabled")
async def test_ids_are_always_set_and_no_timestamp_means_no_expiration(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    producer.disable_message_id = True
    producer.disable_message_timestamp = True
    await producer.send(session.create_text_message("x"), time_to_live=60)
    (message,) = await client.take("q")
    recorded = client.oracle("template-qos")[
        "message id and timestamp disabled, ttl 60000 (ActiveMQ 5.x)"
    ]
    assert recorded == {
        "hasMessageId": message.message_id is not None,
        "timestamp": message.timestamp,
        "expiration": message.expiration,
    }


@pytest.mark.fact("jms-api 3.6")
async def test_expiration_counts_from_the_send_not_from_the_commit(
    client: Client, clock: VirtualClock
) -> None:
    session = await client.session(AcknowledgeMode.TRANSACTED)
    producer = await session.create_producer(Queue("q"))
    message = session.create_text_message("x")
    sent_at = clock.time_ms()
    await producer.send(message, time_to_live=10)
    assert message.expiration == sent_at + 10_000
    await clock.sleep(4)
    await session.commit()
    (received,) = await client.take("q")
    assert received.expiration == sent_at + 10_000
    await producer.send(message)
    assert message.expiration == 0


@pytest.mark.fact("jms-api 3.8", "jms-api 13/InvalidDestinationException")
async def test_a_deleted_temporary_destination_is_refused_by_every_client(client: Client) -> None:
    session = await client.session()
    other = await client.session()
    blind = await client.session(watch_topic_advisories=False)
    temporary = await session.create_temporary_queue()
    await client.settle()
    producers = [await s.create_producer() for s in (session, other)]
    for producer in producers:
        await producer.send(TextMessage("x"), destination=temporary)
    await session.delete_temporary(temporary)
    await client.settle()
    for producer in producers:
        with pytest.raises(
            InvalidDestinationException, match="Cannot publish to a deleted Destination"
        ):
            await producer.send(TextMessage("x"), destination=temporary)
    unaware = await blind.create_producer()
    with pytest.raises(DestinationDoesNotExistException) as refusal:
        await unaware.send(TextMessage("x"), destination=temporary)
    assert type(refusal.value).__mro__[1] is JMSException
    with pytest.raises(InvalidDestinationException, match="from another Connection"):
        await other.create_consumer(await session.create_temporary_queue())
    with pytest.raises(InvalidDestinationException, match="null"):
        await other.create_consumer(None)  # type: ignore[arg-type]
    named = await client.session(client_id="me")
    with pytest.raises(InvalidDestinationException):
        await named.unsubscribe("unknown")


@pytest.mark.fact("jms-api 3.9")
async def test_anothers_message_is_copied(client: Client) -> None:
    class Foreign(MapMessage):
        """A message class of somebody else."""

        __slots__ = ("own",)

    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    message: Any = Foreign()
    message.own = object()
    message.set_string("name", "value")
    message.properties["number"] = 7
    message.type = "kind"
    message.correlation_id = "c-1"
    message.reply_to = Queue("answers")
    await producer.send(message)
    (received,) = await client.take("q")
    assert type(received) is MapMessage
    assert received.get_string("name") == "value"
    assert dict(received.properties) == {"number": 7}
    assert (received.type, received.correlation_id) == ("kind", "c-1")
    assert received.reply_to == Queue("answers")


@pytest.mark.fact("jms-api 3.12")
async def test_a_closed_producer_refuses_all_but_close(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    await producer.close()
    await producer.close()
    with pytest.raises(IllegalStateException, match="The producer is closed"):
        await producer.send(session.create_text_message("x"))
    with pytest.raises(IllegalStateException):
        producer.priority = 3
    with pytest.raises(IllegalStateException):
        assert producer.destination


async def test_a_received_message_can_be_sent_on(client: Client) -> None:
    await client.send("q", "x")
    session = await client.session(AcknowledgeMode.CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    message = present(await consumer.receive(1))
    producer = await session.create_producer(Queue("next"))
    await producer.send(message)
    message.acknowledge()
    await session.close()
    (received,) = await client.take("next")
    assert client.delivery(received) == "x#1"
    assert await client.left("q") == []


@pytest.mark.fact("activemq-broker B15")
async def test_consumers_of_the_process_share_no_message_with_each_other_or_the_sender(
    client: Client,
) -> None:
    """vm:// passes commands as objects: a change must not be visible to others."""
    session = await client.session()
    topic = Topic("shared")
    consumers = [await session.create_consumer(topic) for _ in range(2)]
    producer = await session.create_producer(topic)
    sent = session.create_map_message()
    sent["text"], sent["list"] = "as sent", [1]
    sent.properties["colour"] = "red"
    await producer.send(sent)
    sent["text"], sent.properties["colour"] = "later", "blue"
    first = await consumers[0].receive(timeout=5)
    assert isinstance(first, MapMessage)
    assert (first["text"], first["list"], dict(first.properties)) == (
        "as sent",
        [1],
        {"colour": "red"},
    )
    cast("list[object]", first["list"]).append(2)
    first.clear_body()
    first.clear_properties()
    first["text"] = first.properties["colour"] = "mine"
    second = await consumers[1].receive(timeout=5)
    assert isinstance(second, MapMessage)
    assert (second["text"], second["list"], dict(second.properties)) == (
        "as sent",
        [1],
        {"colour": "red"},
    )
    assert (sent["text"], dict(sent.properties)) == ("later", {"colour": "blue"})


async def test_without_copy_a_sent_message_becomes_read_only(client: Client) -> None:
    session = await client.session(copy_message_on_send=False)
    producer = await session.create_producer(Queue("q"))
    message = session.create_text_message("x")
    await producer.send(message)
    with pytest.raises(MessageNotWriteableException):
        message.text = "y"
    with pytest.raises(MessageNotWriteableException):
        message.properties["a"] = 1


async def test_the_window_holds_senders_back(client: Client) -> None:
    session = await client.session(producer_window_size=2048, use_async_send=True)
    producer = await session.create_producer(Queue("q"))
    for number in range(20):
        await producer.send(session.create_text_message(f"{number:06}"))
    await client.settle()
    assert present(producer.window).usage == 0
    assert len(await client.left("q")) == 20


@pytest.mark.fact("jms-api 3.13")
@pytest.mark.parametrize("version", [1, 2, 3, 12])
@pytest.mark.parametrize("scheme", ["vm", "tcp"])
async def test_a_window_applies_from_the_wire_version_on_that_has_producer_acks(
    caplog: pytest.LogCaptureFixture, version: int, scheme: str
) -> None:
    options = f"wireFormat.version={version}&jms.producerWindowSize=1500&jms.useAsyncSend=true"
    async with EmbeddedTestBroker() as broker:
        vm_url, tcp_url = f"{broker.url}&marshal=true&{options}", await broker.tcp_url()
        url = vm_url if scheme == "vm" else f"{tcp_url.partition('?')[0]}?{options}"
        await check_window(url, has_acks=version >= 3)
    warned = [record.message for record in caplog.records if "ProducerAck" in record.message]
    assert len(warned) == (version < 3)
    assert all(f"OpenWire {version} has no ProducerAck" in text for text in warned)


async def check_window(url: str, *, has_acks: bool) -> None:
    async with await ConnectionFactory(url).create_connection() as connection:
        session = await connection.create_session()
        for _ in range(2):
            producer = await session.create_producer(Queue("q"))
            for number in range(20):
                await producer.send(session.create_text_message(str(number)))
            assert (producer.window is not None) is has_acks


async def test_a_tight_loop_of_sends_lets_others_run(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    turns = 0
    stop = False

    async def other() -> None:
        nonlocal turns
        while not stop:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(1000):
            await producer.send(session.create_text_message("x" * 1000))
        stop = True
    assert turns >= 5


async def test_compression_timestamps_and_containers_follow_the_options(client: Client) -> None:
    session = await client.session(
        use_compression=True, disable_time_stamps_by_default=True, nested_map_and_list_enabled=False
    )
    producer = await session.create_producer(Queue("q"))
    await producer.send(session.create_text_message("x" * 10_000))
    await client.settle()
    (reference,) = client.broker.service.region_broker.destinations()[Queue("q")].browse()
    assert reference.message.compressed
    assert len(present(reference.message.content)) < 1000
    (message,) = await client.take("q")
    assert isinstance(message, TextMessage)
    assert (message.text, message.timestamp) == ("x" * 10_000, 0)
    nested = session.create_map_message()
    nested.set_object("list", [1, 2])
    with pytest.raises(MessageFormatException):
        await producer.send(nested)
    plain = await (await client.session()).create_producer(Queue("q"))
    await plain.send(nested)


@pytest.mark.fact("jms-api 13/ResourceAllocationException")
async def test_a_full_destination_that_fails_sends_is_a_resource_error(clock: VirtualClock) -> None:
    service = BrokerService(
        "small", persistent=False, memory_limit=20_000, send_fail_if_no_space=True
    )
    async with (
        EmbeddedTestBroker(service) as broker,
        await ConnectionFactory(broker.url).create_connection() as connection,
    ):
        session = await connection.create_session()
        producer = await session.create_producer(Queue("q"))
        with pytest.raises(ResourceAllocationException):
            for _ in range(40):
                await producer.send(session.create_text_message("x" * 1000))


async def test_a_producer_refused_by_the_broker_does_not_fail_the_connection(
    client: Client,
) -> None:
    """It is not registered, so it is not removed either: the broker would report an error."""
    failures: list[BaseException] = []
    async with await client.factory().create_connection() as other:
        other.exception_listener = failures.append
        await other.start()
        asker = await client.session()
        gone = await asker.create_temporary_queue()
        await asker.delete_temporary(gone)
        session = await other.create_session()
        with pytest.raises(JMSException):
            await session.create_producer(gone)
        await session.create_producer(Queue("q"))  # an answer comes after errors sent before
        assert failures == []
