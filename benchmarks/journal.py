"""The journal's group commit, and reading with and without checks of the checksums.

    python -m benchmarks.journal [directory] [--paging]

Group commit: waiting senders, where the disk is visited, and preallocation. The senders are
sockets of another process: each sends 1 KiB, waits for the answer that its record is on the disk,
and sends the next. Medians of interleaved rounds; compare ratios.

Paging (alone with `--paging`): a queue of stored messages is paged in, 200 at a time, as a broker
does whose messages are not in memory: processor time for each message, with
`verify_checksums_at_reading` off and on. `cold` is the first pass after a start, with the files
dropped from the kernel's cache; `warm` is another pass, which finds every batch checked.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import selectors
import shutil
import socket
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio

from pyjms.jms.destination import Queue
from pyjms.runtime.event_loop import LoopHandle, loop_options
from pyjms.wire.openwire.commands import ActiveMQBytesMessage, MessageId, ProducerId
from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.api.message import MessageReference
from pyjms_broker.store.api import MessageStore, OperationContext
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import (
    JournalSettings,
    PreallocationScope,
    PreallocationStrategy,
)
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings

SECONDS = 1.0
ROUNDS = 5
SIZE = 1024
WORK = 40e-6  # seconds of Python for each record, as a broker has it beside the journal
WAYS: dict[str, bool | None] = {"adapts": None, "loop": True, "thread": False}
MESSAGES = 20_000
PAGE = 200
QUEUE = Queue("bench.paging")
PRODUCER = ProducerId("ID:bench-1", 1, 1)
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


def message(number: int, size: int) -> MessageReference:
    """Return a persistent message of the benchmark's queue."""
    command = ActiveMQBytesMessage(
        producer_id=PRODUCER,
        destination=QUEUE,
        message_id=MessageId(None, PRODUCER, number, number),
        persistent=True,
        content=os.urandom(size),
    )
    owner = SimpleNamespace(destination=QUEUE)
    owner.base = owner
    return MessageReference(command, owner)  # type: ignore[arg-type]


async def opened(directory: Path, *, checked: bool) -> KahaDBPersistenceAdapter:
    """Return a started store."""
    journal = JournalSettings(verify_checksums_at_reading=checked)
    settings = KahaDBSettings(
        journal=journal, concurrent_store_and_dispatch_queues=False, cleanup_interval=0
    )
    adapter = KahaDBPersistenceAdapter(directory, settings)
    await adapter.start()
    return adapter


async def fill(directory: Path, size: int, batch: int) -> None:
    """Store messages, `batch` of them in each batch of the journal."""
    adapter = await opened(directory, checked=True)
    store = adapter.queue_message_store(QUEUE)
    for first in range(1, MESSAGES + 1, batch):
        for number in range(first, first + batch):
            reference = message(number, size)
            store.add_message(OperationContext(), reference)
            store.mark_visible(reference)
        await wait_for(adapter.journal.barrier(sync=False))
    await adapter.stop()


def page_through(store: MessageStore) -> float:
    """Page in all messages; return microseconds of processor time for each."""
    begun = time.thread_time()
    after, count = None, 0
    while page := store.next_messages(after, PAGE):
        after = page[-1].position
        count += len(page)
    assert count == MESSAGES
    return (time.thread_time() - begun) / count * 1e6


def drop_from_cache(directory: Path) -> None:
    """Have the kernel read the segments from the disk again."""
    for path in directory.glob("db-*.log"):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


async def paging_passes(directory: Path, *, checked: bool) -> tuple[float, float]:
    """Return what a cold and a warm pass cost."""
    adapter = await opened(directory, checked=checked)
    drop_from_cache(directory)
    store = adapter.queue_message_store(QUEUE)
    found = page_through(store), page_through(store)
    await adapter.stop()
    return found


def paging(base: Path) -> None:
    """Measure paging in with and without checks."""
    print("paging in, us of processor time a message        off      on   ratio (median of rounds)")
    for size in (100, 1024):
        for batch in (1, 100):
            directory = Path(tempfile.mkdtemp(dir=base))
            anyio.run(fill, directory, size, batch)
            rounds: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for _ in range(ROUNDS):
                for checked, found in rounds.items():
                    found.append(anyio.run(partial(paging_passes, directory, checked=checked)))
            shutil.rmtree(directory)
            for column, name in enumerate(("cold", "warm")):
                off, on = (statistics.median(r[column] for r in rounds[c]) for c in (False, True))
                case = f"{size:5} B, {batch:3} messages a batch, {name}"
                print(f"{case:43} {off:8.2f} {on:7.2f} {on / off:7.2f}", flush=True)


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--paging", action="store_true", help="measure paging in only")
    options = parser.parse_args()
    if not options.paging:
        group_commit(options.directory)
    paging(options.directory)


def group_commit(base: Path) -> None:
    """Measure group commit."""
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
