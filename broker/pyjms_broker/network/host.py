"""What network connectors need of the broker service."""

from __future__ import annotations

from typing import Protocol

from pyjms.wire.openwire.commands import BrokerId
from pyjms_broker.network.demand import DemandTable
from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["NetworkHost", "NetworkState"]


class NetworkState(Protocol):
    """What all bridges of a broker share."""

    @property
    def demand(self) -> DemandTable:
        """Their subscriptions."""


class NetworkHost(Protocol):
    """The part of the broker service that network connectors use."""

    @property
    def broker_name(self) -> str: ...

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def region_broker(self) -> RegionBroker:
        """The inner end of the filter chain."""

    @property
    def networks(self) -> NetworkState:
        """What its bridges share."""
