"""Builds a store's index anew from its journal, as a start without an index does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from broker.store.journal.settings import JournalSettings, PreallocationScope
from broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from broker.store.kahadb.settings import KahaDBSettings
from broker.store.kahadb.tools.journal_directory import file_sizes
from pyjms.wire.kahadb.journal import MAX_FILE_LENGTH, Location

__all__ = ["Rebuilt", "offline_settings", "rebuild_index"]


class Rebuilt(NamedTuple):
    """What the new index has."""

    destinations: int
    messages: int
    prepared_transactions: int


def offline_settings(folder: Path, index_directory: Path | None = None) -> KahaDBSettings:
    """Return the settings for a short visit of one who holds the lock: no upkeep, nothing ahead.

    Raises:
        OSError: the folder cannot be read.
    """
    longest = max(file_sizes(folder).values(), default=0) if folder.is_dir() else 0
    journal = JournalSettings(
        # Of a store with small segments the last one must not grow to the usual length.
        max_file_length=min(max(longest, 1024), MAX_FILE_LENGTH) if longest else MAX_FILE_LENGTH,
        preallocation_scope=PreallocationScope.NONE,
        ignore_no_space_errors=False,  # nobody would see why it waits
    )
    return KahaDBSettings(
        journal=journal,
        index_directory=index_directory,
        checkpoint_interval=0,
        cleanup_interval=0,
        cleanup_on_stop=False,
        use_lock=False,
    )


async def rebuild_index(
    folder: Path,
    *,
    index_directory: Path | None = None,
    on_progress: Callable[[int, Location], None] | None = None,
) -> Rebuilt:
    """Build the index anew. The caller holds the lock.

    Raises:
        ResourceAllocationException: the journal is damaged, or its folder cannot be written to.
    """
    settings = replace(offline_settings(folder, index_directory), force_recover_index=True)
    adapter = KahaDBPersistenceAdapter(folder, settings, on_progress=on_progress)
    await adapter.start()
    try:
        destinations = adapter.destinations()
        counts = [
            adapter.topic_message_store(d).message_count
            if d.is_topic
            else adapter.queue_message_store(d).message_count
            for d in destinations
        ]
        prepared = len(adapter.transaction_store().recovered())
    finally:
        await adapter.stop()
    return Rebuilt(len(destinations), sum(counts), prepared)
