"""OpenWire, STOMP, MQTT and AMQP over WebSocket: `ws://host:port?options`, and with TLS: `wss://`.

The subprotocol determines the client's protocol: `openwire`, `mqtt` and `mqttv3.1`, `amqp`, or
`v12.stomp`, `v11.stomp`, `v10.stomp` and `stomp`, as in ActiveMQ. STOMP frames are sent as text
messages if they are UTF-8, and received as text or binary messages. The option
`websocket.allowedOrigins` lists the origins (`https://shop.example.com,...` or `*`) of pages from
which browsers may connect, besides the broker's own host; for a broker without users, that is
`localhost` or a loopback address.
`websocket.maxTextMessageSize` and `websocket.maxBinaryMessageSize` limit received messages, which
clients such as stompjs do not cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from anyio.abc import ByteStream

from pyjms.errors import ConfigurationException
from pyjms.transport.base import Transport
from pyjms.transport.options import Options, at_least, read_options
from pyjms.transport.uri import TransportURI
from pyjms.transport.websocket import (
    OPENWIRE_SUBPROTOCOL,
    STOMP_SUBPROTOCOLS,
    HandshakePolicy,
    MessageSizes,
    accept_websocket,
    require_websockets,
)
from pyjms.wire.limits import UnfinishedFrame
from pyjms.wire.openwire.commands import Command
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.multiprotocol import AMQP, MQTT, OPENWIRE, STOMP, MultiProtocolConnector

_PROTOCOLS: Final = {
    **dict.fromkeys(STOMP_SUBPROTOCOLS, STOMP),
    **dict.fromkeys(("mqtt", "mqttv3.1"), MQTT),
    "amqp": AMQP,
}
"""Protocols by subprotocol; any other one is OpenWire's."""
_PREFIX: Final = "websocket."
_ORIGINS: Final = "allowedOrigins"
_SIZES: Final[Options] = {
    "maxTextMessageSize": ("text", at_least(1, "write a number of bytes from 1")),
    "maxBinaryMessageSize": ("binary", at_least(1, "write a number of bytes from 1")),
}


class WebSocketConnector(MultiProtocolConnector):
    """Listens for clients that use WebSocket.

    A handshake runs in the connection's task, within `connectAttemptTimeout`.
    """

    schemes = ("ws", "wss")

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options of WebSocket, and those of the protocols.

        Raises:
            ConfigurationException: as there, or the extra `websocket` is not installed.
        """
        require_websockets(str(uri))
        self._policy, rest = _read_policy(uri)
        super().__init__(host, rest, name)

    async def choose(self, stream: ByteStream, remote: str) -> Transport[Command]:
        layered = UnfinishedFrame(self.host.frame_budget)
        timeout = self._openwire_options.connect_attempt_timeout
        has_users = self.host.broker.authenticates_clients
        policy = replace(self._policy, is_local=not (has_users or self.host.allow_anonymous_remote))
        websocket = await accept_websocket(stream, policy, remote, timeout, layered.update)
        protocol = _PROTOCOLS.get(websocket.subprotocol or "", OPENWIRE)
        return self.transport_of(protocol, websocket, layered)


def _read_policy(uri: TransportURI) -> tuple[HandshakePolicy, TransportURI]:
    """Return the connector's handshake policy, and its URL without the policy's options."""
    options, rest = uri.split_options(_PREFIX)
    origins = options.pop(_ORIGINS, "")
    unknown = options.keys() - _SIZES
    if unknown:
        known = ", ".join(_PREFIX + name for name in (_ORIGINS, *_SIZES))
        raise ConfigurationException(
            f"Unknown option {_PREFIX}{min(unknown)} of {uri}", hint=f"there are {known}"
        )
    named = (origin.strip().rstrip("/") for origin in origins.split(","))
    subprotocols = (OPENWIRE_SUBPROTOCOL, *_PROTOCOLS)
    allowed = frozenset(filter(None, named))
    sizes = MessageSizes(**read_options(options, _SIZES))
    return HandshakePolicy(subprotocols, allowed, sizes=sizes), rest
