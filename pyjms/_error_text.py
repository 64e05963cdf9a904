"""Texts of errors, for logs and dead letters."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["error_text", "one_line", "shortened"]

_VALUE: Final = re.compile(r", input_value=.*(?:, input_type=\w+(?=\])|\.\.\.$)")
_LINK: Final = re.compile(r"\s*For further information visit \S+")


def error_text(error: BaseException) -> str:
    """Return the text of an error, which may be of an application's class and fail itself."""
    try:
        return str(error)
    except Exception as second:
        return f"its text is not available: {type(second).__name__}"


def shortened(text: str, longest: int) -> str:
    """Return the text with at most `longest` characters; `...` ends what was cut."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def one_line(text: str) -> str:
    """Return the text in one line, without the rejected values that pydantic's errors quote.

    They are parts of messages, which do not belong into logs; the last one may have been cut.
    """
    return " ".join(_LINK.sub("", _VALUE.sub("", text)).split())
