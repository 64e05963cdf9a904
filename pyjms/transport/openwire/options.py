"""The options of OpenWire URLs in addition to socket options: `wireFormat.*` and filters.

The option `wireFormat=name` names the wire format of an installed package: an entry point in the
group `pyjms.wire_formats` maps the name to a callable, which is passed the options `wireFormat.*`
of the URL, without that prefix, and returns the codec of one connection. There is no negotiation
and no inactivity monitor then: these are features of OpenWire's own format.
(activemq-edges 1.1, N21)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from types import MappingProxyType
from typing import Final, cast

from pyjms.runtime.distribution import entry_points
from pyjms.transport.options import (
    IGNORED_BY_CLIENTS,
    IGNORED_BY_SERVERS,
    IGNORED_OF_ACCEPTED,
    SERVER,
    TCP,
    Options,
    ServerOptions,
    TcpOptions,
    check_known,
    integer,
    options_of,
    read_options,
)
from pyjms.transport.uri import TransportURI, could_not_create, did_you_mean, is_secret
from pyjms.wire.format import WireFormat
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.settings import WireFormatSettings

GROUP: Final = "pyjms.wire_formats"
OPENWIRE: Final = frozenset({"default", "openwire"})
"""The names of OpenWire's own format."""

WireFormatFactory = Callable[[Mapping[str, str]], WireFormat[Command]]
"""The object of an entry point; raises ConfigurationException if an option is wrong."""
CreateFormat = Callable[[], WireFormat[Command]]


def installed_format(name: str, options: Mapping[str, str]) -> CreateFormat:
    """Return a function that creates the codec `name` of one connection."""
    create = partial(_installed_factory(name), options)
    create()  # for errors in the options
    return create


@cache
def _installed_factory(name: str) -> WireFormatFactory:
    """Return the factory of this name; the result is cached only if there is one."""
    installed = entry_points(group=GROUP)
    for point in installed.select(name=name):
        return cast("WireFormatFactory", point.load())
    names = sorted({"default", *installed.names})
    raise could_not_create(
        f"Could not create wire format factory for: {name}",
        hint=f"known formats: {', '.join(names)}; packages may add others ({GROUP})",
    )


_SMALLEST_CACHE = 100


@dataclass(frozen=True)
class OpenWireOptions:
    """Options of the filters around an OpenWire transport; times in seconds, None = for ever."""

    wire_format: WireFormatSettings = field(default_factory=WireFormatSettings)
    other_format: CreateFormat | None = None
    """Creates the codec of an installed package, used without negotiation; None: OpenWire."""
    minimum_wire_format_version: int = 0
    connect_attempt_timeout: float | None = 30.0
    """How long the accepting side waits for the peer's WireFormatInfo."""
    use_inactivity_monitor: bool = True
    use_keep_alive: bool = True
    keep_alive_response_required: bool = False


def _cache_size(text: str) -> int:
    size = integer(text)
    if 0 < size < _SMALLEST_CACHE:
        # ActiveMQ keeps that many slots free for the next frame
        raise ValueError(f"write 0 or at least {_SMALLEST_CACHE}: ActiveMQ hangs with less")
    return size


def _formats(
    options: Mapping[str, str], own: Mapping[str, str], host: str | None
) -> tuple[WireFormatSettings, CreateFormat | None]:
    """Return the settings of OpenWire's format, and the format that `wireFormat` names or None."""
    name = options.get("wireFormat", "default")
    if name.lower() in OPENWIRE:
        return wire_format_settings(own, host), None
    return WireFormatSettings(host=host), installed_format(name, own)


FILTERS: Options = {
    "minmumWireFormatVersion": ("minimum_wire_format_version", integer),
    **options_of(
        OpenWireOptions, leave_out=("wire_format", "other_format", "minimum_wire_format_version")
    ),
}
CONNECTING: Options = {name: o for name, o in FILTERS.items() if name not in IGNORED_BY_CLIENTS}
_PROTOCOL_DETECTION = "it is for the protocol detection of a broker's connector"
ACCEPTED: Options = {name: TCP[name] for name in TCP if name not in IGNORED_OF_ACCEPTED}
WIRE_FORMAT: Options = options_of(
    WireFormatSettings, leave_out=("provider_name", "provider_version"), cache_size=_cache_size
)


def wire_format_settings(given: Mapping[str, str], host: str | None) -> WireFormatSettings:
    """Return the settings from `wireFormat.*` options, given without that prefix."""
    unknown = [name for name in given if name not in WIRE_FORMAT]
    if unknown:
        listed = ", ".join(
            f"wireFormat.{name}={'***' if is_secret(name) else given[name]}" for name in unknown
        )
        raise could_not_create(
            f"Invalid connect parameters: {{{listed}}}", hint=did_you_mean(unknown, WIRE_FORMAT)
        )
    return WireFormatSettings(**{"host": host, **read_options(given, WIRE_FORMAT)})


def read_client_options(
    uri: TransportURI,
    others: Collection[str] = (),
    others_ignored: Mapping[str, str] = MappingProxyType({}),
) -> tuple[TcpOptions, OpenWireOptions]:
    """Return the options of a client's `tcp://` URL.

    `others` are options that the caller reads itself; `others_ignored` have no effect, with the
    reasons.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be converted.
    """
    wire, rest = uri.split_options("wireFormat.")
    detection = {n: _PROTOCOL_DETECTION for n in rest.options if n.startswith("auto.")}
    ignored = {**IGNORED_BY_CLIENTS, **detection, **others_ignored}
    check_known(rest, {*TCP, *CONNECTING, *others, "wireFormat"}, ignored=ignored)
    settings, other = _formats(rest.options, wire, uri.host)
    return (
        TcpOptions(**read_options(rest.options, TCP)),
        OpenWireOptions(settings, other, **read_options(rest.options, CONNECTING)),
    )


def read_server_options(uri: TransportURI) -> tuple[ServerOptions, TcpOptions, OpenWireOptions]:
    """Return the options of a connector's `tcp://` URL.

    `transport.x` is option x of each accepted connection.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be converted.
    """
    wire, rest = uri.split_options("wireFormat.")
    accepted, rest = rest.split_options("transport.")
    check_known(rest, {*SERVER, "wireFormat"}, "bind", IGNORED_BY_SERVERS)
    check_known(
        TransportURI("transport", options=accepted, reported=uri.reported),
        {*ACCEPTED, *FILTERS},
        "bind",
        IGNORED_OF_ACCEPTED,
    )
    settings, other = _formats(rest.options, wire, None)
    return (
        ServerOptions(**read_options(rest.options, SERVER)),
        TcpOptions(**read_options(accepted, ACCEPTED)),
        OpenWireOptions(settings, other, **read_options(accepted, FILTERS)),
    )
