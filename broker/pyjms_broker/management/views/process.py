"""The views of the process, with the names of Java's: what programs that watch a JVM ask for.

The heap is the process's resident memory, and its limit the container's or the machine's.
(java.lang.management.ManagementFactory; activemq-edges 7)
"""

from __future__ import annotations

import gc
import os
import platform
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from pyjms.runtime import clock as _clock
from pyjms.runtime import machine
from pyjms.runtime.machine import ProcessMeter
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.model import Entry, ViewKind, view_kind
from pyjms_broker.management.object_name import ObjectName

_Process: TypeAlias = Managed[ProcessMeter]
_Generation: TypeAlias = Managed[int]
_JAVA: Final = "java.lang.management."


def _usage(used: int | None) -> dict[str, int]:
    """Return what Java says of memory: bytes at the start, used, reserved, and at most."""
    size = machine.most_resident_memory() if used is None else used
    return {"init": 0, "used": size, "committed": size, "max": machine.available_memory()}


_MEMORY: Final[ViewKind[_Process]] = view_kind(
    f"{_JAVA}MemoryMXBean",
    "The memory of the process.",
    attributes.PROCESS_MEMORY,
    {
        "HeapMemoryUsage": lambda _: _usage(machine.resident_memory()),
        "NonHeapMemoryUsage": lambda _: {"init": 0, "used": 0, "committed": 0, "max": -1},
    },
)
_THREADING: Final[ViewKind[_Process]] = view_kind(
    f"{_JAVA}ThreadMXBean",
    "The threads of the process.",
    attributes.PROCESS_THREADS,
    {
        "ThreadCount": lambda _: threading.active_count(),
        "DaemonThreadCount": lambda _: sum(each.daemon for each in threading.enumerate()),
        "PeakThreadCount": lambda p: p.it.most_threads,
        "TotalStartedThreadCount": lambda p: p.it.most_threads,
    },
)
_OPERATING_SYSTEM: Final[ViewKind[_Process]] = view_kind(
    f"{_JAVA}OperatingSystemMXBean",
    "The machine, and what the process uses of it.",
    attributes.OPERATING_SYSTEM,
    {
        "Name": lambda _: platform.system(),
        "Version": lambda _: platform.release(),
        "Arch": lambda _: platform.machine(),
        "AvailableProcessors": lambda _: os.cpu_count() or 1,
        "SystemLoadAverage": lambda _: os.getloadavg()[0],
        "SystemCpuLoad": lambda p: p.it.system_load,
        "ProcessCpuLoad": lambda p: p.it.process_load,
        "ProcessCpuTime": lambda _: time.process_time_ns(),
        "TotalPhysicalMemorySize": lambda _: machine.machine_memory(),
        "FreePhysicalMemorySize": lambda _: machine.free_memory(),
        "OpenFileDescriptorCount": lambda _: _or_unknown(machine.open_files()),
        "MaxFileDescriptorCount": lambda _: _or_unknown(machine.most_files()),
    },
)


def _or_unknown(number: int | None) -> int:
    return -1 if number is None else number


_RUNTIME: Final[ViewKind[_Process]] = view_kind(
    f"{_JAVA}RuntimeMXBean",
    "The Python that runs the broker.",
    attributes.PROCESS_RUNTIME,
    {
        "Name": lambda _: f"{os.getpid()}@{platform.node()}",
        "Pid": lambda _: os.getpid(),
        "Uptime": lambda p: int(p.tree.host.uptime * 1000),
        "StartTime": lambda p: _clock.time_ms() - int(p.tree.host.uptime * 1000),
        "VmName": lambda _: platform.python_implementation(),
        "VmVersion": lambda _: platform.python_version(),
    },
)
_COLLECTOR: Final[ViewKind[_Generation]] = view_kind(
    f"{_JAVA}GarbageCollectorMXBean",
    "A generation of Python's garbage collector.",
    attributes.GARBAGE_COLLECTOR,
    {
        "Name": lambda g: f"Generation {g.it}",
        "CollectionCount": lambda g: gc.get_stats()[g.it]["collections"],
    },
)
_POOL: Final[ViewKind[_Process]] = view_kind(
    f"{_JAVA}MemoryPoolMXBean",
    "The memory of the process, as the one pool that it has.",
    attributes.MEMORY_POOL,
    {
        "Usage": lambda _: _usage(machine.resident_memory()),
        "PeakUsage": lambda _: _usage(None),
        "CollectionUsage": lambda _: None,
    },
)

_KINDS: Final[dict[str, ViewKind[Any]]] = {
    "Memory": _MEMORY,
    "Threading": _THREADING,
    "OperatingSystem": _OPERATING_SYSTEM,
    "Runtime": _RUNTIME,
}


def _name(kind: str, **more: str) -> ObjectName:
    return ObjectName.of("java.lang", {"type": kind, **more})


def _process(context: ManagementContext) -> Iterator[Entry]:
    for name, kind in _KINDS.items():
        yield _name(name), kind, context.process


def _named_entries(context: ManagementContext) -> Iterator[Entry]:
    for generation in range(len(gc.get_stats())):
        name = _name("GarbageCollector", name=f"Generation {generation}")
        yield name, _COLLECTOR, generation
    yield _name("MemoryPool", name="Process"), _POOL, context.process


PARTS: Final = (
    (frozenset({"type"}), _process),
    (frozenset({"type", "name"}), _named_entries),
)
