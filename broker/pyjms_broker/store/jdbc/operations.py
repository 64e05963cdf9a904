"""The operations on the database, and the batch that writes them.

An operation is plain data, and knows how a batch executes it. Most operations add, remove and
acknowledge messages: a batch collects them and writes them in bulk. The others are rare and are
executed singly. The fields are numbers, strings, bytes, None and other operations, so a journal can
store them (its format depends on the order of the fields, see `journaled`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Connection

from pyjms.runtime import clock as _clock
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.jdbc.schema import SUBSCRIPTION_PRIORITY, Statements, destination_number

T = TypeVar("T")


class SubscriberKey(NamedTuple):
    """A durable subscription of one topic."""

    container: str
    client_id: str
    subscription_name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of conditions that select the subscription."""
        return dict(zip(("at", "client", "subscription"), self, strict=True))

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that identify the subscription, for a new row."""
        return dict(zip(("container", "client_id", "sub_name"), self, strict=True))


JOURNAL_MARK: Final = "journal_mark"
LAST_BROKER_SEQUENCE_ID: Final = "last_broker_sequence_id"
LAST_DESTINATION: Final = "last_destination"
_MAX_PARAMETERS: Final = 5000

_PRIORITIES: Final = range(10)


class Operation(ABC):
    """A change of the database."""

    __slots__ = ()

    @abstractmethod
    def execute(self, batch: Batch) -> None:
        """Execute it in the batch's transaction, or add it to the bulk that the batch collects."""


@dataclass(slots=True, eq=False)
class _MessageOperation(Operation):
    container: str
    id: int


@dataclass(slots=True, eq=False)
class _SubscriptionOperation(Operation):
    container: str
    client_id: str
    subscription_name: str

    @property
    def key(self) -> SubscriberKey:
        return SubscriberKey(self.container, self.client_id, self.subscription_name)


@dataclass(slots=True, eq=False)
class AddMessage(_MessageOperation):
    """Add a message; `subscribers`: the number of subscriptions that get it, on a topic."""

    producer: str
    sequence: int
    expiration: int
    priority: int
    size: int
    broker_sequence: int
    subscribers: int
    duplicate_id: str | None
    frame: bytes = field(repr=False)

    def execute(self, batch: Batch) -> None:
        batch.added[self.id] = self


@dataclass(slots=True, eq=False)
class RemoveMessage(_MessageOperation):
    """Remove a message of a queue."""

    size: int

    def execute(self, batch: Batch) -> None:
        batch.removed[self.id] = self


@dataclass(slots=True, eq=False)
class AcknowledgeMessage(_SubscriptionOperation):
    """Acknowledge a message for a durable subscription."""

    id: int
    priority: int
    size: int
    prioritized: bool

    def execute(self, batch: Batch) -> None:
        batch.acknowledged.setdefault(self.id, {})[self.key] = self


@dataclass(slots=True, eq=False)
class UpdateMessage(_MessageOperation):
    """Replace a message."""

    expiration: int
    frame: bytes = field(repr=False)

    def execute(self, batch: Batch) -> None:
        batch.run(
            batch.statements.update_message,
            row_id=self.id,
            msg=self.frame,
            expiration=self.expiration,
        )


@dataclass(slots=True, eq=False)
class RemoveTopicMessage(_MessageOperation):
    """Remove a message of a topic, for all its subscriptions."""

    size: int
    prioritized: bool

    def execute(self, batch: Batch) -> None:
        s = batch.statements
        keys = batch.run(s.keys_of_container, at=self.container).all()
        for key in {SubscriberKey(self.container, row.client_id, row.sub_name) for row in keys}:
            if (
                batch.run(s.pending_of[self.prioritized], ids=[self.id], **key.parameters).first()
                is not None
            ):
                batch.outcome.pending.append((key, -1))
        live = batch.run(s.live_of[self.prioritized], ids=[self.id]).scalar() is not None
        batch.run(s.delete_messages, ids=[self.id], at=self.container)
        batch.run(s.delete_acked_message, row_id=self.id, at=self.container)
        if live:
            batch.count(self.container, -1, -self.size)
        else:
            batch.outcome.counts.append((self.container, 1, self.size))


@dataclass(slots=True, eq=False)
class RemoveAll(Operation):
    """Remove all messages up to the ID `up_to`."""

    container: str
    up_to: int

    def execute(self, batch: Batch) -> None:
        batch.write_counts()
        batch.run(batch.statements.delete_all, at=self.container, after=self.up_to)
        batch.run(batch.statements.delete_acked_up_to, at=self.container, after=self.up_to)
        batch.run(
            batch.statements.set_destination, where_container=self.container, count=0, bytes=0
        )


