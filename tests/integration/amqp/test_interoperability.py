"""One message through OpenWire, STOMP, AMQP, MQTT and REST, in every direction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.client.factory import ConnectionFactory
from pyjms.jms import TextMessage
from pyjms.wire.amqp.performatives import ACCEPTED, Properties
from pyjms.wire.mqtt import PUBACK, Ack, Publish
from tests.kit.amqp.client import AmqpClient, text
from tests.kit.mqtt.client import MqttClient
from tests.kit.stomp.client import StompClient
from tests.kit.web.sites import web_broker

BODY = "Gr\u00fc\u00dfe"


class Found(NamedTuple):
    """What a receiver sees of the message."""

    body: str
    correlation_id: str | None
    color: object


Receive: TypeAlias = Callable[[], Awaitable[Found]]


class Broker:
    """A broker with one port for all protocols, and a web server."""

    def __init__(self, port: int, http: Any) -> None:
        self.port = port
        self.http = http

    async def stream(self) -> ByteStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)


@asynccontextmanager
async def openwire(broker: Broker) -> AsyncIterator[Any]:
    connection = await ConnectionFactory(f"tcp://127.0.0.1:{broker.port}").create_connection()
    async with connection:
        await connection.start()
        yield await connection.create_session()


async def send_openwire(broker: Broker) -> None:
    async with openwire(broker) as session:
        producer = await session.create_producer(session.create_topic("a.b"))
        message = session.create_text_message(BODY)
        message.correlation_id = "c-1"
        message.properties["color"] = "red"
        await producer.send(message)


@asynccontextmanager
async def receive_openwire(broker: Broker) -> AsyncIterator[Receive]:
    async with openwire(broker) as session:
        consumer = await session.create_consumer(session.create_topic("a.b"))

        async def receive() -> Found:
            message = await consumer.receive(5)
            assert isinstance(message, TextMessage)
            return Found(message.text or "", message.correlation_id, message.properties["color"])

        yield receive


async def stomp(broker: Broker) -> StompClient:
    client = StompClient(await broker.stream())
    await client.send("CONNECT", {"accept-version": "1.2", "host": "x"})
    await client.receive("CONNECTED")
    return client


async def send_stomp(broker: Broker) -> None:
    client = await stomp(broker)
    async with client.stream:
        headers = {"destination": "/topic/a.b", "correlation-id": "c-1", "color": "red"}
        await client.done("SEND", headers, BODY)


@asynccontextmanager
async def receive_stomp(broker: Broker) -> AsyncIterator[Receive]:
    client = await stomp(broker)
    async with client.stream:
        await client.done("SUBSCRIBE", {"id": "1", "destination": "/topic/a.b"})

        async def receive() -> Found:
            frame = await client.receive("MESSAGE")
            headers = frame.headers
            return Found(frame.body.decode(), headers.get("correlation-id"), headers.get("color"))

        yield receive


async def amqp(broker: Broker, name: str) -> AmqpClient:
    client = AmqpClient(await broker.stream())
    assert await client.log_in() == 0
    await client.open(name)
    await client.begin()
    return client


async def send_amqp(broker: Broker) -> None:
    client = await amqp(broker, "sends")
    async with client.stream:
        sender = await client.sender("topic://a.b")
        message = text(
            BODY,
            properties=Properties(correlation_id="c-1"),
            application_properties={"color": "red"},
        )
        assert await sender.send(message) == ACCEPTED


@asynccontextmanager
async def receive_amqp(broker: Broker) -> AsyncIterator[Receive]:
    client = await amqp(broker, "receives")
    async with client.stream:
        receiver = await client.receiver("topic://a.b", credit=5)

        async def receive() -> Found:
            message = (await receiver.next()).message
            assert message.properties is not None
            color = (message.application_properties or {}).get("color")
            return Found(message.body, str(message.properties.correlation_id), color)

        yield receive


async def mqtt(broker: Broker) -> MqttClient:
    client = MqttClient(await broker.stream(), 5)
    await client.connect()
    return client


async def send_mqtt(broker: Broker) -> None:
    client = await mqtt(broker)
    async with client.stream:
        packet = Publish("a/b", BODY.encode(), 1, packet_id=1)
        packet.properties = {
            "payload_format_indicator": True,
            "correlation_data": b"c-1",
            "user_property": [("color", "red")],
        }
        await client.send(packet)
        assert await client.receive(Ack) == Ack(PUBACK, 1)


@asynccontextmanager
async def receive_mqtt(broker: Broker) -> AsyncIterator[Receive]:
    client = await mqtt(broker)
    async with client.stream:
        await client.subscribe("a/b")

        async def receive() -> Found:
            [packet] = await client.messages(1)
            properties = packet.properties
            correlation_id = properties["correlation_data"].decode()
            return Found(
                packet.payload.decode(),
                correlation_id,
                dict(properties["user_property"])["color"],
            )

        yield receive


async def send_rest(broker: Broker) -> None:
    sent = await broker.http.post(
        "/api/message/a/b?type=topic&JMSCorrelationID=c-1&color=red", data={"body": BODY}
    )
    assert sent.status_code == 200


@asynccontextmanager
async def receive_rest(broker: Broker) -> AsyncIterator[Receive]:
    path = "/api/message/a/b?type=topic&clientId=reader&readTimeout="
    assert (await broker.http.get(f"{path}10")).status_code == 204  # it consumes from now on

    async def receive() -> Found:
        taken = await broker.http.get(f"{path}5000")
        return Found(taken.content.decode(), None, taken.headers.get("color"))

    yield receive


SENDERS = {
    "openwire": send_openwire,
    "stomp": send_stomp,
    "amqp": send_amqp,
    "mqtt": send_mqtt,
    "rest": send_rest,
}
RECEIVERS = {
    "openwire": receive_openwire,
    "stomp": receive_stomp,
    "amqp": receive_amqp,
    "mqtt": receive_mqtt,
    "rest": receive_rest,
}


@pytest.mark.fact("amqp-connector A157", "amqp-connector A158", "activemq-edges ST6")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("receiver", RECEIVERS)
async def test_a_message_reaches_every_protocol(receiver: str) -> None:
    async with web_broker() as site, site.client() as http:
        connector = site.service.add_connector("auto://127.0.0.1:0?auto.amqp.transformer=jms")
        await connector.start()
        broker = Broker(int(connector.connect_uri.rpartition(":")[2]), http)
        async with RECEIVERS[receiver](broker) as receive:
            for name, send in SENDERS.items():
                await send(broker)
                found = await receive()
                # answers of HTTP have no header for the correlation id
                assert found == Found(BODY, None if receiver == "rest" else "c-1", "red"), name
