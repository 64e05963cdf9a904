"""Values that a test expects to be there."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return a value; fail if there is none."""
    assert value is not None
    return value
