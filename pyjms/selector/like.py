"""LIKE patterns as regular expressions that cannot run away.

`%` is tried at the nearest place only, inside an atomic group, so matching takes time in
proportion to text times pattern. (jms-api 8.5)
"""

from __future__ import annotations

import re

__all__ = ["compile_like"]


def compile_like(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Return what `fullmatch` must find for a text to be LIKE `pattern`.

    `escape` takes the meaning from a following `_`, `%` or itself; before anything else
    it is an ordinary character, as in ActiveMQ.
    """
    first, *rest = _parts(pattern, escape)
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{between}.*{last}", re.DOTALL)


def _parts(pattern: str, escape: str) -> list[str]:
    """Return the regular expressions between the `%`."""
    parts = [""]
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        follower = pattern[position + 1 : position + 2]
        if letter == escape and follower and follower in f"_%{escape}":
            parts[-1] += re.escape(follower)
            position += 1
        elif letter == "%":
            parts.append("")
        else:
            parts[-1] += "." if letter == "_" else re.escape(letter)
        position += 1
    return parts
