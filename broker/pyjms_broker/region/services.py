"""The interface of the region broker that its destinations and subscriptions use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyjms.jms.destination import Destination
from pyjms.selector import SelectorLimits
from pyjms.wire.openwire.commands import BrokerId
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.region.selector_meter import SelectorMeter
from pyjms_broker.region.slow_consumers import SlowConsumers
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.store.api import PersistenceAdapter

if TYPE_CHECKING:
    from pyjms_broker.store.temp import TempStore

__all__ = ["RegionServices", "StoreCapabilities"]

# --- Properties of a store, beyond its interface, that the regions use, with safe defaults.


@dataclass(frozen=True)
class StoreCapabilities:
    """Capabilities, with ActiveMQ's names in snake_case; an adapter has those it supports as
    attributes.
    """

    is_volatile: bool = False
    """The store keeps all messages in memory, so cursors do the same."""
    concurrent_store_and_dispatch_queues: bool = False
    """Queues dispatch messages that are still being stored; the sender's response waits."""
    concurrent_store_and_dispatch_topics: bool = False
    """The same for topics."""

    has_several_journals: bool = False
    """Writes of different destinations may become durable in another order."""

    @staticmethod
    def of(adapter: PersistenceAdapter) -> StoreCapabilities:
        """Return the capabilities of a store."""
        names = StoreCapabilities.__dataclass_fields__
        return StoreCapabilities(**{n: bool(getattr(adapter, n, False)) for n in names})


class RegionServices(Protocol):
    """The part of the region broker that its destinations and subscriptions use."""

    root: Broker
    """The outermost filter of the chain, where dead letters and events enter."""
    context: ConnectionContext
    """The broker's own context."""
    policy_map: PolicyMap
    store: PersistenceAdapter
    store_capabilities: StoreCapabilities
    temp_store: TempStore | None
    system_usage: SystemUsage
    selector_limits: SelectorLimits
    """The limits of a selector's evaluation per message."""
    selector_meter: SelectorMeter | None
    """Counts the steps of all consumers' selectors together; None: no limit."""

    own_path: frozenset[BrokerId]
    """The id of the broker, which identifies messages that have passed it before."""
    slow_consumers: SlowConsumers
    expires_for_active_durables: bool
    """Whether the expiry scan also removes messages of active durable subscriptions."""

    def next_sequence_id(self) -> int:
        """Return the next broker sequence number of a message."""

    def mark_dead_letter_queue(self, destination: Destination) -> None:
        """Record that dead letters go to this destination. (activemq-broker L6)"""

    def region_destination(self, destination: Destination) -> RegionDestination:
        """Return the destination itself, inside all filters; create it if it does not exist."""
