"""What the evaluation of one selector on one message may cost.

A selector and the properties that it reads both come from untrusted clients, and the broker
evaluates selectors on its event loop, where everybody waits. So all operations whose cost depends
on the data spend from one budget per message: regular expressions, LIKE, string concatenation,
lists and comparisons of two properties. The comparison of a property with a literal costs nothing
that depends on its length and spends nothing, and neither do operations on short texts: a selector
is short enough for them. An evaluation gets a budget when it comes to anything else (`budget_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, Protocol, TypeAlias

from pyjms.errors import InvalidSelectorException

__all__ = [
    "CHARACTERS_PER_STEP",
    "DEFAULT_LIMITS",
    "FREE_LENGTH",
    "Budget",
    "BudgetNeeded",
    "Lookup",
    "Meter",
    "SelectorLimitException",
    "SelectorLimits",
    "budget_of",
]

Lookup: TypeAlias = Callable[[str], object]

FREE_LENGTH: Final = 64
"""Texts of this length and shorter ones are compared and joined for nothing."""
CHARACTERS_PER_STEP: Final = 2048
"""Characters that are read in the time of a step."""


class SelectorLimitException(InvalidSelectorException):
    """The evaluation of a selector on a message exceeds its limits."""


class Meter(Protocol):
    """Counts what the evaluations of many selectors spend together."""

    def allowed(self, limits: SelectorLimits) -> SelectorLimits:
        """Return what the next evaluation may spend: `limits`, or less if little is left."""

    def add(self, steps: int) -> None:
        """Count what an evaluation has spent."""

    def exceeded(self) -> NoReturn:
        """Raise SelectorLimitException: an evaluation needs more than the less that was left."""


class SelectorLimits(NamedTuple):
    """What a selector may spend on each message.

    Args:
        steps: steps of its regular expressions and list operations, about 2 microseconds each.
        characters: characters that its string operations read or write.
        meter: counts what the selectors spend together; None: nobody counts.

    """

    steps: int = 20_000
    characters: int = 4 * 1024 * 1024
    meter: Meter | None = None


DEFAULT_LIMITS: Final = SelectorLimits()


class BudgetNeeded(Exception):
    """An evaluation that was begun without a budget needs one."""


def budget_of(lookup: Lookup) -> Budget:
    """Return the budget of the evaluation.

    Raises:
        BudgetNeeded: it has none.

    """
    if isinstance(lookup, Budget):
        return lookup
    raise BudgetNeeded


class Budget:
    """A lookup that counts what one evaluation spends. Used once, by one thread."""

    __slots__ = ("characters", "limits", "lookup", "steps")

    def __init__(self, lookup: Lookup, limits: SelectorLimits) -> None:
        """Start with all that `limits` allow; `lookup` returns the values."""
        self.lookup: Lookup = lookup
        self.limits: SelectorLimits = limits
        self.steps: int = limits.steps
        self.characters: int = limits.characters

    def __call__(self, name: str) -> object:
        return self.lookup(name)

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            SelectorLimitException: there are not that many left.

        """
        self.steps -= steps
        if self.steps < 0:
            self.exceeded("steps", self.limits.steps)

    def read(self, characters: int) -> None:
        """Count characters that are about to be read or written.

        Raises:
            SelectorLimitException: there are not that many left.

        """
        self.characters -= characters
        if self.characters < 0:
            self.exceeded("characters", self.limits.characters)

    def weigh(self, value: object) -> int:
        """Count what a comparison with `value` reads, and return it; lists count their items.

        Raises:
            SelectorLimitException: it is more than is left.

        """
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
        """What was spent so far, all of it in steps."""
        read = self.limits.characters - self.characters
        return self.limits.steps - self.steps + read // CHARACTERS_PER_STEP

    def exceeded(self, unit: str, limit: int) -> NoReturn:
        """Raise the exception."""
        raise SelectorLimitException(
            f"The selector takes more than {limit} {unit} on one message",
            hint="use simpler patterns, or select by a short property; the broker's attribute "
            f"maximum_selector_{unit} is the limit",
        )
