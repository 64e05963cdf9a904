"""OpenWire on a TCP port: `tcp://host:port?options`."""

from __future__ import annotations

from anyio.abc import SocketStream

from pyjms.transport.openwire import accepted_transport
from pyjms.transport.openwire.options import read_server_options
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.tcp import TcpConnector

__all__ = ["OpenWireConnector"]


class OpenWireConnector(TcpConnector):
    """Listens for OpenWire clients."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options `transport.*`, `wireFormat.*` and the server's of `uri`.

        Raises:
            ConfigurationException: the URI has no port, or an option is unknown or wrong.
        """
        super().__init__(host, uri, name)
        server, self._tcp_options, self._wire_format = read_server_options(uri)
        if server.maximum_connections is not None:
            self.maximum_connections = server.maximum_connections
        self.backlog = server.backlog
        self.allow_link_stealing = server.allow_link_stealing

    @property
    def client_scheme(self) -> str:
        """`tcp`, also where the connector was configured as `nio` or `openwire`."""
        return "tcp"

    def serve(self, stream: SocketStream) -> None:
        """Negotiate with a client, in the background."""
        transport = accepted_transport(
            stream, self._tcp_options, self._wire_format, self.host.frame_budget
        )
        serve(self.host, self, transport)
