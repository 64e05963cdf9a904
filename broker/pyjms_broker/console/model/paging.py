"""Pages of long lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

__all__ = ["Page", "page_of", "page_of_iterable"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list.

    Args:
        items: the items of this page.
        number: the number of the page, from 1.
        first: the number of the first item in the list, from 1.
        has_next: whether more items follow.
        total: the number of items in the list; None if it was not read to its end.
    """

    items: Sequence[T]
    number: int
    first: int
    has_next: bool
    total: int | None = None

    @property
    def last(self) -> int:
        """The number of the last item in the list."""
        return self.first + len(self.items) - 1


def page_of(items: Sequence[T], number: int, size: int) -> Page[T]:
    """Return a page of a list, or the last page if `number` is too large."""
    last = max(1, -(-len(items) // size))
    number = min(max(1, number), last)
    start = (number - 1) * size
    return Page(items[start : start + size], number, start + 1, number < last, len(items))


def page_of_iterable(items: Iterable[T], number: int, size: int) -> Page[T]:
    """Return a page of an iterable, reading it only as far as necessary."""
    number = max(1, number)
    start = (number - 1) * size
    found = list(islice(items, start, start + size + 1))
    return Page(found[:size], number, start + 1, len(found) > size)
