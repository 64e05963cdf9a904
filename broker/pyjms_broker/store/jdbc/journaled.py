"""Journaled JDBC: a journal in front of the database. (activemq-persistence J9)

Theory of operation
===================

A unit is durable as soon as it is in the journal, which takes one append and a share of one sync;
a checkpoint writes it to the database later. Senders therefore do not wait for the database, and a
message that is consumed before the next checkpoint never reaches it:

    submit      -> journal.append; the completion is done when the journal is synced
    checkpoint  -> the longest durable prefix of the backlog is compacted and handed to the writer
                   of the database, in order; then journal segments that hold nothing else are
                   deleted
    replay      -> at start, the records after the mark in the state table are executed again

Invariants:

- The database transaction of a unit also writes the unit's journal location, as the mark in the
  state table. The tables and the mark change together, so a record is replayed exactly once.
- Compaction considers only records that are durable in the journal: a crash may lose later ones,
  and a removal that is lost must not have dropped its message.
- A unit whose append failed was reported as failed; it never reaches the database.
- Cleanup operations (`PASSING`) are not journaled, because they are repeated later.
- Readers that need the tables (`settle`) have everything written to the database, uncompacted.

A checkpoint is due when the backlog exceeds half of the journal's size, after each
`checkpoint_interval`, and when the journal's disk has space again. The store is CONGESTED when the
backlog and the units being written exceed the journal's size; it is SUSPENDED when the journal's
disk is full. A database outage has no effect as long as the journal has space.

A journal record is a version, then the operations of a unit. An operation is the number of its
class (one byte) and its fields. A field is a tag (one byte) and the value; strings and bytes are
preceded by their length. Old records must stay readable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.segments import Skipped
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.adapters import run_logged
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.damage import quarantine_record
from pyjms_broker.store.jdbc import operations as ops
from pyjms_broker.store.jdbc.adapter import Contents, JDBCPersistenceAdapter, make_state
from pyjms_broker.store.jdbc.database import Database
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC
from pyjms_broker.store.jdbc.writer import Writer
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import JournalSettings

logger = get_logger(__name__)

_OFFSET_BITS: Final = 32
_REPLAY_BATCH: Final = 2000
_VERSION: Final = 1
_CLASSES: Final[tuple[type, ...]] = (
    ops.AddMessage,
    ops.RemoveMessage,
    ops.AcknowledgeMessage,
    ops.UpdateMessage,
    ops.RemoveTopicMessage,
    ops.RemoveAll,
    ops.AddContainer,
    ops.RemoveContainer,
    ops.AddSubscription,
    ops.RemoveSubscription,
    ops.SetPrioritized,
    ops.PrepareAdd,
    ops.PrepareRemove,
    ops.PrepareAcknowledgement,
    ops.CommitAdd,
    ops.CommitAcknowledgement,
    ops.RollbackAdd,
    ops.RollbackRemove,
    ops.RollbackAcknowledgement,
)
"""The order is part of the format: append new classes at the end."""
_NUMBERS: Final = {cls: number for number, cls in enumerate(_CLASSES)}
_FIELDS: Final = {cls: tuple(field.name for field in fields(cls)) for cls in _CLASSES}

_NONE, _FALSE, _TRUE, _INT, _TEXT, _BYTES, _OPERATION = range(7)
_NUMBER: Final = struct.Struct(">Bq")
_LENGTH: Final = struct.Struct(">BI")


class _DamagedRecordError(JMSException):
    """A record of the journal in front of the database is damaged."""


def encode_operations(operations: Sequence[ops.Operation]) -> bytes:
    """Encode the operations of a unit as the payload of a record."""
    parts = [bytes((_VERSION,))]
    for operation in operations:
        _encode_operation(operation, parts)
    return b"".join(parts)


def decode_operations(payload: bytes) -> list[ops.Operation]:
    """Return the operations of a record."""
    if not payload or payload[0] != _VERSION:
        raise JMSException(
            "The journal in front of the database was written by another version; start and stop "
            "that version once, which writes its records to the database"
        )
    operations: list[ops.Operation] = []
    at = 1
    try:
        while at < len(payload):
            operation, at = _decode_operation(payload, at)
            operations.append(operation)
    except (IndexError, TypeError, struct.error, UnicodeDecodeError) as error:
        raise _DamagedRecordError(
            "A record of the journal in front of the database is damaged"
        ) from error
    return operations


def _encode_operation(operation: ops.Operation, parts: list[bytes]) -> None:
    cls = type(operation)
    parts.append(bytes((_NUMBERS[cls],)))
    for name in _FIELDS[cls]:
        value = getattr(operation, name)
        if value is None:
            parts.append(bytes((_NONE,)))
        elif isinstance(value, bool):
            parts.append(bytes((_TRUE if value else _FALSE,)))
        elif isinstance(value, int):
            parts.append(_NUMBER.pack(_INT, value))
        elif isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            parts += (_LENGTH.pack(_TEXT, len(data)), data)
        elif isinstance(value, bytes):
            parts += (_LENGTH.pack(_BYTES, len(value)), value)
        else:
            parts.append(bytes((_OPERATION,)))
            _encode_operation(value, parts)


def _decode_operation(payload: bytes, at: int) -> tuple[Any, int]:
    cls = _CLASSES[payload[at]]
    at += 1
    values: list[Any] = []
    for _ in _FIELDS[cls]:
        value, at = _decode_value(payload, at)
        values.append(value)
    return cls(*values), at


def _decode_value(payload: bytes, at: int) -> tuple[Any, int]:
    kind = payload[at]
    if kind in {_NONE, _FALSE, _TRUE}:
        return (None, False, True)[kind], at + 1
    if kind == _INT:
        return _NUMBER.unpack_from(payload, at)[1], at + _NUMBER.size
    if kind == _OPERATION:
        return _decode_operation(payload, at + 1)
    _, length = _LENGTH.unpack_from(payload, at)
    at += _LENGTH.size
    data = payload[at : at + length]
    if len(data) != length or kind not in {_TEXT, _BYTES}:
        raise IndexError
    return (data.decode("utf-8", "surrogatepass") if kind == _TEXT else data), at + length


def compact(units: Sequence[Sequence[ops.Operation]]) -> list[list[ops.Operation]]:
    """Return, for each unit, the operations that matter if all units are executed in order.

    Messages that are added and removed within one hand-over to the database never reach it, except
    for their sequence numbers.
    """
    added: dict[int, ops.AddMessage] = {}
    acknowledged: dict[int, set[ops.SubscriberKey]] = {}
    consumed: set[int] = set()
    for unit in units:
        for op in unit:
            if isinstance(op, ops.AddMessage):
                added[op.id] = op
            elif isinstance(op, ops.RemoveMessage):
                if op.id in added:
                    consumed.add(op.id)
            elif isinstance(op, ops.AcknowledgeMessage) and op.id in added:
                keys = acknowledged.setdefault(op.id, set())
                keys.add(op.key)
                if len(keys) >= added[op.id].subscribers > 0:
                    consumed.add(op.id)
    return [
        [
            _note_of(op) if isinstance(op, ops.AddMessage) and op.id in consumed else op
            for op in unit
            if not (
                isinstance(op, ops.RemoveMessage | ops.AcknowledgeMessage) and op.id in consumed
            )
        ]
        for unit in units
    ]


def _note_of(op: ops.AddMessage) -> ops.NoteMessage:
    numbers = (op.producer, op.sequence, op.broker_sequence)
    freed = op.size if op.subscribers else None
    return ops.NoteMessage(op.container, op.id, *numbers, op.duplicate_id, freed)


def journal_mark(location: Location) -> int:
    """Encode a journal location as a number for the state table."""
    return location.file_id << _OFFSET_BITS | location.offset


class _Pending(NamedTuple):
    """A unit that the database does not have yet."""

    location: Location | None
    """Its location in the journal; None: it is not journaled."""
    unit: ops.Unit
    """Its completion is done when the journal is synced, or could not write the unit."""
    size: int


class JournaledWriter(Writer):
    """Completes a unit once it is journaled, and writes it to the database at a checkpoint."""

    def __init__(
        self,
        database: Database,
        settings: JDBCSettings,
        on_outcome: Callable[[ops.Outcome], None],
        on_state: Callable[[StoreState, Exception | None], None],
        journal: Journal,
        journal_settings: JournalSettingsJDBC,
    ) -> None:
        super().__init__(database, settings, on_outcome, on_state)
        self._reported = StoreState.RUNNING
        self._journal = journal
        self._limit = journal_settings.journal_log_files * journal_settings.journal_log_file_size
        self._backlog: list[_Pending] = []
        self._backlog_bytes = 0
        self._handed_over = 0
        """Bytes that were handed to the database's writer and are not written yet."""
        self._checkpoint: BackgroundTask | None = None
        self._checkpointing = anyio.Lock()
        self._journal_ready = anyio.Event()
        """Set when a checkpoint no longer has to wait for the journal."""
        journal.on_state = self._on_journal_state

    def _enqueue(self, unit: ops.Unit) -> Completion:
        durable = unit.completion
        if self.error is not None:
            unit.finish(self.error)
            return durable
        location: Location | None = None
        size = 0
        try:
            if not unit.operations:  # completes when everything before it is durable
                return self._journal.barrier()
            if all(isinstance(operation, ops.PASSING) for operation in unit.operations):
                durable.complete()
            else:
                payload = encode_operations(unit.operations)
                location = self._journal.append(payload, durable, sync=True)
                size = len(payload)
        except JMSException as error:
            unit.finish(error)
            return durable
        self._backlog_bytes += size
        self._backlog.append(_Pending(location, unit, size))
        self._checkpoint_if_due()
        self._report_overall(None)
        return durable

    def settle(self) -> None:
        self.check()
        self._hand_over()
        self._hand_over_first(len(self._backlog), list)  # uncompacted: readers need all of it
        super().settle()

    async def drain(self) -> None:
        self._hand_over()
        await super().drain()

    async def checkpoint(self) -> None:
        """Write the journal's units to the database, and delete the segments that held them.

        Waits until the journal is synced, but not for space on its disk: a checkpoint frees space.
        """
        async with self._checkpointing:
            await self._wait_for_journal()
            self._hand_over()
            keep_from = self._keep_from()
            await super().drain()
            if self.error is not None:
                return
            await run_logged(
                partial(self._delete_segments, keep_from), "A checkpoint of the journal"
            )

    async def _delete_segments(self, keep_from: int) -> None:
        for segment in self._journal.segments():
            if segment < keep_from:
                await self._journal.delete(segment)

    async def stop(self) -> None:
        self._is_stopping = True
        await end_tasks(self._checkpoint)
        try:
            await self._journal.close()  # units that it could not write have failed by now
        finally:
            self._hand_over()
            await super().stop()

    def _checkpoint_if_due(self) -> None:
        if self._is_due and self._checkpoint is None and not self._is_stopping:
            self._checkpoint = spawn(
                self._checkpoint_soon, name="jdbc journal checkpoint", on_error=self.fail_with
            )

    @property
    def _is_due(self) -> bool:
        return self._backlog_bytes > self._limit // 2

    async def _checkpoint_soon(self) -> None:
        try:
            await self.checkpoint()
            # blocked senders submit nothing that would make the next checkpoint due
            while self._is_due and self._journal.state is not StoreState.SUSPENDED:
                await self.checkpoint()
        finally:
            self._checkpoint = None

    async def _wait_for_journal(self) -> None:
        """Wait until the journal is synced, or its disk is full."""
        if self._journal.state is StoreState.SUSPENDED:
            return
        barrier = self._journal.barrier()
        if barrier is COMPLETED:
            return
        self._journal_ready = ready = anyio.Event()
        barrier.then(lambda _: ready.set())
        await ready.wait()

    def _hand_over(self) -> None:
        """Hand the durable prefix of the backlog to the database's writer, compacted."""
        backlog = self._backlog
        pending = (index for index, each in enumerate(backlog) if not each.unit.completion.done)
        self._hand_over_first(next(pending, len(backlog)), compact)

    def _hand_over_first(
        self,
        count: int,
        select: Callable[[Sequence[Sequence[ops.Operation]]], Sequence[Sequence[ops.Operation]]],
    ) -> None:
        """Hand over those of the first `count` units that `select` returns."""
        if not count:
            return
        first, self._backlog = self._backlog[:count], self._backlog[count:]
        stored: list[_Pending] = []
        for each in first:
            error = each.unit.completion.error
            if error is None:
                stored.append(each)
            else:  # its sender has already got the error
                each.unit.done(error)
        kept = select([each.unit.operations for each in stored])
        for (location, unit, _), operations in zip(stored, kept, strict=True):
            marked = (
                [*operations, ops.JournalMark(journal_mark(location))] if location else operations
            )
            super()._enqueue(ops.Unit(marked, unit.done, unit.size))
        size = sum(each.size for each in first)
        self._backlog_bytes -= size
        self._handed_over += size
        super()._enqueue(ops.Unit((), lambda _: self._on_written(size)))

    def _keep_from(self) -> int:
        """Return the first segment with a unit that was not handed over."""
        left = (each.location.file_id for each in self._backlog if each.location is not None)
        written = self._journal.written.file_id
        return min(written, next(left, written))

    def _on_written(self, size: int) -> None:
        self._handed_over -= size
        self._report_overall(None)

    def _on_journal_state(self, state: StoreState, error: Exception | None) -> None:
        if state is StoreState.SUSPENDED:
            self._journal_ready.set()
        elif state is StoreState.RUNNING:
            self._checkpoint_if_due()
        self._report_overall(error)

    def _report(self, state: StoreState, error: Exception | None) -> None:
        if state is StoreState.SUSPENDED:
            logger.warning(
                "The database is unavailable: checkpoints wait, and messages stay in the journal"
            )
        self._report_overall(error)

    def _report_overall(self, error: Exception | None) -> None:
        """Report the worse state of the journal and, if it has failed, the database."""
        state = self.overall
        if state is not self._reported:
            self._reported = state
            super()._report(state, error or self.error or self._journal.error)

    @property
    def overall(self) -> StoreState:
        """The state of the store; a database outage does not count while the journal has space."""
        if self.state is StoreState.FAILED:
            return StoreState.FAILED
        if self._journal.state is not StoreState.RUNNING:
            return self._journal.state
        full = self._backlog_bytes + self._handed_over > self._limit
        return StoreState.CONGESTED if full else StoreState.RUNNING


