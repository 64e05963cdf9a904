"""Attributes of ActiveMQ's `<kahaDB>` that have a different name or no effect in this broker.

(activemq-persistence K0)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyjms._logger import get_logger

__all__ = ["RENAMED", "WITHOUT_EFFECT", "replacement_for", "snake_case", "without_ignored"]

logger = get_logger(__name__)

WITHOUT_EFFECT: Final = frozenset(
    {
        # ActiveMQ's index manages its own pages; this index is a SQLite file
        "index_cache_size",
        "index_write_batch_size",
        "enable_index_write_async",
        "enable_index_disk_syncs",
        "enable_index_recovery_file",
        "enable_index_page_caching",
        "use_index_lfru_eviction",
        "index_lfu_eviction_factor",
        # ActiveMQ's audit keeps a window of ids; this audit keeps one number per producer
        "failover_producers_audit_depth",
        # subscription statistics are always counted
        "enable_subscription_statistics",
        # a lock that cannot be checked always counts as lost
        "stop_on_error",
    }
)
"""Attributes that are accepted, ignored and logged."""

RENAMED: Final = {
    "journal_max_file_length": "journal.max_file_length",
    "journal_max_write_batch_size": "journal.max_write_batch_size",
    "journal_disk_sync_strategy": "journal.disk_sync_strategy",
    "journal_disk_sync_interval": "journal.disk_sync_interval",
    "enable_journal_disk_syncs": "journal.disk_sync_strategy: always (true), never (false)",
    "checksum_journal_files": "journal.checksum",
    "database_locked_wait_delay": "lock_acquire_sleep_interval",
    **{
        name: f"journal.{name}"
        for name in (
            "check_for_corrupt_journal_files",
            "archive_data_logs",
            "directory_archive",
            "preallocation_strategy",
            "preallocation_scope",
            "max_async_jobs",
        )
    },
}
"""ActiveMQ's name to the key that replaces it."""

_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def replacement_for(name: str) -> str | None:
    """Return the key that replaces an attribute of ActiveMQ; None if there is none.

    The name may be in camel case as in ActiveMQ's XML.
    """
    return RENAMED.get(snake_case(name))


def snake_case(name: str) -> str:
    """Return ActiveMQ's attribute name in snake case, as in broker.yaml."""
    return _WORD_BOUNDARY.sub("_", name).lower()


def without_ignored(section: Mapping[str, object]) -> dict[str, object]:
    """Return a section without the attributes that have no effect, and log their names."""
    ignored = sorted(WITHOUT_EFFECT & section.keys())
    if ignored:
        logger.info("persistence: these settings have no effect here: %s", ", ".join(ignored))
    return {name: value for name, value in section.items() if name not in ignored}
