"""A network connector, which maintains bridges to remote brokers. (activemq-edges 9, U7)"""

from __future__ import annotations

from operator import attrgetter

from pyjms._forwarding import DelegatedAttribute
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import NetworkBridge
from pyjms_broker.network.discovered import DiscoveredBridges, ListedBridges
from pyjms_broker.network.host import NetworkHost
from pyjms_broker.network.remotes import Discovered, read_remotes

__all__ = ["NetworkConnector"]


class NetworkConnector:
    """Forwards to other brokers while it is started. Use it on the broker's event loop.

    Args:
        host: the local broker.
        uri: the URI of the remote brokers, such as `static:(tcp://b:61616)`.
        attributes: its attributes; None: ActiveMQ's defaults.

    Raises:
        ConfigurationException: the URI is invalid, or has an unknown discovery agent.
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

    name = DelegatedAttribute[str](
        attrgetter("attributes"), "The name, which is unique in the broker.", read_only=True
    )

    @property
    def started(self) -> bool:
        """Whether it maintains bridges, or discovers brokers."""
        return self._bridges.is_running

    @property
    def bridges(self) -> list[NetworkBridge]:
        """The bridges that are currently forwarding."""
        return [each for keeper in self._bridges.keepers if (each := keeper.bridge) is not None]

    @property
    def missing_bridges(self) -> list[tuple[str, str]]:
        """The remote brokers that are not connected, each with the reason."""
        return [each for keeper in self._bridges.keepers if (each := keeper.missing) is not None]

    def start(self) -> None:
        """Connect to the remote brokers in the background, with retries. Idempotent."""
        self._bridges.start()

    async def stop(self) -> None:
        """End all bridges; messages that were not forwarded stay at this broker. Idempotent."""
        await self._bridges.stop()
