"""Detection of a peer that uses another protocol, by the first bytes that it sends."""

from __future__ import annotations

from pyjms.errors import RemoteProtocolError

__all__ = ["foreign_protocol"]

_TLS = "the scheme of a client's URL must match the port: ssl:// if it uses TLS, otherwise tcp://"
_OTHER_PORT = "this port is for OpenWire: clients of other protocols need another port"
_FIRST_BYTES: tuple[tuple[bytes, str, str], ...] = (
    (b"\x16\x03", "The peer uses TLS, and this side does not", _TLS),
    (b"\x15\x03", "The peer expects TLS, which this side does not use", _TLS),
    (b"GET ", "The peer speaks HTTP", _OTHER_PORT),
    (b"POST ", "The peer speaks HTTP", _OTHER_PORT),
    (b"HTTP/", "The peer speaks HTTP", "check that it is the broker's port for OpenWire"),
    (b"CONNECT", "The peer speaks STOMP", _OTHER_PORT),
    (b"STOMP", "The peer speaks STOMP", _OTHER_PORT),
    (b"AMQP", "The peer speaks AMQP", _OTHER_PORT),
)


def foreign_protocol(data: bytes) -> RemoteProtocolError | None:
    """Return the error for a peer whose first bytes are `data`; None: no known protocol."""
    for first, reason, hint in _FIRST_BYTES:
        if data.startswith(first):
            return RemoteProtocolError(reason, hint=hint)
    return None
