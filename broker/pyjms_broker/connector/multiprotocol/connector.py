"""The base class of connectors for several protocols."""

from __future__ import annotations

from abc import abstractmethod

from anyio.abc import ByteStream, SocketStream

from pyjms._ids import IdGenerator
from pyjms.transport.base import Transport
from pyjms.transport.openwire import accepted_transport
from pyjms.transport.options import peer_address, read_on_demand
from pyjms.transport.tls import accept_tls
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.frame_budget import UnfinishedFrame
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.multiprotocol.detection import STOMP
from pyjms_broker.connector.multiprotocol.options import read_protocol_options
from pyjms_broker.connector.multiprotocol.transport import ChosenTransport
from pyjms_broker.connector.openwire import serve
from pyjms_broker.connector.protocol import ProtocolConnector
from pyjms_broker.connector.stomp import accepted_stomp

__all__ = ["MultiProtocolConnector"]


class MultiProtocolConnector(ProtocolConnector):
    """Listens for clients of OpenWire and STOMP, with TLS if the scheme says so."""

    schemes = ("tcp", "ssl")
    """The client's scheme without and with TLS."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options of `uri`, including those of TLS if its scheme uses TLS.

        Raises:
            ConfigurationException: the URI has no port, an option is unknown or invalid, or there
                is no certificate.
        """
        encrypted = uri.scheme.endswith("ssl") or uri.scheme == "wss"
        super().__init__(host, uri, name, encrypted=encrypted)
        self._options = read_protocol_options(self.uri)
        self._apply(self._options.server)
        self._ids = IdGenerator()

    @property
    def client_scheme(self) -> str:
        return self.schemes[self._tls is not None]

    def serve(self, stream: SocketStream) -> None:
        """Determine a client's protocol and serve the client, in the background."""
        remote = peer_address(stream, self.client_scheme)
        serve(self, ChosenTransport(stream, remote, self._accept_client))

    async def _accept_client(self, stream: ByteStream) -> Transport[Command]:
        read_on_demand(stream)
        remote = peer_address(stream, self.client_scheme)
        if self._tls is not None:
            timeout = self._options.openwire.connect_attempt_timeout
            stream = await accept_tls(stream, self._tls, remote, timeout)
        return await self.choose(stream, remote)

    @abstractmethod
    async def choose(self, stream: ByteStream, remote: str) -> Transport[Command]:
        """Complete the handshakes of a client and return its transport, not started.

        Raises:
            ConnectionFailedException: the client takes too long, or has disconnected.
            RemoteProtocolError: it uses an unsupported protocol.
        """

    def transport_of(
        self, protocol: str, stream: ByteStream, layered: UnfinishedFrame | None = None
    ) -> Transport[Command]:
        """Return the transport for a protocol; `layered` counts frames of the layer below."""
        options, budget = self._options, self.host.frame_budget
        if protocol == STOMP:
            return accepted_stomp(
                stream,
                options.stomp,
                budget,
                self._ids.generate(),
                scheme=self.client_scheme,
                layered=layered,
                unsent_budget=self.host.unsent_budget,
            )
        return accepted_transport(
            stream,
            options.tcp,
            options.openwire,
            budget,
            scheme=self.client_scheme,
            layered=layered,
            unsent_budget=self.host.unsent_budget,
        )