def _replay_journal(journal: Journal, database: Database, mark: int) -> None:
    """Write the journal's records after the mark to the database. Blocks."""
    start = Location(mark >> _OFFSET_BITS, mark & (1 << _OFFSET_BITS) - 1)
    skipped: list[Skipped] = []
    units: list[ops.Unit] = []
    replayed = 0
    for location, payload in journal.records_from(None, skipped):
        if location <= start:
            continue
        try:
            decoded = decode_operations(bytes(payload))
        except _DamagedRecordError as error:
            quarantine_record(journal.directory, location, bytes(payload), error)
            continue
        operations = [*decoded, ops.JournalMark(journal_mark(location))]
        units.append(ops.Unit(operations))
        replayed += 1
        if len(units) >= _REPLAY_BATCH:
            database.transact(units)
            units.clear()
    if units:
        database.transact(units)
    if replayed:
        logger.info("Replayed %d records of the journal into the database", replayed)
    if skipped:
        logger.warning("The journal in front of the database is damaged; skipped: %s", skipped)


class JournaledJDBCPersistenceAdapter(JDBCPersistenceAdapter):
    """A JDBC store with a journal in front of it, in the folder `journal` of `directory`."""

    def __init__(
        self,
        directory: Path,
        settings: JDBCSettings | None = None,
        broker_name: str = "localhost",
        journal_settings: JournalSettingsJDBC | None = None,
        *,
        disk: Disk = OS_DISK,
    ) -> None:
        super().__init__(directory, settings, broker_name)
        self.journal_settings = journal_settings or JournalSettingsJDBC()
        self._disk = disk
        self._journal: Journal | None = None
        self._is_journal_open = False

    async def checkpoint(self) -> None:
        self._clean_up()
        if isinstance(self.writer, JournaledWriter):
            await self.writer.checkpoint()
        else:
            await self.writer.drain()

    @property
    def size(self) -> int:
        return super().size + (0 if self._journal is None else self._journal.size)

    @property
    def state(self) -> StoreState:
        if self._started and isinstance(self.writer, JournaledWriter):
            return self.writer.overall
        return super().state

    def _make_writer(self) -> Writer:
        if not self.journal_settings.use_journal:
            return super()._make_writer()
        self._is_journal_open = False
        self._journal = Journal(
            self.directory / "journal",
            JournalSettings(
                max_file_length=self.journal_settings.journal_log_file_size,
                resume_check_sleep_period=self.settings.resume_check_sleep_period,
            ),
            self._disk,
        )
        return JournaledWriter(
            self.database,
            self.settings,
            self._correct_counts,
            self._report,
            self._journal,
            self.journal_settings,
        )

    async def _read_contents(self) -> Contents:
        if self._journal is not None and not self._is_journal_open:
            await self._journal.open()
            self._is_journal_open = True  # the next try after a lost database finds it so
        return await super()._read_contents()

    def _load(self) -> Contents:
        if self._journal is not None and not self._empty_first:
            self.database.claim()
            mark = make_state(self.database)[ops.JOURNAL_MARK]
            _replay_journal(self._journal, self.database, mark)
        contents = super()._load()
        if self._journal is not None:
            # the database may have units that a crash has lost from the end of the journal
            self.database.set_state(ops.JOURNAL_MARK, journal_mark(self._journal.written))
        return contents

    def _start_tasks(self) -> None:
        super()._start_tasks()
        if self._journal is not None and self.journal_settings.checkpoint_interval > 0:
            self._spawn(self._checkpoint_periodically, "jdbc journal checkpoints")

    async def _checkpoint_periodically(self) -> None:
        while True:
            await _clock.sleep(self.journal_settings.checkpoint_interval)
            await self.checkpoint()
