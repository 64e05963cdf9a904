"""The connector of MQTT keeps the contract of connectors."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.testing.contract.connector import ConnectorContract
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.connector.mqtt.connector import MqttConnector


class TestMqttConnector(ConnectorContract):
    @pytest.fixture
    def connector(self, host: BrokerHost) -> MqttConnector:
        return MqttConnector(host, TransportURI.parse("mqtt://127.0.0.1:0"), "mqtt")

    async def connect(self, connector: TransportConnector) -> ByteStream:
        uri = TransportURI.parse(connector.connect_uri)
        stream = await anyio.connect_tcp(uri.host or "", uri.port or 0)
        await stream.send(b"\x10\x0c\0\4MQTT\4\2\0\0\0\0")
        return stream

    async def request(self, client: ByteStream) -> None:
        await client.send(b"\x32\6\0\1a\0\x07x")
        received = b""
        while b"\x40\2\0\x07" not in received:
            received += await client.receive()
