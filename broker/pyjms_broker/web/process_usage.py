"""What the process uses, as metrics: CPU, memory, file handles, and the disk of the store.

The names of the process are those of the Prometheus clients.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyjms.runtime import machine
from pyjms_broker.management.attribute_table import Metric

_CPU: Final = Metric("process_cpu_seconds_total", "CPU time of the process.")
_MEMORY: Final = Metric("process_resident_memory_bytes", "Memory of the process (RSS).")
_FILES: Final = Metric("process_open_fds", "Open file handles, connections among them.")
_MOST_FILES: Final = Metric("process_max_fds", "The limit of open file handles.")
_FREE: Final = Metric("pyjms_broker_store_disk_free_bytes", "Free space of the store's disk.")
_JOURNAL: Final = Metric("pyjms_broker_journal_files", "Files of the store's journal.")


def process_usage(store: Path | None) -> list[tuple[Metric, float]]:
    """Return the metrics with their values; blocking. `store` is the store's directory, if any."""
    return [*_of_process(), *_of_disk(store)]


def _of_process() -> Iterator[tuple[Metric, float]]:
    yield _CPU, time.process_time()
    for metric, value in (
        (_MOST_FILES, machine.most_files()),
        (_MEMORY, machine.resident_memory()),
        (_FILES, machine.open_files()),
    ):
        if value is not None:
            yield metric, value


def _of_disk(store: Path | None) -> Iterator[tuple[Metric, float]]:
    if store is not None and store.exists():
        yield _FREE, shutil.disk_usage(store).free
        yield _JOURNAL, sum(1 for _ in store.rglob("db-*.log"))