@dataclass(slots=True, eq=False)
class AddContainer(Operation):
    """Add a destination, to be known after a restart; its IDs are greater than `base`."""

    container: str
    base: int
    epoch: int

    def execute(self, batch: Batch) -> None:
        s = batch.statements
        if batch.run(s.destination_row, at=self.container).first() is None:
            batch.run(
                s.insert_destination,
                container=self.container,
                epoch=self.epoch,
                last_id=self.base,
                msg_count=0,
                msg_size=0,
            )
        batch.raise_state(LAST_DESTINATION, destination_number(self.base))


@dataclass(slots=True, eq=False)
class RemoveContainer(Operation):
    """Remove a destination with everything in it."""

    container: str

    def execute(self, batch: Batch) -> None:
        batch.write_counts()
        batch.run(batch.statements.delete_container, at=self.container)
        for statement in batch.statements.forget_container:
            batch.run(statement, at=self.container)


@dataclass(slots=True, eq=False)
class AddSubscription(_SubscriptionOperation):
    """Add a durable subscription, which gets the messages after `start`.

    With `retroactive`, `start` precedes all messages, so it also gets those already stored.
    """

    destination: str
    selector: str | None
    no_local: bool
    owner: str | None
    start: int
    retroactive: bool
    prioritized: bool

    def execute(self, batch: Batch) -> None:
        s, mine = batch.statements, self.key.columns
        for statement in s.delete_subscription:
            batch.run(statement, **self.key.parameters)
        if self.retroactive:
            # messages acknowledged by all subscriptions must not count, though their rows may exist
            batch.run(s.delete_dead[self.prioritized], at=self.container)
        batch.run_many(
            s.insert_acks,
            [
                {
                    **mine,
                    "sub_dest": self.destination,
                    "selector": self.selector,
                    "last_acked_id": self.start,
                    "priority": priority,
                    "xid": None,
                }
                for priority in (_PRIORITIES if self.prioritized else (SUBSCRIPTION_PRIORITY,))
            ],
        )
        if self.no_local:
            batch.run(s.insert_no_local, **mine)
        if self.owner is not None:
            batch.run(s.insert_owner, **mine, owner=self.owner)
        count = batch.run(s.rows_behind, at=self.container, after=self.start).scalar()
        batch.outcome.pending.append((self.key, count))


@dataclass(slots=True, eq=False)
class RemoveSubscription(_SubscriptionOperation):
    """Remove a durable subscription, and the messages that only it had not acknowledged."""

    prioritized: bool

    def execute(self, batch: Batch) -> None:
        s = batch.statements
        batch.write_counts()
        for statement in s.delete_subscription:
            batch.run(statement, **self.key.parameters)
        batch.run(s.delete_dead[self.prioritized], at=self.container)
        row = batch.run(s.destination_row, at=self.container).first()
        if row is None:
            return
        left = batch.run(s.row_count, at=self.container).scalar()
        dropped = row.msg_count - left
        size = row.msg_size * left // row.msg_count if row.msg_count else 0
        batch.run(s.set_destination, where_container=self.container, count=left, bytes=size)
        batch.outcome.dropped.append((self.container, dropped))


@dataclass(slots=True, eq=False)
class SetPrioritized(Operation):
    """Switch ordering by priority on or off for a topic, converting its ACKS rows."""

    container: str
    prioritized: bool

    def execute(self, batch: Batch) -> None:
        priorities: dict[SubscriberKey, list[int]] = {}
        for row in batch.run(batch.statements.keys_of_container, at=self.container):
            key = SubscriberKey(self.container, row.client_id, row.sub_name)
            priorities.setdefault(key, []).append(row.priority)
        for key, found in priorities.items():
            if self.prioritized and len(found) == 1:
                _split_by_priority(batch, key)
            elif not self.prioritized and len(found) > 1:
                _join_priorities(batch, key)


@dataclass(slots=True, eq=False)
class PrepareAdd(Operation):
    """Store a message of a prepared transaction, which gets another ID at the commit.

    (activemq-persistence J8)
    """

    message: AddMessage
    xid: str

    def execute(self, batch: Batch) -> None:
        batch.add([self.message], [self.xid])


@dataclass(slots=True, eq=False)
class PrepareRemove(_MessageOperation):
    """Hide a message until its transaction ends."""

    xid: str

    def execute(self, batch: Batch) -> None:
        batch.run(batch.statements.set_xid, row_id=self.id, new_xid=self.xid)


