"""Detection of a client's protocol by its first bytes. (activemq-edges U5)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import anyio
from anyio.abc import ByteStream

from pyjms import _clock
from pyjms.errors import ConnectionFailedException, RemoteProtocolError
from pyjms.transport.base import ClosedUnused
from pyjms.transport.layers import LayeredStream

__all__ = ["OPENWIRE", "STOMP", "detect", "protocol_of"]

OPENWIRE: Final = "openwire"
STOMP: Final = "stomp"
_OTHER_PORT: Final = "this port is for OpenWire and STOMP"
_MAGIC: Final = b"\x01ActiveMQ"
"""The type of WireFormatInfo and its magic; the size of the command may precede them."""
_SIZE_LENGTH: Final = 4
_ENOUGH: Final = 16
"""The bytes that identify each protocol."""
_MQTT_CONNECT: Final = 0x10
_FOREIGN: Final = (
    (b"AMQP", "AMQP"),
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
    b"This port is for OpenWire and STOMP.\n"
)


def protocol_of(data: bytes) -> str | None:
    """Return the protocol of a client that has sent `data`; None if it is not known yet.

    Raises:
        RemoteProtocolError: it is not supported.
    """
    text = data.lstrip(b"\r\n")
    if text.startswith((b"CONNECT", b"STOMP")):
        return STOMP
    if data.startswith(_MAGIC) or data[_SIZE_LENGTH:].startswith(_MAGIC):
        return OPENWIRE
    for first, name in _FOREIGN:
        if data.startswith(first):
            raise RemoteProtocolError(f"The client speaks {name}", hint=_OTHER_PORT)
    if data[:1] == bytes([_MQTT_CONNECT]) and (b"MQTT" in data or b"MQIsdp" in data):
        raise RemoteProtocolError("The client speaks MQTT", hint=_OTHER_PORT)
    if len(text) >= _ENOUGH or len(data) > 2 * _ENOUGH:
        raise RemoteProtocolError(
            f"The client speaks neither OpenWire nor STOMP; it began with {data[:_ENOUGH]!r}",
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
            kind = ConnectionFailedException if data else ClosedUnused
            raise kind(f"{remote}: the client has disconnected") from error
        except RemoteProtocolError as error:
            if error.reason.endswith("HTTP"):
                await stream.send(_ANSWER_TO_HTTP)
            raise
        if isinstance(stream, LayeredStream):
            stream.ahead = data + stream.ahead
            return protocol, stream
        return protocol, LayeredStream(stream, _Unchanged(), data)
    raise ConnectionFailedException(
        f"{remote}: the client has not begun a known protocol within {timeout:g} s",
        hint="the connector's option protocolDetectionTimeOut (ms) sets the limit",
    )


class _Unchanged:
    """The pass-through layer of a connection without encryption."""

    error: Exception | None = None
    has_outgoing = False
    attributes: Mapping[Any, Callable[[], Any]] = MappingProxyType({})

    def receive(self, data: bytes) -> bytes:
        return data

    def send(self, data: bytes | bytearray) -> bytes:
        return bytes(data)

    def outgoing(self) -> bytes:
        return b""

    def close(self) -> bytes:
        return b""
