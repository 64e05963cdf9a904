"""What the service takes from a configuration file; `broker.settings` reads and checks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["ConnectorConfiguration", "ServiceConfiguration"]


class ConnectorConfiguration(Protocol):
    """A connector as broker.yaml has it."""

    @property
    def name(self) -> str | None: ...

    @property
    def uri(self) -> str: ...

    @property
    def allow_link_stealing(self) -> bool: ...


class ServiceConfiguration(Protocol):
    """A whole broker as broker.yaml has it."""

    @property
    def connectors(self) -> Sequence[ConnectorConfiguration]:
        """The doors, in their order."""

    def keywords(self) -> dict[str, Any]:
        """Return the rest as keyword arguments of BrokerService, policies as a PolicyMap."""
