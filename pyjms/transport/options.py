"""Options of transport URLs: names, types and defaults; also sets the options of sockets.

Milliseconds in the URL become seconds here. Options of ActiveMQ that do not apply to this
implementation are accepted with one INFO line; an unknown name is an error that suggests the most
similar known name. A protocol adds its own table of options, as `pyjms.transport.openwire.options`
does.

Functions that convert a text raise ValueError with what to write instead. What reads options raises
ConfigurationException: one is unknown, cannot be converted, or contradicts another one.
(activemq-edges 1.1)
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms.transport.uri import TransportURI, could_not_create, did_you_mean, is_secret

logger: Final = get_logger(__name__)

Options = Mapping[str, tuple[str, Callable[[str], object]]]
"""Option name in the URL -> (attribute, function that converts the text)."""


def options_for(read: Callable[[str], object], *attributes: str, prefix: str = "") -> Options:
    """Return the options with the names of their attributes: `keepAlive` for `keep_alive`.

    Args:
        read: converts the text of each.
        attributes: the attributes that they set.
        prefix: the beginning of their names.
    """
    return {prefix + camel_case(attribute): (attribute, read) for attribute in attributes}


def options_of(
    settings: type, *, leave_out: Collection[str] = (), **readers: Callable[[str], object]
) -> Options:
    """Return the options for the attributes of a dataclass, read as their types require.

    Args:
        settings: the dataclass, whose numbers of seconds are milliseconds in the URL.
        leave_out: attributes that are no options, or are not named like them.
        readers: functions that convert the texts of attributes with other rules.
    """
    return {
        camel_case(each.name): (each.name, readers.get(each.name) or _READERS[each.type])
        for each in fields(settings)
        if each.name not in leave_out
    }


def camel_case(attribute: str) -> str:
    """Return the name of an attribute in ActiveMQ's spelling: `keepAlive` for `keep_alive`."""
    first, *others = attribute.split("_")
    return first + "".join("URIs" if word == "uris" else word.capitalize() for word in others)


@dataclass(frozen=True)
class TcpOptions:
    """Options of a TCP socket; times in seconds, None = for ever."""

    connection_timeout: float | None = 30.0
    so_linger: int | None = None
    socket_buffer_size: int = 65536
    send_buffer_size: int | None = None
    receive_buffer_size: int | None = None
    tcp_no_delay: bool | None = None
    keep_alive: bool = False
    use_local_host: bool = False
    type_of_service: int | None = None
    """The byte in the headers of packets that networks may give precedence by."""


@dataclass(frozen=True)
class ServerOptions:
    """Options of a listening socket."""

    backlog: int = 5000
    maximum_connections: int | None = None
    enable_status_monitor: bool = False
    """Whether clients that read nothing for some seconds, while data waits, are disconnected."""
    maximum_producers_allowed_per_connection: int | None = None
    maximum_consumers_allowed_per_connection: int | None = None
    allow_link_stealing: bool = False
    """Whether a new connection takes over the client id of an old one."""


def boolean(text: str) -> bool:
    """Convert `true` or `false`, in any case."""
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise ValueError("write true or false")
    return lowered == "true"