@dataclass(slots=True, eq=False)
class PrepareAcknowledgement(Operation):
    """Hide a message from a subscription until its transaction ends."""

    acknowledgement: AcknowledgeMessage
    xid: str

    def execute(self, batch: Batch) -> None:
        ack = self.acknowledgement
        batch.run(
            batch.statements.insert_acked,
            **ack.key.columns,
            id=ack.id,
            priority=ack.priority,
            xid=self.xid,
        )


@dataclass(slots=True, eq=False)
class CommitAdd(Operation):
    """Commit the message prepared as `prepared_id`, as `message.id`; `message.frame` is empty."""

    prepared_id: int
    message: AddMessage

    def execute(self, batch: Batch) -> None:
        batch.run(batch.statements.commit_add, row_id=self.prepared_id, new_id=self.message.id)
        batch.count_added(self.message)


@dataclass(slots=True, eq=False)
class CommitAcknowledgement(Operation):
    """Commit a prepared acknowledgement."""

    acknowledgement: AcknowledgeMessage

    def execute(self, batch: Batch) -> None:
        ack = self.acknowledgement
        batch.run(batch.statements.forget_prepared, row_id=ack.id, **ack.key.parameters)
        batch.acknowledge(ack.key, [ack])


@dataclass(slots=True, eq=False)
class RollbackAdd(Operation):
    """Roll back a prepared message."""

    id: int

    def execute(self, batch: Batch) -> None:
        batch.run(batch.statements.rollback_add, row_id=self.id)


@dataclass(slots=True, eq=False)
class RollbackRemove(_MessageOperation):
    """Roll back a prepared removal."""

    def execute(self, batch: Batch) -> None:
        batch.run(batch.statements.set_xid, row_id=self.id, new_xid=None)


@dataclass(slots=True, eq=False)
class RollbackAcknowledgement(Operation):
    """Roll back a prepared acknowledgement."""

    acknowledgement: AcknowledgeMessage

    @property
    def container(self) -> str:
        return self.acknowledgement.container

    def execute(self, batch: Batch) -> None:
        ack = self.acknowledgement
        batch.run(batch.statements.forget_prepared, row_id=ack.id, **ack.key.parameters)


@dataclass(slots=True, eq=False)
class CleanUp(Operation):
    """Delete at most `limit` rows of a topic that all subscriptions have acknowledged.

    (activemq-persistence J5)
    """

    container: str
    prioritized: bool
    limit: int

    def execute(self, batch: Batch) -> None:
        """Delete rows by comparing marks, reading only those that are deleted, in order."""
        s = batch.statements
        marks = batch.run(s.lowest_marks, at=self.container).all()
        found: list[int] = []
        if not self.prioritized and marks:
            after = min(mark for _, mark in marks)
            page = batch.run(s.past[False], at=self.container, after=after, limit=self.limit)
            found += page.scalars()
        elif self.prioritized:
            for level, after in marks:
                page = batch.run(
                    s.past[True], at=self.container, after=after, level=level, limit=self.limit
                )
                found += page.scalars()
        for chunk in batch.chunks(found):
            batch.run(s.delete_messages, ids=list(chunk), at=self.container)
        batch.outcome.cleaned.append((self.container, len(found)))


@dataclass(slots=True, eq=False)
class TrimDuplicates(Operation):
    """Delete the duplicate ids of a queue up to the ID `up_to`."""

    container: str
    up_to: int

    def execute(self, batch: Batch) -> None:
        batch.run(batch.statements.trim_duplicates, at=self.container, after=self.up_to)


@dataclass(slots=True, eq=False)
class TrimProducers(Operation):
    """Delete all but the `keep` most recently used producers."""

    keep: int

    def execute(self, batch: Batch) -> None:
        s = batch.statements
        last = batch.run(s.producer_use, skip=self.keep).scalar()
        if last is not None:
            batch.run(s.forget_producers, until=last)


@dataclass(slots=True, eq=False)
class NoteMessage(_MessageOperation):
    """Record the sequence numbers of a message that was added and removed before it was written."""

    producer: str
    sequence: int
    broker_sequence: int
    duplicate_id: str | None
    freed: int | None
    """Its size, if a topic's last subscription has acknowledged it; else None."""

    def execute(self, batch: Batch) -> None:
        batch.count(self.container, 0, 0, self.id)
        batch.note(self)
        if self.freed is not None:
            batch.outcome.counts.append((self.container, -1, -self.freed))


