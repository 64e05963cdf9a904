"""The options of a connector's URL: `stomp://host:port?options`. (activemq-edges ST3, ST13)"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pyjms.errors import RemoteProtocolError
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
from pyjms.transport.uri import TransportURI, could_not_create, did_you_mean
from pyjms.wire.limits import MAX_FRAME_SIZE
from pyjms_broker.connector.stomp.heart_beat import Periods, read_periods

__all__ = ["STOMP_TRANSPORT", "STOMP_WIRE_FORMAT", "StompOptions", "read_stomp_options"]

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
