"""A bounded window over the sequence numbers of one producer: which of the latest were seen.

Sequence numbers of one producer arrive nearly in order, so the window is one integer used as a bit
set: bit n is set if number `highest - n` was seen. Advancing is a shift, a lookup is a mask, and
the memory is about `depth` bits.

The window ends exactly `depth` numbers behind the highest one. A number older than that counts as
new: reporting it as a duplicate would lose a valid message, while a missed duplicate is a
repetition that at-least-once delivery allows.

The broker's own audit (`pyjms_broker.policy.audit`) does not use this class. Its window is 10,000
messages deep by default and moves by words of 64 bits, so that a message costs the same at any
depth; a shift would copy the whole bit set.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_SLACK: Final = 64  # a bit set is trimmed only when it is so much too long: cheaper than each time


class SequenceWindow:
    """The sequence numbers seen among the latest `depth` of one producer."""

    __slots__ = ("_bits", "_depth", "_highest", "_limit")

    def __init__(self, first: int, depth: int) -> None:
        """Create a window that has seen the number `first`, wherever the producer begins."""
        self._highest = first
        self._bits = 1
        self._depth = depth
        self._limit = _limit(depth)

    def add(self, number: int) -> bool:
        """Record `number`; return whether it was recorded before, within the window."""
        step = number - self._highest
        if step > 0:
            bits = (self._bits << step) | 1 if step < self._depth else 1
            self._bits = bits if bits < self._limit else bits & ((self._limit - 1) >> _SLACK)
            self._highest = number
            return False
        if -step >= self._depth:
            return False
        bits = self._bits
        bit = 1 << -step
        self._bits = bits | bit
        return bool(bits & bit)

    def remove(self, number: int) -> None:
        """Forget `number`, so that it counts as new when it arrives again."""
        age = self._highest - number
        if 0 <= age < self._depth:
            self._bits &= ~(1 << age)


@cache
def _limit(depth: int) -> int:
    """Return the first bit set to be trimmed, one object for all windows of that depth."""
    return 1 << (depth + _SLACK)
