"""The interface of discovery agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

__all__ = ["DiscoveryAgent", "DiscoveryListener"]


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
