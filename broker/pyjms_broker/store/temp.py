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

A block stores the offset of its first live message and finds the others by scanning. There is no
state per message, except for a flag if single messages were removed from the middle. Only
unreadable data is lost: a record that cannot be decoded, or the rest of a block whose file cannot
be read.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from anyio import lowlevel, to_thread

from pyjms.errors import JMSException, MessageFormatException, ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.fast_writer import patch_raw
from pyjms_broker.api.message import MessageReference
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.files import make_private_directory
from pyjms_broker.store.journal.disk import NO_HANDLE_ERRORS, NO_SPACE_ERRORS, SpareHandle

logger = get_logger(__name__)

RECORD_HEAD: Final = struct.Struct(">III")
"""The header of each frame: its size, the message's size in memory, the redelivery counter."""

_LARGEST_READ: Final = 1 << 18


class Record(NamedTuple):
    """A message in its block: its index, its end offset, and its stored data."""

    number: int
    end: int
    frame: bytes
    memory_size: int
    redelivery_counter: int


class Block:
    """The messages with tokens `first`, `first + 1` and so on of one spool."""

    __slots__ = (
        "count",
        "data",
        "first",
        "live",
        "memory_size",
        "number",
        "offset",
        "removed",
        "size",
        "start",
    )

    def __init__(self, number: int, first: int) -> None:
        self.number = number
        self.first = first
        """The token of the block's first message."""
        self.data: bytearray | None = bytearray()
        """Its contents until they are written to the file."""
        self.size = 0
        self.count = 0
        """The number of messages ever appended."""
        self.live = 0
        """The number of messages that were neither popped nor removed."""
        self.memory_size = 0
        """The size of the live messages in memory, in bytes."""
        self.start = 0
        """The index of the first message that was not popped."""
        self.offset = 0
        """The offset of that message."""
        self.removed: bytearray | None = None
        """Flags of the removed messages (1: removed), created with the first removal."""

    def append(self, frame: bytes, memory_size: int, redelivery_counter: int) -> int:
        """Append a message and return its length in bytes. Only before the block is written."""
        assert self.data is not None, "a written block is closed"
        self.data += RECORD_HEAD.pack(len(frame), memory_size, redelivery_counter)
        self.data += frame
        length = RECORD_HEAD.size + len(frame)
        self.size += length
        self.count += 1
        self.live += 1
        self.memory_size += memory_size
        return length

    def remove(self, index: int, memory_size: int) -> bool:
        """Flag a message as removed; return whether it was live."""
        if not self.start <= index < self.count:
            return False
        if self.removed is None or len(self.removed) < self.count:
            self.removed = (self.removed or bytearray()).ljust(self.count, b"\0")
        if self.removed[index]:
            return False
        self.removed[index] = 1
        self.live -= 1
        self.memory_size -= memory_size
        return True

    def pop_through(self, record: Record) -> None:
        """Count `record`, the first live one, and all records before it as popped."""
        self.start = record.number + 1
        self.offset = record.end
        self.live -= 1
        self.memory_size -= record.memory_size

    def records(
        self, after: int, limit: int, read: Callable[[int, int, int], bytes]
    ) -> Iterator[Record]:
        """Yield at most `limit` live messages whose index is above `after`."""
        window = _Window(self, read)
        removed = self.removed or b""
        offset = self.offset
        for index in range(self.start, self.count):
            if limit <= 0:
                return
            size, memory_size, counter = RECORD_HEAD.unpack(window.get(offset, RECORD_HEAD.size))
            begin = offset + RECORD_HEAD.size
            offset = begin + size
            if index <= after or (index < len(removed) and removed[index]):
                continue
            limit -= 1
            yield Record(index, offset, window.get(begin, size), memory_size, counter)


class _Window:
    """A block's bytes, read ahead in chunks."""

    def __init__(self, block: Block, read: Callable[[int, int, int], bytes]) -> None:
        self._block = block
        self._read = read
        self._data: bytes = b""
        self._from = 0

    def get(self, offset: int, size: int) -> bytes:
        data = self._block.data
        if data is not None:
            return bytes(data[offset : offset + size])
        begin = offset - self._from
        if begin < 0 or begin + size > len(self._data):
            wanted = max(size, _LARGEST_READ)
            self._data = self._read(self._block.number, offset, wanted)
            self._from, begin = offset, 0
            if len(self._data) < size:
                raise OSError(f"Spool file {self._block.number} is truncated")
        return self._data[begin : begin + size]


