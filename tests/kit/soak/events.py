"""What the processes of a soak did, one line each, in files that survive the end of a process."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Event", "EventLog", "read_events"]


class Event(NamedTuple):
    """Something that a process did; `time` is of the clock that all processes share."""

    time: float
    kind: str
    fields: tuple[str, ...]
    source: str = ""
    """The name of the process."""


class EventLog:
    """Appends events to a file. What `write` was called with survives a SIGKILL."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, kind: str, *fields: object) -> None:
        line = "\t".join((f"{time.monotonic():.6f}", kind, *map(str, fields)))
        os.write(self._fd, f"{line}\n".encode())

    def close(self) -> None:
        os.close(self._fd)


def _events(path: Path) -> Iterator[Event]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            when, kind, *fields = line.rstrip("\n").split("\t")
            yield Event(float(when), kind, tuple(fields), path.name)


def read_events(paths: Iterable[Path]) -> Iterator[Event]:
    """Return the events of several files in the order of their times."""
    return heapq.merge(*map(_events, paths), key=lambda event: event.time)
