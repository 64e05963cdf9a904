"""Hostile fields through every protocol: the consumers of every protocol get the next message."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlencode

import anyio
import httpx
import pytest

from pyjms.aio import ConnectionFactory, TextMessage
from pyjms.client.connection import ActiveMQConnection
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.session import ActiveMQSession
from pyjms.errors import JMSException, LocalProtocolError
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import ActiveMQMessage, ActiveMQTextMessage, ExceptionResponse
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import encode_map, encode_text
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms_broker.filters.composite_queues import CompositeQueue
from pyjms_broker.region.queue import Queue as RegionQueue
from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.openwire_attacker import Peer
from tests.kit.stomp.client import StompClient, real_time_limit

FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
NEXT: Final = "next"
LIMIT: Final = 40_000
"""The size of the longest frames of OpenWire, so that frames are tried, too."""

Value: TypeAlias = str | int


class Field(NamedTuple):
    """A field: its attribute in a command of OpenWire, and its names in other protocols."""

    attribute: str
    stomp: str
    web: str


TEXTS: Final = (
    Field("type", "type", "JMSType"),
    Field("correlation_id", "correlation-id", "JMSCorrelationID"),
    Field("group_id", "JMSXGroupID", "JMSXGroupID"),
    Field("reply_to", "reply-to", "JMSReplyTo"),
    Field("user_id", "JMSXUserID", "JMSXUserID"),
    Field("property", "colour", "colour"),
    Field("name", "", ""),
    Field("content", "", ""),
)
NUMBERS: Final = (
    Field("priority", "priority", "JMSPriority"),
    Field("group_sequence", "JMSXGroupSeq", "JMSXGroupSeq"),
    Field("expiration", "expires", "JMSTimeToLive"),
    Field("timestamp", "timestamp", "JMSTimestamp"),
    Field("redelivery_counter", "JMSXDeliveryCount", "JMSXDeliveryCount"),
    Field("property", "colour", "colour"),
)
VALUES: Final[Sequence[tuple[Sequence[Field], Sequence[Value]]]] = (
    (TEXTS, ("x" * 37_000, "x" * 65_000, "\U0001f600" * 12_000, "\ud800", "\0\n")),
    (NUMBERS, (-1, (1 << 31) - 1, 1 << 31, (1 << 63) - 1)),
)
HOSTILE: Final = [(f, v) for fields, values in VALUES for f in fields for v in values]


class Sender(ABC):
    """Sends messages by one protocol."""

    @abstractmethod
    async def send(self, destination: Destination, field: Field, value: Value) -> str | None:
        """Send a message with this value; return why it was refused."""

    @abstractmethod
    async def send_next(self, destination: Destination) -> None:
        """Send the message that each consumer must get."""


def command_with(peer: Peer, destination: Destination, field: str, value: Value) -> ActiveMQMessage:
    found = peer.message(destination)
    message = ActiveMQTextMessage(
        peer.producer_id,
        destination,
        message_id=found.message_id,
        content=encode_text(str(value) if field == "content" else "odd"),
        priority=4,
    )
    if field == "property":
        kept = Long(value) if isinstance(value, int) else value
        message.marshalled_properties = encode_map({"colour": kept})
    elif field == "name":
        message.marshalled_properties = encode_map({str(value): 1})
    elif field == "reply_to":
        message.reply_to = Queue(str(value))
    elif field != "content":
        setattr(message, field, value)
    return message


class OpenWireSender(Sender):
    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def adapt(self, message: ActiveMQMessage) -> ActiveMQMessage:
        return message

    async def send(self, destination: Destination, field: Field, value: Value) -> str | None:
        try:
            message = self.adapt(command_with(self._peer, destination, field.attribute, value))
            answer = await self._peer.ask(message)
        except JMSException as error:  # it is no frame of OpenWire
            return str(error)
        if not isinstance(answer, ExceptionResponse):
            return None
        assert answer.exception is not None
        return answer.exception.message

    async def send_next(self, destination: Destination) -> None:
        message = command_with(self._peer, destination, "content", NEXT)
        assert not isinstance(await self._peer.ask(message), ExceptionResponse)


class ScheduledSender(OpenWireSender):
    """Sends messages that the scheduler delivers."""

    def adapt(self, message: ActiveMQMessage) -> ActiveMQMessage:
        if message.marshalled_properties is None:
            message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": Long(1)})
        return message


class ClientSender(Sender):
    """Our client in the broker's process, whose messages are not marshalled."""

    def __init__(self, session: ActiveMQSession) -> None:
        self._session = session

    async def send(self, destination: Destination, field: Field, value: Value) -> str | None:
        message = TextMessage(str(value) if field.attribute == "content" else "odd")
        name = field.attribute
        try:
            if name == "reply_to":
                message.reply_to = Queue(str(value))
            elif name in {"type", "correlation_id"}:
                setattr(message, name, value)
            elif name == "name":
                message.properties[str(value)] = 1
            else:
                message.properties[field.web or "colour"] = value
            producer = await self._session.create_producer(destination)
            await producer.send(message)
        except (JMSException, ValueError) as error:
            return str(error)
        return None

    async def send_next(self, destination: Destination) -> None:
        producer = await self._session.create_producer(destination)
        await producer.send(TextMessage(NEXT))


