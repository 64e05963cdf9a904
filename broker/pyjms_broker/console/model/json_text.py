"""JSON texts, indented for reading, with every character that is not white space as it was sent.

Numbers, escapes and duplicate names stay as they are, because nothing is decoded and written again.
"""

from __future__ import annotations

import json
import re
from typing import Final

_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')
_MOST: Final = 256 * 1024
"""The maximum number of characters of an indented text; deep nesting makes long ones of short."""


def indented(text: str) -> str | None:
    """Return a JSON object or array indented; None if it is neither, or would become too long."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return None
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    pieces: list[str] = []
    depth = length = 0
    previous = ""
    for match in _WORD.finditer(text):
        word = match[0]
        is_end = word in ("}", "]")
        depth -= is_end
        if previous and ((is_end and previous not in "{[") or (not is_end and previous in "{[,")):
            pieces.append("\n" + "  " * depth)
            length += 2 * depth
        pieces.append(": " if word == ":" else word)
        depth += word in ("{", "[")
        previous = word
        length += len(word) + 1
        if length > _MOST:
            return None
    return "".join(pieces)
