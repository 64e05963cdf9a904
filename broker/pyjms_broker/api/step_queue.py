"""Runs steps one after another, even those that are requested by a running step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class StepQueue:
    """Runs each step at once, or after the running one if a step requests it.

    An advisory or a discarded message may cause the next one. Nested in one another, a few hundred
    of them exceed the recursion limit, and the client whose message was first gets the error.
    """

    def __init__(self) -> None:
        self._steps: deque[Callable[[], None]] = deque()
        self._is_running = False

    def run(self, step: Callable[[], None]) -> None:
        """Run `step`, and then all steps that were requested meanwhile."""
        self._steps.append(step)
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._steps:
                self._steps.popleft()()
        finally:
            self._is_running = False
