"""What grows with the work: messages that a store keeps, queues, and the size of bodies.

    python -m benchmarks.growth messages [--count 5_000_000]
    python -m benchmarks.growth queues [--count 10_000]
    python -m benchmarks.growth bodies [--activemq HOST:PORT]

- messages: persistent messages of 1 KiB are sent to one queue without a consumer, then the broker
  is killed with SIGKILL, started again, and drained. By quarter million: messages a second, and the
  broker's memory. Nothing of that is to depend on the number of messages.
- queues: non-persistent messages from one producer to one consumer, in a broker with that many
  other queues, and in one without, in turn.
- bodies: bytes a second from one producer to one consumer, with bodies of 100 B to 16 MiB; also of
  an ActiveMQ that runs already, in turn.

Each broker is a process with a KahaDB store, and so is the producer. The sockets are plain, so that
a client costs little.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.limits import Peer
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    ConsumerId,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    Response,
)

_KIB: Final = 1024
_STEP: Final = 250_000
_RUN: Final = 500
"""Messages that a producer sends before it waits for the answer to the last of them."""
_RUN_BYTES: Final = 4 << 20
_WEEK: Final = 7 * 24 * 3600.0
_ROUNDS: Final = 3
_STANDARD: Final = 2
_SEQUENCE: Final = 0x1122334455667788
_NUMBER: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">i?")
_HEAD_AT: Final = 5  # behind size and type
BODIES: Final = (100, _KIB, 10 * _KIB, 100 * _KIB, _KIB * _KIB, 16 * _KIB * _KIB)

Rows = dict[str, str]


class Broker:
    """A broker in a process of its own, on the data in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()
        command = [sys.executable, "-m", "pyjms_broker", "--data", str(folder)]
        self.process = subprocess.Popen(
            [*command, "--openwire", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = next((each for each in self.process.stdout if "tcp://" in each), "")
        if not line:
            raise RuntimeError("the broker did not start")
        address = line.split("tcp://", 1)[1].split()[0].split("?")[0]
        self.port = int(address.rpartition(":")[2].strip("/"))

    @property
    def memory(self) -> str:
        """Its resident memory."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return "unknown memory"
        kib = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
        return f"{int(kib) // _KIB} MB"

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Producer:
    """Sends copies of one message, which differ in their number, as fast as the broker answers."""

    def __init__(self, port: int, queue: Queue, size: int, *, persistent: bool) -> None:
        self.peer = Peer(port, time.monotonic() + _WEEK).connect()
        message = self.peer.message(queue, b"x" * size, persistent=persistent)
        message.message_id.producer_sequence_id = _SEQUENCE  # type: ignore[attr-defined]
        self.frame = self.peer.format.encode(message)
        self.number_at = self.frame.index(_NUMBER.pack(_SEQUENCE))
        self.run = max(1, min(_RUN, _RUN_BYTES // len(self.frame)))
        self.sent = 0

    def send(self, count: int) -> None:
        """Send that many, and wait until the broker has accepted the last one."""
        while count:
            run = min(count, self.run)
            data = bytearray(self.frame * run)
            for at in range(0, len(data), len(self.frame)):
                self.sent += 1
                _NUMBER.pack_into(data, at + self.number_at, self.sent)
            _HEAD.pack_into(data, len(data) - len(self.frame) + _HEAD_AT, 1, True)
            self.peer.send_bytes(data)
            self._wait()
            count -= run

    def close(self) -> None:
        """Leave."""
        self.peer.socket.close()

    def _wait(self) -> None:
        heard = self.peer.heard
        while not any(isinstance(each, Response) for each in heard):
            self.peer.read()
        if any(isinstance(each, ExceptionResponse) for each in heard):
            raise RuntimeError("the broker has refused a message")
        heard.clear()


class Consumer:
    """Receives and acknowledges the messages of a queue."""

    def __init__(self, port: int, queue: Queue) -> None:
        self.peer = Peer(port, time.monotonic() + _WEEK).connect()
        self.queue = queue
        self.received = 0
        self.peer.consume(queue)

    def receive(self, total: int) -> None:
        """Receive and acknowledge until there were so many in all."""
        peer = self.peer
        while self.received < total:
            dispatches = [each for each in peer.heard if isinstance(each, MessageDispatch)]
            peer.heard.clear()
            if dispatches:
                self.received += len(dispatches)
                ids = [each.message.message_id for each in dispatches if each.message is not None]
                ack = MessageAck(self.queue, None, ConsumerId(peer.name, 1, 1), _STANDARD)
                ack.first_message_id, ack.last_message_id = ids[0], ids[-1]
                ack.message_count = len(ids)
                peer.send(ack)
            else:
                peer.read()

    def close(self) -> None:
        """Leave; messages that are in flight return to the queue."""
        self.peer.socket.close()


def _produce(port: int, name: str, size: int, count: int) -> None:
    """Send non-persistent messages; runs in another process."""
    with closing(Producer(port, Queue(name), size, persistent=False)) as producer:
        producer.send(count)


@contextmanager
def _broker(folder: Path) -> Iterator[Broker]:
    broker = Broker(folder)
    try:
        yield broker
    finally:
        broker.kill()


def _row(rows: Rows, name: str, value: str) -> None:
    rows[name] = value
    print(f"  {name:40} {value:>40}", flush=True)


def _rate(pool: ProcessPoolExecutor, port: int, size: int, count: int) -> float:
    """Return messages a second from one producer to one consumer."""
    queue = Queue(f"growth.{size}")
    with closing(Consumer(port, queue)) as consumer:
        begun = time.monotonic()
        sending: Future[None] = pool.submit(_produce, port, queue.physical_name, size, count)
        consumer.receive(count)
        seconds = time.monotonic() - begun
        sending.result()
    return count / seconds


def measure_messages(folder: Path, count: int, step: int = _STEP) -> Rows:
    """Send, kill, start and drain."""
    rows: Rows = {}
    queue = Queue("growth")
    with (
        _broker(folder) as broker,
        closing(Producer(broker.port, queue, _KIB, persistent=True)) as producer,
    ):
        for done in range(step, count + 1, step):
            begun = time.monotonic()
            producer.send(step)
            rate = step / (time.monotonic() - begun)
            _row(rows, f"sent {done:,}", f"{rate:,.0f}/s, {broker.memory}")
    with _broker(folder) as broker, closing(Consumer(broker.port, queue)) as consumer:
        consumer.receive(1)
        seconds = time.monotonic() - broker.started
        _row(rows, "first message after SIGKILL", f"{seconds:.1f} s, {broker.memory}")
        for done in range(step, count + 1, step):
            begun = time.monotonic()
            consumer.receive(done)
            rate = step / (time.monotonic() - begun)
            _row(rows, f"drained {done:,}", f"{rate:,.0f}/s, {broker.memory}")
    return rows


def measure_queues(folder: Path, queues: int, count: int = 50_000) -> Rows:
    """Compare a broker that has many queues with one that has a single one."""
    rows: Rows = {}
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        few = stack.enter_context(_broker(folder / "few"))
        many = stack.enter_context(_broker(folder / "many"))
        peer = Peer(many.port, time.monotonic() + _WEEK).connect()
        with closing(peer.socket):
            for number in range(queues):
                peer.ask(peer.message(Queue(f"many.{number}"), b"x", persistent=True))
        rates: dict[int, list[float]] = {few.port: [], many.port: []}
        for port in rates:
            _rate(pool, port, _KIB, max(1, count // 10))
        for _ in range(_ROUNDS):
            for port, found in rates.items():
                found.append(_rate(pool, port, _KIB, count))
        alone, among = median(rates[few.port]), median(rates[many.port])
        _row(rows, "one queue", f"{alone:,.0f}/s, {few.memory}")
        _row(rows, f"one of {queues:,} queues", f"{among:,.0f}/s, {many.memory}")
        _row(rows, "ratio", f"{among / alone:.2f}")
    return rows


def measure_bodies(
    folder: Path, activemq: int | None, sizes: Sequence[int] = BODIES, volume: int = 1 << 28
) -> Rows:
    """Measure bytes a second by size of the body, `volume` bytes of each at most."""
    rows: Rows = {}
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        broker = stack.enter_context(_broker(folder))
        ports = {"pyjms": broker.port} | ({} if activemq is None else {"ActiveMQ": activemq})
        for size in sizes:
            count = max(3, min(50_000, volume // size))
            rates: dict[str, list[float]] = {name: [] for name in ports}
            for _ in range(_ROUNDS):
                for name, port in ports.items():
                    rates[name].append(_rate(pool, port, size, count) * size / 1e6)
            text = ", ".join(f"{name} {median(found):,.1f} MB/s" for name, found in rates.items())
            _row(rows, f"bodies of {size:,} bytes", text)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("messages", "queues", "bodies"))
    parser.add_argument("--count", type=int, help="messages, or queues")
    parser.add_argument("--sizes", help="of the bodies, in bytes: 100,1024")
    parser.add_argument("--activemq", help="HOST:PORT of a running broker, on this machine")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.what == "messages":
            count = arguments.count or 5_000_000
            measure_messages(folder, count, min(_STEP, count))
        elif arguments.what == "queues":
            measure_queues(folder, arguments.count or 10_000)
        else:
            port = arguments.activemq and int(arguments.activemq.rpartition(":")[2])
            sizes = (
                [int(size) for size in arguments.sizes.split(",")] if arguments.sizes else BODIES
            )
            measure_bodies(folder, port or None, sizes)


if __name__ == "__main__":
    main()
