"""Commands copied field by field: what was dispatched or passed on is never changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from pyjms.wire.openwire.commands import Command

__all__ = ["copied"]

C = TypeVar("C", bound=Command)


def copied(command: C) -> C:
    """Return a new command of the same class with the same field values, not marshalled yet."""
    copy = type(command)()
    names, values = _fields(type(command))
    for name, value in zip(names, values(command), strict=True):
        setattr(copy, name, value)
    return copy


@cache
def _fields(command: type[Command]) -> tuple[tuple[str, ...], Callable[[Command], tuple[Any, ...]]]:
    """Return the names of a class's fields, and what gets their values."""
    names = tuple(field.name for field in command.LAYOUT)
    return names, attrgetter(*names)
