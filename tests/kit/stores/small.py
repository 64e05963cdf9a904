"""KahaDB stores with small segments, for brokers whose tests are not about the size of a segment.

A segment of the default size has 32 MB of zeros written and synced when it is created, and copied
where a test simulates a crash: in a whole run 12 GB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings

__all__ = ["SMALL_SEGMENTS"]


class _SmallSegments:
    """Creates a KahaDB store with segments of 1 MB, and defaults otherwise."""

    directory_name: str | None = "KahaDB"

    def create(self, directory: Path, broker_name: str) -> KahaDBPersistenceAdapter:
        journal = JournalSettings(max_file_length=1 << 20)
        return KahaDBPersistenceAdapter(directory, KahaDBSettings(journal=journal))


SMALL_SEGMENTS: Final = _SmallSegments()
