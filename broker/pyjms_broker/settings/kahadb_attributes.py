"""ActiveMQ's attributes of `<kahaDB>` that have another place here, or nothing to act on.

(activemq-persistence K0)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["ELSEWHERE", "WITHOUT_MEANING", "place_of", "without_meaningless"]

logger = logging.getLogger(__name__)

WITHOUT_MEANING: Final = frozenset(
    {
        # of ActiveMQ's index, which is in pages of its own; ours is sqlite's
        "index_cache_size",
        "index_write_batch_size",
        "enable_index_write_async",
        "enable_index_disk_syncs",
        "enable_index_recovery_file",
        "enable_index_page_caching",
        "use_index_lfru_eviction",
        "index_lfu_eviction_factor",
        # of its producer audit: here one number is kept of each producer
        "failover_producers_audit_depth",
        # subscriptions are always counted
        "enable_subscription_statistics",
        # a lock that cannot be checked always counts as lost
        "stop_on_error",
    }
)
"""Taken and left out; said once, in the log."""

ELSEWHERE: Final = {
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
"""What is written instead."""

_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def place_of(name: str) -> str | None:
    """Return what is to be written instead of an attribute's name; None: nobody knows it.

    Names with humps, as in ActiveMQ's XML, are understood.
    """
    return ELSEWHERE.get(_HUMP.sub("_", name).lower())


def without_meaningless(section: Mapping[str, object]) -> dict[str, object]:
    """Leave out what has no meaning here, and say so."""
    left_out = sorted(WITHOUT_MEANING & section.keys())
    if left_out:
        what = ", ".join(left_out)
        logger.info("persistence: of no meaning here and ignored: %s", what)
    return {name: value for name, value in section.items() if name not in left_out}
