"""The selection, order and table cells of the destinations in `pyjms broker top`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyjms_broker.cli.terminal import safe_text
from pyjms_broker.cli.top.sampling import ConsumerRow, DestinationRow

__all__ = ["COLUMNS", "CONSUMER_COLUMNS", "MOST", "Choice", "cells", "consumer_cells"]

MOST: Final = 500
"""Maximum number of destinations shown."""
COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("Name", "name"),
    ("Type", "kind"),
    ("Pending", "pending"),
    ("In flight", "in_flight"),
    ("Consumers", "consumers"),
    ("Producers", "producers"),
    ("In/s", "enqueue_rate"),
    ("Out/s", "dequeue_rate"),
    ("Enqueued", "enqueued"),
    ("Dequeued", "dequeued"),
    ("Memory %", "memory"),
)
"""The titles of the columns, with the fields of a row that they show."""
CONSUMER_COLUMNS: Final = (
    *("Client ID", "In flight", "Pending", "Prefetch", "Dequeued", "Slow", "Selector"),
)
_KINDS: Final = ("all", "queue", "topic")
_TEXTS: Final = ("name", "kind")


@dataclass(frozen=True, slots=True)
class Choice:
    """The selected destinations and their order."""

    column: int = 2
    descending: bool = True
    kind: str = "all"
    text: str = ""
    """Part of the name, case-insensitive."""

    def sorted_by_next(self) -> Choice:
        """Return this choice sorted by the next column: texts ascending, numbers descending."""
        column = (self.column + 1) % len(COLUMNS)
        return replace(self, column=column, descending=COLUMNS[column][1] not in _TEXTS)

    def reversed(self) -> Choice:
        """Return this choice in reverse order."""
        return replace(self, descending=not self.descending)

    def of_next_kind(self) -> Choice:
        """Return this choice with the next kind: all destinations, queues, topics."""
        return replace(self, kind=_KINDS[(_KINDS.index(self.kind) + 1) % len(_KINDS)])

    def matching(self, text: str) -> Choice:
        """Return this choice with only destinations whose names contain the text."""
        return replace(self, text=text)

    def of(self, rows: Sequence[DestinationRow]) -> list[DestinationRow]:
        """Return the selected rows, sorted; rows with equal values by name."""
        wanted = self.text.lower()
        found = [
            row
            for row in rows
            if self.kind in ("all", row.kind) and (not wanted or wanted in row.name.lower())
        ]
        found.sort(key=lambda row: (row.name, row.kind))
        found.sort(key=_value(COLUMNS[self.column][1]), reverse=self.descending)
        return found

    def __str__(self) -> str:
        shown = {"all": "queues and topics", "queue": "queues", "topic": "topics"}[self.kind]
        order = "descending" if self.descending else "ascending"
        about = f" with {self.text!r} in their names" if self.text else ""
        return f"{shown}{about}, by {COLUMNS[self.column][0]} {order}"


def _value(field: str) -> Callable[[DestinationRow], Any]:
    def value(row: DestinationRow) -> Any:
        found = getattr(row, field)
        return 0.0 if found is None else found

    return value


def cells(row: DestinationRow) -> tuple[str, ...]:
    """Return the cells of a destination as text."""
    return tuple(cell_text(getattr(row, field)) for _, field in COLUMNS)


def consumer_cells(row: ConsumerRow) -> tuple[str, ...]:
    """Return the cells of a consumer as text."""
    numbers = (row.in_flight, row.pending, row.prefetch, row.dequeued)
    slow = "slow" if row.is_slow else ""
    return (cell_text(row.client_id), *map(cell_text, numbers), slow, cell_text(row.selector))


def cell_text(value: object) -> str:
    """Return a value as text: rates with one decimal, `-` for an unknown value."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else safe_text(value)