def integer(text: str) -> int:
    """Convert a whole number."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("write a whole number") from None


def at_least(least: int, advice: str) -> Callable[[str], int]:
    """Return a function that converts a whole number of `least` or more; otherwise `advice`."""

    def read(text: str) -> int:
        number = integer(text)
        if number < least:
            raise ValueError(advice)
        return number

    return read


def milliseconds(text: str) -> float | None:
    """Convert milliseconds to seconds; 0 or less is None, for ever."""
    number = integer(text)
    return number / 1000 if number > 0 else None


def duration(text: str) -> float:
    """Convert milliseconds to seconds; 0 stays 0, which usually means "off"."""
    return integer(text) / 1000


def type_of_service(text: str) -> int:
    """Convert a type of service, 0 to 255."""
    number = integer(text)
    if not 0 <= number <= 255:
        raise ValueError("write a number from 0 to 255")
    return number


def _differentiated_service(text: str) -> int:
    """Convert a code point of RFC 2474, by its name or number, to the type of service."""
    name = text.strip().upper()
    number = _CODE_POINTS.get(name)
    if number is None:
        try:
            number = int(name)
        except ValueError:
            number = -1
    if not 0 <= number <= 63:
        raise ValueError("write EF, CS0 to CS7, AF11 to AF43, or a number from 0 to 63")
    return number << 2


_CODE_POINTS: Final = {
    "EF": 46,
    **{f"CS{n}": 8 * n for n in range(8)},
    **{f"AF{n}{drop}": 8 * n + 2 * drop for n in range(1, 5) for drop in range(1, 4)},
}
_TYPES_OF_SERVICE: Final = frozenset({"diffServ", "typeOfService", "socket.trafficClass"})

_READERS: Final[Mapping[Any, Callable[[str], object]]] = {
    "bool": boolean,
    "bool | None": boolean,
    "int": integer,
    "int | None": integer,
    "float": duration,
    "float | None": milliseconds,
    "str": str,
    "str | None": str,
}
"""By the annotation of an attribute: the function that converts the text of its option."""

SOCKET: Options = {
    **options_for(boolean, "keep_alive", "tcp_no_delay"),
    **options_for(integer, "so_linger", "send_buffer_size", "receive_buffer_size"),
    "trafficClass": ("type_of_service", type_of_service),
}
TCP: Options = {
    **options_of(
        TcpOptions,
        leave_out=("send_buffer_size", "receive_buffer_size"),
        type_of_service=type_of_service,
    ),
    "diffServ": ("type_of_service", _differentiated_service),
    **{f"socket.{name}": option for name, option in SOCKET.items()},
}
SERVER: Options = options_of(ServerOptions)
_REUSE = "listening sockets always reuse their address"
_JAVA_STREAMS = "it applies to Java's streams and threads"
_LOGGING_TRANSPORT = "commands are logged by the loggers of pyjms.transport at level DEBUG"
_OF_CONNECTORS = "it is an option for a broker's connector"
_OF_CLIENTS = "it is an option for the connecting side"
IGNORED: Mapping[str, str] = {
    "soTimeout": "wireFormat.maxInactivityDuration ends silent connections",
    "socket.soTimeout": "wireFormat.maxInactivityDuration ends silent connections",
    "ioBufferSize": _JAVA_STREAMS,
    "closeAsync": _JAVA_STREAMS,
    "daemon": _JAVA_STREAMS,
    "useQueueForAccept": _JAVA_STREAMS,
    "trace": _LOGGING_TRANSPORT,
    "logWriterName": _LOGGING_TRANSPORT,
    "startLogging": _LOGGING_TRANSPORT,
    "dynamicManagement": "there is no JMX",
    "jmxPort": "there is no JMX",
    "socket.reuseAddress": _REUSE,
    "socket.oOBInline": "OpenWire has no urgent data",
}
"""ActiveMQ's options without an effect here, and why."""
IGNORED_BY_CLIENTS: Mapping[str, str] = {
    **IGNORED,
    "allowLinkStealing": _OF_CONNECTORS,
    "connectAttemptTimeout": f"{_OF_CONNECTORS}; wireFormat.maxInactivityDurationInitalDelay"
    " limits the client's wait for the broker's response",
}
"""Ignored options of the connecting side, and why."""
IGNORED_BY_SERVERS: Mapping[str, str] = {
    **IGNORED,
    "protocolDetectionTimeOut": "it is an option of auto://; transport.connectAttemptTimeout"
    " limits the protocol detection",
}
"""Ignored options of listening sockets, and why."""
_NAMES_OF_CLIENTS = "options of the client begin with jms., such as jms.prefetchPolicy.all=10"
IGNORED_OF_ACCEPTED: Mapping[str, str] = {
    **IGNORED,
    "reuseAddress": _REUSE,
    "allowLinkStealing": _OF_CONNECTORS,
    "connectionTimeout": _OF_CLIENTS,
    "useLocalHost": _OF_CLIENTS,
}
"""Ignored options of accepted connections (`transport.*`), and why."""


def read_options(given: Mapping[str, str], table: Options) -> dict[str, Any]:
    """Return the attributes and values that the `given` options in `table` set."""
    services = sorted(given.keys() & table.keys() & _TYPES_OF_SERVICE)
    if len(services) > 1:
        raise could_not_create(
            "Cannot set both the Differentiated Services and Type of Services transport options on"
            " the same connection.",
            hint=f"choose one of {', '.join(services)}",
        )
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name in table:
            attribute, read = table[name]
            try:
                values[attribute] = read(text)
            except ValueError as error:
                raise ConfigurationException(
                    f"Invalid value '{text}' of the option {name}", hint=str(error)
                ) from error
    return values


