"""Rebuilding of a store's index from its journal, as at a start without an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pyjms.wire.kahadb.journal import MAX_FILE_LENGTH, Location
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.kahadb.tools.journal_directory import file_sizes


class Rebuilt(NamedTuple):
    """The contents of the new index."""

    destinations: int
    messages: int
    prepared_transactions: int


def offline_settings(folder: Path, index_directory: Path | None = None) -> KahaDBSettings:
    """Return settings for a tool that holds the lock: no maintenance, no preallocation.

    Raises:
        OSError: the directory cannot be read.
    """
    longest = max(file_sizes(folder).values(), default=0) if folder.is_dir() else 0
    journal = JournalSettings(
        # In a store with small segments the last one must not grow to the default length.
        max_file_length=min(max(longest, 1024), MAX_FILE_LENGTH) if longest else MAX_FILE_LENGTH,
        preallocation_scope=PreallocationScope.NONE,
        ignore_no_space_errors=False,  # a tool that waits for disk space would appear to hang
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
    """Rebuild the index. The caller holds the lock.

    Raises:
        ResourceAllocationException: the journal is damaged, or its directory cannot be written to.
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
