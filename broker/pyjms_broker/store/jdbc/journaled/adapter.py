"""The adapter of journaled JDBC. (ActiveMQ: JournalPersistenceAdapter)"""

from __future__ import annotations

from pathlib import Path

from pyjms import _clock
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.execution.batch import JOURNAL_MARK
from pyjms_broker.store.jdbc.execution.loading import Contents, make_state
from pyjms_broker.store.jdbc.execution.writer import Writer
from pyjms_broker.store.jdbc.journaled.writer import JournaledWriter, journal_mark, replay_journal
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import JournalSettings

__all__ = ["JournaledJDBCPersistenceAdapter"]


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
            self.database, self.settings, self, self._journal, self.journal_settings
        )

    async def _read_contents(self) -> Contents:
        if self._journal is not None:
            await self._journal.open()
        return await super()._read_contents()

    def _load(self) -> Contents:
        if self._journal is not None and not self._empty_first:
            self.database.claim()
            mark = make_state(self.database)[JOURNAL_MARK]
            replay_journal(self._journal, self.database, mark)
        contents = super()._load()
        if self._journal is not None:
            # the database may have units that a crash has lost from the end of the journal
            self.database.set_state(JOURNAL_MARK, journal_mark(self._journal.written))
        return contents

    def _start_tasks(self) -> None:
        super()._start_tasks()
        if self._journal is not None and self.journal_settings.checkpoint_interval > 0:
            self._spawn(self._checkpoint_periodically, "jdbc journal checkpoints")

    async def _checkpoint_periodically(self) -> None:
        while True:
            await _clock.sleep(self.journal_settings.checkpoint_interval)
            await self.checkpoint()
