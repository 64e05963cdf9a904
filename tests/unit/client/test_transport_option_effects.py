"""Each option of a client's `tcp://` URL has an effect on its connection, or the log says why none.

The client connects to a port of the test; what is set on its socket, what it sends there, and how
the connection ends is compared with a connection without the option.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConfigurationException, JMSException
from pyjms.testing.clock import VirtualClock
from pyjms.transport.openwire.options import CONNECTING, WIRE_FORMAT
from pyjms.transport.options import IGNORED_BY_CLIENTS, TCP
from pyjms.wire.openwire.commands import Command, KeepAliveInfo, WireFormatInfo
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import decode_map
from pyjms.wire.openwire.settings import WireFormatSettings
from tests.kit.brokers.openwire_attacker import Peer
from tests.kit.sockets import socket_to

OLDER = 10
"""The version of the test's side of the connection."""
SHORT = "wireFormat.maxInactivityDuration=3000"
DELAYED = "wireFormat.maxInactivityDurationInitalDelay=500"
MONITORED = f"{SHORT}&{DELAYED}"
NAME = "the-name-of-this-machine"


@asynccontextmanager
async def port_of_peers() -> AsyncIterator[tuple[int, list[Command]]]:
    """A port that answers clients with a WireFormatInfo and then is silent, and what it heard.

    Ends when the clients have closed their connections.
    """
    heard: list[Command] = []

    async def answer(stream: SocketStream) -> None:
        peer = Peer(stream, "peer")
        peer.format = OpenWireFormat(WireFormatSettings(version=OLDER))
        peer.heard = heard
        async with stream:
            await stream.send(peer.format.encode(peer.format.local_info()))
            await peer.closed()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    serving = anyio.CancelScope()
    async with listener, anyio.create_task_group() as tasks:

        async def serve() -> None:
            with serving:
                await listener.serve(answer, tasks)

        tasks.start_soon(serve)
        try:
            yield listener.extra(SocketAttribute.local_port), heard
        finally:
            serving.cancel()


Observe = Callable[[str], Awaitable[object]]


async def offered(query: str) -> object:
    """Return what the client's WireFormatInfo says, or why the URL is refused."""
    async with port_of_peers() as (port, heard):
        try:
            factory = ConnectionFactory(f"tcp://127.0.0.1:{port}?{query}")
            connection = await factory.create_connection()
        except ConfigurationException as error:
            return error.reason
        await connection.close()
    (info,) = [c for c in heard if isinstance(c, WireFormatInfo)]
    assert info.marshalled_properties is not None
    return {"version": info.version, **decode_map(info.marshalled_properties)}


def socket_option(level: int, option: int, size: int = 0) -> Observe:
    async def observe(query: str) -> int:
        async with port_of_peers() as (port, _):
            factory = ConnectionFactory(f"tcp://127.0.0.1:{port}?{query}")
            connection = await factory.create_connection()
            with socket_to(port) as own:
                value = own.getsockopt(level, option, *[size] * bool(size))
            await connection.close()
        return value

    return observe


async def connected(query: str) -> object:
    """Return whether, and if not why not."""
    async with port_of_peers() as (port, _):
        try:
            factory = ConnectionFactory(f"tcp://{NAME}:{port}?{query}")
            await (await factory.create_connection()).close()
        except JMSException as error:
            return type(error).__name__
    return True


async def silence(query: str) -> object:
    """Return the client's keep-alives to a silent broker, and how it ended the connection."""
    errors: list[str] = []
    async with VirtualClock() as clock, port_of_peers() as (port, heard):
        factory = ConnectionFactory(f"tcp://127.0.0.1:{port}?{query}")
        factory.exception_listener = lambda error: errors.append(error.reason[:24])
        connection = await factory.create_connection()
        await clock.advance(5)
        await connection.close()
    kept = [c.response_required for c in heard if isinstance(c, KeepAliveInfo)]
    return kept, errors


