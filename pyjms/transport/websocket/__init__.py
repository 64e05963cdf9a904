"""WebSocket as a byte layer below a wire format; with TLS below it: `ws` and `wss`.

    layer       frames in memory, without a socket
    handshake   the HTTP request that opens a connection, for both sides

The bytes of a wire format travel in binary messages, split at any position, those of STOMP also in
text messages. The receiver joins them to one stream of bytes, like that of a socket. The package
`websockets` (extra `websocket`) implements the protocol.
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
