"""One port for OpenWire, STOMP, MQTT and AMQP: `auto://host:port?options`, and with TLS: `auto+ssl://`.

`MultiProtocolConnector` is also the base of the connector for WebSocket. Its options are those of
all protocols; each protocol gets those that it knows.

The first bytes determine the client's protocol; it has `protocolDetectionTimeOut` (ms, 30000) to
send them. `auto.protocols=default,stomp` restricts the protocols; `auto.stomp.x`, `auto.mqtt.x`
and `auto.amqp.x` are options of one of them.
(activemq-edges U5; mqtt-connector M4; amqp-connector A3)
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import anyio
from anyio.abc import ByteStream, SocketStream

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    RemoteProtocolError,
    UnusedConnectionException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.ids import IdGenerator
from pyjms.transport.base import Transport, TransportFilter
from pyjms.transport.layers import ByteLayer, LayeredStream
from pyjms.transport.openwire.factory import accepted_transport
from pyjms.transport.openwire.options import ACCEPTED, read_server_options
from pyjms.transport.options import milliseconds, peer_address, read_on_demand
from pyjms.transport.tls import accept_tls
from pyjms.transport.uri import TransportURI
from pyjms.wire.limits import UnfinishedFrame
from pyjms.wire.openwire.commands import Command
from pyjms_broker.connector.amqp.connector import AMQP_PROTOCOL
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.client_connector import (
    LINK_STEALING,
    Accepted,
    ClientOptions,
    ClientProtocol,
)
from pyjms_broker.connector.mqtt.connector import MQTT_PROTOCOL
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.stomp.connector import STOMP_PROTOCOL
from pyjms_broker.connector.tcp import ProtocolConnector

OPENWIRE: Final = "openwire"
_PROTOCOLS: Final[dict[str, ClientProtocol[Any]]] = {
    each.name: each for each in (STOMP_PROTOCOL, MQTT_PROTOCOL, AMQP_PROTOCOL)
}
"""Those besides OpenWire, by name."""
STOMP: Final = STOMP_PROTOCOL.name
MQTT: Final = MQTT_PROTOCOL.name
AMQP: Final = AMQP_PROTOCOL.name
_OTHER_PORT: Final = "this port is for OpenWire, STOMP, MQTT and AMQP"
_MAGIC: Final = b"\x01ActiveMQ"
"""The type of WireFormatInfo and its magic; the size of the command may precede them."""
_SIZE_LENGTH: Final = 4
_ENOUGH: Final = 16
"""The bytes that identify each protocol."""
_MQTT: Final = re.compile(rb"\x10[\x80-\xff]{0,3}[\x00-\x7f]\x00[\x04\x06]M")
"""The beginning of a CONNECT: its type, its length, and the name of the protocol."""
_FOREIGN: Final = (
    (b"GET ", "HTTP"),
    (b"POST ", "HTTP"),
    (b"PUT ", "HTTP"),
    (b"HEAD ", "HTTP"),
    (b"OPTIONS ", "HTTP"),
    (b"DELETE ", "HTTP"),
    (b"\x16\x03", "TLS"),
)
_ANSWER_TO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This port is for OpenWire, STOMP, MQTT and AMQP.\n"
)
_TIMEOUT: Final = "protocolDetectionTimeOut"
_ALLOWED: Final = "auto.protocols"
_NAMES: Final = {"default": OPENWIRE, **{name: name for name in (OPENWIRE, *_PROTOCOLS)}}
_COMMON: Final = frozenset(
    [
        *(f"transport.{name}" for name in (*ACCEPTED, "connectAttemptTimeout")),
        "wireFormat.maxFrameSize",
        LINK_STEALING,
    ]
)
"""The options of all protocols."""


_OPTIONS: Final = {
    name: _COMMON.union(
        (f"transport.{option}" for option in protocol.transport),
        (f"wireFormat.{option}" for option in protocol.wire_format),
    )
    for name, protocol in _PROTOCOLS.items()
}
_NOT_OPENWIRE: Final = frozenset().union(*_OPTIONS.values()) - _COMMON
"""The options that OpenWire does not have, such as heart-beats."""
_NO_OWN: Final[Mapping[str, Mapping[str, str]]] = {}


class MultiProtocolConnector(ProtocolConnector):
    """Listens for clients of OpenWire, STOMP, MQTT and AMQP, with TLS if the scheme says so."""

    schemes = ("tcp", "ssl")
    """The client's scheme without and with TLS."""

    def __init__(
        self,
        host: BrokerHost,
        uri: TransportURI,
        name: str | None = None,
        own: Mapping[str, Mapping[str, str]] = _NO_OWN,
    ) -> None:
        """Read the options of `uri`, including those of TLS if its scheme uses TLS.

        `own` are further options by the protocol to which they apply.

        Raises:
            ConfigurationException: the URI has no port, an option is unknown or invalid, or there
                is no certificate.
        """
        super().__init__(host, uri, name)
        uri = self.uri
        server, self._tcp_options, self._openwire_options = read_server_options(
            replace(uri, options={k: v for k, v in uri.options.items() if k not in _NOT_OPENWIRE})
        )

        self._options: dict[str, ClientOptions] = {}
        for protocol, known in _OPTIONS.items():
            options = {k: v for k, v in uri.options.items() if k in known}
            options |= own.get(protocol, {})
            read = _PROTOCOLS[protocol].read_options
            self._options[protocol] = read(replace(uri, options=options))
        self._apply(server)
        self._ids = IdGenerator()

    @property
    def client_scheme(self) -> str:
        return self.schemes[self._tls is not None]

    def serve(self, stream: SocketStream) -> None:
        """Determine a client's protocol and serve the client, in the background."""
        remote = peer_address(stream, self.client_scheme)
        serve(self, ChosenTransport(stream, remote, self._accept_client))

    async def _accept_client(self, stream: ByteStream) -> Transport[Command]:
        read_on_demand(stream)
        remote = peer_address(stream, self.client_scheme)
        if self._tls is not None:
            timeout = self._openwire_options.connect_attempt_timeout
            stream = await accept_tls(stream, self._tls, remote, timeout)
        return await self.choose(stream, remote)

    @abstractmethod
    async def choose(self, stream: ByteStream, remote: str) -> Transport[Command]:
        """Complete the handshakes of a client and return its transport, not started.

        Raises:
            ConnectionFailedException: the client takes too long, or has disconnected.
            RemoteProtocolError: it uses an unsupported protocol.
        """

    def transport_of(
        self, protocol: str, stream: ByteStream, layered: UnfinishedFrame | None = None
    ) -> Transport[Command]:
        """Return the transport for a protocol; `layered` counts frames of the layer below."""
        host, scheme = self.host, self.client_scheme
        if protocol in _PROTOCOLS:
            accepted = Accepted(stream, scheme, self, layered=layered)
            make = _PROTOCOLS[protocol].session
            return make(accepted, self._options[protocol], host, self._ids.generate())
        return accepted_transport(
            stream,
            self._tcp_options,
            self._openwire_options,
            host.frame_budget,
            scheme=scheme,
            layered=layered,
            unsent_budget=host.unsent_budget,
        )


