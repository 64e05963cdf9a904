"""STOMP on a TCP port: `stomp://host:port?options`, and with TLS: `stomp+ssl://host:port?options`.

(activemq-edges ST1 to ST13)
"""

from __future__ import annotations

from anyio.abc import SocketStream

from pyjms._ids import IdGenerator
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire import serve
from pyjms_broker.connector.protocol import ProtocolConnector
from pyjms_broker.connector.stomp.accepted import accepted_stomp
from pyjms_broker.connector.stomp.options import read_stomp_options

__all__ = ["StompConnector"]

_ENCRYPTED = "+ssl"


class StompConnector(ProtocolConnector):
    """Listens for STOMP clients."""

    serves_openwire = False

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options of `uri`, including those of TLS if its scheme ends in `+ssl`.

        Raises:
            ConfigurationException: the URI has no port, an option is unknown or invalid, or there
                is no certificate.
        """
        super().__init__(host, uri, name, encrypted=uri.scheme.endswith(_ENCRYPTED))
        self._options = read_stomp_options(self.uri)
        self._apply(self._options.server)
        self._ids = IdGenerator()

    @property
    def client_scheme(self) -> str:
        """`stomp` or `stomp+ssl`, even if the connector was configured with `nio`."""
        return "stomp" if self._tls is None else f"stomp{_ENCRYPTED}"

    def serve(self, stream: SocketStream) -> None:
        """Wait for a client's CONNECT in the background."""
        transport = accepted_stomp(
            stream,
            self._options,
            self.host.frame_budget,
            self._ids.generate(),
            scheme=self.client_scheme,
            tls=self._tls,
            unsent_budget=self.host.unsent_budget,
        )
        serve(self, transport)
