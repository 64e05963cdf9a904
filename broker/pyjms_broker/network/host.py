"""What network connectors need of the broker service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyjms_broker.connector.base import ServiceIdentity, TransportConnector
from pyjms_broker.network.demand.table import DemandTable
from pyjms_broker.region.region_broker import RegionBroker

if TYPE_CHECKING:
    from pyjms_broker.network.bridge import NetworkBridge

__all__ = ["NetworkHost", "NetworkState"]


class NetworkState(Protocol):
    """What all bridges of a broker share."""

    @property
    def demand(self) -> DemandTable:
        """Their subscriptions."""

    def started(self, bridge: NetworkBridge) -> None:
        """Tell others of a bridge that forwards."""

    def ended(self, bridge: NetworkBridge) -> None:
        """Tell them of its end."""


class NetworkHost(ServiceIdentity, Protocol):
    """The part of the broker service that network connectors use."""

    @property
    def connect_uri(self) -> str:
        """The URI of JMS clients."""

    @property
    def connectors(self) -> list[TransportConnector]:
        """The connectors, in their order."""

    @property
    def region_broker(self) -> RegionBroker:
        """The inner end of the filter chain."""

    @property
    def networks(self) -> NetworkState:
        """What its bridges share."""
