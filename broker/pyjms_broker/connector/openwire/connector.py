"""OpenWire on a TCP port: `tcp://host:port?options`, and with TLS: `ssl://host:port?options`."""

from __future__ import annotations

from anyio.abc import SocketStream

from pyjms.transport.openwire.factory import accepted_transport
from pyjms.transport.openwire.options import read_server_options
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.tcp import ProtocolConnector


class OpenWireConnector(ProtocolConnector):
    """Listens for OpenWire clients, with TLS if the scheme ends in `ssl`."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options `transport.*`, `wireFormat.*`, those of TLS and the server's of `uri`.

        Raises:
            ConfigurationException: the URI has no port, an option is unknown or invalid, or TLS has
                no certificate.
        """
        super().__init__(host, uri, name)
        server, self._tcp_options, self._wire_format = read_server_options(self.uri)
        self._apply(server)

    @property
    def client_scheme(self) -> str:
        """`tcp`, even if the connector was configured as `nio` or `openwire`; or `ssl`."""
        return "tcp" if self._tls is None else "ssl"

    def serve(self, stream: SocketStream) -> None:
        """Negotiate with a client in the background."""
        transport = accepted_transport(
            stream,
            self._tcp_options,
            self._wire_format,
            self.host.frame_budget,
            tls=self._tls,
            unsent_budget=self.host.unsent_budget,
        )
        serve(self, transport)
