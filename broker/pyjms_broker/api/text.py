"""Texts that come from clients and go to files and databases."""

from __future__ import annotations

__all__ = ["can_be_written", "writable"]


def can_be_written(text: str) -> bool:
    """Whether it can be written as UTF-8: Java's texts may have halves of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def writable(text: str) -> str:
    """Return it in a form that can be written, the same one for the same text."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
