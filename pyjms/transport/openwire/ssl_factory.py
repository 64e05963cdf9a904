"""A client's transport over TLS; imported on the first `ssl:` URL. (ActiveMQ: SslTransport)"""

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

_REFUSED = (
    "the broker may require a client certificate (ssl.keyStore) or refuse this one; see the "
    "broker's log"
)


def ssl_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `ssl://host:port?options`, not started.

    Raises:
        ConfigurationException: the host or port is missing, or an option is wrong.
    """
    tcp_options, options = read_client_options(uri, CLIENT_TLS, IGNORED_OF_TLS_CLIENTS)
    host, port = host_and_port(uri)
    context = shared_context(read_client_tls(uri))
    remote = f"ssl://{host}:{port}"

    async def connect() -> ByteStream:
        raw = await open_socket(host, port, tcp_options, str(uri))
        return await connect_tls(raw, context, remote, tcp_options.connection_timeout)

    return client_transport(connect, remote, tcp_options, options, refusal_hint=_REFUSED)
