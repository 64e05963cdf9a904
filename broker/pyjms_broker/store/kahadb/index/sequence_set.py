"""A set of positive numbers, mostly in long runs: the acknowledged messages of a subscription.

Numbers added in order take no space, others one bit each. The bits are in blocks, so that only
changed blocks have to be written to the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Final

BLOCK_BITS: Final = 4096
_FULL: Final = (1 << BLOCK_BITS) - 1


class SequenceSet:
    """All numbers from 1 to `floor`, and some above it. `len` counts all of them."""

    __slots__ = ("_blocks", "_changed", "_length", "floor")

    def __init__(self, floor: int = 0, blocks: Iterable[tuple[int, bytes]] = ()) -> None:
        self.floor = floor
        self._blocks = {number: int.from_bytes(bits, "little") for number, bits in blocks}
        self._changed: set[int] = set()
        self._drop(range(self.first_block))
        self._length = floor + sum(self._above(number) for number in self._blocks)

    @classmethod
    def common(cls, sets: Sequence[SequenceSet]) -> SequenceSet:
        """Return the intersection of one or more sets."""
        result = cls(min(one.floor for one in sets))
        last = max(one.last_block for one in sets)
        for block in range(result.first_block, last + 1):
            bits = reduce(and_, [one.block(block) for one in sets])
            if bits:
                result._blocks[block] = bits
                result._changed.add(block)
        result._length += sum(result._above(block) for block in result._blocks)
        return result

    def __len__(self) -> int:
        return self._length

    def __contains__(self, number: int) -> bool:
        if number <= self.floor:
            return True
        bits = self._blocks.get(number // BLOCK_BITS)
        return bits is not None and bits >> (number % BLOCK_BITS) & 1 == 1

    def add(self, number: int) -> bool:
        """Add a number; False if it is in the set already."""
        if number in self:
            return False
        self._length += 1
        if number == self.floor + 1:
            self._raise_floor(number)
        else:
            self._set(number // BLOCK_BITS, 1 << (number % BLOCK_BITS))
        return True

    def add_range(self, first: int, last: int) -> None:
        """Add all numbers from `first` to `last` inclusive."""
        first = max(first, self.floor + 1)
        if first > last:
            return
        if first == self.floor + 1:
            self._raise_floor(last)
            self._length = self.floor + sum(self._above(block) for block in self._blocks)
            return
        for block in range(first // BLOCK_BITS, last // BLOCK_BITS + 1):
            start = block * BLOCK_BITS
            bits = _FULL
            if last - start < BLOCK_BITS:
                bits = (1 << (last - start + 1)) - 1
            if first > start:
                bits &= -1 << (first - start)
            before = self._blocks.get(block, 0)
            self._set(block, bits)
            self._length += (bits & ~before).bit_count()

    def first_missing(self, number: int) -> int:
        """Return the smallest number from `number` on that is not in the set."""
        number = max(number, self.floor + 1)
        while True:
            bits = self._blocks.get(number // BLOCK_BITS)
            if bits is None:
                return number
            offset = number % BLOCK_BITS
            rest = bits >> offset
            if rest != _FULL >> offset:
                return number + _trailing_ones(rest)
            number += BLOCK_BITS - offset

    def pop_changes(self) -> list[tuple[int, bytes]]:
        """Return the blocks that changed since the last call; drop those before `first_block`."""
        changed, self._changed = self._changed, set()
        return [
            (number, self._blocks[number].to_bytes(BLOCK_BITS // 8, "little"))
            for number in sorted(changed)
            if number in self._blocks
        ]

    @property
    def first_block(self) -> int:
        """The number of the first block in use: that of the number above the floor."""
        return (self.floor + 1) // BLOCK_BITS

    @property
    def last_block(self) -> int:
        """The number of the last block that is not empty."""
        return max(self._blocks, default=self.floor // BLOCK_BITS)

    def block(self, block: int) -> int:
        """Return a block's bits, including the numbers up to the floor."""
        below = self.floor + 1 - block * BLOCK_BITS
        if below >= BLOCK_BITS:
            return _FULL
        bits = self._blocks.get(block, 0)
        return bits | ((1 << below) - 1) if below > 0 else bits

    def _above(self, block: int) -> int:
        """Return the number of elements of a block that are above the floor."""
        below = self.floor + 1 - block * BLOCK_BITS
        return (self._blocks[block] >> max(below, 0)).bit_count()

    def _set(self, block: int, bits: int) -> None:
        bits |= self._blocks.get(block, 0)
        self._blocks[block] = _FULL if bits == _FULL else bits  # all full blocks share one object
        self._changed.add(block)

    def _raise_floor(self, floor: int) -> None:
        first = self.first_block
        self.floor = floor
        if self._blocks:
            self.floor = self.first_missing(floor + 1) - 1
            self._drop(range(first, self.first_block))

    def _drop(self, blocks: range) -> None:
        for block in blocks if len(blocks) < len(self._blocks) else list(self._blocks):
            if block in blocks:
                self._blocks.pop(block, None)


def _trailing_ones(bits: int) -> int:
    return ((~bits) & (bits + 1)).bit_length() - 1
