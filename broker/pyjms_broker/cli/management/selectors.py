"""ActiveMQ's `--msgsel`: selectors with wildcards, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, TypeAlias

import typer

__all__ = ["Selectors", "as_selector"]

Selectors: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--msgsel",
        "--selector",
        "-s",
        metavar="SELECTOR",
        help="Only messages that match, as in \"colour='r*',JMSPriority>3\".",
    ),
]

_PART: Final = re.compile(r"""'[^']*'|"[^"]*"|[(),]|[^'"(),]+|['"]""")
_WILDCARD: Final = re.compile(r"([^=<>]*)=\s*('.*[*?].*')", re.DOTALL)


def as_selector(texts: Iterable[str]) -> str | None:
    """Return `texts` combined into one selector; None if there are none.

    A comma means AND. `*` and `?` in a quoted value that follows `=` are wildcards.
    Source: ActiveMQ AmqMessagesUtil, PurgeCommand.convertToSQL92. (activemq-edges CL5)
    """
    conditions = [
        condition.strip() for text in texts for condition in _split(text) if condition.strip()
    ]
    return " AND ".join(f"({_with_like(each)})" for each in conditions) or None


def _split(text: str) -> Iterator[str]:
    """Split at commas that are neither quoted nor in parentheses."""
    depth = 0
    condition = ""
    for part in _PART.findall(text):
        depth += (part == "(") - (part == ")")
        if part == "," and depth == 0:
            yield condition
            condition = ""
        else:
            condition += part
    yield condition


def _with_like(condition: str) -> str:
    found = _WILDCARD.fullmatch(condition)
    if found is None:
        return condition
    return f"{found[1].rstrip()} LIKE {found[2].replace('?', '_').replace('*', '%')}"
