"""Comments in selectors: `--` to the end of the line, and `/* */`.

As in ActiveMQ, a line comment is one only if its line ends, and a block comment only if it is
closed; otherwise the characters are operators. A lexer that tries both at each `-` and `/` would
read the rest of the text each time, so comments are removed before parsing, in one pass.
"""

from __future__ import annotations

import re

__all__ = ["blank_comments"]

_BEGINNING = re.compile(r"'|--|/\*")
_LINE_END = re.compile(r"[\r\n]")


def blank_comments(text: str) -> str:
    """Return the text with its comments replaced by blanks, so that positions stay the same."""
    last_line_end = max(text.rfind("\n"), text.rfind("\r"))
    last_block_end = text.rfind("*/")
    pieces: list[str] = []
    copied = position = 0
    while beginning := _BEGINNING.search(text, position):
        start = beginning.start()
        position = beginning.end()
        match beginning[0]:
            case "'":
                end = text.find("'", position)
                if end < 0:
                    break
                position = end + 1
                continue
            case "--" if start < last_line_end:
                line_end = _LINE_END.search(text, position)
                assert line_end is not None
                end = line_end.end()
            case "/*" if position <= last_block_end:
                end = text.index("*/", position) + 2
            case _:
                position = start + 1
                continue
        pieces += text[copied:start], " " * (end - start)
        copied = position = end
    return "".join((*pieces, text[copied:]))
