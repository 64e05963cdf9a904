"""Background tasks of an open store: checkpoints, cleanups, and the check of its lock.

    checkpoint   every `checkpoint_interval`, and as soon as 20,000 changes are in memory
    cleanup      every `cleanup_interval`, when senders wait for store space
                 (`reclaim_soon`), and with the last checkpoint (`cleanup_on_stop`)
    lock         every `lock_keep_alive_period`

A failed checkpoint is logged and retried. While checkpoints fail and more than 20,000 changes
wait, the store is SUSPENDED; a damaged index makes it FAILED. (activemq-persistence K16, H2)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.file_lock import SharedFileLock
from pyjms_broker.store.kahadb.maintenance.checkpoint import Checkpoint
from pyjms_broker.store.kahadb.maintenance.cleanup import Cleanup, SegmentReport
from pyjms_broker.store.kahadb.maintenance.keepers import with_keepers
from pyjms_broker.store.kahadb.message_database import DIRTY_LIMIT, MessageDatabase
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.kahadb.transactions.transaction_store import KahaDBTransactionStore
from pyjms_broker.store.periodic import run_logged

__all__ = ["Maintenance"]

logger = get_logger(__name__)


class Maintenance:
    """The tasks of an open store."""

    def __init__(
        self,
        db: MessageDatabase,
        transactions: KahaDBTransactionStore,
        settings: KahaDBSettings,
        lock: SharedFileLock,
        on_lock_lost: Callable[[], None],
        on_index_error: Callable[[Exception | None], None],
    ) -> None:
        """Prepare the tasks.

        `on_index_error` is called with the error that makes checkpoints fail, and with None when
        they succeed again.
        """
        self._db = db
        self._settings = settings
        self._store_lock = lock
        self._on_lock_lost = on_lock_lost
        self._on_index_error = on_index_error
        self._checkpoint = Checkpoint(db)
        self._cleanup = Cleanup(self._checkpoint, transactions, settings)
        self._cleaning = anyio.Lock()
        self._tasks: list[BackgroundTask] = []
        self._dirty = anyio.Event()
        self._space_wanted = anyio.Event()

    def start(self) -> None:
        """Start the tasks. On the loop."""
        settings = self._settings
        self._db.on_dirty = self._request_checkpoint
        self._spawn(self._checkpoint_when_dirty, "dirty")
        if settings.checkpoint_interval:
            self._spawn(self._checkpoint_periodically, "checkpoint")
        if settings.cleanup_interval:
            self._spawn(self._clean_up_periodically, "cleanup")
        if settings.use_lock and settings.lock_keep_alive_period:
            self._spawn(self._keep_alive, "lock")

    async def stop(self) -> None:
        """Stop the tasks and write the last checkpoint, with a cleanup if so configured."""
        self._db.on_dirty = None
        await end_tasks(*self._tasks)
        journal = self._db.journal
        journal.fail_fast()  # a full disk must not keep the store from stopping
        if journal.state is not StoreState.FAILED:
            with anyio.CancelScope(shield=True):
                await self._attempt(
                    self.clean_up if self._settings.cleanup_on_stop else self._checkpoint.write
                )

    async def clean_up(self) -> None:
        """Write a checkpoint and delete segments that are no longer needed.

        Raises:
            OSError: the index cannot be written.
            ResourceAllocationException: the journal has failed.
        """
        async with self._cleaning:
            is_space_wanted = self._space_wanted.is_set()
            if is_space_wanted:
                self._space_wanted = anyio.Event()
            await self._cleanup.run(is_space_wanted=is_space_wanted)

    def reclaim_soon(self) -> None:
        """Clean up soon, and compact acknowledgements if nothing else frees a segment.

        Without a `cleanup_interval` it has no effect.
        """
        self._space_wanted.set()

    def report(self) -> list[SegmentReport]:
        """Return the reasons for which each segment is kept."""
        return with_keepers(self._db.index, self._cleanup.report())

    def _spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.append(spawn(function, name=f"pyjms kahadb {name}"))

    def _request_checkpoint(self) -> None:
        self._dirty.set()

    async def _checkpoint_when_dirty(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty = anyio.Event()
            if not await self._attempt(self._checkpoint.write):
                await _clock.sleep(self._settings.journal.resume_check_sleep_period)
                self._dirty.set()

    async def _checkpoint_periodically(self) -> None:
        while True:
            await _clock.sleep(self._settings.checkpoint_interval)
            await self._attempt(self._checkpoint.write)

    async def _clean_up_periodically(self) -> None:
        while True:
            with _clock.timeout(self._settings.cleanup_interval):
                await self._space_wanted.wait()
            await self._attempt(self.clean_up)

    async def _keep_alive(self) -> None:
        while self._store_lock.keep_alive():
            await _clock.sleep(self._settings.lock_keep_alive_period)
        logger.error("Lost the lock %s: another broker has taken it", self._store_lock.path)
        self._on_lock_lost()

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work`; log a failure and return False."""
        if self._db.journal.state is StoreState.FAILED:
            return True
        error = await run_logged(work, f"A checkpoint of {self._db.journal.directory}")
        index = self._db.index
        if index.damage is not None:
            self._on_index_error(index.damage)
        elif error is None or index.dirty >= DIRTY_LIMIT:
            self._on_index_error(error)
        return error is None
