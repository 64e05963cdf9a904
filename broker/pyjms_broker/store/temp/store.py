"""The temp store: non-persistent messages spooled in blocks, written in the background.

Theory of operation
-------------------

A cursor spools messages here when memory is short. A spool is a sequence of blocks of about
1 MiB; each block goes through these states:

    open      in memory; its spool appends to it         -> waiting, dropped
    waiting   complete, in memory, queued for writing     -> writing, dropped
    writing   a worker thread writes it                   -> written, or waiting after an error
    written   only on disk, read in chunks                -> dropped
    dropped   no live messages: its file, if it has one, is deleted

A block is completed when it is full. When all open blocks together exceed MAX_OPEN, the oldest
ones are completed. Messages that are consumed quickly thus never touch the disk, and memory is
bounded by MAX_OPEN for open blocks and MAX_WAITING for waiting ones. Beyond MAX_WAITING the store
is CONGESTED, and senders of non-persistent messages are held back. Nothing is synced, and nothing
outlives the broker: the directory is emptied at every start.

    RUNNING    waiting > MAX_WAITING      -> CONGESTED
    CONGESTED  waiting <= MAX_WAITING / 2 -> RUNNING
    any        the disk is full           -> SUSPENDED; a successful write -> RUNNING
    any        another error              -> FAILED, permanently

All methods are called on the broker's loop; only writing and deleting files run in a thread.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
from anyio import lowlevel, to_thread

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms.errors import JMSException, ResourceAllocationException
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.disk import NO_HANDLE_ERRORS, NO_SPACE_ERRORS
from pyjms_broker.store.temp.block import Block
from pyjms_broker.store.temp.files import SpoolFiles
from pyjms_broker.store.temp.spool import OnLost, Spool

__all__ = ["TempStore"]

logger = get_logger(__name__)

BLOCK_SIZE: Final = 1 << 20
MAX_OPEN: Final = 16 << 20
MAX_WAITING: Final = 32 << 20


class TempStore:
    """The store to which non-persistent messages are spooled when memory is short.

    Its contents do not survive a restart (activemq-persistence K2; activemq-broker M10). Source:
    ActiveMQ PListStore.
    """

    def __init__(
        self,
        directory: Path,
        *,
        files: SpoolFiles | None = None,
        resume_check_sleep_period: float = 5.0,
    ) -> None:
        """Create it; `resume_check_sleep_period`: seconds between retries on a full disk."""
        self.directory = directory
        self.files = SpoolFiles(directory) if files is None else files
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        """Called when the state changes, with the error that caused it."""
        self.on_space: Callable[[], None] | None = None
        """Called when `size` has decreased."""
        self.size = 0
        """The size of the spooled messages in bytes, written or not (activemq-broker M3)."""
        self.state = StoreState.RUNNING
        self._retry_period = resume_check_sleep_period
        self._numbers = itertools.count(1)
        self._open: dict[Spool, Block] = {}
        self._open_size = 0
        self._waiting: dict[Block, None] = {}
        self._waiting_size = 0
        self._obsolete: list[int] = []
        self._writing: Block | None = None
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._writer: _wakeup.BackgroundTask | None = None

    async def start(self) -> None:
        """Empty the directory and start the writer.

        Raises:
            ResourceAllocationException: the directory cannot be created or emptied.
        """
        try:
            await to_thread.run_sync(self.files.wipe)
        except OSError as e:
            raise ResourceAllocationException(
                f"Cannot use the temp store's directory {self.directory}: {e}",
                hint="give the broker write access, or choose another data directory",
            ) from e
        self._writer = _wakeup.spawn(
            self._write, name="temp store writer", on_error=self._writer_failed
        )

    async def stop(self) -> None:
        """Drop all messages and empty the directory. Idempotent."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        await _wakeup.end_tasks(writer)
        self._open.clear()
        self._waiting.clear()
        self._obsolete.clear()
        self.size = self._open_size = self._waiting_size = 0
        try:
            await to_thread.run_sync(self.files.wipe)
        except OSError as e:
            logger.warning("Cannot empty the temp store's directory %s: %s", self.directory, e)
        self.files.close()

    def spool(self, name: str, on_lost: OnLost = lambda _count: None) -> Spool:
        """Return a new, empty spool. It need not be closed, only cleared.

        Args:
            name: the name of the destination or consumer, for the log.
            on_lost: called with the number of messages that could not be read back.

        """
        return Spool(self, name, on_lost)

    async def wait_idle(self) -> None:
        """Wait until all complete blocks are written and all dropped ones deleted."""
        while self._writer is not None and (self._wake.is_set() or not self._idle.is_set()):
            await lowlevel.checkpoint()
            await self._idle.wait()

    # -- for spools (see BlockStore)

    def open_block(self, spool: Spool, first: int) -> Block:
        block = self._open.get(spool)
        if block is None:
            block = self._open[spool] = Block(next(self._numbers), first)
        return block

    def block_grew(self, spool: Spool, block: Block, size: int) -> None:
        self.size += size
        self._open_size += size
        if block.size >= BLOCK_SIZE:
            self._seal(spool)
        while self._open_size > MAX_OPEN:
            self._seal(next(iter(self._open)))

    def drop_block(self, spool: Spool, block: Block) -> None:
        if self._writer is None:
            return  # stopped: everything was dropped
        self.size -= block.size
        if self._open.get(spool) is block:
            del self._open[spool]
            self._open_size -= block.size
        elif block in self._waiting:
            del self._waiting[block]
            self._waiting_size -= block.size
            self._update_congestion()
        elif block is not self._writing:  # otherwise the writer discards it
            self._discard(block)
        if self.on_space is not None:
            self.on_space()

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of a written block. Blocks.

        Raises:
            OSError: the file cannot be read.
        """
        return self.files.read(number, offset, size)

    def read_failed(self, spool: Spool, error: OSError, lost: int) -> JMSException:
        """Fail the store and return the error to raise for a block with `lost` messages."""
        failure = ResourceAllocationException(
            f"Cannot read the spooled messages of {spool.name}, {lost} are lost: {error}"
        )
        self._set_state(StoreState.FAILED, failure)
        return failure

    # -- the writer

    def _seal(self, spool: Spool) -> None:
        block = self._open.pop(spool)
        self._open_size -= block.size
        self._waiting[block] = None
        self._waiting_size += block.size
        self._update_congestion()
        self._wake.set()

    def _discard(self, block: Block) -> None:
        self._obsolete.append(block.number)
        self._wake.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            self._idle = anyio.Event()
            while self._waiting or self._obsolete:
                await self._delete_obsolete()
                if self._waiting and not await self._write_first():
                    await _clock.sleep(self._retry_period)
            self._idle.set()

    async def _delete_obsolete(self) -> None:
        garbage, self._obsolete = self._obsolete, []
        if garbage:
            await to_thread.run_sync(self._delete, garbage)

    def _delete(self, numbers: list[int]) -> None:
        for number in numbers:
            try:
                self.files.delete(number)
            except OSError as e:
                logger.warning("Cannot delete spool file %d in %s: %s", number, self.directory, e)

    async def _write_first(self) -> bool:
        """Write the block that has waited longest; return whether it succeeded."""
        block = next(iter(self._waiting))
        del self._waiting[block]
        self._writing = block
        data = block.data
        assert data is not None, "a waiting block is in memory"
        try:
            await to_thread.run_sync(self.files.write, block.number, data)
        except OSError as e:
            self._write_failed(block, e)
            return False
        finally:
            self._writing = None
        self._waiting_size -= block.size
        block.data = None
        if not block.live:
            self._discard(block)
        if self.state is StoreState.SUSPENDED:
            self._set_state(StoreState.RUNNING)
        self._update_congestion()
        return True

    def _write_failed(self, block: Block, error: OSError) -> None:
        self._discard(block)  # part of the file may exist
        if block.live:
            self._waiting = {block: None, **self._waiting}
        else:
            self._waiting_size -= block.size
        passes = error.errno in NO_SPACE_ERRORS or error.errno in NO_HANDLE_ERRORS
        self._set_state(StoreState.SUSPENDED if passes else StoreState.FAILED, error)

    def _writer_failed(self, error: BaseException) -> None:
        self._set_state(StoreState.FAILED, error if isinstance(error, Exception) else None)

    def _update_congestion(self) -> None:
        """Enter or leave CONGESTED depending on the amount that waits in memory."""
        if self.state is StoreState.RUNNING and self._waiting_size > MAX_WAITING:
            self._set_state(StoreState.CONGESTED)
        elif self.state is StoreState.CONGESTED and self._waiting_size <= MAX_WAITING // 2:
            self._set_state(StoreState.RUNNING)

    def _set_state(self, state: StoreState, error: Exception | None = None) -> None:
        if self.state in (state, StoreState.FAILED):
            return
        self.state = state
        level = logging.INFO if error is None else logging.ERROR
        logger.log(level, "Temp store %s is %s%s", self.directory, state.value, _because(error))
        if self.on_state is not None:
            self.on_state(state, error)


def _because(error: Exception | None) -> str:
    return "" if error is None else f": {error}"
