"""The budgets of the evaluation of selectors: of one on a message, and of all together.

A selector and the properties that it reads both come from untrusted clients, and the broker
evaluates selectors on its event loop, which that blocks. So all operations whose cost depends on
the data are charged to one budget per message: regular expressions, LIKE, string concatenation,
lists and comparisons of two properties. Comparisons of a property with a literal and operations on
short texts are free: the cost of the former does not depend on the data, and the length of a
selector limits the number of the latter. An evaluation gets a budget only for other operations
(`budget_of`).

`SelectorLimits` bounds one evaluation. But a message may be offered to thousands of consumers in
one turn of the event loop, while every client waits. The steps of all evaluations are therefore
counted for the whole broker (`SelectorMeter`). The count decreases at a steady rate, except during
an evaluation, because evaluations take longer on a busy machine. While the count is at its limit, a
selector may take at most `COSTLY` steps per message: a consumer that needs more is closed, like one
that exceeds the limits of one evaluation. Durable subscriptions and range readers evaluate their
selectors later instead. Before the limit is reached, a queue whose selectors take many steps pauses
between its messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, TypeAlias

from pyjms.errors import InvalidSelectorException

Lookup: TypeAlias = Callable[[str], object]

FREE_LENGTH: Final = 64
"""The maximum length of texts whose comparison and concatenation are free."""
CHARACTERS_PER_STEP: Final = 2048
"""The number of characters that can be read in the time of a step."""


COSTLY: Final = 250
"""Steps per message, about half a millisecond: consumers that need less are never closed."""
BUSY_DELAY: Final = 0.5
"""Seconds until a postponed selection is made."""
_TURN: Final = 0.1
"""The fraction of a second's steps that one queue may take in one turn of the event loop."""


class SelectorLimitException(InvalidSelectorException):
    """The evaluation of a selector on a message exceeds its limits."""


class SelectorLimits(NamedTuple):
    """The limits of a selector, and of its evaluation on one message.

    Args:
        steps: steps of its regular expressions and list operations, about 2 microseconds each.
        characters: characters that its string operations read or write.
        meter: counts the total cost of several selectors; None: it is not counted.
        nodes: names, literals and operators of the selector; an IN list counts once.
        depth: nesting depth, at most 100.
    """

    steps: int = 20_000
    characters: int = 4 * 1024 * 1024
    meter: SelectorMeter | None = None
    nodes: int = 10_000
    depth: int = 100


DEFAULT_LIMITS: Final = SelectorLimits()


class BudgetNeeded(Exception):
    """An evaluation that was started without a budget needs one."""


def budget_of(lookup: Lookup) -> Budget:
    """Return the budget of the evaluation."""
    if isinstance(lookup, Budget):
        return lookup
    raise BudgetNeeded


class Budget:
    """A lookup that counts the cost of one evaluation. Used once, by one thread.

    Its methods raise SelectorLimitException when the budget is exceeded.
    """

    __slots__ = ("characters", "limits", "lookup", "steps")

    def __init__(self, lookup: Lookup, limits: SelectorLimits) -> None:
        """Start with the full `limits`; `lookup` returns the values."""
        self.lookup: Lookup = lookup
        self.limits: SelectorLimits = limits
        self.steps: int = limits.steps
        self.characters: int = limits.characters

    def __call__(self, name: str) -> object:
        return self.lookup(name)

    def spend(self, steps: int) -> None:
        """Count steps."""
        self.steps -= steps
        if self.steps < 0:
            self.fail("steps", self.limits.steps)

    def read(self, characters: int) -> None:
        """Count characters that are about to be read or written."""
        self.characters -= characters
        if self.characters < 0:
            self.fail("characters", self.limits.characters)

    def weigh(self, value: object) -> int:
        """Charge the cost of a comparison with `value`, including items, and return its weight."""
        if not isinstance(value, (str, bytes, list, dict)):
            return 1
        weight = 1 + len(value)
        if isinstance(value, (str, bytes)):
            self.read(len(value))
            return weight
        self.spend(weight)
        for item in value.values() if isinstance(value, dict) else value:
            weight += self.weigh(item)
        return weight

    @property
    def spent(self) -> int:
        """The cost so far, in steps."""
        read = self.limits.characters - self.characters
        return self.limits.steps - self.steps + read // CHARACTERS_PER_STEP

    def fail(self, unit: str, limit: int) -> NoReturn:
        """Raise the exception."""
        raise SelectorLimitException(
            f"The selector takes more than {limit} {unit} on one message",
            hint="use simpler patterns, or select by a short property; the broker's attribute "
            f"maximum_selector_{unit} is the limit",
        )


class SelectorsBusyException(SelectorLimitException):
    """A selector is costly while all selectors together are at their limit."""


class SelectorMeter:
    """Counts steps of selectors. Use it on the broker's event loop.

    Args:
        rate: steps per second for all selectors together; bursts may use one second's worth.
        now: returns the time in seconds.
    """

    def __init__(self, rate: int, now: Callable[[], float]) -> None:
        self._now = now
        self.total = 0
        """The number of all steps so far."""
        self._rate = rate
        self._spent = 0.0
        self._since = now()

    def limits_left(self, limits: SelectorLimits) -> SelectorLimits:
        """Return the limits for the next evaluation."""
        if self._spent:
            self._spent -= (self._now() - self._since) * self._rate
            self._spent = max(0.0, self._spent)
            self._since = self._now()
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
        self._since = self._now()
        self.total += steps

    def rest_after(self, steps: int) -> float:
        """Return the seconds to pause after this number of steps; 0: no pause."""
        return 0.0 if steps < _TURN * self._rate else steps / self._rate
