"""Each option of a connector's URI has its effect, or the log says why it has none."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import pytest
from anyio.abc import SocketAttribute

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.transport.openwire.options import ACCEPTED, FILTERS, WIRE_FORMAT
from pyjms.transport.options import IGNORED_BY_SERVERS, IGNORED_OF_ACCEPTED, SERVER
from pyjms.wire.openwire.commands import (
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    KeepAliveInfo,
    MessageDispatch,
    ProducerId,
    ProducerInfo,
    WireFormatInfo,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import decode_map
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.brokers.openwire_attacker import Peer
from tests.kit.sockets import socket_to

CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError)
SHORT = "wireFormat.maxInactivityDuration=3000"
DELAYED = "wireFormat.maxInactivityDurationInitalDelay=500"
MONITORED = f"{SHORT}&{DELAYED}"

Connect = Callable[[], Awaitable[Peer]]


@asynccontextmanager
async def connector_of(query: str, version: int = 12) -> AsyncIterator[Connect]:
    """Start a broker whose connector has these options, and return what connects to it."""
    service = BrokerService("options", persistent=False)
    connector = service.add_connector(f"tcp://127.0.0.1:0?{query}")
    peers: list[Peer] = []

    async def connect() -> Peer:
        port = int(connector.connect_uri.rpartition(":")[2])
        stream = await anyio.connect_tcp("127.0.0.1", port)
        peers.append(peer := Peer(stream, f"peer{len(peers)}"))
        peer.format = OpenWireFormat(WireFormatSettings(version=version))
        return peer

    async with EmbeddedTestBroker(service):
        yield connect
        for peer in peers:
            await peer.stream.aclose()


async def offered(query: str) -> object:
    """Return the contents of the connector's WireFormatInfo, or the reason why the URI is refused."""
    try:
        async with connector_of(query) as connect:
            peer = await connect()
            await peer.negotiate()
    except ConfigurationException as error:
        return error.reason
    (info,) = [c for c in peer.heard if isinstance(c, WireFormatInfo)]
    assert info.marshalled_properties is not None
    return {"version": info.version, **decode_map(info.marshalled_properties)}


Observe = Callable[[str], Awaitable[object]]


def socket_option(level: int, option: int, size: int = 0) -> Observe:
    """Return what observes a socket option of accepted connections."""

    async def observe(query: str) -> int:
        async with connector_of(query) as connect:
            peer = await connect()
            await peer.negotiate()
            with socket_to(peer.stream.extra(SocketAttribute.local_port)) as own:
                return own.getsockopt(level, option, *[size] * bool(size))

    return observe


async def queued(query: str) -> list[int]:
    """Return the backlog of the listening socket."""
    backlogs: list[int] = []
    listen = socket.socket.listen

    def recorded(self: socket.socket, backlog: int) -> None:
        backlogs.append(backlog)
        listen(self, backlog)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "listen", recorded)
        async with connector_of(query):
            return backlogs


async def answered(peer: Peer, client_id: str) -> object:
    """Register a connection; return the answer's type, or that there is none."""
    info = ConnectionInfo(ConnectionId(peer.name), client_id)
    try:
        return type(await peer.ask(info)).__name__
    except CLOSED:
        return "closed"


async def of_two_clients(query: str, ids: tuple[str, str]) -> object:
    answers: list[object] = []
    async with connector_of(query) as connect:
        for client_id in ids:
            peer = await connect()
            try:
                await peer.negotiate()
            except CLOSED:
                answers.append("refused")
            else:
                answers.append(await answered(peer, client_id))
    return answers


async def two_clients(query: str) -> object:
    return await of_two_clients(query, ("a", "b"))


async def one_client_id_twice(query: str) -> object:
    return await of_two_clients(query, ("a", "a"))


async def old_client(query: str) -> object:
    """Return the answer to a client of an old version."""
    async with connector_of(query, version=9) as connect:
        peer = await connect()
        await peer.stream.send(peer.format.encode(peer.format.local_info()))
        return await answered(peer, "a")


async def silence(query: str) -> object:
    """Return the keep-alives to a client that is silent for 5 s, and the answer afterwards."""
    async with VirtualClock() as clock, connector_of(query) as connect:
        peer = await connect()
        await peer.negotiate()
        await clock.advance(5)
        answer = await answered(peer, "a")
    kept = [c.response_required for c in peer.heard if isinstance(c, KeepAliveInfo)]
    return kept, answer


async def late_handshake(query: str) -> object:
    """Return the answer to a client that says nothing for 5 s."""
    async with VirtualClock() as clock, connector_of(query) as connect:
        peer = await connect()
        await peer.read()  # the broker's own WireFormatInfo: the connection was accepted
        await clock.advance(5)
        try:
            await peer.stream.send(peer.format.encode(peer.format.local_info()))
        except CLOSED:
            return "closed"
        return await answered(peer, "a")


async def unread(query: str) -> object:
    """Return the messages that reach a client that reads nothing for 12 s."""
    queue = Queue("q")
    async with VirtualClock() as clock, connector_of(query) as connect:
        reader, sender = await connect(), await connect()
        await reader.connect()
        await sender.connect()
        consumer = ConsumerInfo(ConsumerId(reader.name, 1, 1), destination=queue)
        consumer.prefetch_size = 1000
        await reader.ask(consumer)
        for _ in range(_UNREAD):
            await sender.ask(sender.message(queue, bytes(1_000_000)))
        await clock.advance(12)
        try:
            while sum(isinstance(c, MessageDispatch) for c in reader.heard) < _UNREAD:
                await reader.read()
        except CLOSED:
            return "closed"
        return "all"


