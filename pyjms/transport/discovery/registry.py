"""Discovery agents by URL scheme: built in, or registered as entry points."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Final

from pyjms._distribution import entry_points
from pyjms.errors import ConfigurationException
from pyjms.transport.discovery.agent import DiscoveryAgent
from pyjms.transport.uri import TransportURI

__all__ = [
    "GROUP",
    "AgentFactory",
    "check_agent",
    "create_agent",
    "known_agents",
    "register_agent",
]

AgentFactory = Callable[[TransportURI], DiscoveryAgent]
GROUP: Final = "pyjms.discovery_agents"

_BUILT_IN: Final = {"multicast": "pyjms.transport.discovery.multicast:multicast_agent"}
_registered: dict[str, AgentFactory] = {}


def register_agent(scheme: str, factory: AgentFactory) -> None:
    """Use `factory` for `scheme` in this process, instead of any other."""
    _registered[scheme] = factory


def create_agent(uri: TransportURI) -> DiscoveryAgent:
    """Return the agent for `uri`, not started.

    Raises:
        ConfigurationException: no agent has the scheme, or an option is wrong.
    """
    factory = _registered.get(uri.scheme) or _built_in(uri.scheme) or _installed(uri.scheme)
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


def _installed(scheme: str) -> AgentFactory | None:
    for point in entry_points(group=GROUP, name=scheme):
        factory: AgentFactory = point.load()
        return factory
    return None
