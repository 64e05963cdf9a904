"""The store's index: adding, writing, paging, consuming. Run: python -m benchmarks.store_index.

No journal and no messages: what is measured is the index alone, freezing every 20,000
changes as the store does. Times are processor time of this thread, or wall time where it says so.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyjms.wire.kahadb.commands import KahaDestination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index import DestinationIndex, StoreIndex

FREEZE_EVERY = 20_000
PRODUCERS = 16
MESSAGE = 1_200
SEGMENT = 32 * 1024 * 1024
PAGE = 200
QUEUE = KahaDestination(0, "bench.index")


class Bench:
    """An index in a directory, and locations in a journal that does not exist."""

    def __init__(self, directory: Path) -> None:
        self.index = StoreIndex(directory / "index.sqlite")
        self.end = 0
        self.freezing = 0.0
        self.writing = 0.0

    def queue(self) -> DestinationIndex:
        return self.index.destination(QUEUE)

    def flush_if_due(self) -> None:
        if self.index.dirty >= FREEZE_EVERY:
            self.flush()

    def flush(self) -> None:
        begin = time.perf_counter()
        frozen = self.index.begin_checkpoint(Location(*divmod(self.end, SEGMENT)), 0)
        middle = time.perf_counter()
        self.index.write_checkpoint(frozen)
        end = time.perf_counter()
        self.index.complete_checkpoint(frozen)
        self.freezing += middle - begin + time.perf_counter() - end
        self.writing += end - middle

    def add(self, count: int) -> None:
        queue = self.queue()
        names = [f"ID:host-40000-1700000000000-0:{n}:1:1" for n in range(PRODUCERS)]
        first = queue.last_arrival // PRODUCERS
        for number in range(count):
            self.end += MESSAGE
            file_id, offset = divmod(self.end, SEGMENT)
            message_id = f"{names[number % PRODUCERS]}:{first + number // PRODUCERS + 1}"
            queue.add(message_id, 0, file_id, offset, MESSAGE, False)
            self.flush_if_due()

    def pass_through(self, count: int, depth: int) -> None:
        """Add each message and remove the one that came `depth` before it."""
        queue = self.queue()
        for number in range(count):
            self.end += MESSAGE
            file_id, offset = divmod(self.end, SEGMENT)
            queue.add(f"ID:passing-1-1:1:1:1:{number}", 0, file_id, offset, MESSAGE, False)
            if number >= depth:
                queue.remove(Position(0, queue.last_arrival - depth))
            self.flush_if_due()

    def drain(self, count: int) -> None:
        queue = self.queue()
        after: Position | None = None
        while count > 0:
            for entry in queue.page(after, PAGE):
                queue.remove(entry.position)
                count -= 1
                after = entry.position
            self.flush_if_due()


def measure(name: str, count: int, work: Callable[[], None]) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    each = f"{cpu / count * 1e6:8.2f} us of processor, {wall / count * 1e6:8.2f} us of wall time"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name:40} {each} each, peak memory {memory} MiB", flush=True)


def measure_pages(queue: DestinationIndex) -> None:
    last = queue.last_arrival - 101 * PAGE
    for place, start in (("early", 0), ("middle", last // 2), ("late", last)):
        times = []
        for number in range(100):
            begin = time.perf_counter()
            queue.page(Position(0, start + number * PAGE), PAGE)
            times.append(time.perf_counter() - begin)
        times.sort()
        shown = f"median {times[50] * 1e3:.3f} ms, worst {times[-1] * 1e3:.3f} ms"
        print(f"page of {PAGE}, {place:27} {shown}", flush=True)


def nothing(count: int) -> None:
    """What the benchmark itself costs: ids and places."""
    names = [f"ID:host-40000-1700000000000-0:{n}:1:1" for n in range(PRODUCERS)]
    end = 0
    ids = ""
    for number in range(count):
        end += MESSAGE
        divmod(end, SEGMENT)
        ids = f"{names[number % PRODUCERS]}:{number // PRODUCERS + 1}"
    assert ids


def run(directory: Path, count: int) -> None:
    bench = Bench(directory)
    bench.index.open()
    measure("the benchmark itself", count, lambda: nothing(count))
    measure("add, freeze, write", count, lambda: bench.add(count))
    bench.flush()
    loop, worker = bench.freezing / count * 1e6, bench.writing / count * 1e6
    print(f"  of it freeze and thaw {loop:.2f} us, write (in a worker) {worker:.2f} us each")
    measure_pages(bench.queue())
    bench.index.close()
    measure("open", 1, bench.index.open)
    some = count // 4
    measure("pass behind the backlog", some, lambda: bench.pass_through(some, 100))
    bench.queue().clear()
    measure("pass, backlog being deleted", some, lambda: bench.pass_through(some, 100))
    bench.queue().clear()
    bench.add(count // 2)
    bench.flush()
    measure("page and remove", count // 2, lambda: bench.drain(count // 2))
    size = sum(file.stat().st_size for file in directory.iterdir())
    print(f"files: {size / count:.0f} bytes a message")
    bench.index.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as directory:
        run(Path(directory), count)


if __name__ == "__main__":
    main()
