"""A row's ID: which destination's it is, and the how-manyth that this one got.

So IDs are unique, rise in each destination with the commits, and say the arrival number. The
range of destination 0 has rows of prepared transactions, which have not arrived yet, and
those of a database that ActiveMQ made, until they are renumbered.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LAST_OF_NO_DESTINATION", "base_of", "destination_number", "range_end"]

_ARRIVAL_BITS: Final = 42
LAST_OF_NO_DESTINATION: Final = (1 << _ARRIVAL_BITS) - 1


def base_of(number: int) -> int:
    """Return the ID before the first of a destination."""
    return number << _ARRIVAL_BITS


def destination_number(row_id: int) -> int:
    """Return whose an ID is."""
    return row_id >> _ARRIVAL_BITS


def range_end(base: int) -> int:
    """Return the last ID of a destination."""
    return base + LAST_OF_NO_DESTINATION
