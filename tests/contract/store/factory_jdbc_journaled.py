"""Journaled JDBC on SQLite in the contract suite."""

from __future__ import annotations

from pathlib import Path

from broker.store.jdbc.journaled import JournaledJDBCPersistenceAdapter
from broker.store.jdbc.settings import JournalSettingsJDBC

NAME = "jdbc-journaled"
PERSISTENT = True


def make(directory: Path) -> JournaledJDBCPersistenceAdapter:
    journal = JournalSettingsJDBC(journal_log_file_size=64 * 1024)
    return JournaledJDBCPersistenceAdapter(directory, journal_settings=journal)
