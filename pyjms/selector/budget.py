"""The budget of the evaluation of one selector on one message.

A selector and the properties that it reads both come from untrusted clients, and the broker
evaluates selectors on its event loop, which that blocks. So all operations whose cost depends on
the data are charged to one budget per message: regular expressions, LIKE, string concatenation,
lists and comparisons of two properties. Comparisons of a property with a literal and operations on
short texts are free: the cost of the former does not depend on the data, and the length of a
selector limits the number of the latter. An evaluation gets a budget only for other operations
(`budget_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, Protocol, TypeAlias

from pyjms.errors import InvalidSelectorException

Lookup: TypeAlias = Callable[[str], object]

FREE_LENGTH: Final = 64
"""The maximum length of texts whose comparison and concatenation are free."""
CHARACTERS_PER_STEP: Final = 2048
"""The number of characters that can be read in the time of a step."""


class SelectorLimitException(InvalidSelectorException):
    """The evaluation of a selector on a message exceeds its limits."""


class Meter(Protocol):
    """Counts the total cost of the evaluations of many selectors."""

    def limits_left(self, limits: SelectorLimits) -> SelectorLimits:
        """Return the limits of the next evaluation: `limits`, or less if little is left."""

    def add(self, steps: int) -> None:
        """Add the cost of an evaluation."""

    def fail(self) -> NoReturn:
        """Raise SelectorLimitException: an evaluation exceeds the reduced limits."""


class SelectorLimits(NamedTuple):
    """The limits of the evaluation of a selector on one message.

    Args:
        steps: steps of its regular expressions and list operations, about 2 microseconds each.
        characters: characters that its string operations read or write.
        meter: counts the total cost of several selectors; None: it is not counted.
    """

    steps: int = 20_000
    characters: int = 4 * 1024 * 1024
    meter: Meter | None = None


DEFAULT_LIMITS: Final = SelectorLimits()


class BudgetNeeded(Exception):
    """An evaluation that was started without a budget needs one."""


def budget_of(lookup: Lookup) -> Budget:
    """Return the budget of the evaluation.

    Raises:
        BudgetNeeded: the evaluation has no budget.
    """
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
