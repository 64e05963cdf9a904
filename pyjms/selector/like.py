"""LIKE patterns as regular expressions with a bounded cost.

The piece after each `%` is matched only at the nearest possible position, in an atomic group. That
is sufficient, since only the last piece is anchored, and there is no backtracking into an earlier
`%`. So the time is proportional to the length of the text times that of the pattern, which is
charged to the budget. (jms-api 8.5)
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PRODUCT_PER_STEP", "compile_like"]

PRODUCT_PER_STEP: Final = 200
"""The number of pairs (character of the text, character of the pattern) per step."""


def compile_like(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Return the regular expression that fully matches the texts that are LIKE `pattern`.

    `escape` makes a following `_`, `%` or `escape` an ordinary character; before any other
    character, it is itself an ordinary character, as in ActiveMQ.
    """
    first, *rest = _parts(pattern, escape)
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{between}.*{last}", re.DOTALL)


def _parts(pattern: str, escape: str) -> list[str]:
    """Return the regular expressions of the pieces between the `%` characters."""
    parts = [""]
    position = 0
    while position < len(pattern):
        character = pattern[position]
        follower = pattern[position + 1 : position + 2]
        if character == escape and follower and follower in f"_%{escape}":
            parts[-1] += re.escape(follower)
            position += 1
        elif character == "%":
            parts.append("")
        else:
            parts[-1] += "." if character == "_" else re.escape(character)
        position += 1
    return parts
