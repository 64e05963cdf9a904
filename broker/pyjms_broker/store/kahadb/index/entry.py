"""A message as the index knows it, and how the index stores message ids.

A message id is kept in two parts: a number for the producer (the id up to its last colon) and
the sequence number at its end. Producer numbers rise, and so do their sequence numbers, so the
database's tree of ids grows at its right-hand edges only. The highest sequence number of each
producer shows without a lookup that a message is new.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position

__all__ = ["LARGEST_SEQUENCE", "NO_SEQUENCE", "IndexEntry", "Producer", "join_id", "split_id"]

NO_SEQUENCE: Final = -1
"""For an id that does not end in `:<number>`; the whole id then stands for the producer."""
_MAX_DIGITS: Final = 18
LARGEST_SEQUENCE: Final = 10**_MAX_DIGITS - 1
"""For sequence numbers from 0 to this one `split_id` returns the parts an id was built from."""


class IndexEntry(NamedTuple):
    """What the index knows of a message. Immutable; a changed message gets a new entry."""

    position: Position
    message_id: str
    file_id: int
    """The segment of its add record, or of a later update record."""
    offset: int
    size: int
    """The message's size in memory, in bytes."""
    producer: int
    """The first part of the id: the number the index gave the producer in this destination."""
    sequence: int
    """The second part: the number at the id's end; -1 if the id ends otherwise."""

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
        """No message in the index has a higher sequence number; lower ones may be absent too."""


def split_id(message_id: str) -> tuple[str, int]:
    """Return an id's producer and sequence number; `join_id` turns them back into the id."""
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
