"""`@idempotent`: marks a handler whose effects must not be repeated for a redelivered message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyjms.annotation.marks import marking

__all__ = ["IdempotentMark", "idempotent", "idempotent_mark"]

F = TypeVar("F", bound=Callable[..., object])

_ATTRIBUTE = "__jms_idempotent__"


@dataclass(slots=True, eq=False)
class IdempotentMark:
    """The arguments of `@idempotent`, and the number of duplicates skipped so far."""

    key: str | Callable[..., object]
    store: object
    duplicates: int = 0


def idempotent(
    *, key: str | Callable[..., object] = "jms_messageId", store: object = None
) -> Callable[[F], F]:
    """Mark a handler that skips messages whose key has been handled before.

    A skipped message is consumed, with one debug line, and counted. The key is remembered once the
    message is committed; a handler that raises is called again. The decorator only marks: the
    function can be called and tested as before. It may be above or below `@jms_listener`.

    Args:
        key: the name of a header or property (`order_id`; the default is `jms_messageId`); a format
            string with fields in braces, each such a name or the payload with attributes and keys
            (`"{jms_type}:{payload.number}"`); or a function of the payload.
        store: remembers the keys: an object with the methods of `IdempotencyStore`, or the
            name of an entry point in the group `pyjms.idempotency_stores`. None: a
            separate `MemoryIdempotencyStore` for this handler.
    """
    return marking(_ATTRIBUTE, IdempotentMark(key, store))


def idempotent_mark(handler: object) -> IdempotentMark | None:
    """Return the mark of a handler, or None; its `duplicates` counts the skipped messages."""
    mark: IdempotentMark | None = getattr(handler, _ATTRIBUTE, None)
    return mark
