"""Each option of a connector's URI has its effect, or the log says why it has none."""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute

from pyjms.errors import ConfigurationException
from pyjms.transport.openwire import accepted_transport
from pyjms.transport.openwire.options import read_server_options
from pyjms.transport.options import IGNORED_BY_SERVERS, IGNORED_OF_ACCEPTED
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import KeepAliveInfo, WireFormatInfo
from pyjms.wire.openwire.format import OpenWireFormat, WireFormatSettings
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.openwire_attacker import Peer


@asynccontextmanager
async def client_of(query: str, version: int = 12) -> AsyncIterator[Peer]:
    """Connect to a connector with these options."""
    service = BrokerService("options", persistent=False)
    connector = service.add_connector(f"tcp://127.0.0.1:0?{query}")
    async with EmbeddedTestBroker(service):
        port = int(connector.connect_uri.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            peer = Peer(stream, "peer")
            peer.format = OpenWireFormat(WireFormatSettings(version=version))
            yield peer


async def offer_of(query: str) -> tuple[int, dict[str, object]]:
    """Return the version and the properties that such a connector offers."""
    async with client_of(query) as peer:
        await peer.negotiate()
        (info,) = [c for c in peer.heard if isinstance(c, WireFormatInfo)]
    assert info.marshalled_properties is not None
    return info.version, dict(decode_map(info.marshalled_properties))


@pytest.mark.fact("activemq-edges 1.1/server")
@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("tightEncodingEnabled=false", "TightEncodingEnabled", False),
        ("cacheEnabled=false", "CacheEnabled", False),
        ("cacheSize=200", "CacheSize", 200),
        ("stackTraceEnabled=false", "StackTraceEnabled", False),
        ("sizePrefixDisabled=true", "SizePrefixDisabled", True),
        ("tcpNoDelayEnabled=false", "TcpNoDelayEnabled", False),
        ("maxFrameSize=5000", "MaxFrameSize", 5000),
        ("maxFrameSizeEnabled=false", "MaxFrameSizeEnabled", False),
        ("maxInactivityDuration=9000", "MaxInactivityDuration", 9000),
        ("maxInactivityDurationInitalDelay=800", "MaxInactivityDurationInitalDelay", 800),
        ("host=here", "Host", "here"),
    ],
)
async def test_wire_format_options_are_offered_to_clients(
    option: str, name: str, value: object
) -> None:
    _, offered = await offer_of(f"wireFormat.{option}")
    assert offered[name] == value


async def test_the_version_and_platform_details_are_offered_too() -> None:
    query = "wireFormat.version=10&wireFormat.includePlatformDetails=true"
    version, offered = await offer_of(query)
    _, plain = await offer_of("")
    assert version == 10
    assert offered["PlatformDetails"] != plain["PlatformDetails"]


async def test_clients_of_older_versions_may_be_refused() -> None:
    async with client_of("transport.minmumWireFormatVersion=10", version=9) as peer:
        await peer.stream.send(peer.format.encode(peer.format.local_info()))
        await peer.closed()


async def test_clients_that_say_nothing_may_be_refused_sooner() -> None:
    async with client_of("transport.connectAttemptTimeout=50") as peer:
        await peer.closed()


@pytest.mark.parametrize("monitored", [True, False])
async def test_silent_clients_may_be_tolerated(monitored: bool) -> None:
    options = "wireFormat.maxInactivityDuration=300&wireFormat.maxInactivityDurationInitalDelay=50"
    query = f"{options}&transport.useInactivityMonitor={str(monitored).lower()}"
    async with client_of(query) as peer:
        await peer.negotiate()
        with anyio.move_on_after(1) as ended:
            await peer.closed()
    assert ended.cancelled_caught is not monitored


@pytest.mark.parametrize(
    ("option", "kept"),
    [("", True), ("&transport.useKeepAlive=false", False)],
)
async def test_keep_alives_may_be_left_out(option: str, kept: bool) -> None:
    query = (
        "wireFormat.maxInactivityDuration=600&wireFormat.maxInactivityDurationInitalDelay=50"
        f"&transport.keepAliveResponseRequired=true{option}"
    )
    async with client_of(query) as peer:
        await peer.negotiate()
        with anyio.move_on_after(1):
            await peer.closed()
    heard = [c for c in peer.heard if isinstance(c, KeepAliveInfo)]
    assert bool(heard) is kept
    assert all(c.response_required for c in heard)


@pytest.mark.parametrize(
    ("query", "option", "expected"),
    [
        ("keepAlive=true", socket.SO_KEEPALIVE, 1),
        ("socket.keepAlive=true", socket.SO_KEEPALIVE, 1),
        ("soLinger=3", socket.SO_LINGER, struct.pack("ii", 1, 3)),
        ("sendBufferSize=20000", socket.SO_SNDBUF, None),
        ("receiveBufferSize=20000", socket.SO_RCVBUF, None),
        ("socketBufferSize=20000", socket.SO_RCVBUF, None),
    ],
)
async def test_socket_options_are_set_on_accepted_connections(
    query: str, option: int, expected: object
) -> None:
    if query.startswith(("send", "receive")):
        query = f"socket.{query}"
    uri = TransportURI.parse(f"tcp://:0?transport.{query}")
    _, tcp_options, options = read_server_options(uri)
    _, plain, _ = read_server_options(TransportURI.parse("tcp://:0"))
    size = [struct.calcsize("ii")] if option == socket.SO_LINGER else []
    values = []
    for chosen in (tcp_options, plain):
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra(SocketAttribute.local_port)
            async with (
                await anyio.connect_tcp("127.0.0.1", port) as client,
                anyio.create_task_group() as tasks,
            ):
                stream = await listener.listeners[0].accept()  # type: ignore[attr-defined]  # a socket's
                # the transport closes the stream's own descriptor; options belong to the socket
                raw = socket.socket(
                    fileno=os.dup(stream.extra(SocketAttribute.raw_socket).fileno())
                )
                transport = accepted_transport(stream, chosen, options)
                tasks.start_soon(transport.start)
                await client.receive()
                with raw:
                    values.append(raw.getsockopt(socket.SOL_SOCKET, option, *size))
                tasks.cancel_scope.cancel()
            await transport.stop()
    assert values[0] != values[1]
    if expected is not None:
        assert values[0] == expected


@pytest.mark.fact("activemq-edges U3")
@pytest.mark.parametrize(
    ("prefix", "name", "reason"),
    [
        *(("", name, reason) for name, reason in IGNORED_BY_SERVERS.items()),
        *(("transport.", name, reason) for name, reason in IGNORED_OF_ACCEPTED.items()),
    ],
)
def test_options_without_effect_are_logged_once_with_the_reason(
    prefix: str, name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        BrokerService("options").add_connector(f"tcp://127.0.0.1:0?{prefix}{name}=1")
    assert len(caplog.records) == 1
    assert f"{name} ({reason})" in caplog.text


@pytest.mark.parametrize("query", ["nope=1", "transport.nope=1", "wireFormat.nope=1", "backlogs=1"])
def test_unknown_options_are_refused(query: str) -> None:
    with pytest.raises(ConfigurationException, match=r"nope|backlogs"):
        BrokerService("options").add_connector(f"tcp://127.0.0.1:0?{query}")
