"""The bridges of one network connector, to listed brokers or to discovered ones.

Anyone who can send to a multicast group can announce anything. Addresses are therefore checked, and
the number of a connector's bridges is limited. The bridge to a broker that is no longer announced
continues until it fails, as in ActiveMQ. (activemq-edges 9, U7)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pyjms._logger import WarnedOnce, get_logger, shortened
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConfigurationException
from pyjms.transport.discovery import DiscoveryAgent, create_agent
from pyjms.transport.discovery.addresses import read_address
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.host import NetworkHost
from pyjms_broker.network.keeper import BridgeKeeper
from pyjms_broker.network.remotes import Discovered, Remote

__all__ = ["MAXIMUM_FOUND", "DiscoveredBridges", "ListedBridges"]

logger = get_logger(__name__)

MAXIMUM_FOUND: Final = 100
"""The maximum number of discovered brokers to which a network connector connects."""
_MOST_LOGGED: Final = 100
_QUOTED: Final = 200


class ListedBridges:
    """The bridges to the brokers listed in the URI."""

    def __init__(
        self, host: NetworkHost, attributes: NetworkConnectorAttributes, remotes: Sequence[Remote]
    ) -> None:
        self.keepers = [BridgeKeeper(host, attributes, remote) for remote in remotes]
        """One keeper per broker."""

    @property
    def is_running(self) -> bool:
        """Whether bridges exist or are being attempted."""
        return any(keeper.is_running for keeper in self.keepers)

    def start(self) -> None:
        """Start connecting. Idempotent."""
        for keeper in self.keepers:
            keeper.start()

    async def stop(self) -> None:
        """End all bridges. Idempotent."""
        await _stop_all(self.keepers)


@dataclass(eq=False, repr=False)
class DiscoveredBridges:
    """The bridges to the brokers found by a discovery agent; a DiscoveryListener."""

    _host: NetworkHost
    _attributes: NetworkConnectorAttributes
    _discovered: Discovered
    _found: dict[str, BridgeKeeper] = field(default_factory=dict, init=False)
    _agent: DiscoveryAgent | None = field(default=None, init=False)
    _starting: BackgroundTask | None = field(default=None, init=False)
    _leaving: set[BackgroundTask] = field(default_factory=set, init=False)
    _warned: WarnedOnce = field(default_factory=WarnedOnce, init=False)
    _count: int = field(default=0, init=False)

    @property
    def keepers(self) -> list[BridgeKeeper]:
        """One keeper per discovered broker."""
        return list(self._found.values())

    @property
    def is_running(self) -> bool:
        """Whether discovery is running."""
        return self._agent is not None

    def start(self) -> None:
        """Start discovery. Idempotent."""
        if self._agent is None:
            self._agent = create_agent(self._discovered.agent)
            name = f"network connector {self._attributes.name} discovery"
            self._starting = spawn(self._agent.start, self, name=name)

    async def stop(self) -> None:
        """End all bridges. Idempotent."""
        agent, self._agent = self._agent, None
        if agent is not None:
            await end_tasks(self._starting)
            await agent.stop()
        found, self._found = self.keepers, {}
        await _stop_all(found)
        await end_tasks(*self._leaving)

    # from the agent
    def service_added(self, service: str) -> None:
        """Maintain a bridge to a discovered broker."""
        if self._agent is None or any(
            each.connect_uri == service for each in self._host.connectors
        ):
            return
        keeper = self._found.get(service)
        if keeper is None:
            keeper = self._new_keeper(service)
        if keeper is not None:
            keeper.is_wanted = True
            keeper.start()

    def service_removed(self, service: str) -> None:
        """Stop reconnecting to a broker that is no longer announced; a live bridge continues."""
        keeper = self._found.get(service)
        if keeper is None:
            return
        keeper.is_wanted = False
        if keeper.bridge is None:
            del self._found[service]
            self._leaving = {each for each in self._leaving if not each.done}
            name = f"network connector {self._attributes.name} leaves {service}"
            self._leaving.add(spawn(keeper.stop, name=name))

    def _new_keeper(self, service: str) -> BridgeKeeper | None:
        if not self._can_add():
            self._warn("too many", f"{MAXIMUM_FOUND} brokers were found already", service)
            return None
        try:
            address = read_address(service)
        except ConfigurationException as error:
            self._warn(service, error.reason, service)
            return None
        logger.debug("Network connector %s has found %s", self._attributes.name, address.uri)
        self._count += 1
        made = BridgeKeeper(
            self._host,
            self._attributes,
            self._discovered.remote(address.uri),
            is_found=True,
            is_quiet=self._count > _MOST_LOGGED,  # so many announcements are probably forged
        )
        self._found[service] = made
        return made

    def _can_add(self) -> bool:
        """Drop brokers that are gone, or an unreachable one; return whether another one fits."""
        for each in [url for url, keeper in self._found.items() if not keeper.is_needed]:
            del self._found[each]
        if len(self._found) < MAXIMUM_FOUND:
            return True
        failed = next((url for url, keeper in self._found.items() if keeper.has_failed), None)
        if failed is not None:
            self.service_removed(failed)
        return failed is not None

    def _warn(self, key: str, reason: str, service: str) -> None:
        """Log once the reason why a discovered broker gets no bridge."""
        if not self._warned.is_due(key):
            return
        logger.warning(
            "Network connector %s does not connect to %s, which was found: %s",
            self._attributes.name,
            shortened(service, _QUOTED),
            reason,
        )


async def _stop_all(keepers: Sequence[BridgeKeeper]) -> None:
    for keeper in keepers:
        keeper.cancel()
    for keeper in keepers:
        await keeper.stop()