def path(destination: Destination) -> str:
    kind = "topic" if destination.is_topic else "queue"
    return f"/{kind}/{destination.physical_name}"


class StompSender(Sender):
    def __init__(self, port: int) -> None:
        self._port = port

    async def _send(
        self, destination: Destination, headers: dict[str, str], body: str
    ) -> str | None:
        async with await anyio.connect_tcp("127.0.0.1", self._port) as stream:
            client = StompClient(stream)
            await client.connect()
            given = {"destination": path(destination), **headers}
            try:
                frame = await client.ask("SEND", given, body.encode("utf-8", "replace"))
            except LocalProtocolError as error:
                return str(error)
            return frame.headers["message"] if frame.command == "ERROR" else None

    async def send(self, destination: Destination, field: Field, value: Value) -> str | None:
        if field.attribute == "content":
            return await self._send(destination, {}, str(value))
        name = field.stomp or str(value).encode("utf-8", "replace").decode()
        return await self._send(destination, {name: str(value)}, "odd")

    async def send_next(self, destination: Destination) -> None:
        assert await self._send(destination, {}, NEXT) is None


class WebSender(Sender):
    """Sends by REST."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def post(self, destination: Destination, **form: str) -> str | None:
        kind = "topic" if destination.is_topic else "queue"
        given = {"body": "odd", "JMSDeliveryMode": "non_persistent", **form}
        data = urlencode(given, errors="surrogatepass")
        where = f"/api/message/{destination.physical_name}?type={kind}"
        answer = await self.client.post(where, content=data, headers=FORM)
        assert answer.status_code in {200, 400}, answer.text
        return None if answer.status_code == 200 else answer.text

    async def send(self, destination: Destination, field: Field, value: Value) -> str | None:
        name = "body" if field.attribute == "content" else field.web or "colour"
        return await self.post(destination, **{name: str(value)})

    async def send_next(self, destination: Destination) -> None:
        assert await self.post(destination, body=NEXT) is None


class JolokiaSender(WebSender):
    async def post(self, destination: Destination, **form: str) -> str | None:
        kind = "Topic" if destination.is_topic else "Queue"
        body = form.pop("body", "odd")
        broker = "org.apache.activemq:type=Broker,brokerName=hostile"
        request = {
            "type": "exec",
            "mbean": f"{broker},destinationType={kind},destinationName={destination.physical_name}",
            "operation": "sendTextMessage(java.util.Map,java.lang.String)",
            "arguments": [form, body],
        }
        answer = await self.client.post("/api/jolokia", content=json.dumps(request))
        found = answer.json()
        assert found["status"] in {200, 400, 500}, found
        return None if found["status"] == 200 else str(found["error"])


class Receiver(ABC):
    """Receives the messages of a queue and of a topic by one protocol."""

    @abstractmethod
    async def until_next(self, destination: Destination) -> None:
        """Receive messages of a destination up to the next one."""


class ClientReceiver(Receiver):
    def __init__(self, consumers: dict[Destination, ActiveMQMessageConsumer]) -> None:
        self._consumers = consumers

    async def until_next(self, destination: Destination) -> None:
        while True:
            message = await self._consumers[destination].receive(10)
            assert message is not None
            if isinstance(message, TextMessage) and message.text == NEXT:
                return


class StompReceiver(Receiver):
    """Receives bytes: the headers are longer than those that a broker accepts."""

    def __init__(self, clients: dict[Destination, StompClient]) -> None:
        self._clients = clients

    async def until_next(self, destination: Destination) -> None:
        end, received = f"\n\n{NEXT}\0".encode(), b""
        with real_time_limit():
            while end not in received:
                received = received[-len(end) :]
                received += await self._clients[destination].stream.receive()


class WebReceiver(Receiver):
    """Receives by REST, which has no subscription to the topic before its first request."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def until_next(self, destination: Destination) -> None:
        if destination.is_topic:
            return
        where = f"/api/message/{destination.physical_name}?type=queue&readTimeout=5000&clientId=r"
        while True:
            answer = await self._client.get(where)
            assert answer.status_code == 200
            if answer.text == NEXT:
                return


