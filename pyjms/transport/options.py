"""The options of broker URLs: name, type and default, by transport.

Milliseconds of the URL become seconds here. What ActiveMQ knows and has no meaning in this
house is accepted with one INFO line; a name nobody knows is an error. (ActiveMQ edges 1.1)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyjms.errors import ConfigurationException
from pyjms.transport.uri import TransportURI, could_not_create, did_you_mean
from pyjms.wire.openwire.format import WireFormatSettings

__all__ = [
    "IGNORED",
    "Options",
    "ServerOptions",
    "TcpOptions",
    "boolean",
    "check_known",
    "integer",
    "milliseconds",
    "read_options",
    "read_server_options",
    "read_tcp_options",
    "wire_format_settings",
]

logger = logging.getLogger(__name__)

_SMALLEST_CACHE = 100

Options = Mapping[str, tuple[str, Callable[[str], object]]]
"""URL name -> (attribute, reader of the text)."""


@dataclass(frozen=True)
class TcpOptions:
    """What a TCP transport can be told; times in seconds, None = for ever."""

    connection_timeout: float | None = 30.0
    so_linger: int | None = None
    socket_buffer_size: int = 65536
    send_buffer_size: int | None = None
    receive_buffer_size: int | None = None
    tcp_no_delay: bool | None = None
    keep_alive: bool = False
    use_local_host: bool = False
    minimum_wire_format_version: int = 0
    connect_attempt_timeout: float | None = 30.0
    use_inactivity_monitor: bool = True
    use_keep_alive: bool = True
    keep_alive_response_required: bool = False


@dataclass(frozen=True)
class ServerOptions:
    """What a listening socket can be told."""

    backlog: int = 5000
    maximum_connections: int | None = None


def boolean(text: str) -> bool:
    """`true` or `false`, in any case."""
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise ValueError("write true or false")
    return lowered == "true"


def integer(text: str) -> int:
    """A whole number."""
    return int(text)


def milliseconds(text: str) -> float | None:
    """Seconds from milliseconds; 0 and less is None, for ever."""
    return int(text) / 1000 if int(text) > 0 else None


def _duration(text: str) -> float:
    return int(text) / 1000


def _cache_size(text: str) -> int:
    """What both ends keep room for; ActiveMQ 5.17 hangs over fewer values than it spares."""
    size = int(text)
    if 0 < size < _SMALLEST_CACHE:
        raise ValueError(f"write 0 or at least {_SMALLEST_CACHE}: ActiveMQ hangs with less")
    return size


def _wire_format_name(text: str) -> str:
    if text.lower() not in {"default", "openwire"}:
        raise could_not_create(f"Could not create wire format factory for: {text}")
    return text


SOCKET: Options = {
    "keepAlive": ("keep_alive", boolean),
    "tcpNoDelay": ("tcp_no_delay", boolean),
    "soLinger": ("so_linger", integer),
    "sendBufferSize": ("send_buffer_size", integer),
    "receiveBufferSize": ("receive_buffer_size", integer),
}
TCP: Options = {
    "connectionTimeout": ("connection_timeout", milliseconds),
    "soLinger": ("so_linger", integer),
    "socketBufferSize": ("socket_buffer_size", integer),
    "tcpNoDelay": ("tcp_no_delay", boolean),
    "keepAlive": ("keep_alive", boolean),
    "useLocalHost": ("use_local_host", boolean),
    "minmumWireFormatVersion": ("minimum_wire_format_version", integer),
    "connectAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    "useInactivityMonitor": ("use_inactivity_monitor", boolean),
    "useKeepAlive": ("use_keep_alive", boolean),
    "keepAliveResponseRequired": ("keep_alive_response_required", boolean),
    **{f"socket.{name}": option for name, option in SOCKET.items()},
}
WIRE_FORMAT: Options = {
    "version": ("version", integer),
    "cacheEnabled": ("cache_enabled", boolean),
    "cacheSize": ("cache_size", _cache_size),
    "tightEncodingEnabled": ("tight_encoding_enabled", boolean),
    "tcpNoDelayEnabled": ("tcp_no_delay_enabled", boolean),
    "stackTraceEnabled": ("stack_trace_enabled", boolean),
    "sizePrefixDisabled": ("size_prefix_disabled", boolean),
    "maxInactivityDuration": ("max_inactivity_duration", _duration),
    "maxInactivityDurationInitalDelay": ("max_inactivity_duration_inital_delay", _duration),
    "maxFrameSize": ("max_frame_size", integer),
    "maxFrameSizeEnabled": ("max_frame_size_enabled", boolean),
    "host": ("host", str),
    "includePlatformDetails": ("include_platform_details", boolean),
}
SERVER: Options = {
    "backlog": ("backlog", integer),
    "maximumConnections": ("maximum_connections", integer),
}
IGNORED = frozenset(
    {
        "soTimeout",
        "ioBufferSize",
        "closeAsync",
        "diffServ",
        "typeOfService",
        "trace",
        "logWriterName",
        "dynamicManagement",
        "startLogging",
        "jmxPort",
        "daemon",
        "useQueueForAccept",
        "allowLinkStealing",
        "socket.reuseAddress",
        "socket.trafficClass",
        "socket.oOBInline",
        "socket.soTimeout",
    }
)
"""ActiveMQ's options without a meaning here: Java's threads, JMX, its stream buffers."""


def read_options(given: Mapping[str, str], table: Options) -> dict[str, Any]:
    """The attributes that `given` sets, of those that `table` knows.

    Raises:
        ConfigurationException: a value cannot be read.
    """
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


def check_known(uri: TransportURI, known: set[str], what: str = "connect") -> None:
    """Refuse options of `uri` that are neither known nor ignorable. (U3)

    Raises:
        ConfigurationException: it names them, and the nearest known name.
    """
    names = known | IGNORED
    unknown = {k: v for k, v in uri.options.items() if k not in names}
    if unknown:
        shown = ", ".join(
            f"{k}={'***' if k.lower().endswith('password') else v}" for k, v in unknown.items()
        )
        raise could_not_create(
            f"Invalid {what} parameters: {{{shown}}}",
            hint=did_you_mean(next(iter(unknown)), names),
        )
    ignored = [k for k in uri.options if k in IGNORED]
    if ignored:
        logger.info("%s: accepted without effect here: %s", uri.scheme, ", ".join(ignored))


def wire_format_settings(given: Mapping[str, str], host: str | None) -> WireFormatSettings:
    """The settings that `wireFormat.*` options make, given without that prefix.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be read.
    """
    unknown = [name for name in given if name not in WIRE_FORMAT]
    if unknown:
        raise could_not_create(
            f"Invalid connect parameters: {{wireFormat.{unknown[0]}={given[unknown[0]]}}}",
            hint=did_you_mean(unknown[0], WIRE_FORMAT),
        )
    return WireFormatSettings(**{"host": host, **read_options(given, WIRE_FORMAT)})


def read_tcp_options(uri: TransportURI) -> tuple[TcpOptions, WireFormatSettings]:
    """The options of a client's `tcp://` URL.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be read.
    """
    wire, rest = uri.split_options("wireFormat.")
    _, rest = rest.split_options("auto.")  # for the server's sniffing; the client ignores them
    check_known(rest, {*TCP, "wireFormat"})
    if "wireFormat" in rest.options:
        _wire_format_name(rest.options["wireFormat"])
    return TcpOptions(**read_options(rest.options, TCP)), wire_format_settings(wire, uri.host)


def read_server_options(
    uri: TransportURI,
) -> tuple[ServerOptions, TcpOptions, WireFormatSettings]:
    """The options of a connector's `tcp://` URL; `transport.x` is option x of what is accepted.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be read.
    """
    wire, rest = uri.split_options("wireFormat.")
    accepted, rest = rest.split_options("transport.")
    check_known(rest, {*SERVER, "wireFormat"}, "bind")
    check_known(TransportURI("transport", options=accepted), set(TCP), "bind")
    if "wireFormat" in rest.options:
        _wire_format_name(rest.options["wireFormat"])
    return (
        ServerOptions(**read_options(rest.options, SERVER)),
        TcpOptions(**read_options(accepted, TCP)),
        wire_format_settings(wire, None),
    )
