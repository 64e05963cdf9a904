"""Reading of a queue's stored messages in arrival order, regardless of priority, by pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from pyjms_broker.api.message import Position, StoredMessage
from pyjms_broker.store.api import MessageStore

__all__ = ["first_arrival", "messages_between"]

_LEVELS: Final = 10
_PAGE: Final = 200
_PRIORITY_PAGE: Final = 50
_arrival = attrgetter("position.arrival")


def messages_between(
    store: MessageStore, start: int, end: int, *, prioritized: bool
) -> Iterator[StoredMessage]:
    """Iterate over the messages with numbers in `start <= number < end`."""
    if not prioritized:
        return _of_level(store, 0, start, end, _PAGE)
    levels = (_of_level(store, level, start, end, _PRIORITY_PAGE) for level in range(_LEVELS))
    return heapq.merge(*levels, key=_arrival)


def first_arrival(store: MessageStore, *, prioritized: bool) -> int | None:
    """Return the number of the oldest message, or None if the store is empty."""
    if not prioritized:
        page = store.next_messages(None, 1)
        return page[0].position.arrival if page else None
    found: list[int] = []
    for level in range(_LEVELS):
        page = store.next_messages(Position(level, 0), 1)
        if page and page[0].position.level == level:
            found.append(page[0].position.arrival)
    return min(found, default=None)


def _of_level(
    store: MessageStore, level: int, start: int, end: int, limit: int
) -> Iterator[StoredMessage]:
    after = Position(level, start - 1)
    while True:
        page = store.next_messages(after, min(limit, end - after.arrival))
        for stored in page:
            if stored.position.level != level or stored.position.arrival >= end:
                return
            yield stored
        if not page or page[-1].position.arrival >= end - 1:
            return
        after = page[-1].position
