"""Runs a compiled pattern: backtracking that never does the same work twice.

A state is an instruction at a position in the text. Each is tried once, so a search
takes at most instructions times positions steps, and gives up after MAX_STEPS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_STEPS", "Accept", "Assertion", "Instruction", "Jump", "Match", "Pattern", "Save",
           "Split"]  # fmt: skip

MAX_STEPS: Final = 100_000
"""A search that takes more raises OverflowError; about a sixth of a second."""


@dataclass(frozen=True, slots=True)
class Accept:
    """Take one character that passes the test."""

    test: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Assertion:
    """Go on if the place in the text passes the test."""

    test: Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class Save:
    """Remember the place as a group's start (even slot) or end (odd slot)."""

    slot: int


@dataclass(frozen=True, slots=True)
class Split:
    """Go on at `first`, and if that fails at `second`; both relative."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on elsewhere; relative."""

    offset: int


Instruction = Accept | Assertion | Save | Split | Jump


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern was found, and its groups."""

    text: str
    slots: tuple[int, ...]

    @property
    def start(self) -> int:
        """Where the match begins."""
        return self.slots[0]

    @property
    def end(self) -> int:
        """Where the match ends."""
        return self.slots[1]

    def group(self, number: int) -> str:
        """Return the text of a group; 0 is the match, "" if the group took no part.

        Raises:
            ValueError: there is no such group.

        """
        if not 0 <= number < len(self.slots) // 2:
            raise ValueError(f"there is no group {number}")
        start, end = self.slots[2 * number : 2 * number + 2]
        return self.text[start:end] if start >= 0 else ""


class Pattern:
    """A compiled pattern; immutable."""

    __slots__ = ("_groups", "_program")

    def __init__(self, program: tuple[Instruction, ...], groups: int) -> None:
        self._program = program
        self._groups = groups

    def search(self, text: str, position: int = 0) -> Match | None:
        """Return the first match at or after `position`, or None.

        Raises:
            OverflowError: it takes more than MAX_STEPS.

        """
        return self._search(text, position, set())

    def find_all(self, text: str) -> Iterator[Match]:
        """Give the matches from left to right; they do not overlap.

        Raises:
            OverflowError: one takes more than MAX_STEPS.

        """
        position = 0
        while position <= len(text):
            found = self.search(text, position)
            if found is None:
                return
            yield found
            position = found.end + (found.end == found.start)

    def _search(self, text: str, position: int, visited: set[tuple[int, int]]) -> Match | None:
        # What failed from one start fails from the next, so `visited` is kept.
        for start in range(position, len(text) + 1):
            slots = self._run(text, start, visited)
            if slots is not None:
                return Match(text, slots)
        return None

    def _run(self, text: str, start: int, visited: set[tuple[int, int]]) -> tuple[int, ...] | None:
        program, end = self._program, len(self._program)
        stack = [(0, start, (-1,) * (2 * self._groups))]
        while stack:
            counter, position, slots = stack.pop()
            while (counter, position) not in visited:
                if counter == end:
                    return slots
                visited.add((counter, position))
                if len(visited) > MAX_STEPS:
                    raise OverflowError("the pattern takes too long on this text")
                match program[counter]:
                    case Accept(test):
                        if position == len(text) or not test(text[position]):
                            break
                        position += 1
                        counter += 1
                    case Split(first, second):
                        stack.append((counter + second, position, slots))
                        counter += first
                    case Jump(offset):
                        counter += offset
                    case Save(slot):
                        slots = (*slots[:slot], position, *slots[slot + 1 :])
                        counter += 1
                    case Assertion(holds):
                        if not holds(text, position):
                            break
                        counter += 1
        return None
