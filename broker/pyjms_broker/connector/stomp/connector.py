"""STOMP on a TCP port: `stomp://host:port?options`, and with TLS: `stomp+ssl://host:port?options`.

(activemq-edges ST1 to ST13)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.transport.options import Options, at_least, milliseconds
from pyjms.wire.limits import MAX_FRAME_SIZE
from pyjms_broker.connector.client_connector import ClientConnector, ClientOptions, ClientProtocol
from pyjms_broker.connector.stomp.session import Periods, StompSession, read_periods

NO_HEART_BEATS = Periods(0, 0)


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


STOMP_PROTOCOL: Final = ClientProtocol(
    "stomp",
    StompOptions,
    _TRANSPORT,
    _WIRE_FORMAT,
    StompSession,
    silence="heart-beats end silent connections",
    refused=frozenset({"protocolDetectionTimeOut", "socket.oOBInline"}),
)


class StompConnector(ClientConnector):
    """Listens for STOMP clients."""

    PROTOCOL = STOMP_PROTOCOL