class AutoConnector(MultiProtocolConnector):
    """Listens for clients, and detects their protocol."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options for detection, and those of the protocols."""
        options = dict(uri.options)
        self._protocols = _protocols(uri, options.pop(_ALLOWED, ",".join(_NAMES)))
        try:
            self._timeout = milliseconds(options.pop(_TIMEOUT, "30000"))
        except ValueError as error:
            raise ConfigurationException(f"Option {_TIMEOUT} of {uri}: {error}") from error
        own: dict[str, dict[str, str]] = {}
        for protocol in _OPTIONS:
            prefix = f"auto.{protocol}."
            names = [option for option in options if option.startswith(prefix)]
            own[protocol] = {
                f"transport.{each.removeprefix(prefix)}": options.pop(each) for each in names
            }
        super().__init__(host, replace(uri, options=options), name, own)

    async def choose(self, stream: ByteStream, remote: str) -> Transport[Command]:
        protocol, stream = await detect(stream, remote, self._timeout)
        if protocol not in self._protocols:
            raise RemoteProtocolError(
                f"The client speaks {protocol}, which {_ALLOWED} does not allow"
            )
        return self.transport_of(protocol, stream)


def _protocols(uri: TransportURI, text: str) -> frozenset[str]:
    named = {name.strip().lower() for name in text.split(",")}
    unknown = named - _NAMES.keys()
    if unknown:
        raise ConfigurationException(
            f"Connector {uri}: this broker cannot detect {min(unknown)}",
            hint=f"{_ALLOWED} can have {', '.join(_NAMES)}",
        )
    return frozenset(_NAMES[name] for name in named)


