"""The stores that the contract suite tests.

To take part, a store adds a `StoreFactory` to `FACTORIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyjms_broker.store.api import PersistenceAdapter
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.journaled import JournaledJDBCPersistenceAdapter
from pyjms_broker.store.jdbc.settings import JournalSettingsJDBC
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.memory import MemoryPersistenceAdapter
from pyjms_broker.store.multi import FilteredKahaDB, MultiKahaDBPersistenceAdapter
from tests.kit.servers import postgresql

SMALL_JOURNAL = JournalSettings(
    max_file_length=64 * 1024, preallocation_scope=PreallocationScope.NONE
)


@dataclass(frozen=True)
class StoreFactory:
    """How the suite makes a store.

    `make(directory)` returns a new adapter, not started; all adapters of a test share a directory.
    `persistent` says whether a new adapter has what the last one on its directory had.
    `skip_reason()` names the absent server that the store needs, if any.
    """

    name: str
    persistent: bool
    make: Callable[[Path], PersistenceAdapter]
    skip_reason: Callable[[], str | None] = lambda: None
    marks: tuple[pytest.MarkDecorator, ...] = ()


def _journaled_jdbc(directory: Path) -> PersistenceAdapter:
    journal = JournalSettingsJDBC(journal_log_file_size=64 * 1024)
    return JournaledJDBCPersistenceAdapter(directory, journal_settings=journal)


def _jdbc_on_postgresql(directory: Path) -> PersistenceAdapter:
    return JDBCPersistenceAdapter(directory, postgresql.settings(directory))


def _kahadb(directory: Path) -> PersistenceAdapter:
    return KahaDBPersistenceAdapter(directory, KahaDBSettings(journal=SMALL_JOURNAL))


def _multi_kahadb(directory: Path) -> PersistenceAdapter:
    """One store for queue Q, one for each topic, one for the rest."""
    settings = KahaDBSettings(journal=SMALL_JOURNAL)
    filters = [
        FilteredKahaDB(queue="Q", settings=settings),
        FilteredKahaDB(topic=">", per_destination=True, settings=settings),
        FilteredKahaDB(settings=settings),
    ]
    return MultiKahaDBPersistenceAdapter(
        directory / "mKahaDB", filters, transaction_journal=SMALL_JOURNAL
    )


FACTORIES = (
    StoreFactory("jdbc-journaled", True, _journaled_jdbc),
    StoreFactory(
        "jdbc-postgresql",
        True,
        _jdbc_on_postgresql,
        postgresql.skip_reason,
        (pytest.mark.postgresql,),
    ),
    StoreFactory("jdbc-sqlite", True, JDBCPersistenceAdapter),
    StoreFactory("kahadb", True, _kahadb),
    StoreFactory("memory", False, lambda _directory: MemoryPersistenceAdapter()),
    StoreFactory("multi_kahadb", True, _multi_kahadb),
)
