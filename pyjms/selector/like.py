"""LIKE patterns as regular expressions whose cost is bounded.

Each `%` is matched at the nearest possible position only, inside an atomic group. That is
sufficient, since nothing but the last piece is anchored, and it makes the time proportional to
text times pattern, which is what it takes from the budget: there is no backtracking into an
earlier `%`. (jms-api 8.5)
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PRODUCT_PER_STEP", "compile_like"]

PRODUCT_PER_STEP: Final = 200
"""How many pairs of a character of the text and one of the pattern take as long as a step."""


def compile_like(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Return the regular expression that fully matches the texts that are LIKE `pattern`.

    `escape` makes a following `_`, `%` or itself an ordinary character; before anything else it
    is an ordinary character itself, as in ActiveMQ.
    """
    first, *rest = _parts(pattern, escape)
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{between}.*{last}", re.DOTALL)


def _parts(pattern: str, escape: str) -> list[str]:
    """Return the regular expressions of the pieces between the `%`."""
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
