"""Message selectors: SQL-92's conditions over headers and properties. (jms-api 8)

Pure: no I/O, no clock. Selectors are immutable and shared; the same text gives the same
object while it stays in the cache.
"""

from __future__ import annotations

import functools

from pyjms.selector.compiler import Lookup, compile_tree
from pyjms.selector.parser import CONVERT_STRINGS_PREFIX, MAX_DEPTH, MAX_LENGTH, parse

__all__ = [
    "CONVERT_STRINGS_PREFIX",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "Lookup",
    "Selector",
    "compile_selector",
    "selector_or_none",
]

_CACHED = 512


class Selector:
    """A condition on messages; made by `compile_selector`.

    A lookup is a function that gives a header or property by its name, None for none;
    numbers keep their JMS types (`pyjms.jms.types`). What it raises comes through.
    """

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str) -> None:
        """Compile `text`, uncached.

        Raises:
            InvalidSelectorException: it is no selector.

        """
        self.text = text
        self._evaluate = compile_tree(
            parse(text), convert_strings=text.startswith(CONVERT_STRINGS_PREFIX)
        )

    def matches(self, lookup: Lookup) -> bool:
        """Return whether the message is selected: only TRUE selects."""
        return self._evaluate(lookup) is True

    def evaluate(self, lookup: Lookup) -> bool | None:
        """Return TRUE, FALSE or UNKNOWN as True, False or None."""
        value = self._evaluate(lookup)
        return value if isinstance(value, bool) else None

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


@functools.lru_cache(maxsize=_CACHED)
def compile_selector(text: str) -> Selector:
    """Return the selector that `text` spells, from the cache if it is there.

    Raises:
        InvalidSelectorException: it is none; `position` and `hint` say where and what to do.

    """
    return Selector(text)


def selector_or_none(text: str | None) -> Selector | None:
    """Return the selector, or None for None, "" and blank text, which select everything.

    Raises:
        InvalidSelectorException: the text is no selector.

    """
    return compile_selector(text) if text and text.strip() else None