ENTRY: Final = Queue("entry")
"""The queue whose messages are forwarded to the queues of all consumers, and to their topic."""
ALL: Final = Topic("all")
URLS: Final = {
    "vm": "vm://hostile?create=false",
    "loose": "tcp://127.0.0.1:{tcp}",
    "tight": "tcp://127.0.0.1:{tcp}?wireFormat.tightEncodingEnabled=true"
    "&wireFormat.cacheEnabled=true",
    "oldest": "tcp://127.0.0.1:{tcp}?wireFormat.tightEncodingEnabled=true&wireFormat.version=1",
    "websocket": "ws://127.0.0.1:{ws}",
}


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio, which the web server needs."""
    return "asyncio"


class Hostile:
    """A broker with all protocols, and a consumer of each of them."""

    def __init__(
        self, service: BrokerService, ports: dict[str, int], stack: AsyncExitStack
    ) -> None:
        self.service = service
        self.ports = ports
        self._stack = stack
        self.receivers: dict[Queue, Receiver] = {}

    async def client(self) -> httpx.AsyncClient:
        return await self._stack.enter_async_context(
            httpx.AsyncClient(base_url=self.service.website.url or "", timeout=20, verify=False)
        )

    async def session(self, url: str) -> ActiveMQSession:
        factory = ConnectionFactory(url)
        connection: ActiveMQConnection = await factory.create_connection()
        self._stack.push_async_callback(connection.close)
        await connection.start()
        return await connection.create_session()

    async def peer(self, name: str, **settings: bool | int) -> Peer:
        peer = Peer(await anyio.connect_tcp("127.0.0.1", self.ports["tcp"]), name)
        peer.format = OpenWireFormat(WireFormatSettings(**settings))  # type: ignore[arg-type]
        self._stack.push_async_callback(peer.leave)
        await peer.connect()
        return peer

    async def consume(self) -> None:
        for kind, url in URLS.items():
            session = await self.session(url.format_map(self.ports))
            queue = Queue(kind)
            self.receivers[queue] = ClientReceiver(
                {each: await session.create_consumer(each) for each in (queue, ALL)}
            )
        queue = Queue("stomp")
        clients: dict[Destination, StompClient] = {}
        for each in (queue, ALL):
            stream = await anyio.connect_tcp("127.0.0.1", self.ports["stomp"])
            self._stack.push_async_callback(anyio.aclose_forcefully, stream)
            clients[each] = StompClient(stream)
            await clients[each].connect()
            await clients[each].subscribe(path(each))
        self.receivers[queue] = StompReceiver(clients)
        self.receivers[Queue("rest")] = WebReceiver(await self.client())


@pytest.fixture
async def hostile() -> AsyncIterator[Hostile]:
    wire = f"wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true&wireFormat.maxFrameSize={LIMIT}"
    forwarded = (*map(Queue, (*URLS, "stomp", "rest")), ALL)
    service = BrokerService(
        "hostile",
        persistent=False,
        scheduler_support=True,
        web=WebConfiguration(port=0),
        virtual_destinations=[CompositeQueue("entry", forwarded)],
    )
    connectors = {
        "tcp": service.add_connector(f"tcp://127.0.0.1:0?{wire}"),
        "ws": service.add_connector("ws://127.0.0.1:0"),
        "stomp": service.add_connector("stomp://127.0.0.1:0"),
    }
    async with service, AsyncExitStack() as stack:
        ports = {n: int(c.connect_uri.rpartition(":")[2]) for n, c in connectors.items()}
        made = Hostile(service, ports, stack)
        service.region_broker.region_destination(ENTRY)
        yield made


async def openwire(broker: Hostile) -> Sender:
    return OpenWireSender(await broker.peer("sender"))


async def tight_openwire(broker: Hostile) -> Sender:
    return OpenWireSender(
        await broker.peer("tight", tight_encoding_enabled=True, cache_enabled=True)
    )


async def scheduled(broker: Hostile) -> Sender:
    return ScheduledSender(await broker.peer("scheduled"))


async def client(broker: Hostile) -> Sender:
    return ClientSender(await broker.session(URLS["vm"]))


async def websocket(broker: Hostile) -> Sender:
    return ClientSender(await broker.session(URLS["websocket"].format_map(broker.ports)))


async def stomp(broker: Hostile) -> Sender:
    return StompSender(broker.ports["stomp"])


async def rest(broker: Hostile) -> Sender:
    return WebSender(await broker.client())


async def jolokia(broker: Hostile) -> Sender:
    return JolokiaSender(await broker.client())


SENDERS: Final[Sequence[Callable[[Hostile], Awaitable[Sender]]]] = (
    openwire, tight_openwire, scheduled, client, websocket, stomp, rest, jolokia,
)  # fmt: skip


@pytest.mark.fact("activemq-broker L8")
@pytest.mark.parametrize("make_sender", SENDERS)
async def test_consumers_of_all_protocols_get_the_next_message(
    hostile: Hostile,
    make_sender: Callable[[Hostile], Awaitable[Sender]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await hostile.consume()
    sender = await make_sender(hostile)
    for field, value in HOSTILE:
        await sender.send(ENTRY, field, value)
    await sender.send_next(ENTRY)
    for queue, receiver in hostile.receivers.items():
        for destination in (queue, ALL):
            await receiver.until_next(destination)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.mark.fact("activemq-broker C11")
@pytest.mark.parametrize("make_sender", [openwire, scheduled, client, rest, jolokia])
async def test_the_refusal_names_the_field_and_its_limit(
    hostile: Hostile, make_sender: Callable[[Hostile], Awaitable[Sender]]
) -> None:
    sender = await make_sender(hostile)
    refusal = await sender.send(ENTRY, TEXTS[0], "x" * 37_000)
    assert "JMSType has 37000 bytes, more than 32766" in str(refusal)


async def test_pages_and_views_show_what_was_sent(hostile: Hostile) -> None:
    sender = await openwire(hostile)
    for field, value in HOSTILE:
        await sender.send(Queue("rest"), field, value)
    web = await hostile.client()
    broker = "org.apache.activemq:type=Broker,brokerName=hostile"
    queue = f"{broker},destinationType=Queue,destinationName=rest"
    base = hostile.service.region_broker.region_destination(Queue("rest"))
    assert isinstance(base, RegionQueue)
    ids = [str(reference.message_id) for reference in base.messages()]
    assert len(ids) > len(HOSTILE) // 2
    pages = ["queues", "queue?name=rest", "queue?name=rest&page=2"]
    for page in (*pages, *(f"message?queue=rest&id={each}" for each in ids)):
        assert (await web.get(f"/admin/{page}")).status_code == 200, page
    request = {"type": "exec", "mbean": queue, "operation": "browse()", "arguments": []}
    answer = await web.post("/api/jolokia", content=json.dumps(request))
    assert answer.json()["status"] == 200


@pytest.mark.parametrize(
    ("content", "properties"), [(b"\0\0\0\5ab", None), (b"\0\0\0\1a", b"\0\0\0\1\0\1x\x09\0\5a")]
)
async def test_rest_leaves_out_what_it_cannot_read(
    hostile: Hostile, content: bytes, properties: bytes | None
) -> None:
    peer = await hostile.peer("damaging")
    damaged = command_with(peer, Queue("rest"), "content", "")
    damaged.content, damaged.marshalled_properties = content, properties
    await peer.ask(damaged)
    await peer.ask(command_with(peer, Queue("rest"), "content", NEXT))
    web = await hostile.client()
    where = "/api/message/rest?type=queue&readTimeout=5000&clientId=r"
    first, second = await web.get(where), await web.get(where)
    assert (first.status_code, first.content) == (200, b"")
    assert "more than" in first.headers["transformation-error"]
    assert second.text == NEXT
