"""The journal's group commit: waiting senders, where the disk is visited, and preallocation.

    python -m benchmarks.journal [directory]

The senders are sockets of another process: each sends 1 KiB, waits for the answer that its
record is on the disk, and sends the next. Medians of interleaved rounds; compare ratios.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import shutil
import socket
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import anyio

from pyjms._wakeup import LoopHandle, loop_options
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import (
    JournalSettings,
    PreallocationScope,
    PreallocationStrategy,
)

SECONDS = 1.0
ROUNDS = 5
SIZE = 1024
WORK = 40e-6  # seconds of Python for each record, as a broker has it beside the journal
WAYS: dict[str, bool | None] = {"adapts": None, "loop": True, "thread": False}
LAYOUTS = {
    "sparse_file, filled (default)": JournalSettings(),
    "os_kernel_copy": JournalSettings(preallocation_strategy=PreallocationStrategy.OS_KERNEL_COPY),
    "none, growing": JournalSettings(preallocation_scope=PreallocationScope.NONE),
}


def send(sockets: list[socket.socket], results: object) -> None:
    """Another process: send on all sockets, each as soon as it has its answer."""
    payload = os.urandom(SIZE)
    selector = selectors.DefaultSelector()
    for one in sockets:
        selector.register(one, selectors.EVENT_READ)
        one.sendall(payload)
    answered = 0
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for key, _ in selector.select():
            key.fileobj.recv(1)  # type: ignore[union-attr]
            answered += 1
            key.fileobj.sendall(payload)  # type: ignore[union-attr]
    results.put(answered / SECONDS)  # type: ignore[attr-defined]


def serve(journal: Journal, one: socket.socket, work: float) -> None:
    """Append what has come and answer when it is safe."""
    payload = one.recv(SIZE)
    if len(payload) == SIZE:
        end = time.perf_counter() + work
        while time.perf_counter() < end:
            pass
        waiter = Completion()
        waiter.then(lambda _: one.send(b"."))
        journal.append(payload, waiter, sync=True)


async def measure(
    directory: Path, settings: JournalSettings, senders: int, inline: bool | None, work: float
) -> tuple[float, float]:
    """Return records a second, and records for each sync."""
    pairs = [socket.socketpair() for _ in range(senders)]
    results = multiprocessing.Queue()  # type: ignore[var-annotated]
    client = multiprocessing.get_context("fork").Process(
        target=send, args=([theirs for _, theirs in pairs], results)
    )
    async with Journal(directory, settings, inline=inline) as journal:
        loop = LoopHandle()
        stop = [loop.watch_readable(s.fileno(), partial(serve, journal, s, work)) for s, _ in pairs]
        client.start()
        rate = await anyio.to_thread.run_sync(results.get)
        for unwatch in stop:
            unwatch()
        figures = rate, journal.records / journal.syncs
    client.join()
    for pair in pairs:
        pair[0].close()
        pair[1].close()
    return figures


def cases() -> dict[str, tuple[JournalSettings, int, bool | None, float]]:
    """Return what is measured, by name."""
    usual = JournalSettings()
    found = {
        f"{senders:2} senders, {work * 1e6:2.0f} us of work, {way}": (usual, senders, inline, work)
        for work in (0, WORK)
        for senders in (1, 4, 16)
        for way, inline in WAYS.items()
    }
    for name, settings in LAYOUTS.items():
        for senders in (1, 16):
            found[f"{senders:2} senders, segments: {name}"] = (settings, senders, None, 0)
    return found


async def append_only(directory: Path) -> None:
    """Say what `append` itself costs, and how fast what nobody waits for is written."""
    payload = os.urandom(SIZE)
    async with Journal(directory) as journal:
        count = 60_000
        begun = time.perf_counter()
        for _ in range(count):
            journal.append(payload)
        appended = time.perf_counter()
        done = anyio.Event()
        barrier = journal.barrier()
        assert barrier is not None
        barrier.then(lambda _: done.set())
        await done.wait()
        written = time.perf_counter()
    print(f"append {(appended - begun) / count * 1e6:.2f} us a record;", end=" ")
    print(f"written and synced: {count / (written - begun):,.0f} records/s")


def main() -> None:
    """Run all."""
    base = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir())
    directory = Path(tempfile.mkdtemp(dir=base))
    anyio.run(append_only, directory)
    shutil.rmtree(directory)
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in cases()}
    for _ in range(ROUNDS):
        for name, case in cases().items():
            directory = Path(tempfile.mkdtemp(dir=base))
            figures = anyio.run(measure, directory, *case, backend_options=loop_options())
            results[name].append(figures)
            shutil.rmtree(directory)
    for name, rounds in results.items():
        rate = statistics.median(rate for rate, _ in rounds)
        group = statistics.median(group for _, group in rounds)
        print(f"{name:55} {rate:9,.0f} records/s {group:6.2f} records a sync")


if __name__ == "__main__":
    main()
