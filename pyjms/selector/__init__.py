"""Message selectors: SQL-92 conditions over headers and properties. (jms-api 8)

    text  --parser, builder-->  tree  --compiler-->  nested functions  --matches(lookup)-->  bool

`compile_selector` parses a text once and caches the result; brokers evaluate it for each message.
Evaluation works on a lookup function, so that a broker decodes the properties of a message only
if the selector reads one. No I/O, no clock; selectors are immutable and thread-safe.

A selector comes from an untrusted client, so its cost is bounded everywhere: length and nesting
when it is parsed, steps of a regular expression (`regex`) and length of results when it is
evaluated. Nothing recurses deeper than MAX_DEPTH.
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
    """A condition on messages; create it by `compile_selector`.

    It is evaluated with a lookup: a function that returns a header or property by its name, None
    if there is none. Numbers keep their JMS types (`pyjms.jms.types`). Exceptions of the lookup
    are passed on.
    """

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str) -> None:
        """Compile `text`, uncached.

        Raises:
            InvalidSelectorException: it is not a valid selector.

        """
        self.text = text
        self._evaluate = compile_tree(
            parse(text), convert_strings=text.startswith(CONVERT_STRINGS_PREFIX)
        )

    def matches(self, lookup: Lookup) -> bool:
        """Return whether the message is selected: FALSE and UNKNOWN do not select."""
        return self._evaluate(lookup) is True

    def evaluate(self, lookup: Lookup) -> bool | None:
        """Return TRUE, FALSE or UNKNOWN as True, False or None."""
        value = self._evaluate(lookup)
        return value if isinstance(value, bool) else None

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


@functools.lru_cache(maxsize=_CACHED)
def compile_selector(text: str) -> Selector:
    """Return the compiled selector `text`, from a cache of the latest ones.

    Raises:
        InvalidSelectorException: it is not valid; `position` and `hint` say where and why.

    """
    return Selector(text)


def selector_or_none(text: str | None) -> Selector | None:
    """Return the compiled selector, or None for None, "" and blank text, which select everything.

    Raises:
        InvalidSelectorException: the text is not a valid selector.

    """
    return compile_selector(text) if text and text.strip() else None