async def waited(query: str) -> float:
    """Return how long the client waits for a host that never answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio, "connect_tcp", lambda *_: anyio.sleep_forever())
        async with VirtualClock(autojump=True) as clock:
            began = clock.now()
            with pytest.raises(JMSException, match="no answer within"):
                await ConnectionFactory(f"tcp://127.0.0.1:1?{query}").create_connection()
            return clock.now() - began


SO, TCP_LEVEL = socket.SOL_SOCKET, socket.IPPROTO_TCP
LINGER = socket_option(SO, socket.SO_LINGER, struct.calcsize("ii"))
KEEP_ALIVE = socket_option(SO, socket.SO_KEEPALIVE)
NO_DELAY = socket_option(TCP_LEVEL, socket.TCP_NODELAY)
SENT_BUFFER = socket_option(SO, socket.SO_SNDBUF)
RECEIVED_BUFFER = socket_option(SO, socket.SO_RCVBUF)
SERVICE = socket_option(socket.IPPROTO_IP, socket.IP_TOS)


@dataclass
class Effect:
    """What shows the effect of an option with this value, beside other options."""

    value: str
    observe: Observe
    others: str = ""


EFFECTS = {
    "connectionTimeout": Effect("1500", waited),
    "soLinger": Effect("3", LINGER),
    "socketBufferSize": Effect("20000", RECEIVED_BUFFER),
    "tcpNoDelay": Effect("false", NO_DELAY),
    "keepAlive": Effect("true", KEEP_ALIVE),
    "useLocalHost": Effect("true", connected),
    "diffServ": Effect("EF", SERVICE),
    "typeOfService": Effect("8", SERVICE),
    "socket.trafficClass": Effect("16", SERVICE),
    "socket.keepAlive": Effect("true", KEEP_ALIVE),
    "socket.tcpNoDelay": Effect("false", NO_DELAY),
    "socket.soLinger": Effect("3", LINGER),
    "socket.sendBufferSize": Effect("20000", SENT_BUFFER),
    "socket.receiveBufferSize": Effect("20000", RECEIVED_BUFFER),
    "minmumWireFormatVersion": Effect("11", connected, "useLocalHost=true"),
    "useInactivityMonitor": Effect("false", silence, MONITORED),
    "useKeepAlive": Effect("false", silence, MONITORED),
    "keepAliveResponseRequired": Effect("true", silence, MONITORED),
    "wireFormat": Effect("stomp", offered),
    "wireFormat.version": Effect("9", offered),
    "wireFormat.cacheEnabled": Effect("true", offered),
    "wireFormat.cacheSize": Effect("200", offered),
    "wireFormat.tightEncodingEnabled": Effect("true", offered),
    "wireFormat.tcpNoDelayEnabled": Effect("false", NO_DELAY),
    "wireFormat.stackTraceEnabled": Effect("false", offered),
    "wireFormat.sizePrefixDisabled": Effect("true", offered),
    "wireFormat.maxInactivityDuration": Effect("1000", silence, DELAYED),
    "wireFormat.maxInactivityDurationInitalDelay": Effect("500", silence, SHORT),
    "wireFormat.maxFrameSize": Effect("5000", offered),
    "wireFormat.maxFrameSizeEnabled": Effect("false", offered),
    "wireFormat.host": Effect("virtual", offered),
    "wireFormat.includePlatformDetails": Effect("true", offered),
}  # fmt: skip
"""By the option's name in the URL."""


@pytest.fixture
def name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: NAME)


def test_every_option_has_its_effect_tested() -> None:
    wire_format = {f"wireFormat.{name}" for name in WIRE_FORMAT}
    assert EFFECTS.keys() == {*TCP, *CONNECTING, "wireFormat", *wire_format}
    assert not EFFECTS.keys() & IGNORED_BY_CLIENTS.keys()


@pytest.mark.usefixtures("name_of_the_machine")
@pytest.mark.parametrize("name", sorted(EFFECTS))
@pytest.mark.fact("activemq-edges 1.1/tcp/nio/ssl client", "activemq-edges 1.1/wireFormat.*")
async def test_an_option_has_an_effect(name: str) -> None:
    effect = EFFECTS[name]
    without = await effect.observe(effect.others)
    assert await effect.observe(f"{effect.others}&{name}={effect.value}") != without


@pytest.mark.parametrize(
    ("query", "service"),
    [
        ("diffServ=EF", 184),
        ("diffServ=cs1", 32),
        ("diffServ=AF41", 136),
        ("diffServ=46", 184),
        ("typeOfService=16", 16),
    ],
)
async def test_code_points_have_names_and_numbers(query: str, service: int) -> None:
    assert await SERVICE(query) == service


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("diffServ=AF44", "AF11 to AF43"),
        ("diffServ=64", "0 to 63"),
        ("typeOfService=256", "0 to 255"),
        ("socket.trafficClass=low", "whole number"),
        ("diffServ=EF&typeOfService=8", "Cannot set both"),
    ],
)
async def test_types_of_service_that_cannot_be_used(query: str, words: str) -> None:
    with pytest.raises(ConfigurationException, match=words):
        await ConnectionFactory(f"tcp://127.0.0.1:1?{query}").create_connection()


def _info_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *IGNORED_BY_CLIENTS.items(),
        ("auto.protocols", "it is for the protocol detection of a broker's connector"),
        ("auto.stomp.maxFrameSize", "it is for the protocol detection of a broker's connector"),
    ],
)
async def test_an_option_without_effect_is_logged_with_the_reason(
    name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    without = await offered("")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert await offered(f"{name}=1") == without
    assert _info_lines(caplog) == [f"tcp: accepted without effect: {name} ({reason})"]


async def test_options_without_effect_are_logged_once_for_all_connections_of_a_factory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        async with port_of_peers() as (port, _):
            factory = ConnectionFactory(f"tcp://127.0.0.1:{port}?soTimeout=1&trace=true")
            for _ in range(3):
                await (await factory.create_connection()).close()
    (line,) = _info_lines(caplog)
    assert "soTimeout" in line
    assert "trace" in line
