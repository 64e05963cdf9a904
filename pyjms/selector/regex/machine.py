"""Runs a compiled pattern: a backtracking machine that never repeats work.

A pattern is a program of five instructions. The machine's state is a pair (instruction, position in
the text); at a `Split` it pushes the second choice on a stack and continues with the first, so
that choices are tried in the order that Java and Python prescribe (greedy, lazy, leftmost
alternative). The set of visited states makes it safe: whether a state leads to a match does not
depend on how it was reached, so a state that was tried before has failed, and is not tried again. A
search therefore takes at most instructions x positions steps, whereas a plain backtracking matcher
may take exponentially many; `(a+)+b` is linear here. The set is kept between start positions: a
state that failed from one start position also fails from the next.

The cost of this design: back references and look-around depend on how a state was reached, and are
not supported. The selector's budget limits the time: every state takes a step. Python's `re` is not
an alternative, since its searches cannot be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pyjms.selector.budget import Budget

__all__ = ["Accept", "Assertion", "Instruction", "Jump", "Match", "Pattern", "Save", "Split"]


class Accept(NamedTuple):
    """Consume one character that passes the test."""

    test: Callable[[str], bool]


class Assertion(NamedTuple):
    """Continue if the position in the text passes the test."""

    test: Callable[[str, int], bool]


class Save(NamedTuple):
    """Record the position as the start (even slot) or end (odd slot) of a group."""

    slot: int


class Split(NamedTuple):
    """Continue at `first`, and if that fails at `second`; both are relative."""

    first: int
    second: int


class Jump(NamedTuple):
    """Continue at another instruction; relative."""

    offset: int


Instruction = Accept | Assertion | Save | Split | Jump


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a pattern: its position and groups."""

    text: str
    slots: tuple[int, ...]

    @property
    def start(self) -> int:
        """The position at which the match begins."""
        return self.slots[0]

    @property
    def end(self) -> int:
        """The position at which the match ends."""
        return self.slots[1]

    def group(self, number: int) -> str:
        """Return the text of a group: 0 is the whole match; "" if the group did not participate.

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

    @property
    def size(self) -> int:
        """The number of instructions."""
        return len(self._program)

    def search(self, text: str, budget: Budget, position: int = 0) -> Match | None:
        """Return the first match at or after `position`, or None.

        Raises:
            SelectorLimitException: the budget is exceeded.

        """
        visited: set[tuple[int, int]] = set()
        try:
            return self._search(text, position, visited, budget)
        finally:
            budget.steps -= len(visited)

    def find_all(self, text: str, budget: Budget) -> Iterator[Match]:
        """Yield the matches from left to right; they do not overlap.

        Raises:
            SelectorLimitException: the budget is exceeded.

        """
        position = 0
        while position <= len(text):
            found = self.search(text, budget, position)
            if found is None:
                return
            yield found
            position = found.end + (found.end == found.start)

    def _search(
        self, text: str, position: int, visited: set[tuple[int, int]], budget: Budget
    ) -> Match | None:
        # states that failed from one start fail from the next, so `visited` is kept
        for start in range(position, len(text) + 1):
            slots = self._run(text, start, visited, budget)
            if slots is not None:
                return Match(text, slots)
        return None

    def _run(
        self, text: str, start: int, visited: set[tuple[int, int]], budget: Budget
    ) -> tuple[int, ...] | None:
        program, end, limit = self._program, len(self._program), budget.steps
        stack = [(0, start, (-1,) * (2 * self._groups))]
        while stack:
            counter, position, slots = stack.pop()
            while (counter, position) not in visited:
                if counter == end:
                    return slots
                visited.add((counter, position))
                if len(visited) > limit:
                    budget.exceeded("steps", budget.limits.steps)
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
