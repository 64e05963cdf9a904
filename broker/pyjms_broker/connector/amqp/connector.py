"""AMQP 1.0 on a TCP port: `amqp://host:port?options`, and with TLS: `amqp+ssl://host:port?options`.

(amqp-connector A1 to A13)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyjms.transport.options import Options, at_least, boolean, duration, integer, milliseconds
from pyjms.wire.limits import MAX_FRAME_SIZE
from pyjms_broker.connector.amqp.incoming import NATIVE, TRANSFORMERS
from pyjms_broker.connector.amqp.session import AmqpSession
from pyjms_broker.connector.client_connector import ClientConnector, ClientOptions, ClientProtocol

_SMALLEST_FRAME: Final = 512
"""The smallest maximum that AMQP allows."""


@dataclass(frozen=True)
class AmqpOptions(ClientOptions):
    """Options of AMQP clients."""

    idle_timeout: float = 30.0
    """Seconds after which a silent client is disconnected; 0: never."""
    max_amqp_frame_size: int | None = 131_072
    """Bytes of the largest frame that clients may send; None: `max_frame_size`."""
    max_frame_size: int = MAX_FRAME_SIZE
    """Bytes of the largest message."""
    producer_credit: int = 1000
    """The number of messages that a client may send before the broker has answered."""
    transformer: str = NATIVE
    """How messages of clients are converted."""
    allow_non_sasl: bool = False
    """Whether clients may connect without SASL."""
    use_inactivity_monitor: bool = True

    @property
    def largest_frame(self) -> int:
        """Bytes of the largest frame that clients may send."""
        return min(self.max_amqp_frame_size or self.max_frame_size, self.max_frame_size)


def _transformer(text: str) -> str:
    if text.lower() not in TRANSFORMERS:
        raise ValueError(f"write {', '.join(TRANSFORMERS)}")
    return text.lower()


def _frame_size(text: str) -> int | None:
    number = integer(text)
    if number != -1 and number < _SMALLEST_FRAME:
        raise ValueError(f"write a number of bytes from {_SMALLEST_FRAME}, or -1 for no own limit")
    return None if number == -1 else number


_BOTH: Options = {
    "maxFrameSize": ("max_frame_size", at_least(_SMALLEST_FRAME, "write bytes from 512")),
    "producerCredit": ("producer_credit", at_least(1, "write a number of messages from 1")),
    "transformer": ("transformer", _transformer),
}
_WIRE_FORMAT: Options = {
    **_BOTH,
    "allowNonSaslConnections": ("allow_non_sasl", boolean),
    "idelTimeout": ("idle_timeout", duration),  # as ActiveMQ spells it
    "idleTimeout": ("idle_timeout", duration),
    "maxAmqpFrameSize": ("max_amqp_frame_size", _frame_size),
}
_TRANSPORT: Options = {
    **_BOTH,
    "connectAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    "useInactivityMonitor": ("use_inactivity_monitor", boolean),
    **{f"wireFormat.{name}": option for name, option in _WIRE_FORMAT.items()},
}


AMQP_PROTOCOL: Final = ClientProtocol(
    "amqp",
    AmqpOptions,
    _TRANSPORT,
    _WIRE_FORMAT,
    AmqpSession,
    silence="the idle time-out ends silent connections",
)


class AmqpConnector(ClientConnector):
    """Listens for AMQP clients."""

    PROTOCOL = AMQP_PROTOCOL
