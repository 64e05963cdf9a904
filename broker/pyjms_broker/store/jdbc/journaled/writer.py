"""The writer of journaled JDBC: units are durable once journaled, and reach the tables later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import anyio

from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import JMSException
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import Skipped
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.damage import quarantine_record
from pyjms_broker.store.jdbc.execution.database import Database
from pyjms_broker.store.jdbc.execution.operations import PASSING, JournalMark, Operation, Unit
from pyjms_broker.store.jdbc.execution.writer import Writer, WriterListener
from pyjms_broker.store.jdbc.journaled import codec
from pyjms_broker.store.jdbc.journaled.compaction import compact
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.periodic import run_logged

__all__ = ["JournaledWriter", "journal_mark", "replay_journal"]

logger = get_logger(__name__)

_OFFSET_BITS: Final = 32
_REPLAY_BATCH: Final = 2000


def journal_mark(location: Location) -> int:
    """Encode a journal location as a number for the state table."""
    return location.file_id << _OFFSET_BITS | location.offset


class _Pending(NamedTuple):
    """A unit that the database does not have yet."""

    location: Location | None
    """Its location in the journal; None: it is not journaled."""
    unit: Unit
    durable: Completion
    """Completed when the journal is synced, or could not write the unit."""
    size: int


class JournaledWriter(Writer):
    """Completes a unit once it is journaled, and writes it to the database at a checkpoint."""

    def __init__(
        self,
        database: Database,
        settings: JDBCSettings,
        listener: WriterListener,
        journal: Journal,
        journal_settings: JournalSettingsJDBC,
    ) -> None:
        super().__init__(database, settings, listener)
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
        journal.on_state = self._journal_state

    def submit(self, unit: Unit) -> Completion:
        durable = Completion()
        if self.error is not None:
            return _refused(unit, durable, self.error)
        location: Location | None = None
        size = 0
        try:
            if not unit.operations:  # completes when everything before it is durable
                barrier = self._journal.barrier()
                if barrier is COMPLETED:
                    durable.complete()
                return barrier
            if all(isinstance(operation, PASSING) for operation in unit.operations):
                durable.complete()
            else:
                payload = codec.encode_operations(unit.operations)
                location = self._journal.append(payload, durable, sync=True)
                size = len(payload)
        except JMSException as error:
            return _refused(unit, durable, error)
        self._backlog_bytes += size
        self._backlog.append(_Pending(location, unit, durable, size))
        self._checkpoint_if_due()
        self._report_state(None)
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

        Raises:
            ResourceAllocationException: the journal has failed.
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
        pending = (index for index, each in enumerate(backlog) if not each.durable.done)
        self._hand_over_first(next(pending, len(backlog)), compact)

    def _hand_over_first(
        self,
        count: int,
        select: Callable[[Sequence[Sequence[Operation]]], Sequence[Sequence[Operation]]],
    ) -> None:
        """Hand over those of the first `count` units that `select` returns."""
        if not count:
            return
        first, self._backlog = self._backlog[:count], self._backlog[count:]
        stored: list[_Pending] = []
        for each in first:
            if each.durable.error is None:
                stored.append(each)
            else:  # its sender has already got the error
                each.unit.done(each.durable.error)
        kept = select([each.unit.operations for each in stored])
        for (location, unit, _, _), operations in zip(stored, kept, strict=True):
            marked = [*operations, JournalMark(journal_mark(location))] if location else operations
            super().submit(Unit(marked, unit.done, unit.size))
        size = sum(each.size for each in first)
        self._backlog_bytes -= size
        self._handed_over += size
        super().submit(Unit((), lambda _: self._written_to_database(size)))

    def _keep_from(self) -> int:
        """Return the first segment with a unit that was not handed over."""
        left = (each.location.file_id for each in self._backlog if each.location is not None)
        written = self._journal.written.file_id
        return min(written, next(left, written))

    def _written_to_database(self, size: int) -> None:
        self._handed_over -= size
        self._report_state(None)

    def _journal_state(self, state: StoreState, error: Exception | None) -> None:
        if state is StoreState.SUSPENDED:
            self._journal_ready.set()
        elif state is StoreState.RUNNING:
            self._checkpoint_if_due()
        self._report_state(error)

    def _changed(self, state: StoreState, error: Exception | None) -> None:
        if state is StoreState.SUSPENDED:
            logger.warning(
                "The database is unavailable: checkpoints wait, and messages stay in the journal"
            )
        self._report_state(error)

    def _report_state(self, error: Exception | None) -> None:
        """Report the worse state of the journal and, if it has failed, the database."""
        state = self.overall
        if state is not self._reported:
            self._reported = state
            super()._changed(state, error or self.error or self._journal.error)

    @property
    def overall(self) -> StoreState:
        """The state of the store; a database outage does not count while the journal has space."""
        if self.state is StoreState.FAILED:
            return StoreState.FAILED
        if self._journal.state is not StoreState.RUNNING:
            return self._journal.state
        full = self._backlog_bytes + self._handed_over > self._limit
        return StoreState.CONGESTED if full else StoreState.RUNNING


def replay_journal(journal: Journal, database: Database, mark: int) -> None:
    """Write the journal's records after the mark to the database. Blocks."""
    start = Location(mark >> _OFFSET_BITS, mark & (1 << _OFFSET_BITS) - 1)
    skipped: list[Skipped] = []
    units: list[Unit] = []
    replayed = 0
    for location, payload in journal.records_from(None, skipped):
        if location <= start:
            continue
        try:
            decoded = codec.decode_operations(bytes(payload))
        except codec.DamagedRecordError as error:
            quarantine_record(journal.directory, location, bytes(payload), error)
            continue
        operations = [*decoded, JournalMark(journal_mark(location))]
        units.append(Unit(operations, lambda _: None))
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


def _refused(unit: Unit, durable: Completion, error: Exception) -> Completion:
    unit.done(error)
    durable.complete(error)
    return durable
