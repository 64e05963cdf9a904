"""The stores of one filter taken together: disk usage and state.

(activemq-persistence K25)
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from pyjms._logger import get_logger
from pyjms.wire.kahadb.journal import segment_number
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.disk import Disk
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.multi.filters import FilteredKahaDB

__all__ = ["KahaDBPartition", "close_all", "delete_journal", "delete_store", "worst"]

logger = get_logger(__name__)

_BEST_FIRST: Final = tuple(StoreState)


class KahaDBPartition:
    """The open stores of a filter, as the partition that a store usage measures."""

    def __init__(self, store_filter: FilteredKahaDB) -> None:
        self.filter = store_filter
        self.adapters: list[KahaDBPersistenceAdapter] = []

    @property
    def limit(self) -> int:
        """Their maximum total size in bytes; 0: no separate limit."""
        return self.filter.store_limit

    @property
    def size(self) -> int:
        """Their total size on disk in bytes."""
        return sum(adapter.size for adapter in self.adapters)

    @property
    def state(self) -> StoreState:
        """The worst of their states."""
        return worst(adapter.state for adapter in self.adapters)

    def reclaim_soon(self) -> None:
        """Make each of them reclaim disk space."""
        for adapter in self.adapters:
            adapter.reclaim_soon()

    def __str__(self) -> str:
        return str(self.filter)


def worst(states: Iterable[StoreState]) -> StoreState:
    """Return the worst of the states; RUNNING if there are none."""
    return max(states, key=_BEST_FIRST.index, default=StoreState.RUNNING)


async def close_all(closing: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Close all, even if some fail; raise the first error and log the others."""
    first: Exception | None = None
    for close in closing:
        try:
            await close()
        except Exception as error:
            if first is None:
                first = error
            else:
                logger.exception("Closing another store failed, too")
    if first is not None:
        raise first


def delete_store(directory: Path) -> None:
    """Delete the directory of a closed store without destinations. Blocks; raises OSError."""
    shutil.rmtree(directory)


def delete_journal(directory: Path, disk: Disk) -> None:
    """Delete the segments of a closed journal. Blocks; raises OSError."""
    for name in disk.names(directory):
        if segment_number(name) is not None:
            disk.remove(directory / name)
    disk.sync_directory(directory)