@dataclass(slots=True, eq=False)
class JournalMark(Operation):
    """Record that the units up to this location of the journal are in the database."""

    place: int

    def execute(self, batch: Batch) -> None:
        batch.raise_state(JOURNAL_MARK, self.place)


BULK = (AddMessage, RemoveMessage, AcknowledgeMessage)
"""Operations of which a batch collects many: additions, removals and acknowledgements."""
PASSING = (CleanUp, TrimDuplicates, TrimProducers)
"""Operations that need not survive a crash, because they are repeated later."""
UNSETTLING = (
    RemoveTopicMessage,
    RemoveAll,
    RemoveContainer,
    AddSubscription,
    RemoveSubscription,
    SetPrioritized,
    RollbackRemove,
    RollbackAcknowledgement,
)
"""Operations whose effect is only known from the tables: readers write out the queue first."""


@dataclass(slots=True)
class Outcome:
    """Results that only the database can determine, for the stores' counters."""

    counts: list[tuple[str, int, int]] = field(default_factory=list)
    """(container, number, size): corrections for messages whose last subscription acknowledged
    them, and for those that did not exist when they were removed."""
    pending: list[tuple[SubscriberKey, int]] = field(default_factory=list)
    """Corrections for acknowledgements of messages that were not pending for the subscription,
    and for the stored messages that a new subscription gets."""
    dropped: list[tuple[str, int]] = field(default_factory=list)
    """(container, number) of messages that were pending only for a removed subscription."""
    cleaned: list[tuple[str, int]] = field(default_factory=list)
    """(container, number) of rows that the clean-up deleted."""


@dataclass(slots=True, eq=False)
class Unit:
    """Operations that are executed together; `done(error)` is called on the loop afterwards."""

    operations: Sequence[Operation]
    done: Callable[[Exception | None], None] = lambda _: None
    size: int = 0
    """The memory that it occupies, in bytes."""
    completion: Completion = field(default_factory=Completion)
    """Completed after `done` was called."""

    def finish(self, error: Exception | None) -> None:
        """Report that it was executed, or why it was not."""
        self.done(error)
        self.completion.complete(error)


