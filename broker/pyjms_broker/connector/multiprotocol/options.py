"""The options of connectors for several protocols: OpenWire's and STOMP's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyjms.transport.openwire.options import ACCEPTED, OpenWireOptions, read_server_options
from pyjms.transport.options import ServerOptions, TcpOptions
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.stomp.options import (
    STOMP_TRANSPORT,
    STOMP_WIRE_FORMAT,
    StompOptions,
    read_stomp_options,
)

__all__ = ["ProtocolOptions", "read_protocol_options"]

_TRANSPORT: Final = "transport."
_WIRE_FORMAT: Final = "wireFormat."


@dataclass(frozen=True)
class ProtocolOptions:
    """The options of a connector, by protocol."""

    server: ServerOptions
    tcp: TcpOptions
    openwire: OpenWireOptions
    stomp: StompOptions


def read_protocol_options(uri: TransportURI) -> ProtocolOptions:
    """Return the options of `uri`: OpenWire's, and STOMP's, such as its heart-beats.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be used.
    """
    own = {f"{_TRANSPORT}{name}" for name in STOMP_TRANSPORT if name not in _OPENWIRE_NAMES}
    options = {name: value for name, value in uri.options.items() if name not in own}
    server, tcp, openwire = read_server_options(replace(uri, options=options))
    stomp_options = {f"{_TRANSPORT}{name}" for name in (*ACCEPTED, *STOMP_TRANSPORT)}
    stomp_options |= {f"{_WIRE_FORMAT}{name}" for name in STOMP_WIRE_FORMAT}
    options = {name: value for name, value in uri.options.items() if name in stomp_options}
    stomp = read_stomp_options(replace(uri, options=options))
    return ProtocolOptions(server, tcp, openwire, stomp)


_OPENWIRE_NAMES: Final = frozenset({"connectAttemptTimeout"})
"""Options of both protocols."""
