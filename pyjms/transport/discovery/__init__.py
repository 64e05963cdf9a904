"""Discovery agents, which find brokers in the network, and announce one.

`create_agent(uri)` returns the agent for a URL such as `multicast://default?group=shop`. A package
adds an agent by an entry point in the group `pyjms.discovery_agents`; see docs/extending.md.
(activemq-edges U7)
"""

from pyjms.transport.discovery.agent import DiscoveryAgent, DiscoveryListener
from pyjms.transport.discovery.registry import (
    GROUP,
    check_agent,
    create_agent,
    known_agents,
    register_agent,
)

__all__ = [
    "GROUP",
    "DiscoveryAgent",
    "DiscoveryListener",
    "check_agent",
    "create_agent",
    "known_agents",
    "register_agent",
]
