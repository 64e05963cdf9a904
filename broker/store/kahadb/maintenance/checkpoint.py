"""Brings what only the journal and the memory have into the index on the disk. (persistence K16)

What is frozen is written only after the journal is synced up to there, so the index on the disk
never knows more than the journal does.
"""

from __future__ import annotations

import logging

import anyio
import anyio.to_thread

from broker.completion import wait_for
from broker.store.kahadb.index import Frozen, TopicIndex
from broker.store.kahadb.message_database import StoreCore
from broker.store.kahadb.recovery.recovery import digest_of

__all__ = ["Checkpoint"]

logger = logging.getLogger(__name__)


class Checkpoint:
    """Writes checkpoints, one at a time. Belongs to the loop."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._lock = anyio.Lock()
        self._pending: Frozen | None = None
        self._done = (-1, -1)

    async def write(self, *, sync: bool = False) -> None:
        """Write what changed so far; with `sync` it survives a power failure.

        Raises:
            OSError: the index cannot be written; the next try does it.
            ResourceAllocationException: the journal has failed.
        """
        async with self._lock:
            if self._pending is not None:
                await self._write(self._pending, sync)
            core = self._core
            last = core.last
            if last is None or (last <= self._done and not core.index.dirty and not sync):
                return
            if core.before_checkpoint is not None:
                core.before_checkpoint()
            self._pending = core.index.freeze(last, digest_of(core.journal.read(last)))
            await self._write(self._pending, sync)
            self._done = last

    async def _write(self, frozen: Frozen, sync: bool) -> None:
        await wait_for(self._core.journal.barrier(sync=True))
        with anyio.CancelScope(shield=True):  # a worker cannot be called back
            index = self._core.index
            await anyio.to_thread.run_sync(lambda: index.write(frozen, sync=sync))
            index.thaw(frozen)
            self._pending = None

    async def reclaim(self) -> None:
        """Let go of messages that ended subscriptions have left, some at a time."""
        for topic in self._core.index.destinations():
            while isinstance(topic, TopicIndex) and topic.reclaiming:
                topic.reclaim()
                await anyio.lowlevel.checkpoint()
