"""STOMP on a TCP port: `stomp://host:port?options`, and with TLS: `stomp+ssl://host:port?options`.

(activemq-edges ST1 to ST13)

The transport of a STOMP client, which carries commands for the broker's connection.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    StompTransport, StompSession                                  commands <-> frames
    TcpTransport with StompFormat                                 frames <-> bytes

A STOMP client is thus treated like an OpenWire client, including limits and back-pressure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import ByteStream, SocketStream

from pyjms.errors import ConnectionFailedException, RemoteProtocolError
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.forwarding import DelegatedAttribute, delegated
from pyjms.runtime.ids import IdGenerator
from pyjms.transport.base import Transport
from pyjms.transport.openwire.options import ACCEPTED
from pyjms.transport.options import (
    IGNORED_BY_SERVERS,
    IGNORED_OF_ACCEPTED,
    SERVER,
    Options,
    ServerOptions,
    TcpOptions,
    check_known,
    integer,
    milliseconds,
    read_options,
)
from pyjms.transport.tcp import TcpTransport, accepted_tcp
from pyjms.transport.uri import TransportURI, could_not_create, did_you_mean
from pyjms.transport.writer import UnsentBudget
from pyjms.wire.limits import MAX_FRAME_SIZE, FrameBudget, UnfinishedFrame
from pyjms.wire.openwire.commands import Command, ShutdownInfo
from pyjms.wire.stomp import V1_0, Frame, StompFormat
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.stomp.heart_beat import HeartBeat, Periods, read_periods
from pyjms_broker.connector.stomp.session import HANDLERS, StompSession
from pyjms_broker.connector.tcp import ProtocolConnector

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

__all__ = [
    "STOMP_TRANSPORT",
    "STOMP_WIRE_FORMAT",
    "StompConnector",
    "StompOptions",
    "StompTransport",
    "accepted_stomp",
    "read_stomp_options",
]

# --- The options of a connector's URL: `stomp://host:port?options`. (activemq-edges ST3, ST13)

NO_HEART_BEATS = Periods(0, 0)
_SILENCE = "heart-beats end silent connections"


@dataclass(frozen=True)
class StompOptions:
    """Options of STOMP clients; times are in seconds, None: no limit."""

    tcp: TcpOptions = field(default_factory=TcpOptions)
    server: ServerOptions = field(default_factory=ServerOptions)
    connect_attempt_timeout: float | None = 30.0
    """The maximum wait for a client's CONNECT."""
    default_heart_beat: Periods = NO_HEART_BEATS
    """The periods of clients that do not specify any."""
    grace_multiplier: float = 1.0
    max_frame_size: int = MAX_FRAME_SIZE


def _heart_beat(text: str) -> Periods:
    try:
        return read_periods(text)
    except RemoteProtocolError as error:
        raise ValueError("write two numbers of milliseconds, such as 10000,10000") from error


def _multiplier(text: str) -> float:
    number = float(text)
    if not 1 <= number < math.inf:
        raise ValueError("write a number from 1")
    return number


def _size(text: str) -> int:
    number = integer(text)
    if number < 1:
        raise ValueError("write a number of bytes from 1")
    return number


STOMP_TRANSPORT: Options = {
    "connectAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    "defaultHeartBeat": ("default_heart_beat", _heart_beat),
    "hbGracePeriodMultiplier": ("grace_multiplier", _multiplier),
}
STOMP_WIRE_FORMAT: Options = {"maxFrameSize": ("max_frame_size", _size)}


def _ignored(table: dict[str, str]) -> dict[str, str]:
    return {
        name: _SILENCE if name.endswith("soTimeout") else reason
        for name, reason in table.items()
        if name not in {"protocolDetectionTimeOut", "socket.oOBInline"}
    }


_IGNORED_BY_SERVERS = _ignored(dict(IGNORED_BY_SERVERS))
_IGNORED_OF_ACCEPTED = _ignored(dict(IGNORED_OF_ACCEPTED))


def read_stomp_options(uri: TransportURI) -> StompOptions:
    """Return the options of `uri`; `transport.x` is option x of each accepted connection.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be used.
    """
    wire, rest = uri.split_options("wireFormat.")
    accepted, rest = rest.split_options("transport.")
    unknown = [name for name in wire if name not in STOMP_WIRE_FORMAT]
    if unknown:
        raise could_not_create(
            f"Invalid bind parameters: {', '.join(f'wireFormat.{name}' for name in unknown)}",
            hint=did_you_mean(unknown, STOMP_WIRE_FORMAT),
        )
    check_known(rest, set(SERVER), "bind", _IGNORED_BY_SERVERS)
    check_known(
        TransportURI("transport", options=accepted, reported=uri.reported),
        {*ACCEPTED, *STOMP_TRANSPORT},
        "bind",
        _IGNORED_OF_ACCEPTED,
    )
    return StompOptions(
        tcp=TcpOptions(**read_options(accepted, ACCEPTED)),
        server=ServerOptions(**read_options(rest.options, SERVER)),
        **read_options(accepted, STOMP_TRANSPORT),
        **read_options(wire, STOMP_WIRE_FORMAT),
    )


_TCP: Final = attrgetter("_tcp")


