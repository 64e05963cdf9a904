"""How the index keeps message ids: a number for the producer and the sequence number at the end.

Producers' numbers rise, and so do their sequence numbers, so the database's tree of ids grows
at its ends. The highest number of each producer tells that a message is new without a look.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LARGEST_SEQUENCE", "NO_SEQUENCE", "Producer", "join_id", "split_id"]

NO_SEQUENCE: Final = -1
"""For an id that does not end in `:<number>`; the whole id stands for the producer then."""
_MAX_DIGITS: Final = 18
LARGEST_SEQUENCE: Final = 10**_MAX_DIGITS - 1
"""Of numbers from 0 to this one an id's two parts are what it was put together from."""


class Producer:
    """A producer of messages of one destination."""

    __slots__ = ("highest", "name", "number")

    def __init__(self, number: int, name: str, highest: int = NO_SEQUENCE - 1) -> None:
        self.number = number
        self.name = name
        self.highest = highest
        """No message here has a higher sequence number; lower ones may not be here either."""


def split_id(message_id: str) -> tuple[str, int]:
    """Return an id's producer and sequence number; `join_id` makes the same text of them."""
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
