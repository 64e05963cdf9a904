"""Announcement of a connector's address by a discovery agent. (activemq-edges U8)"""

from __future__ import annotations

from pyjms.transport.discovery import DiscoveryAgent, create_agent
from pyjms.transport.uri import TransportURI

__all__ = ["Announcer"]


class Announcer:
    """Announces a connector while it accepts clients."""

    def __init__(self) -> None:
        self.uri: TransportURI | None = None
        """The agent's URI; None: the connector is not announced. (discoveryUri)"""
        self._agent: DiscoveryAgent | None = None

    async def start(self, connect_uri: str) -> None:
        """Announce an address from now on.

        Raises:
            ConfigurationException: the agent's URI is wrong.
        """
        if self.uri is not None:
            self._agent = create_agent(self.uri)
            await self._agent.start(service=connect_uri)

    async def stop(self) -> None:
        """Withdraw the announcement. Idempotent."""
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.stop()
