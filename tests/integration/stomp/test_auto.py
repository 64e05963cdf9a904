"""The connector `auto` detects what its clients speak. (activemq-edges U5)"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import ConnectionFailedException
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.stomp.client import StompClient, real_time_limit
from tests.kit.tls import CertificateFiles

Start = Callable[..., AbstractAsyncContextManager[TransportConnector]]


@pytest.fixture
def auto() -> Start:
    """Starts a broker with one connector `auto`."""

    @asynccontextmanager
    async def start(
        options: str = "", scheme: str = "auto", **settings: Any
    ) -> AsyncIterator[TransportConnector]:
        service = BrokerService("auto", persistent=False, **settings)
        async with EmbeddedTestBroker(service):
            connector = service.add_connector(f"{scheme}://127.0.0.1:0{options}")
            await connector.start()
            yield connector

    return start


def port_of(connector: TransportConnector) -> int:
    return int(connector.connect_uri.rpartition(":")[2])


async def stomp_to(connector: TransportConnector) -> StompClient:
    return StompClient(await anyio.connect_tcp("127.0.0.1", port_of(connector)))


async def answer_to(connector: TransportConnector, data: bytes) -> bytes:
    """Send bytes; return everything received until the connection ends."""
    stream = await anyio.connect_tcp("127.0.0.1", port_of(connector))
    received = b""
    async with stream:
        await stream.send(data)
        with real_time_limit():
            try:
                while True:
                    received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return received


@pytest.mark.fact("activemq-edges U5")
@pytest.mark.parametrize("scheme", ["auto", "auto+nio"])
async def test_clients_of_both_protocols_share_a_port(auto: Start, scheme: str) -> None:
    async with auto(scheme=scheme) as connector:
        assert connector.connect_uri.startswith("tcp://")
        client = await stomp_to(connector)
        async with client.stream:
            assert (await client.connect()).command == "CONNECTED"
            await client.done("SEND", {"destination": "/queue/orders"}, "hello")
            template = JmsTemplate(ConnectionFactory(connector.connect_uri), receive_timeout=5)
            assert await template.receive_and_convert("orders") == "hello"
            await client.subscribe("/queue/orders")
            await template.convert_and_send("orders", "back")
            assert (await client.receive("MESSAGE")).body == b"back"


@pytest.mark.parametrize("scheme", ["auto+ssl", "auto+nio+ssl"])
async def test_with_tls(auto: Start, scheme: str, files: CertificateFiles) -> None:
    options = f"?ssl.keyStore={files.issue()}"
    async with auto(options, scheme) as connector:
        context = ssl.create_default_context(cafile=files.trust)
        stream = await anyio.connect_tcp(
            "localhost", port_of(connector), ssl_context=context, tls_standard_compatible=False
        )
        client = StompClient(stream)
        async with stream:
            assert (await client.connect()).command == "CONNECTED"
            await client.done("SEND", {"destination": "/queue/orders"}, "hello")
            url = f"{connector.connect_uri}?ssl.trustStore={files.trust}".replace(
                "127.0.0.1", "localhost"
            )
            template = JmsTemplate(ConnectionFactory(url), receive_timeout=5)
            assert await template.receive_and_convert("orders") == "hello"


async def test_bytes_that_come_one_by_one(auto: Start) -> None:
    async with auto() as connector:
        client = await stomp_to(connector)
        async with client.stream:
            for byte in b"\n\nCONNECT\naccept-version:1.2\n\n\0":
                await client.stream.send(bytes([byte]))
            await client.receive("CONNECTED")


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\x16\x03\1\2\0\1\0\1\xfc\3\3", "TLS"),
        (b"x" * 40, "none of OpenWire, STOMP, MQTT and AMQP"),
    ],
    ids=["http", "tls", "noise"],
)
async def test_other_protocols_are_named(
    auto: Start, caplog: pytest.LogCaptureFixture, first: bytes, name: str
) -> None:
    caplog.set_level("INFO")
    async with auto() as connector:
        answer = await answer_to(connector, first)
        assert answer.startswith(b"HTTP/1.1 400") == (name == "HTTP")
        while connector.connections:
            await anyio.lowlevel.checkpoint()
    assert name in caplog.text


async def test_slow_clients_are_disconnected(auto: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with auto("?protocolDetectionTimeOut=100") as connector:
        assert await answer_to(connector, b"CON") == b""
        while connector.connections:
            await anyio.lowlevel.checkpoint()
    assert "protocolDetectionTimeOut" in caplog.text


async def test_protocols_can_be_restricted(auto: Start) -> None:
    async with auto("?auto.protocols=stomp") as connector:
        with pytest.raises(ConnectionFailedException):
            await ConnectionFactory(connector.connect_uri).create_connection()
        client = await stomp_to(connector)
        async with client.stream:
            await client.connect()


async def test_the_number_of_connections_is_limited(auto: Start) -> None:
    async with auto("?maximumConnections=1") as connector:
        client = await stomp_to(connector)
        async with client.stream:
            await client.connect()
            assert await answer_to(connector, b"CONNECT") == b""


async def test_options_of_each_protocol(auto: Start) -> None:
    options = "?auto.stomp.defaultHeartBeat=0,20000&wireFormat.maxDataLength=9"
    async with auto(f"{options}&wireFormat.maxInactivityDuration=0") as connector:
        client = await stomp_to(connector)
        async with client.stream:
            assert (await client.connect()).headers["heart-beat"] == "20000,0"
