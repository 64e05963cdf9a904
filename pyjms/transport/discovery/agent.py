"""What an agent is that finds brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

__all__ = ["DiscoveryAgent", "DiscoveryListener"]


class DiscoveryListener(Protocol):
    """Gets the brokers that an agent finds. Its methods must not block, nor raise."""

    def service_added(self, service: str) -> None:
        """Take in the URL of a broker that was found.

        It was read in the network: whoever connects checks it first (`read_address`).
        """

    def service_removed(self, service: str) -> None:
        """Take in that a broker was not heard of for a while, or has said that it stops."""


class DiscoveryAgent(ABC):
    """Finds brokers, and may announce one. Belongs to the event loop that starts it.

    An agent keeps a limited number of services, whatever it hears, and goes on after what it cannot
    read. Source: ActiveMQ DiscoveryAgent.
    """

    @abstractmethod
    async def start(
        self, listener: DiscoveryListener | None = None, service: str | None = None
    ) -> None:
        """Look for brokers from now on, in the background, and announce one. Called once.

        Args:
            listener: gets what is found; None: nobody wants to know.
            service: the URL of a broker that is announced until `stop`; None: none is.

        While the network cannot be used it is tried again; the log says so.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Take back the announcement, and end. Idempotent; not cancellable."""
