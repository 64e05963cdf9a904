"""The connector of one broker for clients in its own process; open while the broker runs."""

from __future__ import annotations

from pyjms.errors import ConnectionFailedException, ResourceAllocationException
from pyjms.wire.openwire.format import OpenWireFormat, WireFormatSettings
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.openwire import BrokerConnection, serve
from pyjms_broker.connector.vm.transport import VmTransport, negotiated, next_address

__all__ = ["VmConnector"]


class VmConnector(TransportConnector):
    """Accepts clients in the broker's own process, on the broker's own event loop."""

    @property
    def connect_uri(self) -> str:
        return f"vm://{self.host.broker_name}"

    async def start(self) -> None:
        self.stopping = False

    async def stop(self) -> None:
        self.stopping = True
        await self.stop_connections()

    def accept(self, client: VmTransport, settings: WireFormatSettings | None) -> BrokerConnection:
        """Connect `client` to the broker; with wire format settings bytes are exchanged.

        Raises:
            ConnectionFailedException: the broker is stopping.
            ResourceAllocationException: the connector has as many connections as it may have.
        """
        if self.stopping:
            raise ConnectionFailedException(f"The broker of {self.connect_uri} is stopping")
        if len(self.connections) >= self.maximum_connections:
            raise ResourceAllocationException(
                f"{self.connect_uri} has its maximum of {self.maximum_connections} connections"
            )
        wire_format = None if settings is None else OpenWireFormat(settings)
        end = VmTransport(next_address(self.connect_uri), wire_format)
        end.peer, client.peer = client, end
        return serve(self.host, self, negotiated(end))
