"""The interface of the broker service for network connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyjms_broker.connector.base import ServiceIdentity, TransportConnector
from pyjms_broker.network.demand.table import DemandTable
from pyjms_broker.region.region_broker import RegionBroker

if TYPE_CHECKING:
    from pyjms_broker.network.bridge import NetworkBridge

__all__ = ["NetworkHost", "NetworkState"]


class NetworkState(Protocol):
    """The state shared by all bridges of a broker."""

    @property
    def demand(self) -> DemandTable:
        """The subscriptions of the bridges."""

    def started(self, bridge: NetworkBridge) -> None:
        """Report that a bridge has started forwarding."""

    def ended(self, bridge: NetworkBridge) -> None:
        """Report the end of a bridge."""


class NetworkHost(ServiceIdentity, Protocol):
    """The part of the broker service that network connectors use."""

    @property
    def connect_uri(self) -> str:
        """The URI for JMS clients."""

    @property
    def connectors(self) -> list[TransportConnector]:
        """The connectors, in order."""

    @property
    def region_broker(self) -> RegionBroker:
        """The innermost broker of the filter chain."""

    @property
    def networks(self) -> NetworkState:
        """The state shared by its bridges."""
