"""One queue's (or subscription's) messages in the temp store: first in, first out.

Calls belong to the broker's loop and never wait; reading may go to the disk. What was taken
has left the spool. A cursor that sorts by priority has one spool a priority.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker.store.temp.block import Block, Record
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.raw import patch_raw

if TYPE_CHECKING:
    from broker.region.message import MessageReference
    from broker.store.temp.store import TempStore

__all__ = ["Spool", "SpooledMessage"]


class SpooledMessage(NamedTuple):
    """A message as the spool gives it back, with what its reference knew."""

    token: int
    """Its number in the spool; they grow in the order of `append`."""
    message: ActiveMQMessage
    size: int
    """Bytes as memory counts them (`MessageReference.size`)."""
    redelivery_counter: int


class Spool:
    """Messages in order of arrival; get one from `TempStore.spool`.

    Memory holds nothing per message. Source: ActiveMQ FilePendingMessageCursor's disk list.
    """

    def __init__(self, store: TempStore, name: str) -> None:
        self.name = name
        self.message_size = 0
        """Bytes of all its messages, as memory counts them."""
        self._store = store
        self._blocks: deque[Block] = deque()
        self._count = 0
        self._next = 1

    def __len__(self) -> int:
        """How many messages it has."""
        return self._count

    def append(self, reference: MessageReference) -> int:
        """Keep a message behind the others and return its token. The reference may be forgotten.

        Raises:
            LocalProtocolError: the message cannot be marshalled.
        """
        message = reference.message
        patch_raw(message)
        frame = encode_message(message)
        block = self._store._open_block(self, self._next)
        if not self._blocks or self._blocks[-1] is not block:
            self._blocks.append(block)
        taken = block.append(frame, reference.size, reference.redelivery_counter)
        token = self._next
        self._next += 1
        self._count += 1
        self.message_size += reference.size
        self._store._grown(self, block, taken)
        return token

    def take(self, limit: int) -> list[SpooledMessage]:
        """Take at most `limit` messages from the front.

        Raises:
            JMSException: the disk does not give them back; they are lost.
        """
        taken: list[SpooledMessage] = []
        while self._blocks and len(taken) < limit:
            block = self._blocks[0]
            for record in self._read(block, -1, limit - len(taken)):
                block.take_to(record)
                taken.append(self._counted_out(block, record))
            if not block.live:
                self._drop(block)
        return taken

    def browse(self, after: int | None, limit: int) -> list[SpooledMessage]:
        """Return at most `limit` messages whose token is above `after`; they stay.

        Raises:
            JMSException: the disk does not give them back; they are lost.
        """
        found: list[SpooledMessage] = []
        for block in tuple(self._blocks):
            if len(found) >= limit:
                break
            last = -1 if after is None else after - block.first
            if last < block.count - 1:
                records = self._read(block, last, limit - len(found))
                found += [_spooled(block, record) for record in records]
        return found

    def remove(self, spooled: SpooledMessage) -> bool:
        """Take out one message that `browse` showed; return whether it was there."""
        block = next(
            (b for b in self._blocks if b.first <= spooled.token < b.first + b.count), None
        )
        if block is None or not block.remove(spooled.token - block.first, spooled.size):
            return False
        self._count -= 1
        self.message_size -= spooled.size
        if not block.live:
            self._drop(block)
        return True

    def clear(self) -> None:
        """Forget all; the spool can be used on."""
        while self._blocks:
            self._drop(self._blocks[-1])

    def _read(self, block: Block, after: int, limit: int) -> Iterator[Record]:
        try:
            yield from block.records(after, limit, self._store.files.read)
        except OSError as e:
            self._drop(block)
            raise self._store._lost(self, block, e) from e

    def _counted_out(self, block: Block, record: Record) -> SpooledMessage:
        self._count -= 1
        self.message_size -= record.memory_size
        return _spooled(block, record)

    def _drop(self, block: Block) -> None:
        self._blocks.remove(block)
        self._count -= block.live
        self.message_size -= block.memory_size
        block.live = 0
        self._store._dropped(self, block)


def _spooled(block: Block, record: Record) -> SpooledMessage:
    return SpooledMessage(
        block.first + record.place,
        decode_message(record.frame),
        record.memory_size,
        record.redelivery_counter,
    )
