"""Translation of pydantic's patterns, in the syntax of Rust's `regex`, to Java's.

Only constructs with the same meaning in both are translated; all others are rejected. Needs no
Spark. (spark-pipeline 6.2)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["java_pattern"]

_UNICODE: Final = "(?U)"
"""Makes `\\d`, `\\w`, `\\s` and `\\b` match the same characters as in Rust."""
_CONTROLS: Final = {"n": "0A", "r": "0D", "t": "09", "f": "0C", "v": "0B", "a": "07"}
_MIXES: Final = ("&&", "--", "~~")
"""Set operations of Rust, inside brackets."""
_SIGN: Final = r"\\[nrtfva]|\\[!-/:;=?@\[-`{-~]"
"""An escape that stands for one character; `\\<` and `\\>` are word boundaries."""
_IN_BRACKETS: Final = rf"{_SIGN}|[^\\\[\]]"
_ITEM: Final = re.compile(
    rf"(?P<kind>\\[dDwWsS])|(?P<first>{_IN_BRACKETS})(?:-(?P<last>{_IN_BRACKETS}))?", re.DOTALL
)


def java_pattern(pattern: str) -> str:
    """Return a pattern that matches in Java what the given one matches in pydantic.

    Raises:
        ValueError: it cannot be translated safely; the text says from where on.
    """
    return _UNICODE + "".join(_parts(pattern))


def _parts(pattern: str) -> Iterator[str]:
    position = 0
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        made = found and _MADE[found.lastgroup or ""](found[0])
        if not found or made is None:
            raise ValueError(f"{pattern[position:]!r} may mean something else in Java")
        yield made
        position = found.end()


def _brackets(text: str) -> str | None:
    negated = text.startswith("[^")
    inside = text[2 if negated else 1 : -1]
    if any(mix in inside for mix in _MIXES):
        return None
    made = ""
    for item in _ITEM.finditer(inside):
        if item["kind"]:
            made += item["kind"]
        else:
            made += _literal(item["first"])
            made += f"-{_literal(item['last'])}" if item["last"] else ""
    return f"[{'^' if negated else ''}{made}]"


def _literal(text: str) -> str:
    if len(text) > 1 and text[1] in _CONTROLS:
        return rf"\x{_CONTROLS[text[1]]}"
    sign = text[-1]
    return f"\\{sign}" if sign.isascii() and not sign.isalnum() else sign


def _same(text: str) -> str:
    return text


_TOKENS: Final[tuple[tuple[str, str, Callable[[str], str | None]], ...]] = (
    ("group", r"\((?:\?:|\?P?<[A-Za-z_][A-Za-z0-9_]*>|(?!\?))", lambda _: "(?:"),
    ("between", r"[)|]", _same),
    ("start", r"\^", lambda _: r"\A"),
    ("end", r"\$", lambda _: r"\z"),
    ("any", r"\.", lambda _: r"[^\n]"),
    ("times", r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?![*+?{])", _same),
    ("kind", r"\\(?:[dDwWsS]|[bB](?!\{))", _same),
    ("brackets", rf"\[\^?(?:{_IN_BRACKETS}|\\[dDwWsS])+\]", _brackets),
    ("literal", rf"{_SIGN}|[^\\()\[{{*+?|^$.]", _literal),
)
_TOKEN: Final = re.compile("|".join(f"(?P<{n}>{text})" for n, text, _ in _TOKENS), re.DOTALL)
_MADE: Final = {name: make for name, _, make in _TOKENS}