OnLost = Callable[[int], None]
"""Called with the number of messages that could not be read back."""


class SpooledMessage(NamedTuple):
    """A message read back from a spool, with the state of its reference."""

    token: int
    """Its number in the spool; tokens increase in the order of `append`."""
    message: ActiveMQMessage
    size: int
    """Its size in memory, in bytes (`MessageReference.size`)."""
    redelivery_counter: int


class Spool:
    """Messages in order of arrival; returned by `TempStore.spool`.

    Calls are made on the broker's loop and never wait, but reading may block on the disk. Popping
    removes messages. A cursor that orders by priority has one spool for each priority. It uses no
    memory per message. Source: the disk list (PList) of ActiveMQ's
    FilePendingMessageCursor.
    """

    def __init__(self, store: TempStore, name: str, on_lost: OnLost) -> None:
        self.name = name
        self.message_size = 0
        """The size of all its messages in memory, in bytes."""
        self._store = store
        self._on_lost = on_lost
        self._blocks: deque[Block] = deque()
        self._count = 0
        self._next = 1

    def __len__(self) -> int:
        """Return the number of messages."""
        return self._count

    def append(self, reference: MessageReference) -> int:
        """Append a message and return its token. The reference may be dropped afterwards.

        Raises:
            LocalProtocolError: the message cannot be marshalled.
        """
        message = reference.message
        patch_raw(message)
        frame = encode_message(message)
        block = self._store.open_block(self, self._next)
        if not self._blocks or self._blocks[-1] is not block:
            self._blocks.append(block)
        size = block.append(frame, reference.size, reference.redelivery_counter)
        token = self._next
        self._next += 1
        self._count += 1
        self.message_size += reference.size
        self._store.count_appended(self, block, size)
        return token

    def pop(self, limit: int) -> list[SpooledMessage]:
        """Remove and return at most `limit` messages from the front.

        Raises:
            JMSException: none of them can be read from disk; they are lost.
        """
        popped: list[SpooledMessage] = []
        while self._blocks and len(popped) < limit:
            block = self._blocks[0]
            try:
                for record in self._read(block, -1, limit - len(popped)):
                    block.pop_through(record)
                    self._count -= 1
                    self.message_size -= record.memory_size
                    spooled = self._decode(block, record)
                    if spooled is None:
                        self._on_lost(1)
                    else:
                        popped.append(spooled)
            except JMSException:
                if not popped:
                    raise
                return popped
            if not block.live:
                self._drop(block)
        return popped

    def browse(self, after: int | None, limit: int) -> list[SpooledMessage]:
        """Return at most `limit` messages whose token is above `after`, without removing them."""
        found: list[SpooledMessage] = []
        for block in tuple(self._blocks):
            last = -1 if after is None else after - block.first
            try:
                while len(found) < limit and last < block.count - 1:
                    last = self._browse(block, last, limit - len(found), found)
            except JMSException:
                if not found:
                    raise
                break
        return found

    def _browse(self, block: Block, last: int, limit: int, found: list[SpooledMessage]) -> int:
        """Append messages behind index `last` to `found`; return the last index read."""
        number = block.count
        for record in self._read(block, last, limit):
            number = record.number
            spooled = self._decode(block, record)
            if spooled is not None:
                found.append(spooled)
            elif self._remove(block, record.number, record.memory_size):
                self._on_lost(1)
                if not block.live:
                    return block.count
        return number

    def remove(self, spooled: SpooledMessage) -> bool:
        """Remove a message that `browse` returned; return whether it was still there."""
        block = next(
            (b for b in self._blocks if b.first <= spooled.token < b.first + b.count), None
        )
        return block is not None and self._remove(block, spooled.token - block.first, spooled.size)

    def _remove(self, block: Block, index: int, size: int) -> bool:
        if not block.remove(index, size):
            return False
        self._count -= 1
        self.message_size -= size
        if not block.live:
            self._drop(block)
        return True

    def clear(self) -> None:
        """Remove all messages; the spool remains usable."""
        while self._blocks:
            self._drop(self._blocks[-1])

    def _read(self, block: Block, after: int, limit: int) -> Iterator[Record]:
        try:
            yield from block.records(after, limit, self._store.files.read)
        except OSError as e:
            lost = block.live
            self._drop(block)
            self._on_lost(lost)
            raise self._store.fail_reading(self, e, lost) from e

    def _decode(self, block: Block, record: Record) -> SpooledMessage | None:
        """Return the message of a record; None if it cannot be decoded, which is logged."""
        token = block.first + record.number
        try:
            message = decode_message(record.frame)
            if message.message_id is None:
                raise MessageFormatException("it has no message id")
        except Exception as error:  # any damage affects only this message
            logger.error(
                "%s: message %d of the temp store's file %d cannot be decoded and is lost: %s",
                self.name,
                token,
                block.number,
                error,
            )
            return None
        return SpooledMessage(token, message, record.memory_size, record.redelivery_counter)

    def _drop(self, block: Block) -> None:
        self._blocks.remove(block)
        self._count -= block.live
        self.message_size -= block.memory_size
        block.live = 0
        self._store.drop_block(self, block)


