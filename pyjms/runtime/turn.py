"""The phases in which a loop handles one chunk of input.

They determine when to send:

    phase       what runs                               then
    take in     the chunk is decoded and handled        the written output is sent
    finish      functions of `finish_with`: store       the output of these functions is sent
                writes
    deferred    functions of `defer`: acknowledgements

Sending at the end of the turn, not at each write, sends all responses to a chunk with one system
call, without waking a writer task. Sending before `finish` lets the peers work while the disk is
busy. No peer waits for deferred work, so it runs after all sends. If several sockets are readable
in one loop turn, the first socket's `Turn` sends at its end, and the output of all others is sent
together at the start of the next loop turn. That costs a loop turn of its own, so it is left out
if the loop has nothing else to run in this one (asyncio; of other loops that is not known).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from typing import Final

_ENDS_AT_ONCE: Final = 20


class Turn:
    """Runs the phases of one chunk of input; see the module's docstring. One per loop."""

    __slots__ = (
        "_call_next",
        "_count",
        "_early",
        "_ends",
        "_has_sent",
        "_others",
        "_sends",
        "is_open",
        "keeper",
        "late",
        "number",
    )

    def __init__(
        self, call_next: Callable[[Callable[[], object]], object], others: Sized = (None,)
    ) -> None:
        """Create the turn of a loop; `others` is not empty if the loop has more to run now."""
        self.keeper: object = None
        """By which the loop's handles find it."""
        self._call_next = call_next
        self._others = others
        self._sends: list[Callable[[], object]] = []
        self._early: list[Callable[[], object]] = []
        self.is_open: bool = False
        """Whether a chunk is being processed."""
        self.late: deque[Callable[[], object]] = deque()
        """The functions of `defer`; one may be appended while the turn is open."""
        self._has_sent = False  # in this loop turn; `_next_pass` is scheduled
        self._ends: deque[Callable[[], object]] = deque()
        self.number: int = 0
        """The number of the current turn, from 1; 0: there is none."""
        self._count = 0

    def run(self, take_in: Callable[[], object], *, is_alone: bool = False) -> None:
        """Call `take_in()`, then the functions passed to `send`, `finish_with` and `defer`.

        `is_alone`: it is not one of several chunks, whose output is sent together.
        """
        others = () if is_alone else self._others
        self.is_open = True
        self.number = self._count = self._count + 1
        try:
            take_in()
            if self._early:
                self._send(others)  # peers read while the disk works
                self._finish_early()
                self._send(others)
            elif self._sends and (is_alone or not self._has_sent):
                self._send(others)
            late = self.late
            while late:
                late.popleft()()
        finally:
            self.is_open = False
            self.number = 0
            if self._early:
                self._finish_early()
            if self._sends and not self._has_sent:
                self._has_sent = True
                self._call_next(self._next_pass)

    def send(self, flush: Callable[[], object]) -> None:
        """Call `flush()` once, at the end of the current turn or in the next loop turn."""
        self._sends.append(flush)
        if not self.is_open and not self._has_sent:
            self._has_sent = True
            self._call_next(self._next_pass)

    def finish_with(self, function: Callable[[], object]) -> bool:
        """Call `function()` after the chunk's output is sent; its own output is sent afterwards.

        Returns False, and does not call it, if there is no current turn, or another `Turn` in this
        loop turn has already sent.
        """
        if not self.is_open or self._has_sent:
            return False
        self._early.append(function)
        return True

    def defer(self, function: Callable[[], object]) -> bool:
        """Call `function()` after the sends of the current turn; False: there is no turn."""
        if self.is_open:
            self.late.append(function)
        return self.is_open

    def end_with(self, function: Callable[[], object]) -> None:
        """Call `function()`, which ends a connection, in one of the next loop turns.

        Few are called in each: a host with thousands of connections may have died.
        """
        self._ends.append(function)
        if len(self._ends) == 1:
            self._call_next(self._end_some)

    def _end_some(self) -> None:
        for _ in range(min(len(self._ends), _ENDS_AT_ONCE)):
            self._ends[0]()
            self._ends.popleft()
        if self._ends:
            self._call_next(self._end_some)

    def _send(self, others: Sized) -> None:
        sends, self._sends = self._sends, []
        if sends and others and not self._has_sent:
            self._has_sent = True
            self._call_next(self._next_pass)
        for flush in sends:
            flush()

    def _next_pass(self) -> None:
        self._has_sent = False
        sends, self._sends = self._sends, []
        for flush in sends:
            flush()

    def _finish_early(self) -> None:
        early, self._early = self._early, []
        for function in early:
            function()
