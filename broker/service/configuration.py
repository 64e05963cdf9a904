"""Everything a broker is configured with: its attributes, and the objects that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from broker.api.broker import Broker
from broker.api.filter import BrokerPlugin
from broker.policy.map import PolicyMap
from broker.service.attributes import BrokerAttributes, SystemUsageAttributes
from broker.service.persistence import PersistenceFactory
from broker.service.store_failures import IOExceptionHandler
from broker.store.api import PersistenceAdapter
from broker.virtual.interceptor import VirtualDestination
from pyjms.jms.destination import Destination

__all__ = [
    "BrokerConfiguration",
    "ConnectorConfiguration",
    "ServiceConfiguration",
]


@dataclass(kw_only=True, eq=False, repr=False)
class BrokerConfiguration(SystemUsageAttributes, BrokerAttributes):
    """The attributes of `broker.service.attributes`, and what no configuration file has as such."""

    store_directory: Path | str | None = None
    persistence: PersistenceFactory | None = None
    persistence_adapter: PersistenceAdapter | None = None
    io_exception_handler: IOExceptionHandler | None = None
    virtual_destinations: Sequence[VirtualDestination] | None = None
    policies: PolicyMap | None = None
    plugins: Sequence[BrokerPlugin | Callable[[Broker], Broker]] = ()
    destinations: Sequence[Destination] = ()


class ConnectorConfiguration(Protocol):
    """A connector as broker.yaml describes it."""

    @property
    def name(self) -> str | None: ...

    @property
    def uri(self) -> str: ...

    @property
    def allow_link_stealing(self) -> bool: ...


class ServiceConfiguration(Protocol):
    """A whole broker as broker.yaml describes it."""

    @property
    def connectors(self) -> Sequence[ConnectorConfiguration]:
        """The connectors, in their order."""

    def keywords(self) -> dict[str, Any]:
        """Return the rest as keyword arguments of BrokerService, policies as a PolicyMap."""
