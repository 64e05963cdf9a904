"""Marks on functions and classes, which decorators leave for an application to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["marking"]

T = TypeVar("T", bound=Callable[..., object] | type)


def marking(attribute: str, value: object) -> Callable[[T], T]:
    """Return a decorator that sets an attribute and otherwise leaves what it decorates as it is."""

    def mark(target: T) -> T:
        setattr(target, attribute, value)
        return target

    return mark
