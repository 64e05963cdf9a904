"""A limit on the evaluation steps of all consumers' selectors together.

`SelectorLimits` bounds one evaluation. But a message may be offered to thousands of consumers in
one turn of the event loop, while every client waits. The steps of all evaluations are therefore
counted for the whole broker. The count decreases at a steady rate, except during an evaluation,
because evaluations take longer on a busy machine. While the count is at its limit, a selector may
take at most `COSTLY` steps per message: a consumer that needs more is closed, like one that exceeds
the limits of one evaluation. Durable subscriptions and range readers evaluate their selectors later
instead. Before the limit is reached, a queue whose selectors take many steps pauses between its
messages (`QueueDispatcher`).
"""

from __future__ import annotations

from typing import Final, NoReturn

from pyjms.runtime import clock as _clock
from pyjms.selector import CHARACTERS_PER_STEP, SelectorLimitException, SelectorLimits

COSTLY: Final = 250
"""Steps per message, about half a millisecond: consumers that need less are never closed."""
BUSY_DELAY: Final = 0.5
"""Seconds until a postponed selection is made."""
_TURN: Final = 0.1
"""The fraction of a second's steps that one queue may take in one turn of the event loop."""


class SelectorsBusyException(SelectorLimitException):
    """A selector is costly while all selectors together are at their limit."""


class SelectorMeter:
    """Counts steps of selectors. Use it on the broker's event loop.

    Args:
        rate: steps per second for all selectors together; bursts may use one second's worth.
    """

    def __init__(self, rate: int) -> None:
        self.total = 0
        """The number of all steps so far."""
        self._rate = rate
        self._spent = 0.0
        self._since = _clock.now()

    def limits_left(self, limits: SelectorLimits) -> SelectorLimits:
        """Return the limits for the next evaluation."""
        if self._spent:
            self._spent -= (_clock.now() - self._since) * self._rate
            self._spent = max(0.0, self._spent)
            self._since = _clock.now()
        if self._spent < self._rate:
            return limits
        return limits._replace(
            steps=min(limits.steps, COSTLY),
            characters=min(limits.characters, COSTLY * CHARACTERS_PER_STEP),
        )

    def fail(self) -> NoReturn:
        """Raise the error of a costly selector while the count is at its limit."""
        raise SelectorsBusyException(
            f"The selector takes more than {COSTLY} steps on a message while all selectors of the "
            f"broker together take more than {self._rate} a second",
            hint="use simpler patterns, or select by a short property; the broker's attribute "
            "maximum_selector_steps_per_second is the limit",
        )

    def add(self, steps: int) -> None:
        """Count the steps of an evaluation since `allowed`."""
        self._spent = min(self._spent + steps, 2.0 * self._rate)
        self._since = _clock.now()
        self.total += steps

    def rest_after(self, steps: int) -> float:
        """Return the seconds to pause after this number of steps; 0: no pause."""
        return 0.0 if steps < _TURN * self._rate else steps / self._rate
