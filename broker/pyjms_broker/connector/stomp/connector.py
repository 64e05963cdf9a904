"""STOMP on a TCP port: `stomp://host:port?options`, and with TLS: `stomp+ssl://host:port?options`.

(activemq-edges ST1 to ST13)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.transport.options import (
    IGNORED_BY_SERVERS,
    IGNORED_OF_ACCEPTED,
    SERVER,
    Options,
    ServerOptions,
    at_least,
    milliseconds,
    read_options,
)
from pyjms.transport.uri import TransportURI
from pyjms.wire.limits import MAX_FRAME_SIZE
from pyjms_broker.connector.client_session import ClientConnector, ClientOptions, ClientProtocol
from pyjms_broker.connector.stomp.session import Periods, StompSession, read_periods
from pyjms_broker.connector.tcp import read_protocol_options

NO_HEART_BEATS = Periods(0, 0)
_SILENCE = "heart-beats end silent connections"


@dataclass(frozen=True)
class StompOptions(ClientOptions):
    """Options of STOMP clients."""

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
_TRANSPORT: Options = {
    "connectAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    "defaultHeartBeat": ("default_heart_beat", _heart_beat),
    "hbGracePeriodMultiplier": ("grace_multiplier", _multiplier),
    **_SIZES,
}
_WIRE_FORMAT: Options = {
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
        uri, _TRANSPORT, _WIRE_FORMAT, _IGNORED_BY_SERVERS, _IGNORED_OF_ACCEPTED
    )
    return StompOptions(
        tcp=accepted,
        server=ServerOptions(**read_options(server_options, SERVER)),
        **own,
    )


STOMP_PROTOCOL: Final = ClientProtocol(
    "stomp", _TRANSPORT, _WIRE_FORMAT, read_stomp_options, StompSession
)


class StompConnector(ClientConnector):
    """Listens for STOMP clients."""

    PROTOCOL = STOMP_PROTOCOL
