"""What the stores of one filter take together, and how they do. (persistence K25)"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from broker.store.api import StoreState
from broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from broker.store.multi.filters import FilteredKahaDB

__all__ = ["StorePartition", "close_all", "worst"]

logger = logging.getLogger(__name__)

_FROM_BEST: Final = (
    StoreState.RUNNING,
    StoreState.CONGESTED,
    StoreState.SUSPENDED,
    StoreState.FAILED,
)


class StorePartition:
    """The open stores of a filter, as a usage measures them."""

    def __init__(self, store_filter: FilteredKahaDB) -> None:
        self.filter = store_filter
        self.adapters: list[KahaDBPersistenceAdapter] = []

    @property
    def limit(self) -> int:
        """Bytes that they may take; 0: no limit of their own."""
        return self.filter.store_limit

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(adapter.size for adapter in self.adapters)

    @property
    def state(self) -> StoreState:
        """How the one does that does worst."""
        return worst(adapter.state for adapter in self.adapters)

    def __str__(self) -> str:
        return str(self.filter)


def worst(states: Iterable[StoreState]) -> StoreState:
    """Return the worst of some states; RUNNING of none."""
    return max(states, key=_FROM_BEST.index, default=StoreState.RUNNING)


async def close_all(closing: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Close all, whatever becomes of the others; the first error is raised, more are logged."""
    first: Exception | None = None
    for close in closing:
        try:
            await close()
        except Exception as error:
            if first is None:
                first = error
            else:
                logger.exception("Another store could not be closed, either")
    if first is not None:
        raise first
