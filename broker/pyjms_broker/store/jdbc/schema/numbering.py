"""Row IDs, composed of the number of a destination and a serial number within it.

IDs are therefore unique, increase within a destination in commit order, and contain the arrival
number. The range of destination 0 is used for the rows of prepared transactions, which have no
arrival number yet, and for the rows of a database created by ActiveMQ until they are renumbered.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LAST_OF_NO_DESTINATION", "base_of", "destination_number", "range_end"]

_ARRIVAL_BITS: Final = 42
LAST_OF_NO_DESTINATION: Final = (1 << _ARRIVAL_BITS) - 1


def base_of(number: int) -> int:
    """Return the ID before the first one of a destination."""
    return number << _ARRIVAL_BITS


def destination_number(row_id: int) -> int:
    """Return the number of the destination that an ID belongs to."""
    return row_id >> _ARRIVAL_BITS


def range_end(base: int) -> int:
    """Return the largest possible ID of a destination."""
    return base + LAST_OF_NO_DESTINATION
