"""What the regions must know about a store beyond its interface, with safe defaults."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["StoreCapabilities"]


@dataclass(frozen=True)
class StoreCapabilities:
    """Capabilities by ActiveMQ's names in snake_case; an adapter has those it supports as
    attributes.
    """

    is_volatile: bool = False
    """The store keeps messages in memory itself, so cursors keep everything in memory, too."""
    concurrent_store_and_dispatch_queues: bool = False
    """Queues dispatch messages that are still being stored; the sender's response waits for it."""
    concurrent_store_and_dispatch_topics: bool = False
    """The same for topics."""

    has_several_journals: bool = False
    """Writes of different destinations may become durable in a different order."""

    @staticmethod
    def of(adapter: PersistenceAdapter) -> StoreCapabilities:
        """Return the capabilities of a store."""
        names = StoreCapabilities.__dataclass_fields__
        return StoreCapabilities(**{n: bool(getattr(adapter, n, False)) for n in names})
