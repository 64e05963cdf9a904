"""Index entries of messages, and the index's representation of message ids.

A message id is stored in two parts: a number for the producer (the id up to its last colon) and
the sequence number at its end. Producer numbers and sequence numbers increase, so the database's
B-tree of ids is only appended to, at one place per producer. A sequence number above the highest
one of its producer shows, without a lookup, that a message is new.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position

__all__ = ["LARGEST_SEQUENCE", "NO_SEQUENCE", "IndexEntry", "Producer", "join_id", "split_id"]

NO_SEQUENCE: Final = -1
"""The sequence number of an id that does not end in `:<number>`: all of it is the producer."""
_MAX_DIGITS: Final = 18
LARGEST_SEQUENCE: Final = 10**_MAX_DIGITS - 1
"""For sequence numbers from 0 to this one, `split_id` returns the parts that formed the id."""


class IndexEntry(NamedTuple):
    """The index data of a message. Immutable: a changed message gets a new entry."""

    position: Position
    message_id: str
    file_id: int
    """The segment of its add record, or of a later update record."""
    offset: int
    size: int
    """The message's size in memory, in bytes."""
    producer: int
    """The first part of the id: the index's number for the producer in this destination."""
    sequence: int
    """The second part: the number at the end of the id; -1 if it does not end in one."""

    @property
    def location(self) -> Location:
        """The location of the message in the journal."""
        return Location(self.file_id, self.offset)


class Producer:
    """A producer of messages of one destination."""

    __slots__ = ("highest", "name", "number")

    def __init__(self, number: int, name: str, highest: int = NO_SEQUENCE - 1) -> None:
        self.number = number
        self.name = name
        self.highest = highest
        """An upper bound of the sequence numbers in the index."""


def split_id(message_id: str) -> tuple[str, int]:
    """Split an id into its producer and sequence number; the inverse of `join_id`."""
    name, colon, tail = message_id.rpartition(":")
    if (
        colon
        and tail.isdecimal()
        and tail.isascii()
        and len(tail) <= _MAX_DIGITS
        and (tail[0] != "0" or tail == "0")
    ):
        return name, int(tail)
    return message_id, NO_SEQUENCE


def join_id(name: str, sequence: int) -> str:
    """Return the message id of a producer's name and a sequence number."""
    return name if sequence == NO_SEQUENCE else f"{name}:{sequence}"
