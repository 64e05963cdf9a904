"""Limits the steps that the selectors of all consumers take together.

`SelectorLimits` bounds one evaluation. But a message may be offered to thousands of consumers in
one turn of the event loop, while every client waits. So the steps of all evaluations are counted
for the whole broker. The count falls at a steady rate, though not during an evaluation, which
takes long where the machine is busy. While it is at its limit, a selector may take no more than
`COSTLY` steps on a message: a consumer that needs more is closed, as one that exceeds the limits
of one evaluation. Durable subscriptions and range readers evaluate their selectors later instead.

Before it comes to that, a queue whose selectors take many steps pauses between its messages
(`SelectorRest`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from pyjms import _clock
from pyjms.selector import CHARACTERS_PER_STEP, SelectorLimitException, SelectorLimits

__all__ = ["BUSY_DELAY", "COSTLY", "SelectorMeter", "SelectorRest", "SelectorsBusyException"]

COSTLY: Final = 250
"""Steps on one message, about half a millisecond: consumers with less are never closed."""
BUSY_DELAY: Final = 0.5
"""Seconds after which a message is selected that was to be selected later."""
_TURN: Final = 0.1
"""The part of a second's steps that one queue takes in one turn of the event loop."""


class SelectorsBusyException(SelectorLimitException):
    """A selector is costly, and all selectors together are at their limit at the moment."""


class SelectorMeter:
    """Counts steps of selectors. Belongs to the broker's event loop.

    Args:
        rate: steps a second for all selectors together; a second's worth may be spent at once.
    """

    def __init__(self, rate: int) -> None:
        self.total = 0
        """All steps so far."""
        self._rate = rate
        self._spent = 0.0
        self._since = _clock.now()

    def allowed(self, limits: SelectorLimits) -> SelectorLimits:
        """Return what the next evaluation may spend."""
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

    def exceeded(self) -> NoReturn:
        """Raise the error of a costly selector while the account is full."""
        raise SelectorsBusyException(
            f"The selector takes more than {COSTLY} steps on a message while all selectors of the "
            f"broker together take more than {self._rate} a second",
            hint="use simpler patterns, or select by a short property; the broker's attribute "
            "maximum_selector_steps_per_second is the limit",
        )

    def add(self, steps: int) -> None:
        """Count what an evaluation took since `allowed`."""
        self._spent = min(self._spent + steps, 2.0 * self._rate)
        self._since = _clock.now()
        self.total += steps

    def rest_after(self, steps: int) -> float:
        """Return the seconds to wait after so many steps; 0: more may follow at once."""
        return 0.0 if steps < _TURN * self._rate else steps / self._rate


class SelectorRest:
    """The pauses in which a queue offers no messages, since its selectors took many steps."""

    def __init__(self, meter: SelectorMeter | None, resume_later: Callable[[float], None]) -> None:
        """`resume_later` is called with the seconds to wait; call `end` when they are over."""
        self._meter = meter
        self._resume_later = resume_later
        self._steps = 0
        self.is_due = False
        """Whether nothing may be offered now."""

    @property
    def total(self) -> int:
        """All steps that were counted so far."""
        return 0 if self._meter is None else self._meter.total

    def spent(self, steps: int) -> None:
        """Note what the selection of a message took; only costly ones count."""
        if steps <= COSTLY or self._meter is None:
            return
        self._steps += steps
        rest = self._meter.rest_after(self._steps)
        if rest:
            self._steps = 0
            self.is_due = True
            self._resume_later(rest)

    def end(self) -> None:
        """Offer messages again."""
        self.is_due = False
