"""The network connectors and bridges of a broker.

What they need is imported for the first of them: a broker starts without the modules of networks.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pyjms.errors import ConfigurationException
from pyjms_broker.connector.base import AcceptedBridge
from pyjms_broker.network.audit import NetworkAudit
from pyjms_broker.network.demand.table import DemandTable

if TYPE_CHECKING:
    from pyjms.wire.openwire.commands import BrokerInfo
    from pyjms_broker.network.attributes import NetworkConnectorAttributes
    from pyjms_broker.network.bridge import NetworkBridge
    from pyjms_broker.network.connector import NetworkConnector
    from pyjms_broker.network.duplex import DuplexBridges, DuplexConnection, ReverseBridge
    from pyjms_broker.network.host import NetworkHost

__all__ = ["Networks"]


class Networks:
    """The network connectors of a broker, and the bridges that other brokers have requested."""

    def __init__(self, host: NetworkHost) -> None:
        self._host = host
        self.demand = DemandTable()
        self.audit = NetworkAudit()
        """Detects messages that bridges send repeatedly."""
        self._started: dict[NetworkBridge, None] = {}
        self.connectors: list[NetworkConnector] = []
        self._duplex: DuplexBridges | None = None
        self._is_stopping = False

    @property
    def duplex_bridges(self) -> list[ReverseBridge]:
        """The bridges over connections that other brokers opened."""
        return [] if self._duplex is None else self._duplex.bridges

    @property
    def bridges(self) -> list[NetworkBridge]:
        """All bridges."""
        own = [bridge for connector in self.connectors for bridge in connector.bridges]
        return [*own, *self.duplex_bridges]

    def add(
        self, uri: str, attributes: NetworkConnectorAttributes | None = None
    ) -> NetworkConnector:
        """Add a network connector without starting it.

        Raises:
            ConfigurationException: the URI is invalid, or the name is already in use.
            UnsupportedOperationException: the scheme of a broker is not supported.
        """
        from pyjms_broker.network.connector import NetworkConnector  # noqa: PLC0415 - see above

        connector = NetworkConnector(self._host, uri, attributes)
        if any(each.name == connector.name for each in self.connectors):
            raise ConfigurationException(
                f"There are two network connectors named '{connector.name}'",
                hint="give each a unique name: network_connectors.name",
            )
        self.connectors.append(connector)
        return connector

    def add_unnamed(self, uri: str) -> NetworkConnector:
        """Add a network connector with the default attributes, like `add`.

        It gets the first unused name of NC, NC-2, NC-3 and so on.

        Raises:
            JMSException: the URI is invalid.
        """
        from pyjms_broker.network.attributes import NetworkConnectorAttributes  # noqa: PLC0415

        taken = {each.name for each in self.connectors}
        base = NetworkConnectorAttributes().name
        names = (base if n == 1 else f"{base}-{n}" for n in itertools.count(1))
        free = next(name for name in names if name not in taken)
        return self.add(uri, NetworkConnectorAttributes(name=free))

    async def remove(self, name: str) -> bool:
        """Stop and remove a network connector; return whether there was one."""
        found = next((each for each in self.connectors if each.name == name), None)
        if found is None:
            return False
        self.connectors.remove(found)
        await found.stop()
        return True

    def accept(self, connection: DuplexConnection, info: BrokerInfo) -> AcceptedBridge:
        """Provide what the bridge of another broker requests in `info`.

        Raises:
            JMSException: its options cannot be read.
        """
        from pyjms_broker.network.demand.durables import durable_subscriptions  # noqa: PLC0415
        from pyjms_broker.network.duplex import DuplexBridges  # noqa: PLC0415
        from pyjms_broker.network.properties import read_properties_of  # noqa: PLC0415

        attributes = read_properties_of(info.network_properties or "")
        syncs = attributes.sync_durable_subs and not attributes.dynamic_only
        if self._duplex is None:
            self._duplex = DuplexBridges(self._host)
        return AcceptedBridge(
            self._duplex.accept(connection, info, attributes) if info.duplex_connection else None,
            self.audit if attributes.check_duplicate_messages_on_duplex else None,
            durable_subscriptions(self._host, attributes) if syncs else None,
        )

    @property
    def joined(self) -> list[BrokerInfo]:
        """The brokers at the other ends of bridges, one entry per bridge."""
        return [bridge.remote for bridge in self._started]

    def started(self, bridge: NetworkBridge) -> None:
        """Report to the broker's filters and clients that a bridge has started forwarding."""
        self._started[bridge] = None
        self._host.broker.network_bridge_started(
            bridge.remote, bridge.created_by_duplex, bridge.remote_address
        )
        for connector in self._host.connectors:
            connector.cluster.broker_joined(bridge.remote)

    def ended(self, bridge: NetworkBridge) -> None:
        """Report the end of a bridge to the broker's filters and clients.

        Clients are not notified when this broker stops, because they then need the other brokers.
        """
        self._started.pop(bridge, None)
        self._host.broker.network_bridge_stopped(bridge.remote)
        for connector in self._host.connectors:
            connector.cluster.broker_left(bridge.remote, tell=not self._is_stopping)

    def start(self) -> None:
        """Start all network connectors, in the background."""
        self._is_stopping = False
        for connector in self.connectors:
            connector.start()

    async def stop(self) -> None:
        """End all bridges because the broker stops. Idempotent."""
        self._is_stopping = True
        for connector in self.connectors:
            await connector.stop()
        if self._duplex is not None:
            await self._duplex.stop()
