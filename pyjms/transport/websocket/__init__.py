"""WebSocket as a byte layer below a wire format; with TLS below it: `ws` and `wss`.

    layer       frames on memory, without a socket
    handshake   the HTTP request that begins a connection, of both sides

What a wire format sends travels in binary messages, cut anywhere, STOMP in text messages, too: the
receiver joins them to one stream of bytes, as of a socket. The package `websockets` (extra
`websocket`) does the protocol.
"""

from pyjms.transport.websocket.handshake import (
    HandshakePolicy,
    accept_websocket,
    connect_websocket,
    require_websockets,
)
from pyjms.transport.websocket.layer import STOMP_SUBPROTOCOLS, WebSocketLayer

__all__ = [
    "STOMP_SUBPROTOCOLS",
    "HandshakePolicy",
    "WebSocketLayer",
    "accept_websocket",
    "connect_websocket",
    "require_websockets",
]
