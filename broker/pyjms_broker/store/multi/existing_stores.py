"""Opening of the separate stores of destinations that earlier runs have created."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from anyio import to_thread

from pyjms._logger import get_logger
from pyjms.jms.destination import Destination
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.multi import directories
from pyjms_broker.store.multi.filters import FilteredKahaDB, best_filter
from pyjms_broker.store.multi.partition import delete_store

__all__ = ["ExistingStores"]

logger = get_logger(__name__)

_Start = Callable[[FilteredKahaDB, str], Awaitable[KahaDBPersistenceAdapter]]
_Stop = Callable[[FilteredKahaDB, KahaDBPersistenceAdapter], Awaitable[None]]


class ExistingStores:
    """Finds the stores in `directory` that each belong to one destination.

    A directory's name suggests the filter whose settings are used to open the store; the opened
    store then determines its destination, and thereby its filter.
    """

    def __init__(
        self, directory: Path, filters: Sequence[FilteredKahaDB], start: _Start, stop: _Stop
    ) -> None:
        self._directory = directory
        self._filters = filters
        self._start = start
        self._stop = stop

    async def open(self, opened: dict[Destination, KahaDBPersistenceAdapter]) -> None:
        """Open the stores and add them to `opened`; empty ones are deleted.

        Raises:
            JMSException: one cannot be opened.
        """
        taken = {each.directory_name for each in self._filters if not each.per_destination}
        for name in await to_thread.run_sync(directories.store_names, self._directory):
            if name not in taken:
                await self._open_one(name, opened)

    async def _open_one(
        self, name: str, opened: dict[Destination, KahaDBPersistenceAdapter]
    ) -> None:
        likely = self._likely_filter(name)
        if likely is None:
            return
        adapter = await self._start(likely, name)
        destination = next(iter(adapter.destinations()), None)
        if destination is None:
            await self._stop(likely, adapter)
            await to_thread.run_sync(delete_store, self._directory / name)
            return
        own = best_filter(self._filters, destination)
        other = opened.get(destination)
        if other is not None:
            logger.error(
                "%s and %s are both stores of %s: the messages in the second are not used",
                other.directory,
                adapter.directory,
                destination,
            )
        if (
            own is None
            or not own.per_destination
            or other is not None
            or not directories.belongs_to(name, destination)
        ):
            await self._stop(likely, adapter)
            return
        if own != likely:
            await self._stop(likely, adapter)
            adapter = await self._start(own, name)
        opened[destination] = adapter

    def _likely_filter(self, name: str) -> FilteredKahaDB | None:
        """Return the filter whose settings are used to open a store; None: it is not opened."""
        guess = directories.likely_destination(name)
        if guess is None:  # only the store itself can tell
            return next((each for each in self._filters if each.per_destination), None)
        each = best_filter(self._filters, guess)
        return each if each is not None and each.per_destination else None