class Batch:
    """Units that are executed in one transaction.

    Adjacent additions, removals and acknowledgements form one bulk, written as additions, then
    acknowledgements, then removals; that is valid because IDs are never reused. A message that is
    added and removed in one bulk never reaches its table, nor does a topic's message that is added
    and acknowledged by all subscriptions in one bulk. Counters are collected, too, and written by
    `write_counts`.
    """

    def __init__(self, connection: Connection, statements: Statements, max_rows: int) -> None:
        self.connection = connection
        self.statements = statements
        self.max_rows = max_rows
        self.outcome = Outcome()
        self.added: dict[int, AddMessage] = {}
        self.removed: dict[int, RemoveMessage] = {}
        self.acknowledged: dict[int, dict[SubscriberKey, AcknowledgeMessage]] = {}
        self._counts: dict[str, list[int]] = {}
        self._last: dict[str, int] = {}
        self._producers: dict[str, int] = {}

    def execute(self, units: Iterable[Unit]) -> Outcome:
        """Execute all operations of all units, in order, in the connection's transaction."""
        for unit in units:
            for operation in unit.operations:
                if not isinstance(operation, BULK):
                    self._write_bulk()
                operation.execute(self)
        self._write_bulk()
        self.write_counts()
        return self.outcome

    def _write_bulk(self) -> None:
        """Write the collected additions, acknowledgements and removals, and begin a new bulk."""
        if not (self.added or self.removed or self.acknowledged):
            return
        self._drop_consumed()
        self.add(list(self.added.values()))
        by_key: dict[SubscriberKey, list[AcknowledgeMessage]] = defaultdict(list)
        for acknowledgements in self.acknowledged.values():
            for key, each in acknowledgements.items():
                by_key[key].append(each)
        for key, parts in by_key.items():
            for chunk in self.chunks(parts):
                self.acknowledge(key, chunk)
        by_container: dict[str, list[RemoveMessage]] = defaultdict(list)
        for removal in self.removed.values():
            by_container[removal.container].append(removal)
        for container, removals in by_container.items():
            for removed in self.chunks(removals):
                self._remove(container, removed)
        self.added, self.removed, self.acknowledged = {}, {}, {}

    def _drop_consumed(self) -> None:
        """Drop the messages that are consumed in this bulk, except for their sequence numbers."""
        consumed = [self.added.pop(i) for i in list(self.removed) if i in self.added]
        for message in consumed:
            del self.removed[message.id]
        for message_id, acknowledgements in list(self.acknowledged.items()):
            added = self.added.get(message_id)
            if added is not None and len(acknowledgements) >= added.subscribers > 0:
                del self.acknowledged[message_id]
                consumed.append(self.added.pop(message_id))
                self.outcome.counts.append((added.container, -1, -added.size))
        for message in consumed:
            self.count(message.container, 0, 0, message.id)
            self.note(message)

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
        rows: list[dict[str, object]] = [
            {
                "id": message.id,
                "container": message.container,
                "msgid_prod": message.producer,
                "msgid_seq": message.sequence,
                "expiration": message.expiration,
                "msg": message.frame,
                "priority": message.priority,
                "xid": xid,
            }
            for message, xid in zip_longest(messages, xids)
        ]
        self.run_many(self.statements.insert_message, rows)
        if not xids:
            for message in messages:
                self.count_added(message)

    def count_added(self, message: AddMessage) -> None:
        """Count a message that was added."""
        self.count(message.container, 1, message.size, message.id)
        self.note(message)

    def _remove(self, container: str, removals: Sequence[RemoveMessage]) -> None:
        """Delete messages of a queue."""
        ids = [removal.id for removal in removals]
        done = self.run(self.statements.delete_messages, ids=ids, at=container).rowcount
        size = sum(removal.size for removal in removals)
        if done != len(ids):
            removed_size = (
                size * done // len(ids)
            )  # an estimate: it is unknown which messages did not exist
            self.outcome.counts.append((container, len(ids) - done, size - removed_size))
            size = removed_size
        self.count(container, -done, -size)

    def acknowledge(self, key: SubscriberKey, parts: Sequence[AcknowledgeMessage]) -> None:
        """Store acknowledgements of a subscription, and advance its marks.

        A mark (LAST_ACKED_ID) advances to the ID before the next message that is pending for the
        subscription; acknowledgements beyond it are listed singly. (activemq-persistence J3, J5)
        """
        s, prioritized = self.statements, parts[0].prioritized
        sizes = {part.id: part.size for part in parts}
        parameters = key.parameters
        valid = self.run(s.pending_of[prioritized], ids=list(sizes), **parameters).all()
        if len(valid) != len(sizes):
            self.outcome.pending.append((key, len(sizes) - len(valid)))
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
                {**key.columns, "id": row.id, "priority": row.priority, "xid": None}
                for row in valid
                if (level is None or row.priority == level) and row.id > new
            ]
        self.run_many(s.insert_acked, beyond)
        self._free(key.container, prioritized, {row.id: sizes[row.id] for row in valid})

    def _move_mark(self, key: SubscriberKey, level: int | None, mark: int, ids: list[int]) -> int:
        """Advance a mark and return it: all messages up to it are acknowledged."""
        s, prioritized = self.statements, level is not None
        parameters: dict[str, Any] = key.parameters
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
            self.outcome.counts.append((container, -1, -sizes[message_id]))
            self.count(container, -1, -sizes[message_id])


def _values(row: Any) -> dict[str, Any]:
    names = ("sub_dest", "selector", "last_acked_id", "priority")
    return {name: getattr(row, name) for name in names}


def _split_by_priority(batch: Batch, key: SubscriberKey) -> None:
    """Replace a subscription's row by one per priority, all with the same mark."""
    row = _values(batch.run(batch.statements.acks_rows, **key.parameters).one())
    batch.run_many(
        batch.statements.insert_acks,
        [
            {**key.columns, **row, "priority": priority, "xid": None}
            for priority in _PRIORITIES
            if priority != row["priority"]
        ],
    )


def _join_priorities(batch: Batch, key: SubscriberKey) -> None:
    """Replace the rows per priority by one with the lowest mark; list acks beyond it singly."""
    s, mine = batch.statements, key.columns
    rows = [_values(row) for row in batch.run(s.acks_rows, **key.parameters)]
    lowest = min(row["last_acked_id"] for row in rows)
    for row in rows:
        past = batch.run(
            s.past_single_mark,
            at=key.container,
            after=lowest,
            mark=row["last_acked_id"],
            level=row["priority"],
        )
        batch.run_many(
            s.insert_acked,
            [{**mine, "id": p.id, "priority": p.priority, "xid": None} for p in past],
        )
    batch.run(s.delete_subscription[0], **key.parameters)
    single = {"last_acked_id": lowest, "priority": SUBSCRIPTION_PRIORITY, "xid": None}
    batch.run(s.insert_acks, **{**mine, **rows[0], **single})
