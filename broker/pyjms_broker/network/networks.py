"""All that a broker has to do with other brokers."""

from __future__ import annotations

import itertools

from pyjms.errors import ConfigurationException
from pyjms.wire.openwire.commands import BrokerInfo
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import NetworkBridge
from pyjms_broker.network.connector import NetworkConnector
from pyjms_broker.network.demand import DemandTable
from pyjms_broker.network.duplex import DuplexBridges, DuplexConnection, ReverseBridge
from pyjms_broker.network.host import NetworkHost

__all__ = ["Networks"]


class Networks:
    """The network connectors of a broker, and the bridges that other brokers have asked for."""

    def __init__(self, host: NetworkHost) -> None:
        self._host = host
        self.demand = DemandTable()
        self.connectors: list[NetworkConnector] = []
        self._duplex = DuplexBridges(host)

    @property
    def duplex_bridges(self) -> list[ReverseBridge]:
        """The bridges over connections that other brokers have opened."""
        return self._duplex.bridges

    @property
    def bridges(self) -> list[NetworkBridge]:
        """All bridges."""
        own = [bridge for connector in self.connectors for bridge in connector.bridges]
        return [*own, *self._duplex.bridges]

    def add(
        self, uri: str, attributes: NetworkConnectorAttributes | None = None
    ) -> NetworkConnector:
        """Add a network connector, not started.

        Raises:
            ConfigurationException: the URI cannot be read, or there is one of that name.
            UnsupportedOperationException: the scheme of a broker is not supported.
        """
        connector = NetworkConnector(self._host, uri, attributes)
        if any(each.name == connector.name for each in self.connectors):
            raise ConfigurationException(
                f"There are two network connectors named '{connector.name}'",
                hint="give each a name of its own: network_connectors.name",
            )
        self.connectors.append(connector)
        return connector

    def add_unnamed(self, uri: str) -> NetworkConnector:
        """Add a network connector with the default attributes, as `add`.

        Its name is one that no other has: NC, NC-2, NC-3.

        Raises:
            JMSException: the URI cannot be read.
        """
        taken = {each.name for each in self.connectors}
        base = NetworkConnectorAttributes().name
        names = (base if n == 1 else f"{base}-{n}" for n in itertools.count(1))
        free = next(name for name in names if name not in taken)
        return self.add(uri, NetworkConnectorAttributes(name=free))

    async def remove(self, name: str) -> bool:
        """Stop and forget a network connector; return whether there was one."""
        found = next((each for each in self.connectors if each.name == name), None)
        if found is None:
            return False
        self.connectors.remove(found)
        await found.stop()
        return True

    def accept(self, connection: DuplexConnection, info: BrokerInfo) -> ReverseBridge:
        """Forward to the broker that `info` describes, over the connection that it has opened.

        Raises:
            JMSException: its options cannot be read.
        """
        return self._duplex.accept(connection, info)

    def start(self) -> None:
        """Start all network connectors, in the background."""
        for connector in self.connectors:
            connector.start()

    async def stop(self) -> None:
        """End all bridges. Idempotent."""
        for connector in self.connectors:
            await connector.stop()
        await self._duplex.stop()
