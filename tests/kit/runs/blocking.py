"""Tests fail where broker, client or listener block the event loop: a file, a database, a sleep.

Detection works on asyncio; every coroutine test runs there as well as on trio. A conftest imports
`no_blocking_calls` for the tests of its folder. Locks are not watched: the packages have none that
is held during I/O, and a blocking call of `pyjms.sync` on a loop raises an error by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from blockbuster import BlockBuster, BlockBusterFunction

ALLOWED: Final = (
    # short writes of log records to standard error; applications configure their own handlers
    ("logging/__init__.py", ("handle",)),
    # once, before the broker accepts connections: the lock file, its folder, settings, plug-ins
    ("pyjms_broker/store/files.py", ("acquire", "release", "keep_alive")),
    ("pyjms_broker/store/jdbc/database.py", ("__init__",)),
    ("pyjms_broker/entry_points.py", ("installed_names",)),
    ("pyjms_broker/service/usage_limits.py", ("check_disk", "check_memory")),
    ("pyjms/transport/openwire/options.py", ("_installed_factory",)),
    ("pyjms/configuration/yaml_reader.py", ("read_yaml",)),
    # where an application does not start: the current folder, to name a file below it
    ("pyjms/app/checks.py", ("_location",)),
    ("pyjms/selector/parser.py", ("_lark",)),  # the grammar, once a process
    ("pyjms/support/embedded_broker.py", ("embedded_broker",)),
    # pages of indexes in local SQLite files without a sync, for the most part from its page cache
    ("pyjms_broker/store/kahadb/index/database.py", ("rows",)),
    ("pyjms_broker/store/jobs/scheduler.py", ("_open", "add", "clear", "commit", "count", "get")),
    (
        "pyjms_broker/store/jobs/scheduler.py",
        ("in_segments_up_to", "jobs", "remove", "remove_range"),
    ),
    ("pyjms_broker/store/jobs/scheduler.py", ("reschedule", "schedulers")),
    # a batch of the journal, where the disk was quicker than a change of threads (inline writes)
    ("pyjms_broker/store/journal/disk.py", ("write", "sync")),
    # a cursor reads its next page where it dispatches: the store's reads are no coroutines
    ("pyjms_broker/store/jdbc/database.py", ("read", "file_size")),
    ("pyjms_broker/store/temp.py", ("read",)),
    ("pyjms_broker/store/journal/disk.py", ("read",)),
)
"""Files and functions that may block the loop, and why."""

SYNCS: Final = ("fsync", "fdatasync", "pwrite", "pread", "ftruncate", "posix_fallocate")
"""Functions of `os` that blockbuster does not know."""


@contextmanager
def detected_blocking_calls() -> Iterator[None]:
    """Make calls that block the event loop raise `blockbuster.BlockingError` in both packages."""
    packages = ["pyjms", "pyjms_broker"]
    detector = BlockBuster(packages)
    for name in [name for name in detector.functions if name.startswith("threading.")]:
        del detector.functions[name]
    for name in SYNCS:
        if hasattr(os, name):
            detector.functions[f"os.{name}"] = BlockBusterFunction(
                None, f"os.{name}", scanned_modules=packages
            )
    for function in detector.functions.values():
        for file, names in ALLOWED:
            function.can_block_in(file, names)
    detector.activate()
    try:
        yield
    finally:
        detector.deactivate()


@pytest.fixture(autouse=True, scope="module")
def no_blocking_calls() -> Iterator[None]:
    with detected_blocking_calls():
        yield
