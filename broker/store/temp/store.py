"""The temp store: blocks of spooled messages, written by a thread, deleted when consumed.

Everything is called on the broker's loop. Appending only fills memory; whole blocks go to the
writer, so what is consumed quickly never touches the disk. What waits in memory is bounded:
beyond it the store is CONGESTED, and senders of non-persistent messages are to be parked.
"""

from __future__ import annotations

import errno
import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
from anyio import lowlevel, to_thread

from broker.store.api import StoreState
from broker.store.temp.block import Block
from broker.store.temp.files import SpoolFiles
from broker.store.temp.spool import Spool
from pyjms import _clock, _wakeup
from pyjms.errors import JMSException, ResourceAllocationException

__all__ = ["TempStore"]

logger = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1 << 20
MAX_OPEN: Final = 16 << 20
MAX_WAITING: Final = 32 << 20
_NO_SPACE: Final = frozenset((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))


class TempStore:
    """Where non-persistent messages are spooled when memory is short.

    Nothing in it survives a start: the folder is emptied (K2, M10). Source: ActiveMQ PListStore.
    """

    def __init__(
        self,
        directory: Path,
        *,
        files: SpoolFiles | None = None,
        resume_check_sleep_period: float = 5.0,
    ) -> None:
        """Make it; `resume_check_sleep_period` is the seconds between tries on a full disk."""
        self.directory = directory
        self.files = SpoolFiles(directory) if files is None else files
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        """Called when the state changes, with the error that made it."""
        self.on_space: Callable[[], None] | None = None
        """Called when `size` has fallen."""
        self.size = 0
        """Bytes that the spooled messages take, on the disk or on their way to it. (M3)"""
        self.state = StoreState.RUNNING
        self._retry_period = resume_check_sleep_period
        self._numbers = itertools.count(1)
        self._open: dict[Spool, Block] = {}
        self._open_size = 0
        self._waiting: dict[Block, None] = {}
        self._waiting_size = 0
        self._garbage: list[int] = []
        self._writing: Block | None = None
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._writer: _wakeup.BackgroundTask | None = None

    async def start(self) -> None:
        """Empty the folder and begin.

        Raises:
            ResourceAllocationException: the folder cannot be made or emptied.
        """
        try:
            await to_thread.run_sync(self.files.wipe)
        except OSError as e:
            raise ResourceAllocationException(
                f"The temp store's folder {self.directory} cannot be used: {e}",
                hint="let the broker write there, or choose another data directory",
            ) from e
        self._writer = _wakeup.spawn(self._write, name="temp store writer", on_error=self._broken)

    async def stop(self) -> None:
        """Forget everything and empty the folder. Idempotent."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.cancel()
        await writer.wait()
        self._open.clear()
        self._waiting.clear()
        self._garbage.clear()
        self.size = self._open_size = self._waiting_size = 0
        try:
            await to_thread.run_sync(self.files.wipe)
        except OSError as e:
            logger.warning("The temp store's folder %s cannot be emptied: %s", self.directory, e)

    def spool(self, name: str) -> Spool:
        """Return a new, empty spool; `name` is for the log. It needs no closing, only `clear`."""
        return Spool(self, name)

    async def settled(self) -> None:
        """Wait until all whole blocks are written and all consumed ones deleted."""
        while self._writer is not None and (self._wake.is_set() or not self._idle.is_set()):
            await lowlevel.checkpoint()
            await self._idle.wait()

    # For spools.

    def _open_block(self, spool: Spool, first: int) -> Block:
        block = self._open.get(spool)
        if block is None:
            block = self._open[spool] = Block(next(self._numbers), first)
        return block

    def _grown(self, spool: Spool, block: Block, size: int) -> None:
        self.size += size
        self._open_size += size
        if block.size >= BLOCK_SIZE:
            self._seal(spool)
        while self._open_size > MAX_OPEN:
            self._seal(next(iter(self._open)))

    def _dropped(self, spool: Spool, block: Block) -> None:
        if self._writer is None:
            return  # stopped: it forgot all
        self.size -= block.size
        if self._open.get(spool) is block:
            del self._open[spool]
            self._open_size -= block.size
        elif block in self._waiting:
            del self._waiting[block]
            self._waiting_size -= block.size
            self._judge()
        elif block is not self._writing:  # the writer sees that nobody wants it
            self._discard(block)
        if self.on_space is not None:
            self.on_space()

    def _lost(self, spool: Spool, block: Block, error: OSError) -> JMSException:
        """Return what to raise for a block that cannot be read."""
        failure = ResourceAllocationException(
            f"Spooled messages of {spool.name} cannot be read: {error}"
        )
        self._change(StoreState.FAILED, failure)
        return failure

    # The writer.

    def _seal(self, spool: Spool) -> None:
        block = self._open.pop(spool)
        self._open_size -= block.size
        self._waiting[block] = None
        self._waiting_size += block.size
        self._judge()
        self._wake.set()

    def _discard(self, block: Block) -> None:
        self._garbage.append(block.number)
        self._wake.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            self._idle = anyio.Event()
            while self._waiting or self._garbage:
                await self._delete_garbage()
                if self._waiting and not await self._write_first():
                    await _clock.sleep(self._retry_period)
            self._idle.set()

    async def _delete_garbage(self) -> None:
        garbage, self._garbage = self._garbage, []
        if garbage:
            await to_thread.run_sync(self._delete, garbage)

    def _delete(self, numbers: list[int]) -> None:
        for number in numbers:
            try:
                self.files.delete(number)
            except OSError as e:
                logger.warning("Spool file %d in %s stays: %s", number, self.directory, e)

    async def _write_first(self) -> bool:
        """Write the block that waits longest; return whether the disk has taken it."""
        block = next(iter(self._waiting))
        del self._waiting[block]
        self._writing = block
        data = block.data
        assert data is not None, "a block that waits is in memory"
        try:
            await to_thread.run_sync(self.files.write, block.number, data)
        except OSError as e:
            self._not_written(block, e)
            return False
        finally:
            self._writing = None
        self._waiting_size -= block.size
        block.data = None
        if not block.live:
            self._discard(block)
        if self.state is StoreState.SUSPENDED:
            self._change(StoreState.RUNNING)
        self._judge()
        return True

    def _not_written(self, block: Block, error: OSError) -> None:
        self._discard(block)  # a part of it may be there
        if block.live:
            self._waiting = {block: None, **self._waiting}
        else:
            self._waiting_size -= block.size
        full = error.errno in _NO_SPACE
        self._change(StoreState.SUSPENDED if full else StoreState.FAILED, error)

    def _broken(self, error: BaseException) -> None:
        self._change(StoreState.FAILED, error if isinstance(error, Exception) else None)

    def _judge(self) -> None:
        """Tell senders to wait while too much waits in memory."""
        if self.state is StoreState.RUNNING and self._waiting_size > MAX_WAITING:
            self._change(StoreState.CONGESTED)
        elif self.state is StoreState.CONGESTED and self._waiting_size <= MAX_WAITING // 2:
            self._change(StoreState.RUNNING)

    def _change(self, state: StoreState, error: Exception | None = None) -> None:
        if self.state in (state, StoreState.FAILED):
            return
        self.state = state
        level = logging.INFO if error is None else logging.ERROR
        logger.log(level, "Temp store %s is %s%s", self.directory, state.value, _because(error))
        if self.on_state is not None:
            self.on_state(state, error)


def _because(error: Exception | None) -> str:
    return "" if error is None else f": {error}"