def protocol_of(data: bytes) -> str | None:
    """Return the protocol of a client that has sent `data`; None if it is not known yet."""
    text = data.lstrip(b"\r\n")
    if text.startswith((b"CONNECT", b"STOMP")):
        return STOMP
    if data.startswith(_MAGIC) or data[_SIZE_LENGTH:].startswith(_MAGIC):
        return OPENWIRE
    for first, name in _FOREIGN:
        if data.startswith(first):
            raise RemoteProtocolError(f"The client speaks {name}", hint=_OTHER_PORT)
    if data.startswith(b"AMQP"):
        return AMQP
    if _MQTT.match(data) is not None:
        return MQTT
    if len(text) >= _ENOUGH or len(data) > 2 * _ENOUGH:
        raise RemoteProtocolError(
            "The client speaks none of OpenWire, STOMP, MQTT and AMQP; "
            f"it began with {data[:_ENOUGH]!r}",
            hint=_OTHER_PORT,
        )
    return None


async def detect(
    stream: ByteStream, remote: str, timeout: float | None
) -> tuple[str, LayeredStream]:
    """Return the protocol of a client, and a stream that returns all data the client has sent.

    Raises:
        ConnectionFailedException: it is unknown after `timeout` seconds, or the client has
            disconnected.
        RemoteProtocolError: it is not supported.
    """
    data = b""
    with _clock.timeout(timeout):
        try:
            while (protocol := protocol_of(data)) is None:
                data += await stream.receive(_ENOUGH)
        except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
            kind = ConnectionFailedException if data else UnusedConnectionException
            raise kind(f"{remote}: the client has disconnected") from error
        except RemoteProtocolError as error:
            if error.reason.endswith("HTTP"):
                await stream.send(_ANSWER_TO_HTTP)
            raise
        if isinstance(stream, LayeredStream):
            stream.ahead = data + stream.ahead
            return protocol, stream
        return protocol, LayeredStream(stream, ByteLayer(), data)
    raise ConnectionFailedException(
        f"{remote}: the client has not begun a known protocol within {timeout:g} s",
        hint="the connector's option protocolDetectionTimeOut (ms) sets the limit",
    )


class _Undecided(Transport[Command]):
    """A client whose protocol is not known yet: what is sent to it waits."""

    def __init__(self, stream: ByteStream, remote_address: str) -> None:
        self.stream = stream
        self.early: list[Command] = []
        self.is_paused = False
        self._remote = remote_address

    async def start(self) -> None:
        """Do nothing: `ChosenTransport` reads what the client sends first."""

    async def stop(self) -> None:
        await anyio.aclose_forcefully(self.stream)

    def oneway(self, command: Command) -> None:
        self.early.append(command)

    @property
    def congested(self) -> bool:
        return False

    async def drain(self) -> None:
        """Return at once, as it is never congested."""

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    @property
    def remote_address(self) -> str:
        return self._remote


class ChosenTransport(TransportFilter[Command]):
    """Passes everything to the transport that `choose` returns at the start.

    Args:
        stream: the connection that was accepted.
        remote_address: the client's address.
        choose: performs the handshakes and returns the transport of the client's protocol, not
            started; the stream is closed if it raises.
    """

    def __init__(
        self,
        stream: ByteStream,
        remote_address: str,
        choose: Callable[[ByteStream], Awaitable[Transport[Command]]],
    ) -> None:
        self._undecided = _Undecided(stream, remote_address)
        super().__init__(self._undecided)
        self._choose = choose

    async def start(self) -> None:
        undecided = self._undecided
        try:
            chosen = await self._choose(undecided.stream)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await undecided.stop()
            raise
        chosen.listener = self.listener
        for command in undecided.early:
            chosen.oneway(command)
        if undecided.is_paused:
            chosen.pause_reading()
        self.next = chosen
        await chosen.start()

    @property
    def outbound(self) -> Transport[Command]:
        return self if self.next is self._undecided else self.next.outbound
