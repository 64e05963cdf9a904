"""Texts of errors for log lines: one line, without values of messages."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["one_line"]

_VALUE: Final = re.compile(r", input_value=.*, input_type=\w+(?=\])")
_LINK: Final = re.compile(r"\s*For further information visit \S+")


def one_line(text: str) -> str:
    """Return the text in one line, without the rejected values that pydantic's errors quote.

    They are parts of messages, which do not belong into logs.
    """
    return " ".join(_LINK.sub("", _VALUE.sub("", text)).split())
