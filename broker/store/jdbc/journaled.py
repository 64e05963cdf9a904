"""A journal in front of the database: it makes work safe, checkpoints bring it further. (J9)

What was consumed before a checkpoint never reaches the database. Each unit carries its place
in the journal into the database's transaction: what a crash left in the journal is done once.
Only what the journal has for good counts as consumed: a crash may take the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from broker.api.completion import Completion
from broker.store.api import StoreState
from broker.store.jdbc.adapter import JDBCPersistenceAdapter
from broker.store.jdbc.codec import decode_operations, encode_operations
from broker.store.jdbc.compaction import compact
from broker.store.jdbc.database import Database
from broker.store.jdbc.execution import JOURNAL_MARK
from broker.store.jdbc.loading import Contents, make_state
from broker.store.jdbc.operations import PASSING, JournalMark, Operation, Outcome, Unit
from broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC
from broker.store.jdbc.writer import Writer
from broker.store.journal.disk import OS_DISK, Disk
from broker.store.journal.journal import Journal
from broker.store.journal.settings import JournalSettings
from broker.store.periodic import attempt
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, spawn
from pyjms.errors import JMSException
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import Skipped

__all__ = ["JournaledJDBCPersistenceAdapter", "JournaledWriter"]

logger = logging.getLogger(__name__)

_OFFSET_BITS: Final = 32
_REPLAYED_AT_ONCE: Final = 2000


def _place(location: Location) -> int:
    return location.file_id << _OFFSET_BITS | location.offset


class _Waiting(NamedTuple):
    """A unit that the database does not have yet."""

    location: Location | None
    """Its place in the journal; None: it has none."""
    unit: Unit
    answer: Completion
    """Done when the journal has it, or could not write it."""
    size: int


class JournaledWriter(Writer):
    """Answers when the journal has a unit; brings it to the database at checkpoints."""

    def __init__(
        self,
        database: Database,
        settings: JDBCSettings,
        on_outcome: Callable[[Outcome], None],
        on_state: Callable[[StoreState, Exception | None], None],
        journal: Journal,
        journal_settings: JournalSettingsJDBC,
    ) -> None:
        super().__init__(database, settings, on_outcome, self._database_state)
        self._tell = on_state
        self._told = StoreState.RUNNING
        self._journal = journal
        self._limit = journal_settings.journal_log_files * journal_settings.journal_log_file_size
        self._backlog: list[_Waiting] = []
        self._backlog_bytes = 0
        self._under_way = 0
        """Bytes that the last checkpoint has handed to the database."""
        self._checkpoint: BackgroundTask | None = None
        self._one_at_a_time = anyio.Lock()
        self._held_up = anyio.Event()
        """Set when a checkpoint need not wait for the journal any longer."""
        journal.on_state = self._journal_state

    def submit(self, unit: Unit) -> Completion:
        answer = Completion()
        if self.error is not None:
            return _refused(unit, answer, self.error)
        location: Location | None = None
        size = 0
        try:
            if not unit.operations:  # its sender waits for what came before it
                before = self._journal.barrier()
                if before is None:
                    answer.complete()
                return before or answer
            if all(isinstance(operation, PASSING) for operation in unit.operations):
                answer.complete()
            else:
                payload = encode_operations(unit.operations)
                location = self._journal.append(payload, answer, sync=True)
                size = len(payload)
        except JMSException as error:
            return _refused(unit, answer, error)
        self._backlog_bytes += size
        self._backlog.append(_Waiting(location, unit, answer, size))
        self._checkpoint_if_due()
        self._tell_state(None)
        return answer

    def settle(self) -> None:
        self.check()
        self._hand_over()
        self._give(len(self._backlog), list)  # its removals may be forgotten: all is needed
        super().settle()

    async def drain(self) -> None:
        self._hand_over()
        await super().drain()

    async def checkpoint(self) -> None:
        """Bring all that the journal has to the database, and let go of its segments up to here.

        Waits until the journal has all, but not for room on its disk: it makes that.

        Raises:
            ResourceAllocationException: the journal has failed.
        """
        async with self._one_at_a_time:
            await self._written()
            self._hand_over()
            keep_from = self._keep_from()
            await super().drain()
            if self.error is not None:
                return
            await attempt(partial(self._let_go, keep_from), "A checkpoint of the journal")

    async def _let_go(self, keep_from: int) -> None:
        for segment in self._journal.segments():
            if segment < keep_from:
                await self._journal.delete(segment)

    async def stop(self) -> None:
        self._ending = True
        if self._checkpoint is not None:
            self._checkpoint.cancel()
            await self._checkpoint.wait()
        try:
            await self._journal.close()  # what it cannot write has failed now
        finally:
            self._hand_over()
            await super().stop()

    def _checkpoint_if_due(self) -> None:
        if self._is_due and self._checkpoint is None and not self._ending:
            self._checkpoint = spawn(
                self._checkpoint_soon, name="jdbc journal checkpoint", on_error=self.fail_with
            )

    @property
    def _is_due(self) -> bool:
        return self._backlog_bytes > self._limit // 2

    async def _checkpoint_soon(self) -> None:
        try:
            await self.checkpoint()
            # senders that wait for room bring nothing that would ask for the next one
            while self._is_due and self._journal.state is not StoreState.SUSPENDED:
                await self.checkpoint()
        finally:
            self._checkpoint = None

    async def _written(self) -> None:
        """Wait until the journal has all, or its disk is full."""
        if self._journal.state is StoreState.SUSPENDED:
            return
        answer = self._journal.barrier()
        if answer is None:
            return
        self._held_up = held_up = anyio.Event()
        answer.then(lambda _: held_up.set())
        await held_up.wait()

    def _hand_over(self) -> None:
        """Give the writer what the journal has, without what came and went in it."""
        backlog = self._backlog
        unsafe = (number for number, each in enumerate(backlog) if not each.answer.done)
        self._give(next(unsafe, len(backlog)), compact)

    def _give(
        self,
        count: int,
        needed: Callable[[Sequence[Sequence[Operation]]], Sequence[Sequence[Operation]]],
    ) -> None:
        """Give the writer what is `needed` of the first `count` units."""
        if not count:
            return
        given, self._backlog = self._backlog[:count], self._backlog[count:]
        good: list[_Waiting] = []
        for each in given:
            if each.answer.error is None:
                good.append(each)
            else:  # as its sender was told
                each.unit.done(each.answer.error)
        kept = needed([each.unit.operations for each in good])
        for (location, unit, _, _), operations in zip(good, kept, strict=True):
            marked = [*operations, JournalMark(_place(location))] if location else operations
            super().submit(Unit(marked, unit.done, unit.size))
        size = sum(each.size for each in given)
        self._backlog_bytes -= size
        self._under_way += size
        super().submit(Unit((), lambda _: self._arrived(size)))

    def _keep_from(self) -> int:
        """Return the first segment with what was not handed over."""
        left = (each.location.file_id for each in self._backlog if each.location is not None)
        written = self._journal.written.file_id
        return min(written, next(left, written))

    def _arrived(self, size: int) -> None:
        self._under_way -= size
        self._tell_state(None)

    def _journal_state(self, state: StoreState, error: Exception | None) -> None:
        if state is StoreState.SUSPENDED:
            self._held_up.set()
        elif state is StoreState.RUNNING:
            self._checkpoint_if_due()
        self._tell_state(error)

    def _database_state(self, state: StoreState, error: Exception | None) -> None:
        if state is StoreState.SUSPENDED:
            logger.warning("Checkpoints wait for the database; the journal takes messages")
        self._tell_state(error)

    def _tell_state(self, error: Exception | None) -> None:
        """Tell what is worst: of the journal, and of the database if it has failed."""
        state = self.overall
        if state is not self._told:
            self._told = state
            self._tell(state, error or self.error or self._journal.error)

    @property
    def overall(self) -> StoreState:
        """How the store does; a database that is away is no harm while the journal has room."""
        if self.state is StoreState.FAILED:
            return StoreState.FAILED
        if self._journal.state is not StoreState.RUNNING:
            return self._journal.state
        full = self._backlog_bytes + self._under_way > self._limit
        return StoreState.CONGESTED if full else StoreState.RUNNING


class JournaledJDBCPersistenceAdapter(JDBCPersistenceAdapter):
    """ActiveMQ: JournalPersistenceAdapter. The journal is in `directory`, in `journal`."""

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
            self._on_outcome,
            self._on_state,
            self._journal,
            self.journal_settings,
        )

    async def _read_contents(self) -> Contents:
        if self._journal is not None:
            await self._journal.open()
        return await super()._read_contents()

    def _load(self) -> Contents:
        if self._journal is not None and not self._empty_first:
            self.database.take()
            mark = make_state(self.database)[JOURNAL_MARK]
            _replay(self._journal, self.database, mark)
        contents = super()._load()
        if self._journal is not None:
            # the database may have heard of what a crash took from the journal's end
            self.database.set_state(JOURNAL_MARK, _place(self._journal.written))
        return contents

    def _start_tasks(self) -> None:
        super()._start_tasks()
        if self._journal is not None and self.journal_settings.checkpoint_interval > 0:
            self._spawn(self._checkpoint_periodically, "jdbc journal checkpoints")

    async def _checkpoint_periodically(self) -> None:
        while True:
            await _clock.sleep(self.journal_settings.checkpoint_interval)
            await self.checkpoint()


def _refused(unit: Unit, answer: Completion, error: Exception) -> Completion:
    unit.done(error)
    answer.complete(error)
    return answer


def _replay(journal: Journal, database: Database, mark: int) -> None:
    """Do what is in the journal behind the mark; blocks."""
    start = Location(mark >> _OFFSET_BITS, mark & (1 << _OFFSET_BITS) - 1)
    skipped: list[Skipped] = []
    units: list[Unit] = []
    replayed = 0
    for location, payload in journal.records_from(None, skipped):
        if location <= start:
            continue
        operations = [*decode_operations(bytes(payload)), JournalMark(_place(location))]
        units.append(Unit(operations, lambda _: None))
        replayed += 1
        if len(units) >= _REPLAYED_AT_ONCE:
            database.transact(units)
            units.clear()
    if units:
        database.transact(units)
    if replayed:
        logger.info("Replayed %d records of the journal into the database", replayed)
    if skipped:
        logger.warning("The journal in front of the database is damaged at %s", skipped)
