"""Properties of a store, beyond its interface, that the regions use, with safe defaults."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["StoreCapabilities"]


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
