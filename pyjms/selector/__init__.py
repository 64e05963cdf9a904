"""Message selectors: SQL-92 conditions over headers and properties. (jms-api 8)

    text  --parser-->  tree  --compiler-->  nested functions  --matches(lookup)-->  bool

`compile_selector` parses a text once and caches the result; brokers evaluate it for each message.
Evaluation uses a lookup function, so that a broker decodes the properties of a message only if the
selector reads one. There is no I/O and no clock; selectors are immutable and thread-safe.

A selector comes from an untrusted client, so its cost is bounded. Length, nesting and the size of
the patterns are limited when it is parsed, in time proportional to its length; and one budget
(`budget`) limits each evaluation on a message. Nothing recurses deeper than MAX_DEPTH. For the
limits, see docs/limits.md.

The parser and the compiler are imported by the first selector, because most programs have none.
"""

from __future__ import annotations

import functools

from pyjms.selector.budget import CHARACTERS_PER_STEP as CHARACTERS_PER_STEP
from pyjms.selector.budget import DEFAULT_LIMITS as DEFAULT_LIMITS
from pyjms.selector.budget import Lookup as Lookup
from pyjms.selector.budget import SelectorLimitException as SelectorLimitException
from pyjms.selector.budget import SelectorLimits as SelectorLimits

_CACHED = 512
_LONGEST_CACHED = 2_000
"""The maximum length of cached selectors in characters; each condition takes kilobytes."""


class Selector:
    """A condition on messages; create it with `compile_selector`.

    It is evaluated with a lookup: a function that returns a header or property by its name; None:
    there is none. Numbers keep their JMS types (`pyjms.jms.types`). Exceptions of the lookup
    propagate.
    """

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str, limits: SelectorLimits = DEFAULT_LIMITS) -> None:
        """Compile `text`, uncached.

        Raises:
            InvalidSelectorException: it is not a valid selector.
        """
        from pyjms.selector.compiler import compile_text  # noqa: PLC0415 - the docstring says why

        self.text: str = text
        self._evaluate = compile_text(text, limits)

    def matches(self, lookup: Lookup) -> bool:
        """Return whether the message is selected: FALSE and UNKNOWN do not select.

        Raises:
            SelectorLimitException: the evaluation on this message exceeds the limits.
        """
        return self._evaluate(lookup) is True

    def evaluate(self, lookup: Lookup) -> bool | None:
        """Return TRUE, FALSE or UNKNOWN as True, False or None.

        Raises:
            SelectorLimitException: the evaluation on this message exceeds the limits.
        """
        value = self._evaluate(lookup)
        return value if isinstance(value, bool) else None

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


def compile_selector(text: str, limits: SelectorLimits = DEFAULT_LIMITS) -> Selector:
    """Return the compiled selector `text`, from a cache of the most recent ones.

    Raises:
        InvalidSelectorException: it is invalid; `position` and `hint` say where and what to do.
    """
    return (_from_cache if len(text) <= _LONGEST_CACHED else Selector)(text, limits)


@functools.lru_cache(maxsize=_CACHED)
def _from_cache(text: str, limits: SelectorLimits) -> Selector:
    return Selector(text, limits)


def selector_or_none(text: str | None, limits: SelectorLimits = DEFAULT_LIMITS) -> Selector | None:
    """Return the compiled selector; None for None, "" and blank text, which select all messages.

    Raises:
        InvalidSelectorException: the text is not a valid selector.
    """
    return compile_selector(text, limits) if text and text.strip() else None