def read_all(uri: TransportURI, table: Options) -> dict[str, Any]:
    """Return the attributes and values that the options of a URL set; all must be in `table`."""
    check_known(uri, set(table), ignored={})
    return read_options(uri.options, table)


def check_known(
    uri: TransportURI,
    known: set[str],
    what: str = "connect",
    ignored: Mapping[str, str] = IGNORED_BY_CLIENTS,
) -> None:
    """Reject options of `uri` that are neither in `known` nor in `ignored`.

    Options in `ignored`, which has the reasons, are named in one log line, once for each parsed
    URL: a reconnection logs nothing.
    """
    names = known | ignored.keys()
    unknown = {k: v for k, v in uri.options.items() if k not in names}
    if unknown:
        shown = ", ".join(f"{k}={'***' if is_secret(k) else v}" for k, v in unknown.items())
        raise could_not_create(
            f"Invalid {what} parameters: {{{shown}}}",
            hint=did_you_mean(unknown, names) or (_NAMES_OF_CLIENTS if what == "connect" else ""),
        )
    new = [name for name in uri.options if name in ignored and name not in uri.reported]
    if new:
        uri.reported.update(new)
        without_effect = [f"{name} ({ignored[name]})" for name in new]
        logger.info("%s: accepted without effect: %s", uri.scheme, ", ".join(without_effect))


def apply_options(stream: ByteStream, options: TcpOptions) -> None:
    """Set the options of the socket below a stream, if there is one."""
    size = options.socket_buffer_size
    set_of_stream(stream, socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_size or size)
    set_of_stream(stream, socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_size or size)
    set_of_stream(stream, socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(options.keep_alive))
    if options.tcp_no_delay is not None:
        set_of_stream(stream, socket.IPPROTO_TCP, socket.TCP_NODELAY, int(options.tcp_no_delay))
    if options.so_linger is not None:
        on = int(options.so_linger >= 0)
        linger = struct.pack("ii", on, max(options.so_linger, 0))
        set_of_stream(stream, socket.SOL_SOCKET, socket.SO_LINGER, linger)
    if options.type_of_service is not None:
        raw = stream.extra(SocketAttribute.raw_socket, None)
        is_6 = raw is not None and raw.family == socket.AF_INET6
        level = socket.IPPROTO_IPV6 if is_6 else socket.IPPROTO_IP
        option = socket.IPV6_TCLASS if is_6 else socket.IP_TOS
        set_of_stream(stream, level, option, options.type_of_service)


def set_of_stream(stream: ByteStream, level: int, option: int, value: int | bytes) -> None:
    """Set one option of the socket below a stream, if there is one."""
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is not None:
        set_option(raw, level, option, value)


_INTERNET = (socket.AF_INET, socket.AF_INET6)


def set_option(raw: socket.socket, level: int, option: int, value: int | bytes) -> None:
    """Set one option of a socket, unless it is closed or of another kind."""
    if raw.fileno() >= 0 and (level == socket.SOL_SOCKET or raw.family in _INTERNET):
        raw.setsockopt(level, option, value)


def peer_address(stream: ByteStream, scheme: str = "tcp") -> str:
    """Return the address of the other end of a socket, as a URL."""
    try:
        address = stream.extra(SocketAttribute.remote_address, None)
    except OSError:  # an accepted socket that the peer has reset
        address = None
    if not isinstance(address, tuple):
        return f"{scheme}://unknown"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{scheme}://{host}:{address[1]}"


def certificate_of(stream: ByteStream) -> Mapping[str, Any] | None:
    """Return the certificate that the peer has presented, or None.

    Here, because the names of stream attributes are not of the type that anyio declares, which
    compiled modules check.
    """
    return stream.extra(TLSAttribute.peer_certificate, None) or None


def read_on_demand(stream: ByteStream) -> None:
    """Read from the socket only what `receive` requests.

    anyio 4 keeps reading from an accepted socket of an asyncio loop until the first `receive` that
    has to wait. If data is always available (a flood, uvloop), that never happens, and received
    data would accumulate without a limit while our reader is paused.
    """
    pause = getattr(getattr(stream, "_transport", None), "pause_reading", None)
    if pause is not None:
        pause()
