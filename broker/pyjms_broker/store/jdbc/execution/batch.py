"""Execution of a batch on a connection: statements, counters and the outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from pyjms import _clock
from pyjms_broker.store.jdbc.execution.operations import (
    AcknowledgeMessage,
    AddMessage,
    NoteMessage,
    Outcome,
    RemoveMessage,
    SubscriberKey,
)
from pyjms_broker.store.jdbc.schema.statements import Statements

__all__ = [
    "JOURNAL_MARK",
    "LAST_BROKER_SEQUENCE_ID",
    "LAST_DESTINATION",
    "BatchExecution",
    "subscription_columns",
    "subscription_parameters",
]

JOURNAL_MARK: Final = "journal_mark"
LAST_DESTINATION: Final = "last_destination"
LAST_BROKER_SEQUENCE_ID: Final = "last_broker_sequence_id"

_MAX_PARAMETERS: Final = 5000

T = TypeVar("T")


class BatchExecution:
    """A batch in progress. Counters are collected, and written by `write_counts`."""

    def __init__(self, connection: Connection, statements: Statements, max_rows: int) -> None:
        self.connection = connection
        self.statements = statements
        self.max_rows = max_rows
        self.outcome = Outcome()
        self._counts: dict[str, list[int]] = {}
        self._last: dict[str, int] = {}
        self._producers: dict[str, int] = {}

    def run(self, statement: Any, **parameters: object) -> Any:
        """Execute a statement."""
        return self.connection.execute(statement, parameters)

    def run_many(self, statement: Any, rows: list[dict[str, object]]) -> None:
        """Execute a statement once for each row; `rows` may be empty."""
        if rows:
            self.connection.execute(statement, rows)

    def chunks(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield `items` in chunks that fit the parameters of one statement."""
        size = min(self.max_rows, _MAX_PARAMETERS)
        for start in range(0, len(items), size):
            yield items[start : start + size]

    def count(self, container: str, messages: int, size: int, last_id: int | None = None) -> None:
        """Add to the counters of a destination."""
        counts = self._counts.setdefault(container, [0, 0, 0])
        counts[0] += messages
        counts[1] += size
        counts[2] = max(counts[2], last_id or 0)

    def note(self, message: AddMessage | NoteMessage) -> None:
        """Record the sequence numbers of an added message, and its duplicate id."""
        if message.duplicate_id is not None:
            self.run(
                self.statements.insert_duplicate,
                container=message.container,
                id=message.id,
                duplicate_id=message.duplicate_id,
            )
        self.raise_state(LAST_BROKER_SEQUENCE_ID, message.broker_sequence)
        known = self._producers.get(message.producer, -1)
        self._producers[message.producer] = max(known, message.sequence)

    def raise_state(self, name: str, value: int) -> None:
        """Raise a number of the state table to at least `value`."""
        self._last[name] = max(self._last.get(name, 0), value)

    def write_counts(self) -> None:
        """Write the collected counters to the tables."""
        s = self.statements
        rows: list[dict[str, object]] = [
            {"where_container": name, "count": count, "bytes": size, "new_last": last or None}
            for name, (count, size, last) in self._counts.items()
        ]
        self.run_many(s.count_destination, rows)
        self._counts.clear()
        for name, value in self._last.items():
            self.run(s.raise_state, state=name, new=value)
        self._last.clear()
        now = _clock.time_ms()
        for producer, sequence in self._producers.items():
            values = {"of_producer": producer, "new_sequence": sequence, "now": now}
            if not self.run(s.raise_producer, **values).rowcount:
                self.run(s.insert_producer, msgid_prod=producer, msgid_seq=sequence, last_used=now)
        self._producers.clear()

    def add(self, messages: Sequence[AddMessage], xids: Sequence[str] = ()) -> None:
        """Insert messages; with `xids`, as messages of a prepared transaction."""
        rows = [_row(message) for message in messages]
        for row, xid in zip(rows, xids, strict=False):
            row["xid"] = xid
        self.run_many(self.statements.insert_message, rows)
        if not xids:
            for message in messages:
                self.count_added(message)

    def count_added(self, message: AddMessage) -> None:
        """Count a message that was added."""
        self.count(message.container, 1, message.size, message.id)
        self.note(message)

    def remove(self, container: str, removals: Sequence[RemoveMessage]) -> None:
        """Delete messages of a queue."""
        ids = [removal.id for removal in removals]
        done = self.run(self.statements.delete_messages, ids=ids, at=container).rowcount
        size = sum(removal.size for removal in removals)
        if done != len(ids):
            removed_size = (
                size * done // len(ids)
            )  # an estimate: it is unknown which messages did not exist
            self.outcome.not_removed.append((container, len(ids) - done, size - removed_size))
            size = removed_size
        self.count(container, -done, -size)

    def acknowledge(self, key: SubscriberKey, parts: Sequence[AcknowledgeMessage]) -> None:
        """Store acknowledgements of a subscription, and advance its marks.

        A mark (LAST_ACKED_ID) advances to the ID before the next message that is pending for the
        subscription; acknowledgements beyond it are listed singly. (activemq-persistence J3, J5)
        """
        s, prioritized = self.statements, parts[0].prioritized
        sizes = {part.id: part.size for part in parts}
        parameters = subscription_parameters(key)
        valid = self.run(s.pending_of[prioritized], ids=list(sizes), **parameters).all()
        if len(valid) != len(sizes):
            self.outcome.not_acknowledged.append((key, len(sizes) - len(valid)))
        if not valid:
            return
        marks = dict(tuple(row) for row in self.run(s.marks, **parameters))
        levels = sorted({row.priority for row in valid}) if prioritized else [None]
        beyond: list[dict[str, object]] = []
        for level in levels:
            ids = [row.id for row in valid if level is None or row.priority == level]
            mark = marks[level] if level is not None else min(marks.values())
            new = self._move_mark(key, level, mark, ids)
            beyond += [
                {**subscription_columns(key), "id": row.id, "priority": row.priority, "xid": None}
                for row in valid
                if (level is None or row.priority == level) and row.id > new
            ]
        self.run_many(s.insert_acked, beyond)
        self._free(key.container, prioritized, {row.id: sizes[row.id] for row in valid})

    def _move_mark(self, key: SubscriberKey, level: int | None, mark: int, ids: list[int]) -> int:
        """Advance a mark and return it: all messages up to it are acknowledged."""
        s, prioritized = self.statements, level is not None
        parameters: dict[str, Any] = subscription_parameters(key)
        if prioritized:
            parameters["level"] = level
        following = self.run(
            s.next_pending[prioritized], after=mark, ids=ids, **parameters
        ).scalar()
        if following is None:
            ahead = self.run(s.last_acked[prioritized], **parameters).scalar()
            new = max(*ids, ahead or 0)
        else:
            new = following - 1
        if new <= mark:
            return mark
        self.run(s.move_mark[prioritized], mark=new, **parameters)
        self.run(s.forget_acked[prioritized], after=new, **parameters)
        return int(new)

    def _free(self, container: str, prioritized: bool, sizes: dict[int, int]) -> None:
        live = self.run(self.statements.live_of[prioritized], ids=list(sizes)).scalars().all()
        for message_id in sizes.keys() - set(live):
            self.outcome.freed.append((container, sizes[message_id]))
            self.count(container, -1, -sizes[message_id])


def subscription_parameters(key: SubscriberKey) -> dict[str, Any]:
    """Return the parameters of conditions that select the subscription."""
    return dict(zip(("at", "client", "subscription"), key, strict=True))


def subscription_columns(key: SubscriberKey) -> dict[str, Any]:
    """Return the columns that identify the subscription, for a new row."""
    return dict(zip(("container", "client_id", "sub_name"), key, strict=True))


def _row(message: AddMessage) -> dict[str, object]:
    return {
        "id": message.id,
        "container": message.container,
        "msgid_prod": message.producer,
        "msgid_seq": message.sequence,
        "expiration": message.expiration,
        "msg": message.frame,
        "priority": message.priority,
        "xid": None,
    }
