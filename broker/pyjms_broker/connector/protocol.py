"""The base class of TCP connectors of all protocols: TLS, and the server's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.transport.options import ServerOptions
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.tcp import TcpConnector

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

__all__ = ["ProtocolConnector"]


class ProtocolConnector(TcpConnector):
    """Listens on a TCP port, with TLS if `encrypted` is set.

    In that case `uri` is without the TLS options. A handshake runs in the connection's task, within
    `connectAttemptTimeout`.
    """

    def __init__(
        self, host: BrokerHost, uri: TransportURI, name: str | None, *, encrypted: bool
    ) -> None:
        """Read the TLS options; subclasses read the others from `self.uri`.

        Raises:
            ConfigurationException: the URI has no port, an option is invalid, or there is no
                certificate.
        """
        self._tls: TlsContext | None = None
        self._needs_certificates = False
        if encrypted:
            # imported here, so that a connector without TLS starts without it
            from pyjms.transport.tls import read_server_tls, shared_context  # noqa: PLC0415

            tls, uri = read_server_tls(uri)
            self._tls = shared_context(tls, server_side=True)
            self._needs_certificates = tls.need_client_auth
        super().__init__(host, uri, name)

    def _apply(self, server: ServerOptions) -> None:
        """Apply the server's options."""
        if server.maximum_connections is not None:
            self.maximum_connections = server.maximum_connections
        self.backlog = server.backlog
        self.allow_link_stealing = server.allow_link_stealing

    @property
    def checks_clients(self) -> bool:
        return self._needs_certificates

    async def start(self) -> None:
        """Read certificate and key, if any, then accept connections.

        Raises:
            ConfigurationException: they cannot be used.
            ResourceAllocationException: the address cannot be bound.
        """
        if self._tls is not None:
            await self._tls.current()
        await super().start()
