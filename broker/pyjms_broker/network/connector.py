"""A network connector: keeps a bridge to each remote broker of its URI. (activemq-edges 9, U7)"""

from __future__ import annotations

from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import NetworkBridge
from pyjms_broker.network.discovered import DiscoveredBridges, ListedBridges
from pyjms_broker.network.host import NetworkHost
from pyjms_broker.network.remotes import Discovered, read_remotes

__all__ = ["NetworkConnector"]


class NetworkConnector:
    """Forwards to other brokers while it is started. Belongs to the broker's event loop.

    Args:
        host: the local broker.
        uri: names the remote brokers, such as `static:(tcp://b:61616)`.
        attributes: how it forwards; by default as ActiveMQ does.

    Raises:
        ConfigurationException: the URI cannot be read, or names an agent that is not known.
        UnsupportedOperationException: the scheme of a broker is not supported.
    """

    def __init__(
        self, host: NetworkHost, uri: str, attributes: NetworkConnectorAttributes | None = None
    ) -> None:
        self.uri = uri
        self.attributes = attributes or NetworkConnectorAttributes()
        remotes = read_remotes(uri)
        self._bridges: DiscoveredBridges | ListedBridges
        if isinstance(remotes, Discovered):
            self._bridges = DiscoveredBridges(host, self.attributes, remotes)
        else:
            self._bridges = ListedBridges(host, self.attributes, remotes)

    @property
    def name(self) -> str:
        """The name, unique in the broker."""
        return self.attributes.name

    @property
    def started(self) -> bool:
        """Whether it keeps bridges, or looks for brokers."""
        return self._bridges.is_running

    @property
    def bridges(self) -> list[NetworkBridge]:
        """The bridges that forward at present."""
        return [each for keeper in self._bridges.keepers if (each := keeper.bridge) is not None]

    @property
    def missing_bridges(self) -> list[tuple[str, str]]:
        """The remote brokers that could not be reached, each with the reason."""
        return [each for keeper in self._bridges.keepers if (each := keeper.missing) is not None]

    def start(self) -> None:
        """Connect to the remote brokers, in the background, again and again. Idempotent."""
        self._bridges.start()

    async def stop(self) -> None:
        """End all bridges; what they have not forwarded stays in this broker. Idempotent."""
        await self._bridges.stop()
