"""Commands copied field by field: what was dispatched or passed on is never changed."""

from __future__ import annotations

from typing import TypeVar

from pyjms.wire.openwire.commands import Command

__all__ = ["copied"]

C = TypeVar("C", bound=Command)


def copied(command: C) -> C:
    """Return a new command of the same class with the same field values, not marshalled yet."""
    copy = type(command)()
    for field in command.LAYOUT:
        setattr(copy, field.name, getattr(command, field.name))
    return copy