_UNREAD = 20


async def second(query: str, command: Callable[[Peer, int], Command]) -> list[str]:
    """Return the answers to two commands of a connection."""
    async with connector_of(query) as connect:
        peer = await connect()
        await peer.connect()
        return [type(await peer.ask(command(peer, n))).__name__ for n in (2, 3)]


def a_producer(peer: Peer, number: int) -> Command:
    return ProducerInfo(ProducerId(peer.name, number, 1))


def a_consumer(peer: Peer, number: int) -> Command:
    return ConsumerInfo(ConsumerId(peer.name, 1, number), destination=Queue("q"))


SO, TCP_LEVEL = socket.SOL_SOCKET, socket.IPPROTO_TCP
LINGER = socket_option(SO, socket.SO_LINGER, struct.calcsize("ii"))
KEEP_ALIVE = socket_option(SO, socket.SO_KEEPALIVE)
NO_DELAY = socket_option(TCP_LEVEL, socket.TCP_NODELAY)
SERVICE = socket_option(socket.IPPROTO_IP, socket.IP_TOS)
SENT_BUFFER = socket_option(SO, socket.SO_SNDBUF)
RECEIVED_BUFFER = socket_option(SO, socket.SO_RCVBUF)


@dataclass
class Effect:
    """What shows the effect of an option with this value, beside other options."""

    value: str
    observe: Observe
    others: str = ""


EFFECTS = {
    "backlog": Effect("7", queued),
    "maximumConnections": Effect("1", two_clients),
    "allowLinkStealing": Effect("true", one_client_id_twice),
    "enableStatusMonitor": Effect("true", unread),
    "maximumProducersAllowedPerConnection": Effect("1", partial(second, command=a_producer)),
    "maximumConsumersAllowedPerConnection": Effect("1", partial(second, command=a_consumer)),
    "transport.keepAlive": Effect("true", KEEP_ALIVE),
    "transport.tcpNoDelay": Effect("false", NO_DELAY),
    "transport.soLinger": Effect("3", LINGER),
    "transport.diffServ": Effect("EF", SERVICE),
    "transport.typeOfService": Effect("8", SERVICE),
    "transport.socket.trafficClass": Effect("16", SERVICE),
    "transport.socketBufferSize": Effect("20000", RECEIVED_BUFFER),
    "transport.socket.keepAlive": Effect("true", KEEP_ALIVE),
    "transport.socket.tcpNoDelay": Effect("false", NO_DELAY),
    "transport.socket.soLinger": Effect("3", LINGER),
    "transport.socket.sendBufferSize": Effect("20000", SENT_BUFFER),
    "transport.socket.receiveBufferSize": Effect("20000", RECEIVED_BUFFER),
    "transport.minmumWireFormatVersion": Effect("10", old_client),
    "transport.connectAttemptTimeout": Effect("500", late_handshake),
    "transport.useInactivityMonitor": Effect("false", silence, MONITORED),
    "transport.useKeepAlive": Effect("false", silence, MONITORED),
    "transport.keepAliveResponseRequired": Effect("true", silence, MONITORED),
    "wireFormat": Effect("stomp", offered),
    "wireFormat.version": Effect("10", offered),
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
    "wireFormat.host": Effect("here", offered),
    "wireFormat.includePlatformDetails": Effect("true", offered),
}  # fmt: skip
"""By the option's name in the URI."""


def test_every_option_has_its_effect_tested() -> None:
    accepted = {f"transport.{name}" for name in (*ACCEPTED, *FILTERS)}
    wire_format = {f"wireFormat.{name}" for name in WIRE_FORMAT}
    assert EFFECTS.keys() == {*SERVER, *accepted, "wireFormat", *wire_format}
    assert not SERVER.keys() & IGNORED_BY_SERVERS.keys()
    assert not (ACCEPTED.keys() | FILTERS.keys()) & IGNORED_OF_ACCEPTED.keys()


@pytest.mark.fact("activemq-edges 1.1/server")
@pytest.mark.parametrize("name", sorted(EFFECTS))
async def test_an_option_has_an_effect(name: str) -> None:
    effect = EFFECTS[name]
    without = await effect.observe(effect.others)
    assert await effect.observe(f"{effect.others}&{name}={effect.value}") != without


@pytest.mark.fact("activemq-edges 1.1/server")
@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("version=10", "version", 10),
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
    option: str, name: str, value: int | bool | str
) -> None:
    offer = await offered(f"wireFormat.{option}")
    assert isinstance(offer, dict)
    assert offer[name] == value


@pytest.mark.parametrize(
    ("observe", "option", "expected"),
    [
        (LINGER, "soLinger=3", struct.pack("ii", 1, 3)),
        (KEEP_ALIVE, "keepAlive=true", 1),
        (NO_DELAY, "tcpNoDelay=false", 0),
        (SERVICE, "diffServ=CS1", 32),
        (old_client, "minmumWireFormatVersion=10", "closed"),
        (late_handshake, "connectAttemptTimeout=500", "closed"),
    ],
)
async def test_options_of_accepted_connections(
    observe: Observe, option: str, expected: object
) -> None:
    assert await observe(f"transport.{option}") == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ([False] * 2, "closed")),
        ("transport.useKeepAlive=false", ([], "closed")),
        ("transport.keepAliveResponseRequired=true", ([True] * 2, "closed")),
        ("transport.useInactivityMonitor=false", ([], "Response")),
    ],
)
async def test_silent_clients(options: str, expected: object) -> None:
    assert await silence(f"{MONITORED}&{options}") == expected


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
