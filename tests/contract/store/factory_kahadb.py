"""KahaDB in the contract suite."""

from __future__ import annotations

from pathlib import Path

from broker.store.journal.settings import JournalSettings, PreallocationScope
from broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from broker.store.kahadb.settings import KahaDBSettings

NAME = "kahadb"
PERSISTENT = True


def make(directory: Path) -> KahaDBPersistenceAdapter:
    journal = JournalSettings(
        max_file_length=64 * 1024, preallocation_scope=PreallocationScope.NONE
    )
    return KahaDBPersistenceAdapter(directory, KahaDBSettings(journal=journal))