class StompTransport(Transport[Command]):
    """The transport of one client. `connection_id` is the id of its JMS connection."""

    def __init__(
        self,
        tcp: TcpTransport[Frame],
        wire_format: StompFormat,
        options: StompOptions,
        connection_id: str,
    ) -> None:
        self._tcp = tcp
        self._format = wire_format
        self._options = options
        self._session = StompSession(self, connection_id, options.default_heart_beat, HANDLERS)
        self._heart_beat = HeartBeat(tcp)
        self._connected = anyio.Event()
        self._loop: LoopHandle
        tcp.listener = self

    async def start(self) -> None:
        """Start, and wait for the client's CONNECT.

        Raises:
            ConnectionFailedException: it did not come in time, or the handshake failed.
        """
        self._loop = LoopHandle()
        await self._tcp.start()
        timeout = self._options.connect_attempt_timeout
        with _clock.timeout(timeout):
            await self._connected.wait()
            return
        raise ConnectionFailedException(
            f"{self.remote_address}: no CONNECT arrived within {timeout:g} s",
            hint="transport.connectAttemptTimeout (ms) sets the limit",
        )

    async def stop(self) -> None:
        await self._heart_beat.stop()
        await self._tcp.stop()

    def oneway(self, command: Command) -> None:
        self._session.on_broker_command(command)

    def flush(self) -> None:
        self._tcp.flush()

    @property
    def congested(self) -> bool:
        return self._tcp.congested

    drained = delegated(Transport.drained, _TCP)
    pause_reading = delegated(Transport.pause_reading, _TCP)
    resume_reading = delegated(Transport.resume_reading, _TCP)
    remote_address = DelegatedAttribute[str](_TCP, read_only=True)
    peer_certificate = DelegatedAttribute[Mapping[str, Any] | None](_TCP, read_only=True)

    @property
    def notices_silence(self) -> bool:
        return True  # `start` limits the wait for CONNECT; afterwards the client's periods apply

    # from the TCP transport
    def on_command(self, frame: Frame) -> None:
        """Handle a frame of the client."""
        self._session.on_frame(frame)

    def on_exception(self, error: Exception) -> None:
        """Report to the listener that the connection has failed."""
        self._heart_beat.end()
        self.listener.on_exception(error)

    # from the session
    @property
    def version(self) -> str:
        """The client's version; 1.0 until one is agreed."""
        return self._format.version or V1_0

    @property
    def has_version(self) -> bool:
        """Whether a version has been agreed."""
        return self._format.version is not None

    def to_client(self, frame: Frame) -> None:
        """Send a frame.

        Raises:
            ConnectionFailedException: the connection has ended.
        """
        self._tcp.oneway(frame)

    def to_broker(self, command: Command) -> None:
        """Pass a command to the broker. Responses may arrive before this returns."""
        self.listener.on_command(command)

    def call_next(self, function: Callable[[], object]) -> None:
        """Call `function()` in the loop's next iteration."""
        self._loop.call_next(function)

    def connected(self, periods: Periods) -> None:
        """Start heart-beats, as the broker has accepted the client."""
        self._connected.set()
        self._heart_beat.start(periods, self._options.grace_multiplier)

    def close(self) -> None:
        """Close the connection, after writing what is queued."""
        self._connected.set()
        self.listener.on_command(ShutdownInfo())


# --- The transport of an accepted STOMP connection, over TCP, TLS or WebSocket.


def accepted_stomp(
    stream: ByteStream,
    options: StompOptions,
    frame_budget: FrameBudget,
    connection_id: str,
    *,
    scheme: str,
    tls: TlsContext | None = None,
    layered: UnfinishedFrame | None = None,
    unsent_budget: UnsentBudget | None = None,
) -> StompTransport:
    """Return the transport of a client, not started.

    `connection_id` is the id of its JMS connection. `layered` counts the frames of a layer of
    `stream`, such as WebSocket; `unsent_budget` counts the unread data of all clients.
    """
    unfinished = UnfinishedFrame(frame_budget)
    wire_format = StompFormat(options.max_frame_size, unfinished)
    tcp = accepted_tcp(
        stream,
        wire_format,
        options.tcp,
        scheme=scheme,
        timeout=options.connect_attempt_timeout,
        unfinished=unfinished,
        tls=tls,
        layered=layered,
        discard=wire_format.discard,
        unsent_budget=unsent_budget,
    )
    return StompTransport(tcp, wire_format, options, connection_id)


class StompConnector(ProtocolConnector):
    """Listens for STOMP clients."""

    serves_openwire = False

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options of `uri`, including those of TLS if its scheme ends in `+ssl`.

        Raises:
            ConfigurationException: the URI has no port, an option is unknown or invalid, or there
                is no certificate.
        """
        super().__init__(host, uri, name)
        self._options = read_stomp_options(self.uri)
        self._apply(self._options.server)
        self._ids = IdGenerator()

    @property
    def client_scheme(self) -> str:
        """`stomp` or `stomp+ssl`, even if the connector was configured with `nio`."""
        return "stomp" if self._tls is None else "stomp+ssl"

    def serve(self, stream: SocketStream) -> None:
        """Wait for a client's CONNECT in the background."""
        transport = accepted_stomp(
            stream,
            self._options,
            self.host.frame_budget,
            self._ids.generate(),
            scheme=self.client_scheme,
            tls=self._tls,
            unsent_budget=self.host.unsent_budget,
        )
        serve(self, transport)
