"""Check and escape names from clients that are written to files and databases."""

from __future__ import annotations

__all__ = ["can_be_written", "writable"]


def can_be_written(text: str) -> bool:
    """Whether a text can be encoded as UTF-8; Java strings may contain unpaired surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def writable(text: str) -> str:
    """Return the text with backslash escapes for characters that UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