_OURS: Final = re.compile(r"[0-9]+\.spool", re.ASCII)
_ACTIVEMQ_INDEX: Final = ("tmpDB.data", "tmpDB.redo", "tmpDB.free")
_ACTIVEMQ_SEGMENT: Final = re.compile(r"db-[0-9]+\.log", re.ASCII)
_BINARY: Final = getattr(os, "O_BINARY", 0)


class SpoolFiles:
    """The files of a temp store's directory, by number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._spare = SpareHandle()

    def close(self) -> None:
        """Release the handle that is reserved for reading. Idempotent."""
        self._spare.release()

    def wipe(self) -> None:
        """Create the directory, or delete leftover files of a broker. (activemq-persistence K2)

        Only files of temp stores, ours and ActiveMQ's, are deleted, so that a directory that was
        configured by mistake loses nothing.
        """
        self._spare.keep()
        make_private_directory(self.directory)
        names = [path.name for path in self.directory.iterdir()]
        is_activemq = any(name in _ACTIVEMQ_INDEX for name in names)
        for name in names:
            if (
                _OURS.fullmatch(name)
                or name in _ACTIVEMQ_INDEX
                or (is_activemq and _ACTIVEMQ_SEGMENT.fullmatch(name))
            ):
                (self.directory / name).unlink(missing_ok=True)

    def write(self, number: int, data: bytes | bytearray) -> None:
        """Write file `number`, replacing an existing one."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY
        fd = os.open(self._path(number), flags, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Return `size` bytes of file `number`; fewer only at its end."""
        path = self._path(number)
        fd = self._spare.open(lambda: os.open(path, os.O_RDONLY | _BINARY), lambda: False)
        with os.fdopen(fd, "rb") as file:
            file.seek(offset)
            data = file.read(size)
        self._spare.keep()
        return data

    def delete(self, number: int) -> None:
        """Delete file `number`, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self.directory / f"{number}.spool"


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
        self._writer: event_loop.BackgroundTask | None = None

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
        self._writer = event_loop.spawn(
            self._write, name="temp store writer", on_error=self._writer_failed
        )

    async def stop(self) -> None:
        """Drop all messages and empty the directory. Idempotent."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        await event_loop.end_tasks(writer)
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

    # -- for spools

    def open_block(self, spool: Spool, first: int) -> Block:
        """Return the block to which the spool appends; a new one begins with token `first`."""
        block = self._open.get(spool)
        if block is None:
            block = self._open[spool] = Block(next(self._numbers), first)
        return block

    def count_appended(self, spool: Spool, block: Block, size: int) -> None:
        """Record that `size` bytes were appended to the spool's open block."""
        self.size += size
        self._open_size += size
        if block.size >= BLOCK_SIZE:
            self._seal(spool)
        while self._open_size > MAX_OPEN:
            self._seal(next(iter(self._open)))

    def drop_block(self, spool: Spool, block: Block) -> None:
        """Delete a block that has no live messages."""
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

    def fail_reading(self, spool: Spool, error: OSError, lost: int) -> JMSException:
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
