"""The connector of STOMP keeps the contract of connectors."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.testing.contract.connector import ConnectorContract
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.connector.stomp.connector import StompConnector


class TestStompConnector(ConnectorContract):
    @pytest.fixture
    def connector(self, host: BrokerHost) -> StompConnector:
        return StompConnector(host, TransportURI.parse("stomp://127.0.0.1:0"), "stomp")

    async def connect(self, connector: TransportConnector) -> ByteStream:
        uri = TransportURI.parse(connector.connect_uri)
        stream = await anyio.connect_tcp(uri.host or "", uri.port or 0)
        await stream.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        return stream

    async def request(self, client: ByteStream) -> None:
        await client.send(b"SEND\ndestination:/queue/q\nreceipt:done\n\nx\0")
        received = b""
        while b"receipt-id:done" not in received:
            received += await client.receive()
