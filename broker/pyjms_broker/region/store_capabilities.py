"""How the regions use a store: what its adapter says beyond the interface, or the careful way."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["StoreCapabilities"]


@dataclass(frozen=True)
class StoreCapabilities:
    """Names are ActiveMQ's in snake_case; adapters have them as attributes where they differ."""

    is_volatile: bool = False
    """It keeps messages in memory itself: cursors hold everything."""
    concurrent_store_and_dispatch_queues: bool = False
    """Queues hand out what is still being stored; its sender is answered when it is."""
    concurrent_store_and_dispatch_topics: bool = False
    """The same for topics."""

    has_several_journals: bool = False
    """What was stored of one destination may be safe before what came earlier of another, or
    without it."""

    @staticmethod
    def of(adapter: PersistenceAdapter) -> StoreCapabilities:
        """Return the traits of a store."""
        names = StoreCapabilities.__dataclass_fields__
        return StoreCapabilities(**{n: bool(getattr(adapter, n, False)) for n in names})
