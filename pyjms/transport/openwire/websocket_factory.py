"""A client's transports over WebSocket: `ws://host:port/path`, and `wss` with TLS.

OpenWire in binary messages of the subprotocol `openwire`, for networks that allow only HTTP. The
other end is a `ws` or `wss` connector of the bundled broker: those of ActiveMQ carry STOMP, MQTT
and AMQP. Imported on the first `ws:` or `wss:` URL.
"""

from __future__ import annotations

from anyio.abc import ByteStream

from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.openwire.factory import client_transport, host_and_port
from pyjms.transport.openwire.options import read_client_options
from pyjms.transport.tcp import open_socket
from pyjms.transport.tls import (
    CLIENT_TLS,
    IGNORED_OF_TLS_CLIENTS,
    connect_tls,
    read_client_tls,
    shared_context,
)
from pyjms.transport.uri import TransportURI
from pyjms.transport.websocket import connect_websocket, require_websockets

SUBPROTOCOL = "openwire"


def ws_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `ws://host:port/path?options`, not started.

    Raises:
        ConfigurationException: the host or port is missing, an option is wrong, or the extra
            `websocket` is not installed.
    """
    require_websockets(str(uri))
    tcp_options, options = read_client_options(uri)
    host, port = host_and_port(uri)
    url = f"ws://{uri.location}"

    async def connect() -> ByteStream:
        raw = await open_socket(host, port, tcp_options, str(uri))
        return await connect_websocket(raw, url, SUBPROTOCOL, tcp_options.connection_timeout)

    return client_transport(connect, url, tcp_options, options)


def wss_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `wss://host:port/path?options`, not started.

    Raises:
        ConfigurationException: as for `ws_transport`.
    """
    require_websockets(str(uri))
    tcp_options, options = read_client_options(uri, CLIENT_TLS, IGNORED_OF_TLS_CLIENTS)
    host, port = host_and_port(uri)
    context = shared_context(read_client_tls(uri))
    url = f"wss://{uri.location}"
    timeout = tcp_options.connection_timeout

    async def connect() -> ByteStream:
        raw = await open_socket(host, port, tcp_options, str(uri))
        secure = await connect_tls(raw, context, url, timeout)
        return await connect_websocket(secure, url, SUBPROTOCOL, timeout)

    return client_transport(connect, url, tcp_options, options)
