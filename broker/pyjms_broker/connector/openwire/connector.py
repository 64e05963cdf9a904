"""OpenWire on a TCP port: `tcp://host:port?options`, and with TLS: `ssl://host:port?options`.

ActiveMQ's `auto` schemes detect the protocol of each client. This broker speaks OpenWire only: they
accept OpenWire, say so once, and refuse an `auto.protocols` that asks for more. (activemq-edges U5)
"""

from __future__ import annotations

from dataclasses import replace

from anyio.abc import SocketStream

from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException
from pyjms.transport.openwire import accepted_transport
from pyjms.transport.openwire.options import read_server_options
from pyjms.transport.tls import TlsContext, read_server_tls, shared_context
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.tcp import TcpConnector

__all__ = ["OpenWireConnector", "OpenWireSslConnector"]

logger = get_logger(__name__)

_OPENWIRE = frozenset({"default", "openwire"})


class OpenWireConnector(TcpConnector):
    """Listens for OpenWire clients."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options `transport.*`, `wireFormat.*` and the server's of `uri`.

        Raises:
            ConfigurationException: the URI has no port, or an option is unknown or wrong.
        """
        uri = _without_detection(uri)
        super().__init__(host, uri, name)
        self._tls: TlsContext | None = None
        server, self._tcp_options, self._wire_format = read_server_options(uri)
        if server.maximum_connections is not None:
            self.maximum_connections = server.maximum_connections
        self.backlog = server.backlog
        self.allow_link_stealing = server.allow_link_stealing

    @property
    def client_scheme(self) -> str:
        """`tcp`, also where the connector was configured as `nio` or `openwire`."""
        return "tcp"

    async def start(self) -> None:
        if self.uri.scheme.startswith("auto") and not self.started:
            logger.info(
                "Connector %s accepts OpenWire only: this broker has no STOMP, AMQP or MQTT to "
                "detect",
                self.name,
            )
        await super().start()

    def serve(self, stream: SocketStream) -> None:
        """Negotiate with a client, in the background."""
        transport = accepted_transport(
            stream, self._tcp_options, self._wire_format, self.host.frame_budget, self._tls
        )
        serve(self.host, self, transport)


class OpenWireSslConnector(OpenWireConnector):
    """Listens for OpenWire clients that use TLS.

    A handshake runs in the connection's own task, within `connectAttemptTimeout`.
    """

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options of TLS, and those of a connector without it.

        Raises:
            ConfigurationException: as there, or there is no certificate.
        """
        tls, rest = read_server_tls(uri)
        super().__init__(host, rest, name)
        self._tls = shared_context(tls, server_side=True)
        self._needs_certificates = tls.need_client_auth

    @property
    def checks_clients(self) -> bool:
        return self._needs_certificates

    @property
    def client_scheme(self) -> str:
        return "ssl"

    async def start(self) -> None:
        """Read certificate and key, then accept connections.

        Raises:
            ConfigurationException: they cannot be used.
            ResourceAllocationException: the address cannot be bound.
        """
        assert self._tls is not None
        await self._tls.current()
        await super().start()


def _without_detection(uri: TransportURI) -> TransportURI:
    """Return `uri` without the options of protocol detection."""
    if not uri.scheme.startswith("auto"):
        return uri
    named = uri.options.get("auto.protocols", "default")
    others = {name.strip().lower() for name in named.split(",")} - _OPENWIRE
    others |= {name for name in uri.options if name.startswith("auto.")} - {"auto.protocols"}
    if others:
        raise ConfigurationException(
            f"Connector {uri}: this broker does not speak what is asked for: {min(others)}",
            hint="it speaks OpenWire only: leave auto.* out, or write auto.protocols=default",
        )
    options = {k: v for k, v in uri.options.items() if k != "auto.protocols"}
    return replace(uri, options=options)
