"""What the process and its machine have: memory, CPU, threads and file handles."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Final

from pyjms.runtime import clock as _clock

_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_SHORTEST: Final = 1.0
"""Seconds between two measurements of the load, which several readers may ask for."""


def machine_memory() -> int:
    """Return the number of bytes of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def available_memory() -> int:
    """Return the number of bytes of memory that this process may use.

    This is the machine's memory, or the limit of the process or its container.
    """
    limits = [machine_memory()]
    limits += [soft for soft in (resource.getrlimit(resource.RLIMIT_AS)[0],) if soft > 0]
    for file in _CGROUP_LIMITS:
        try:
            text = file.read_text(encoding="ascii").strip()
        except OSError:
            continue  # another version of control groups is in use, or none
        if text.isdigit():  # otherwise it is "max"
            limits.append(int(text))
    return min(limits)


def free_memory() -> int:
    """Return the number of bytes of the machine's memory that are free; -1: unknown."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # not Linux
        return -1


def resident_memory(pid: int | None = None) -> int | None:
    """Return the number of bytes of a process, by default this one, in memory; None: unknown."""
    try:
        pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None  # not Linux, or the process has ended
    return pages * resource.getpagesize()


def most_resident_memory() -> int:
    """Return the most bytes of memory that the process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def open_files() -> int | None:
    """Return the number of open file handles, connections among them; None: unknown."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return None  # not Linux


def most_files() -> int | None:
    """Return the limit of open file handles; None: there is none."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


class ProcessMeter:
    """What is only known from two looks: the load since the last one, and peaks."""

    def __init__(self) -> None:
        self._measured = _clock.now()
        self._process_time = time.process_time()
        self._ticks = _ticks()
        self._load = 0.0
        self._system_load = -1.0
        self._most_threads = 0

    @property
    def process_load(self) -> float:
        """The share of all processors, of 1, that the process has used since the last look."""
        self._look()
        return self._load

    @property
    def system_load(self) -> float:
        """The share of all processors, of 1, that was in use since the last look; -1: unknown."""
        self._look()
        return self._system_load

    @property
    def most_threads(self) -> int:
        """The most threads that were seen at a look."""
        self._most_threads = max(self._most_threads, threading.active_count())
        return self._most_threads

    def _look(self) -> None:
        now, used, ticks = _clock.now(), time.process_time(), _ticks()
        elapsed = now - self._measured
        if elapsed < _SHORTEST:
            return
        self._load = min(1.0, (used - self._process_time) / elapsed / (os.cpu_count() or 1))
        if ticks is not None and self._ticks is not None and ticks[1] > self._ticks[1]:
            self._system_load = (ticks[0] - self._ticks[0]) / (ticks[1] - self._ticks[1])
        self._measured, self._process_time, self._ticks = now, used, ticks


def _ticks() -> tuple[int, int] | None:
    """Return the time that the processors have worked, and the whole; None: not Linux."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    values = [int(each) for each in first.split()[1:9]]  # guests' time is in the user's
    idle = sum(values[3:5])  # and waiting for the disk
    return sum(values) - idle, sum(values)
