"""What was recorded of the calls on a provider and of its messages, with ours at two brokers.

At a real ActiveMQ 5.17.2 and at ours, each in a process of its own. The unit tests compare the same
recordings with a provider in memory, and in more detail.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory, SingleConnectionFactory
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.errors import IllegalStateException, MessageConversionException, MessageFormatException
from pyjms.jms.api import QueueBrowser, Session
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import MapMessage, Message, StreamMessage, TextMessage
from pyjms.support.converter import SimpleMessageConverter
from pyjms.support.destination import DynamicDestinationResolver
from pyjms.support.json_converter import JsonMessageConverter, MessageType
from pyjms.support.messaging import SimpleJmsHeaderMapper
from pyjms.template.template import JmsTemplate
from tests.kit.brokers.destination_names import destination_name
from tests.kit.clients.conversions import READ, VALUES, WRITTEN, as_recorded, outcome
from tests.kit.clients.counted_calls import CountedFactory
from tests.kit.clients.remote import RemoteClient, closing
from tests.kit.data import spring_oracle
from tests.kit.listeners.remote import build, diary, factory, until
from tests.kit.values import present

pytestmark = [pytest.mark.activemq, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

__all__ = ["build", "diary", "factory"]


async def all_of(_session: Session, browser: QueueBrowser) -> list[Message]:
    return [message async for message in browser]


@pytest.fixture
async def client(broker_url: str, request: pytest.FixtureRequest) -> AsyncIterator[RemoteClient]:
    """At either broker."""
    async with closing(RemoteClient(broker_url, destination_name(request))) as client:
        yield client


@pytest.fixture
def counted(factory: ConnectionFactory) -> CountedFactory:
    return CountedFactory(factory)


def by_name(client: RemoteClient) -> dict[str, Any]:
    """Options of a container that asks for the queue each time, as Spring 4.3 does."""
    name = f"{client.prefix}.q"
    resolver = DynamicDestinationResolver()
    return {"destination": None, "destination_name": name, "destination_resolver": resolver}


@pytest.mark.parametrize("variant", range(6))
async def test_what_ten_messages_make_and_close(
    variant: int, client: RemoteClient, counted: Any, build: Any
) -> None:
    expected = spring_oracle()["cache-levels"][variant]
    at_the_tenth = expected["callsWhenListenerSeesMessage10"]
    level, _, manager = expected["cacheLevel"].partition("+")
    tenth = anyio.Event()
    seen: dict[str, int] = {}

    async def listener(message: Any) -> None:
        if message.text == "m10":
            seen.update(counted.count(*at_the_tenth))
            tenth.set()

    options = by_name(client)
    if manager:
        options["transaction_manager"] = JmsTransactionManager(counted)
    container = build(listener, connection_factory=counted, session_transacted=True,
                      cache_level=level, receive_timeout=60, **options)  # fmt: skip
    await client.send("q", *(f"m{number}" for number in range(1, 11)))
    await container.start()
    assert container.cache_level == expected["effectiveLevel"]
    with anyio.fail_after(60):
        await tenth.wait()
    await container.shutdown()
    assert seen == at_the_tenth
    after = counted.count(*expected["callsAfterShutdown"])
    assert after["Connection.close"] == after["ConnectionFactory.createConnection"]
    assert after["Session.close"] == after["Connection.createSession"]
    assert after["Consumer.close"] == after["Session.createConsumer"]
    assert await client.left("q") == []


@pytest.mark.parametrize("variant", range(4))
async def test_what_idle_receives_call(
    variant: int, client: RemoteClient, counted: CountedFactory, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["idle-receives"][variant]
    recorded = expected["callsUpToThirdEmptyReceive"]
    wanted = [call for call in recorded if call != "Session.getTransacted"]  # a property here
    # a limit of messages: without one, our idle consumer waits a minute in one receive
    container = build(
        lambda _message: None, connection_factory=counted, session_transacted=True,
        cache_level=expected["cacheLevel"], receive_timeout=0.02, max_messages_per_task=1000,
        **by_name(client),
    )  # fmt: skip
    await container.start()
    await until(lambda: len(counted.calls) >= len(wanted))
    await container.shutdown()
    assert counted.calls[: len(wanted)] == wanted


FACTORIES: dict[str, Any] = {
    "raw": lambda counted: counted,
    "SingleConnectionFactory": SingleConnectionFactory,
    # Spring's own class caches consumers; ours does what Spring Boot sets up (decisions D18)
    "CachingConnectionFactory": partial(CachingConnectionFactory, cache_consumers=True),
}


@pytest.mark.parametrize("kind", FACTORIES)
async def test_calls_of_ten_sends_and_receives(
    kind: str, client: RemoteClient, counted: CountedFactory
) -> None:
    lines = spring_oracle()["connection-factories"]
    expected = next(line for line in lines if line["factory"] == kind)
    around = FACTORIES[kind](counted)
    template = JmsTemplate(around, receive_timeout=10.0)
    queue = client.destination("q")
    for number in range(10):
        await template.convert_and_send(queue, str(number))
    sends = expected["10 x convertAndSend to one queue"]
    assert counted.count(*sends) == sends
    counted.calls.clear()
    for number in range(10):
        assert await template.receive_and_convert(queue) == str(number)
    receives = expected["10 x receive from one queue"]
    assert counted.count(*receives) == receives
    if kind != "raw":
        await around.destroy()


async def test_details_of_a_caching_factory(client: RemoteClient, counted: Any) -> None:
    facts = spring_oracle()["connection-factories"][3]["facts"]
    caching = CachingConnectionFactory(counted, cache_consumers=True)
    connection = await caching.create_connection()
    opened = [await connection.create_session() for _ in range(2)]
    for session in opened:
        await session.close()
    made = ("Connection.createSession", "Session.close")
    assert counted.count(*made) == facts["two open AUTO sessions, both closed, cache size 1"]
    session = await connection.create_session()
    transacted = await connection.create_session(transacted=True)
    assert counted.count(*made) == facts["then one AUTO and one transacted session"]
    a, b = client.destination("a"), client.destination("b")
    producers: list[Destination | None] = [a, a, b, None]
    for destination in producers:
        await (await session.create_producer(destination)).close()
    key = "producers physically created for a, a again, b, null"
    assert counted.count("Session.createProducer") == {"Session.createProducer": facts[key]}
    temporary = await session.create_temporary_queue()
    for destination, selector in ((a, None), (a, None), (a, "x = '1'"), (temporary, None)):
        await (await session.create_consumer(destination, selector)).close()
    key = "consumers physically created for a, a again, a with selector, temporary queue"
    assert counted.count("Session.createConsumer") == {"Session.createConsumer": facts[key]}
    assert counted.count("Consumer.close") == {"Consumer.close": facts["physical consumer closes"]}
    producer = await transacted.create_producer(client.destination("t"))
    await producer.send(TextMessage("open"))
    await transacted.close()
    closing_calls = facts["closing a transacted cached session with open work"]
    assert counted.count(*closing_calls) == closing_calls
    transacted = await connection.create_session(transacted=True)
    producer = await transacted.create_producer(client.destination("t"))
    await producer.send(TextMessage("committed"))
    await transacted.commit()
    await transacted.close()
    assert counted.calls.count("Session.rollback") == facts["commit then close: further rollbacks"]
    assert await client.left("t") == facts["texts in t"]
    assert facts["setClientID on the proxy"] == "IllegalStateException"
    with pytest.raises(IllegalStateException):
        await connection.set_client_id("other")
    await connection.close()
    assert counted.calls.count("Connection.close") == 0
    await caching.destroy()
    assert counted.calls.count("Connection.close") == facts["after destroy()"]["Connection.close"]
    await caching.create_connection()
    again = facts["createConnection after destroy makes a new physical connection"]
    assert counted.calls.count("ConnectionFactory.createConnection") == again
    await caching.destroy()


async def test_details_of_a_single_factory(client: RemoteClient) -> None:
    facts = spring_oracle()["connection-factories"][4]["facts"]
    single = SingleConnectionFactory(client.factory(), client_id=client.prefix)
    connection = await single.create_connection()
    assert facts["setClientID with the same id"] == "ok"
    await connection.set_client_id(client.prefix)
    assert facts["setExceptionListener, reconnectOnException=false"] == "IllegalStateException"
    with pytest.raises(IllegalStateException):
        connection.exception_listener = print
    await single.destroy()
    assert facts["setExceptionListener, reconnectOnException=true"] == "ok"
    single = SingleConnectionFactory(client.factory(), reconnect_on_exception=True)
    (await single.create_connection()).exception_listener = print
    await single.destroy()


async def travelled(client: RemoteClient, messages: dict[str, Message]) -> dict[str, Message]:
    """Send each message through the broker; return the received messages."""
    template = JmsTemplate(client.factory(), receive_timeout=10.0)
    queue = client.destination("q")
    received: dict[str, Message] = {}
    async with await client.factory().create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(queue)
        for message in messages.values():
            await producer.send(message)
        consumer = await session.create_consumer(queue)
        for name in messages:
            received[name] = present(await consumer.receive(10))
    left: list[Message] = await template.browse(queue, all_of)
    assert left == []
    return received


async def test_properties_that_came_from_the_broker(client: RemoteClient) -> None:
    recorded = spring_oracle()["jms-property-conversion"]
    messages: dict[str, Message] = {}
    for row, write in WRITTEN.items():
        messages[row] = TextMessage(row)
        write(messages[row].properties)
    for row, message in (await travelled(client, messages)).items():
        seen = {read: outcome(partial(READ[read], message.properties)) for read in recorded[row]}
        assert seen == recorded[row], row
    names = [n for n, r in recorded["property names (ActiveMQ)"].items() if r == "accepted"]
    named = TextMessage("names")
    named.properties.update(dict.fromkeys(names, "1"))
    [arrived] = (await travelled(client, {"names": named})).values()
    names.remove("JMSPriority")  # the producer has another one
    assert {n: arrived.properties.get_string(n) for n in names} == dict.fromkeys(names, "1")


async def test_bodies_that_came_from_the_broker(client: RemoteClient) -> None:
    recorded = spring_oracle()["jms-bodies"]
    rows = [row for row in recorded["MapMessage"] if row != "(empty key)"]
    maps: dict[str, Message] = {row: MapMessage() for row in rows}
    for row, message in maps.items():
        if row in VALUES:
            assert isinstance(message, MapMessage)
            message["x"] = VALUES[row]
    for row, message in (await travelled(client, maps)).items():
        seen = {
            column: as_recorded(
                column,
                outcome(partial(getattr(message, f"get_{column.lower()}"), "x")),
            )
            for column in recorded["MapMessage"][row]
        }
        assert seen == recorded["MapMessage"][row], row
    streams: dict[str, Message] = {
        row: StreamMessage([VALUES.get(row)]) for row in recorded["StreamMessage"]
        if row in VALUES or row == "(null String written)"
    }  # fmt: skip
    for row, message in (await travelled(client, streams)).items():
        assert isinstance(message, StreamMessage)
        for column, wanted in recorded["StreamMessage"][row].items():
            message.reset()
            if column == "bytes" and isinstance(wanted, int):
                assert message.read_bytes_into(bytearray(8)) == wanted
            else:
                value = outcome(getattr(message, f"read_{column.lower()}"))
                assert as_recorded(column, value) == wanted, (row, column)


async def test_payloads_and_headers_that_came_from_the_broker(client: RemoteClient) -> None:
    recorded = spring_oracle()["converters"]
    simple, mapper = SimpleMessageConverter(), SimpleJmsHeaderMapper()
    session = await client.session()
    written = recorded["SimpleMessageConverter.toMessage"]
    payloads: dict[str, object] = {
        "String": "text", "byte[]": b"bytes", "Map": {"a": 1}, "Map with a List value": {"l": [1]},
    }  # fmt: skip
    arrived = await travelled(
        client, {name: simple.to_message(payload, session) for name, payload in payloads.items()}
    )
    for name, message in arrived.items():
        assert written[name] in {base.__name__ for base in type(message).__mro__}
        assert simple.from_message(message) == payloads[name]
    refused = {"Map with int key": {1: "a"}, "Map with a Date value": {"d": object()}, "null": None}
    for name, payload in refused.items():
        with pytest.raises((MessageConversionException, MessageFormatException)) as caught:
            simple.to_message(payload, session)
        assert caught.typename == written[name]

    headers: dict[str, Any] = {
        "jms_correlationId": 77, "jms_replyTo": Queue("r"), "jms_type": "T", "num": 5,
        "contentType": "json",
    }  # fmt: skip
    message = JsonMessageConverter(target_type=MessageType.TEXT).to_message({"a": 1}, session)
    mapper.from_headers(headers, message)
    [message] = (await travelled(client, {"json": message})).values()
    sent = recorded["SimpleJmsHeaderMapper.fromHeaders"]
    assert (message.correlation_id, message.type) == (sent["JMSCorrelationID"], sent["JMSType"])
    assert str(message.reply_to) == sent["JMSReplyTo"]
    expected = {*recorded["SimpleJmsHeaderMapper.toHeaders (name -> type)"], "jms_replyTo"}
    assert set(mapper.to_headers(message)) == expected
