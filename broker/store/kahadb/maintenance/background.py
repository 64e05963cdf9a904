"""What a running store does by itself: checkpoints, cleanups, looking after its lock.

(persistence K16, H2)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from broker.store.api import StoreState
from broker.store.file_lock import SharedFileLock
from broker.store.kahadb.maintenance.checkpoint import Checkpoint
from broker.store.kahadb.maintenance.cleanup import Cleanup, SegmentReport
from broker.store.kahadb.message_database import DIRTY_LIMIT, MessageDatabase
from broker.store.kahadb.settings import KahaDBSettings
from broker.store.kahadb.transactions.transaction_store import KahaDBTransactionStore
from broker.store.periodic import attempt
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, spawn

__all__ = ["Maintenance"]

logger = logging.getLogger(__name__)


class Maintenance:
    """The tasks of an open store."""

    def __init__(
        self,
        db: MessageDatabase,
        transactions: KahaDBTransactionStore,
        settings: KahaDBSettings,
        lock: SharedFileLock,
        on_lock_lost: Callable[[], None],
        on_trouble: Callable[[Exception | None], None],
    ) -> None:
        """Prepare the tasks. `on_trouble` hears why the index cannot be kept, and None again."""
        self._db = db
        self._settings = settings
        self._store_lock = lock
        self._on_lock_lost = on_lock_lost
        self._on_trouble = on_trouble
        self._checkpoint = Checkpoint(db)
        self._cleanup = Cleanup(db, transactions, self._checkpoint, settings)
        self._cleaning = anyio.Lock()
        self._tasks: list[BackgroundTask] = []
        self._dirty = anyio.Event()

    def start(self) -> None:
        """Begin. On the loop."""
        settings = self._settings
        self._db.on_dirty = self._note_dirty
        self._spawn(self._when_dirty, "dirty")
        if settings.checkpoint_interval:
            self._spawn(self._checkpoints, "checkpoint")
        if settings.cleanup_interval:
            self._spawn(self._cleanups, "cleanup")
        if settings.use_lock and settings.lock_keep_alive_period:
            self._spawn(self._keep_alive, "lock")

    async def stop(self) -> None:
        """End the tasks, then write the last checkpoint (with a cleanup, if set so)."""
        self._db.on_dirty = None
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.wait()
        journal = self._db.journal
        journal.fail_fast()  # a disk that is full now must not keep the store from its end
        if journal.state is not StoreState.FAILED:
            with anyio.CancelScope(shield=True):
                await self._attempt(
                    self.clean_up if self._settings.cleanup_on_stop else self._checkpoint.write
                )

    async def clean_up(self) -> None:
        """Write a checkpoint and let go of segments that nobody needs.

        Raises:
            OSError: the index cannot be written.
            ResourceAllocationException: the journal has failed.
        """
        async with self._cleaning:
            await self._cleanup.run()

    def report(self) -> list[SegmentReport]:
        """Return what keeps each segment."""
        return self._cleanup.report()

    def _spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.append(spawn(function, name=f"pyjms kahadb {name}"))

    def _note_dirty(self) -> None:
        self._dirty.set()

    async def _when_dirty(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty = anyio.Event()
            if not await self._attempt(self._checkpoint.write):
                await _clock.sleep(self._settings.journal.resume_check_sleep_period)
                self._dirty.set()

    async def _checkpoints(self) -> None:
        while True:
            await _clock.sleep(self._settings.checkpoint_interval)
            await self._attempt(self._checkpoint.write)

    async def _cleanups(self) -> None:
        while True:
            await _clock.sleep(self._settings.cleanup_interval)
            await self._attempt(self.clean_up)

    async def _keep_alive(self) -> None:
        while self._store_lock.keep_alive():
            await _clock.sleep(self._settings.lock_keep_alive_period)
        logger.error("%s is not ours any more", self._store_lock.path)
        self._on_lock_lost()

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do it; a failure is told, and the next time comes."""
        if self._db.journal.state is StoreState.FAILED:
            return True
        error = await attempt(work, f"A checkpoint of {self._db.journal.directory}")
        index = self._db.index
        if index.damage is not None:
            self._on_trouble(index.damage)
        elif error is None or index.dirty >= DIRTY_LIMIT:
            self._on_trouble(error)
        return error is None
