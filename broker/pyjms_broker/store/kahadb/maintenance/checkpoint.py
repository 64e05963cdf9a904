"""Index checkpoints, which write the index changes in memory to the database.

The order makes them safe. The changes up to the last appended record are collected on the loop;
then the journal is synced; only then a worker thread writes the changes in one database
transaction. The index on disk is therefore never ahead of the journal. A failed checkpoint is kept
and written before the next one begins. (activemq-persistence K16)
"""

from __future__ import annotations

import anyio
import anyio.to_thread

from pyjms._logger import get_logger
from pyjms_broker.api.completion import wait_for
from pyjms_broker.store.kahadb.index import IndexCheckpoint, TopicIndex
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.recovery.recovery import record_digest

__all__ = ["Checkpoint"]

logger = get_logger(__name__)


class Checkpoint:
    """Writes checkpoints, one at a time. Use it on the loop."""

    def __init__(self, db: MessageDatabase) -> None:
        self.db = db
        self._lock = anyio.Lock()
        self._pending: IndexCheckpoint | None = None
        self._done = (-1, -1)

    async def write(self, *, sync: bool = False) -> None:
        """Write all changes so far; with `sync` they survive a power failure.

        Raises:
            OSError: the index cannot be written; the next call retries.
            ResourceAllocationException: the journal has failed.
        """
        async with self._lock:
            if self._pending is not None:
                await self._write(self._pending, sync)
            db = self.db
            db.journal.write_late()
            last = db.last
            if last is None or (last <= self._done and not db.index.dirty and not sync):
                return
            if db.before_checkpoint is not None:
                db.before_checkpoint()
            digest = record_digest(db.journal.read_unchecked(last))
            self._pending = db.index.begin_checkpoint(last, digest)
            await self._write(self._pending, sync)
            self._done = last

    async def _write(self, checkpoint: IndexCheckpoint, sync: bool) -> None:
        await wait_for(self.db.journal.barrier(sync=True))
        with anyio.CancelScope(shield=True):  # a worker thread cannot be cancelled
            index = self.db.index
            await anyio.to_thread.run_sync(lambda: index.write_checkpoint(checkpoint, sync=sync))
            index.complete_checkpoint(checkpoint)
            self._pending = None

    async def reclaim(self) -> None:
        """Remove the backlogs of deleted subscriptions in increments."""
        for topic in self.db.index.destinations():
            while isinstance(topic, TopicIndex) and topic.is_reclaiming:
                topic.reclaim()
                await anyio.lowlevel.checkpoint()
