"""STOMP on a TCP port: `stomp://host:port?options`, and with TLS: `stomp+ssl://host:port?options`.

(activemq-edges ST1 to ST13)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio.abc import ByteStream, SocketStream

from pyjms.errors import RemoteProtocolError
from pyjms.runtime.ids import IdGenerator
from pyjms.transport.options import (
    IGNORED_BY_SERVERS,
    IGNORED_OF_ACCEPTED,
    SERVER,
    Options,
    ServerOptions,
    TcpOptions,
    at_least,
    milliseconds,
    read_options,
)
from pyjms.transport.tcp import accepted_tcp
from pyjms.transport.unsent import UnsentBudget
from pyjms.transport.uri import TransportURI
from pyjms.wire.limits import MAX_FRAME_SIZE, FrameBudget, UnfinishedFrame
from pyjms.wire.stomp import StompFormat
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.stomp.session import Periods, StompSession, read_periods
from pyjms_broker.connector.tcp import ProtocolConnector, read_protocol_options

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

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
    max_data_length: int | None = None
    """The maximum of a body, if it is less than that of the frame."""


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


_size = at_least(1, "write a number of bytes from 1")
_SIZES: Options = {
    "maxDataLength": ("max_data_length", _size),
    "maxFrameSize": ("max_frame_size", _size),
}
STOMP_TRANSPORT: Options = {
    "connectAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    "defaultHeartBeat": ("default_heart_beat", _heart_beat),
    "hbGracePeriodMultiplier": ("grace_multiplier", _multiplier),
    **_SIZES,
}
STOMP_WIRE_FORMAT: Options = {
    "connectionAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    **_SIZES,
}


def _without_detection(table: dict[str, str]) -> dict[str, str]:
    return {
        name: _SILENCE if name.endswith("soTimeout") else reason
        for name, reason in table.items()
        if name not in {"protocolDetectionTimeOut", "socket.oOBInline"}
    }


_IGNORED_BY_SERVERS = _without_detection(dict(IGNORED_BY_SERVERS))
_IGNORED_OF_ACCEPTED = _without_detection(dict(IGNORED_OF_ACCEPTED))


def read_stomp_options(uri: TransportURI) -> StompOptions:
    """Return the options of `uri`; `transport.x` is option x of each accepted connection.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be used.
    """
    accepted, server_options, own = read_protocol_options(
        uri, STOMP_TRANSPORT, STOMP_WIRE_FORMAT, _IGNORED_BY_SERVERS, _IGNORED_OF_ACCEPTED
    )
    return StompOptions(
        tcp=accepted,
        server=ServerOptions(**read_options(server_options, SERVER)),
        **own,
    )


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
) -> StompSession:
    """Return the transport of a client, over TCP, TLS or WebSocket, not started.

    `connection_id` is the id of its JMS connection. `layered` counts the frames of a layer of
    `stream`, such as WebSocket; `unsent_budget` counts the unread data of all clients.
    """
    unfinished = UnfinishedFrame(frame_budget)
    wire_format = StompFormat(
        options.max_frame_size, unfinished, max_data_length=options.max_data_length
    )
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
    return StompSession(tcp, wire_format, options, connection_id)


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
