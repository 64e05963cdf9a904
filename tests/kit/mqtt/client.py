"""An MQTT client of raw packets, and a broker in memory that it connects to."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.wire.mqtt import (
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    V3_1_1,
    Ack,
    ConnAck,
    Connect,
    Disconnect,
    Filter,
    MqttFormat,
    Packet,
    Ping,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
    Will,
)
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker

P = TypeVar("P", bound=Packet)


class MqttClient:
    """One connection of the protocol's `level`, which acknowledges nothing by itself."""

    def __init__(self, stream: ByteStream, level: int = V3_1_1) -> None:
        self.stream = stream
        self.level = level
        self.received: list[Packet] = []
        self._format = MqttFormat(level=level)
        self._ids = itertools.count(1)

    async def send(self, *packets: Packet) -> None:
        data = bytearray()
        for packet in packets:
            self._format.encode_into(data, packet)
        await self.stream.send(bytes(data))

    async def next(self) -> Packet:
        """Return the next packet."""
        with real_time_limit():
            while not self.received:
                self.received += self._format.receive_data(await self.stream.receive())
        return self.received.pop(0)

    async def receive(self, kind: type[P]) -> P:
        """Return the next packet, which must be of this class."""
        packet = await self.next()
        assert isinstance(packet, kind), packet
        return packet

    async def messages(self, count: int) -> list[Publish]:
        return [await self.receive(Publish) for _ in range(count)]

    async def connect(
        self, client_id: str = "", *, clean: bool = True, will: Will | None = None,
        keep_alive: int = 0, login: tuple[str, str] | None = None,
    ) -> ConnAck:  # fmt: skip
        user, password = login or (None, None)
        secret = None if password is None else password.encode()
        await self.send(Connect(client_id, self.level, clean, keep_alive, will, user, secret))
        return await self.receive(ConnAck)

    async def subscribe(self, *filters: str, qos: int = 0) -> list[int]:
        """Return the codes of SUBACK; messages may come before it."""
        packet_id = next(self._ids)
        await self.send(Subscribe(packet_id, [Filter(text, qos) for text in filters]))
        answer = await self._answer(SubAck)
        assert (answer.type, answer.packet_id) == (SUBACK, packet_id)
        return answer.codes

    async def unsubscribe(self, *filters: str) -> None:
        packet_id = next(self._ids)
        await self.send(Unsubscribe(packet_id, list(filters)))
        answer = await self._answer(SubAck)
        assert (answer.type, answer.packet_id) == (UNSUBACK, packet_id)

    async def _answer(self, kind: type[P]) -> P:
        """Return the next packet of this class; those before it stay."""
        before: list[Packet] = []
        while True:
            packet = await self.next()
            if isinstance(packet, kind):
                self.received[:0] = before
                return packet
            before.append(packet)

    async def publish(
        self, topic: str, payload: bytes | str = b"", qos: int = 0, *, retain: bool = False
    ) -> None:
        """Send a message, and complete the exchange of its QoS."""
        content = payload.encode() if isinstance(payload, str) else payload
        packet_id = next(self._ids) if qos else 0
        await self.send(Publish(topic, content, qos, retain, packet_id=packet_id))
        if qos:
            kind = PUBACK if qos == 1 else PUBREC
            assert await self._answer(Ack) == Ack(kind, packet_id)
        if qos == 2:
            await self.send(Ack(PUBREL, packet_id))
            assert await self._answer(Ack) == Ack(PUBCOMP, packet_id)

    async def acknowledge(self, message: Publish) -> None:
        """Acknowledge a message as its QoS wants."""
        if message.qos == 1:
            await self.send(Ack(PUBACK, message.packet_id))
        elif message.qos == 2:
            await self.send(Ack(PUBREC, message.packet_id))
            assert await self._answer(Ack) == Ack(PUBREL, message.packet_id)
            await self.send(Ack(PUBCOMP, message.packet_id))

    async def nothing_comes(self) -> None:
        """Check that no packet is on its way: the broker sends in order."""
        await self.send(Ping(PINGREQ))
        await self.receive(Ping)

    async def disconnect(self) -> None:
        await self.send(Disconnect())
        assert await self.closed()

    async def lose(self) -> None:
        """End the connection without DISCONNECT."""
        await anyio.aclose_forcefully(self.stream)

    async def closed(self) -> bool:
        """Wait until the broker has closed the connection; whether nothing else came."""
        with real_time_limit():
            try:
                while True:
                    self.received += self._format.receive_data(await self.stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return not self.received


def texts(messages: Sequence[Publish]) -> list[tuple[str, str]]:
    """Return the topics and payloads."""
    return [(message.topic, message.payload.decode()) for message in messages]


def real_time_limit() -> Any:
    """A timeout for a missing packet."""
    return anyio.fail_after(20)


class MqttBroker:
    """A broker with an MQTT connector, and clients of it."""

    def __init__(self, broker: EmbeddedTestBroker, port: int) -> None:
        self.broker = broker
        self.port = port
        self.streams: list[ByteStream] = []

    async def open(self, level: int = V3_1_1) -> MqttClient:
        """A client that has not sent anything."""
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        self.streams.append(stream)
        return MqttClient(stream, level)

    async def client(
        self, client_id: str = "", *, clean: bool = True, level: int = V3_1_1,
        will: Will | None = None, keep_alive: int = 0,
    ) -> MqttClient:  # fmt: skip
        client = await self.open(level)
        answer = await client.connect(client_id, clean=clean, will=will, keep_alive=keep_alive)
        assert answer.code == 0, answer
        return client

    @asynccontextmanager
    async def jms(
        self, query: str = "", mode: AcknowledgeMode = AcknowledgeMode.AUTO
    ) -> AsyncIterator[ActiveMQSession]:
        """A session of a JMS client."""
        connection = await ConnectionFactory(f"{self.broker.url}&{query}").create_connection()
        async with connection:
            await connection.start()
            yield await connection.create_session(mode == AcknowledgeMode.TRANSACTED, mode)


StartMqtt = Callable[..., AbstractAsyncContextManager[MqttBroker]]


@pytest.fixture
def mqtt_broker() -> StartMqtt:
    """Starts a broker with one MQTT connector with these options."""

    @asynccontextmanager
    async def start(
        options: str = "", scheme: str = "mqtt", **settings: Any
    ) -> AsyncIterator[MqttBroker]:
        service = BrokerService("mqtt", **({"persistent": False} | settings))
        async with EmbeddedTestBroker(service) as broker:
            connector = service.add_connector(f"{scheme}://127.0.0.1:0{options}")
            await connector.start()
            mqtt = MqttBroker(broker, int(connector.connect_uri.rpartition(":")[2]))
            try:
                yield mqtt
            finally:
                for stream in mqtt.streams:
                    await anyio.aclose_forcefully(stream)

    return start


@pytest.fixture
async def mqtt(mqtt_broker: StartMqtt) -> AsyncIterator[MqttBroker]:
    async with mqtt_broker() as broker:
        yield broker
