"""The spooled messages of one queue or subscription, first in, first out.

Calls are made on the broker's loop and never wait, but reading may block on the disk. Popping
removes messages. A cursor that orders by priority has one spool for each priority.

Only unreadable data is lost: a record that cannot be decoded, or the rest of a block whose file
cannot be read. The other messages of the same call are returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyjms._logger import get_logger
from pyjms.errors import JMSException, MessageFormatException
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.raw import patch_raw
from pyjms_broker.store.temp.block import Block, Record

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["BlockStore", "OnLost", "Spool", "SpooledMessage"]

logger = get_logger(__name__)

OnLost = Callable[[int], None]
"""Called with the number of messages that could not be read back."""


class BlockStore(Protocol):
    """The interface of the temp store for spools: it keeps the blocks of all spools."""

    def open_block(self, spool: Spool, first: int) -> Block:
        """Return the block to which the spool appends; a new one begins with token `first`."""

    def block_grew(self, spool: Spool, block: Block, size: int) -> None:
        """Record that `size` bytes were appended to the spool's open block."""

    def drop_block(self, spool: Spool, block: Block) -> None:
        """Delete a block that has no live messages."""

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of a written block. Blocks; raises OSError."""

    def read_failed(self, spool: Spool, error: OSError, lost: int) -> JMSException:
        """Fail the store and return the error to raise for a block with `lost` messages."""


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

    It uses no memory per message. Source: the disk list (PList) of ActiveMQ's
    FilePendingMessageCursor.
    """

    def __init__(self, store: BlockStore, name: str, on_lost: OnLost) -> None:
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
        self._store.block_grew(self, block, size)
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
        """Return at most `limit` messages whose token is above `after`, without removing them.

        Raises:
            JMSException: none of them can be read from disk; they are lost.
        """
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
            yield from block.records(after, limit, self._store.read)
        except OSError as e:
            lost = block.live
            self._drop(block)
            self._on_lost(lost)
            raise self._store.read_failed(self, e, lost) from e

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
