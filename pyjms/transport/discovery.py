"""Discovery agents, which find brokers in the network, and announce one.

`create_agent(uri)` returns the agent for a URL such as `multicast://default?group=shop`. A package
adds an agent by an entry point in the group `pyjms.discovery_agents`; see docs/extending-client.md.
(activemq-edges U7)
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import entry_points
from pyjms.transport.uri import TransportURI

__all__ = [
    "GROUP",
    "DiscoveryAgent",
    "DiscoveryListener",
    "check_agent",
    "create_agent",
    "known_agents",
    "register_agent",
]


class DiscoveryListener(Protocol):
    """Gets the brokers that an agent finds. Its methods must not block or raise."""

    def service_added(self, service: str) -> None:
        """Add a broker that was found, given by its URL.

        The URL comes from the network: check it before connecting (`read_address`).
        """

    def service_removed(self, service: str) -> None:
        """Remove a broker that has not announced itself for some time, or has stopped."""


class DiscoveryAgent(ABC):
    """Finds brokers, and may announce one. Belongs to the event loop that starts it.

    An agent keeps a limited number of services, whatever it receives, and ignores what it cannot
    read. Source: ActiveMQ DiscoveryAgent.
    """

    @abstractmethod
    async def start(
        self, listener: DiscoveryListener | None = None, service: str | None = None
    ) -> None:
        """Start to find brokers in the background, and to announce one. Called once.

        Args:
            listener: gets the brokers that are found; None: do not find brokers.
            service: the URL of a broker that is announced until `stop`; None: announce none.

        If the network cannot be used, the agent logs that and tries again.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Withdraw the announcement, and end. Idempotent; not cancellable."""


AgentFactory = Callable[[TransportURI], DiscoveryAgent]
GROUP: Final = "pyjms.discovery_agents"

_BUILT_IN: Final = {"multicast": "pyjms.transport.multicast:multicast_agent"}
_registered: dict[str, AgentFactory] = {}


def register_agent(scheme: str, factory: AgentFactory) -> None:
    """Use `factory` for `scheme` in this process, instead of any other."""
    _registered[scheme] = factory


def create_agent(uri: TransportURI) -> DiscoveryAgent:
    """Return the agent for `uri`, not started.

    Raises:
        ConfigurationException: no agent has the scheme, or an option is wrong.
    """
    factory = _registered.get(uri.scheme) or _built_in(uri.scheme) or _from_package(uri.scheme)
    if factory is None:
        raise ConfigurationException(
            f"No discovery agent is known for {uri.scheme}: {uri}",
            hint=f"known agents: {', '.join(known_agents())}; or name the brokers: "
            "static:(tcp://host:61616)",
        )
    return factory(uri)


def check_agent(text: str) -> TransportURI:
    """Check the options in the URL of an agent, and return the URL.

    Raises:
        ConfigurationException: as for `create_agent`, or it is not a URL.
    """
    uri = TransportURI.parse(text)
    create_agent(uri)
    return uri


def known_agents() -> list[str]:
    """Return all schemes that `create_agent` accepts, sorted."""
    installed = (point.name for point in entry_points(group=GROUP))
    return sorted({*_BUILT_IN, *_registered, *installed})


def _built_in(scheme: str) -> AgentFactory | None:
    path = _BUILT_IN.get(scheme)
    if path is None:
        return None
    factory: AgentFactory = pkgutil.resolve_name(path)
    return factory


def _from_package(scheme: str) -> AgentFactory | None:
    for point in entry_points(group=GROUP, name=scheme):
        factory: AgentFactory = point.load()
        return factory
    return None
