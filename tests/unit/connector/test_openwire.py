from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    ResourceAllocationException,
)
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerInfo, ConnectionId, ConnectionInfo, ControlCommand
from pyjms_broker.connector.openwire.connector import OpenWireConnector
from pyjms_broker.connector.registry import create_connector
from tests.kit.clients.recording_broker import Host


@pytest.fixture
async def connector(host: Host) -> AsyncIterator[OpenWireConnector]:
    connector = create_connector(host, "tcp://:0", "openwire")
    assert isinstance(connector, OpenWireConnector)
    await connector.start()
    yield connector
    await connector.stop()


async def client_of(connector: OpenWireConnector) -> RequestTransport:
    transport = create_transport(connector.connect_uri)
    transport.listener = RecordingListener()
    await transport.start()
    return transport


async def test_port_0_takes_a_free_port_on_this_machine_only(connector: OpenWireConnector) -> None:
    uri = TransportURI.parse(connector.connect_uri)
    assert uri.host == "127.0.0.1"
    assert uri.port
    await connector.start()  # again: nothing
    assert TransportURI.parse(connector.connect_uri).port == uri.port


async def test_a_client_connects_and_leaves(connector: OpenWireConnector, host: Host) -> None:
    client = await client_of(connector)
    assert isinstance(client.listener, RecordingListener)
    assert (await client.listener.next(BrokerInfo)).broker_url == connector.connect_uri
    await client.request(ConnectionInfo(ConnectionId("c1"), "me"))
    connection: Any
    (connection,) = connector.connections
    assert connection.remote_address.startswith("tcp://127.0.0.1:")
    assert host.recording.args("add_connection")[0].connector_name == "openwire"
    await client.stop()
    await connection.wait_stopped()
    assert connector.connections == set()
    assert host.recording.names[-1] == "remove_connection"


async def test_the_log_names_a_client_that_leaves_once(
    connector: OpenWireConnector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="pyjms_broker.connector")
    client = await client_of(connector)
    await client.request(ConnectionInfo(ConnectionId("c1"), "me"))
    connection: Any
    (connection,) = connector.connections
    await client.stop()
    await connection.wait_stopped()
    (line,) = [text for text in caplog.messages if "disconnected" in text]
    assert line.count(connection.remote_address) == 1
    assert line.endswith("disconnected: the peer closed the connection")


async def test_stopping_the_connector_closes_its_clients_and_its_port(host: Host) -> None:
    connector = create_connector(host, "tcp://127.0.0.1:0")
    assert isinstance(connector, OpenWireConnector)
    await connector.start()
    client = await client_of(connector)
    await client.request(ConnectionInfo(ConnectionId("c1"), "me"))
    await connector.stop()
    await connector.stop()
    assert isinstance(client.listener, RecordingListener)
    assert isinstance(await client.listener.error(), ConnectionFailedException)
    assert host.recording.names[-1] == "remove_connection"
    await client.stop()
    late = create_transport(connector.connect_uri)
    late.listener = RecordingListener()
    with pytest.raises(ConnectionFailedException, match="refused"):
        await late.start()
    await connector.start()  # it opens again
    again = await client_of(connector)
    await again.stop()
    await connector.stop()


@pytest.mark.fact("activemq-edges U9")
async def test_a_port_that_is_taken_fails_the_start_with_names(host: Host) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        connector = create_connector(host, f"tcp://127.0.0.1:{port}", "main")
        with pytest.raises(ResourceAllocationException) as caught:
            await connector.start()
    assert caught.value.reason == (
        f"Failed to bind to server socket: tcp://127.0.0.1:{port} due to: Address already in use "
        f"(connector 'main', port {port})"
    )
    assert "uri" in caught.value.hint  # the configuration key
    await connector.stop()


@pytest.mark.fact("activemq-edges I4")
async def test_a_silent_socket_is_closed_after_30_seconds(
    connector: OpenWireConnector,
) -> None:
    port = TransportURI.parse(connector.connect_uri).port
    assert port
    async with VirtualClock() as clock:
        silent = await anyio.connect_tcp("127.0.0.1", port)
        assert (await silent.receive())[4:13] == b"\x01ActiveMQ"
        await anyio.wait_all_tasks_blocked()
        connection: Any
        (connection,) = connector.connections
        await clock.advance(29.9)
        assert connector.connections == {connection}
        await clock.advance(0.2)
        await connection.wait_stopped()
        with pytest.raises(anyio.EndOfStream):
            await silent.receive()
        await silent.aclose()


async def test_other_protocols_are_turned_away(connector: OpenWireConnector) -> None:
    port = TransportURI.parse(connector.connect_uri).port
    assert port
    async with await anyio.connect_tcp("127.0.0.1", port) as web:
        await web.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await web.receive()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await web.receive()


async def test_connections_beyond_the_maximum_are_closed(
    connector: OpenWireConnector, caplog: pytest.LogCaptureFixture
) -> None:
    connector.maximum_connections = 1
    first = await client_of(connector)
    second = create_transport(connector.connect_uri)
    second.listener = RecordingListener()
    with pytest.raises(ConnectionFailedException):
        await second.start()
    assert "maximumConnections" in caplog.text
    await first.request(ControlCommand("still served"))
    await first.stop()


async def test_options_of_the_uri(host: Host) -> None:
    uri = "tcp://0.0.0.0:61616?maximumConnections=7&transport.keepAlive=true"
    connector = create_connector(host, uri)
    assert connector.maximum_connections == 7
    assert connector.name == uri
    assert connector.connect_uri == f"tcp://{socket.gethostname()}:61616"
    assert create_connector(host, "tcp://[::1]:61616").connect_uri == "tcp://[::1]:61616"
    assert create_connector(host, "tcp://:1").maximum_connections == 5000


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("tcp://localhost", "names no port"),
        ("tcp://:0?foo=1", "Invalid bind parameters"),
        ("xmpp://:0", r"Transport scheme NOT recognized: \[xmpp\]"),
    ],
)
def test_connectors_that_cannot_be(host: Host, uri: str, text: str) -> None:
    with pytest.raises(ConfigurationException, match=text):
        create_connector(host, uri)
