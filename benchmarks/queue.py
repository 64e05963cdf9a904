"""Messages a second from a producer through a queue to a consumer. Run: python -m benchmarks.queue.

1 KiB text messages, not persistent, acknowledged automatically (the containers: transacted),
producer and consumer in one process, at most `WINDOW` messages under way. Each run is a
fresh process with a fresh broker, in it (vm://) or in a process of its own (TCP); the cases
take turns, and what is printed is the median of each.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

BODY = "x" * 1024
QUEUE = "bench.queue"
WINDOW = 1000
VM_URL = "vm://localhost?broker.persistent=false"
DEADLINE = 60.0
"""Seconds after which a run counts as stuck."""

Result = dict[str, float]


class Clock:
    """Wall time and processor time of this process from `start` to `stop`."""

    def start(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def result(self, count: int) -> Result:
        wall = time.perf_counter() - self._wall
        cpu = time.process_time() - self._cpu
        return {"msg_per_s": count / wall, "cpu_us_per_msg": cpu / count * 1e6}


class Window:
    """Holds a producer back while `WINDOW` messages are under way. For one loop."""

    def __init__(self, count: int) -> None:
        self.received = 0
        self.done = anyio.Event()
        self._count = count
        self._room = anyio.Event()

    def arrived(self) -> None:
        self.received += 1
        if self.received == self._count:
            self.done.set()
        if not self.received % (WINDOW // 4):
            self._room.set()

    async def room_for(self, sent: int) -> None:
        while sent - self.received >= WINDOW:
            self._room = anyio.Event()
            await self._room.wait()


async def _send(session: Any, count: int, window: Window | None) -> None:
    from pyjms.aio import DeliveryMode

    producer = await session.create_producer(session.create_queue(QUEUE))
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    for number in range(count):
        if window is not None and number - window.received >= WINDOW:
            await window.room_for(number)
        await producer.send(session.create_text_message(BODY))


async def with_listener(url: str, count: int) -> Result:
    """The coroutine API; the consumer has a message listener."""
    from pyjms.aio import ConnectionFactory

    connection = await ConnectionFactory(url).create_connection()
    try:
        await connection.start()
        receiving, sending = await connection.create_session(), await connection.create_session()
        window, clock = Window(count), Clock()

        def on_message(message: Any) -> None:
            assert len(message.text) == len(BODY)
            window.arrived()

        consumer = await receiving.create_consumer(receiving.create_queue(QUEUE))
        await consumer.set_message_listener(on_message)
        clock.start()
        await _send(sending, count, window)
        await window.done.wait()
        return clock.result(count)
    finally:
        await connection.close()


async def with_receive(url: str, count: int) -> Result:
    """The coroutine API; the consumer calls receive()."""
    from pyjms.aio import ConnectionFactory, TextMessage

    connection = await ConnectionFactory(url).create_connection()
    try:
        await connection.start()
        receiving, sending = await connection.create_session(), await connection.create_session()
        consumer = await receiving.create_consumer(receiving.create_queue(QUEUE))
        window, clock = Window(count), Clock()
        clock.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_send, sending, count, window)
            for _ in range(count):
                message = await consumer.receive(DEADLINE)
                assert isinstance(message, TextMessage)
                assert len(message.text or "") == len(BODY)
                window.arrived()
        return clock.result(count)
    finally:
        await connection.close()


async def with_container(url: str, count: int) -> Result:
    """A transacted listener container with one consumer drains what was sent before it starts."""
    from pyjms.aio import CacheLevel, ConnectionFactory, DefaultMessageListenerContainer

    factory = ConnectionFactory(url)
    connection = await factory.create_connection()
    window, clock = Window(count), Clock()

    async def handle(message: Any) -> None:
        assert len(message.text) == len(BODY)
        window.arrived()

    container = DefaultMessageListenerContainer(
        factory,
        destination_name=QUEUE,
        message_listener=handle,
        session_transacted=True,
        cache_level=CacheLevel.CONSUMER,
        concurrency="1",
    )
    try:
        session = await connection.create_session()
        await _send(session, count, None)
        await (await session.create_producer(None)).close()  # answered when all has been read
        clock.start()
        await container.start()
        await window.done.wait()
        return clock.result(count)
    finally:
        await container.shutdown()
        await connection.close()


def blocking_listener(url: str, count: int) -> Result:
    """The blocking API: one thread sends, the session's thread calls the listener."""
    room, done = threading.Semaphore(WINDOW), threading.Event()
    left = iter(range(count - 1, -1, -1))

    def on_message(message: Any) -> None:
        assert len(message.text) == len(BODY)
        room.release()
        if next(left) == 0:
            done.set()

    with _blocking_sessions(url) as (receiving, sending):
        consumer = receiving.create_consumer(receiving.create_queue(QUEUE))
        consumer.set_message_listener(on_message)
        clock = Clock()
        clock.start()
        _send_blocking(sending, count, room)
        if not done.wait(DEADLINE):
            raise TimeoutError(f"{next(left) + 1} of {count} messages did not arrive")
        return clock.result(count)


def blocking_receive(url: str, count: int) -> Result:
    """The blocking API: one thread sends, another one calls receive()."""
    room = threading.Semaphore(WINDOW)
    with _blocking_sessions(url) as (receiving, sending):
        consumer = receiving.create_consumer(receiving.create_queue(QUEUE))
        sender = threading.Thread(target=_send_blocking, args=(sending, count, room), daemon=True)
        clock = Clock()
        clock.start()
        sender.start()
        for _ in range(count):
            message = consumer.receive(DEADLINE)
            assert message is not None
            assert len(message.text) == len(BODY)
            room.release()
        sender.join()
        return clock.result(count)


@contextmanager
def _blocking_sessions(url: str) -> Iterator[tuple[Any, Any]]:
    from pyjms import ConnectionFactory

    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        yield connection.create_session(), connection.create_session()


def _send_blocking(session: Any, count: int, room: threading.Semaphore) -> None:
    from pyjms import DeliveryMode

    producer = session.create_producer(session.create_queue(QUEUE))
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    for _ in range(count):
        room.acquire()
        producer.send(session.create_text_message(BODY))


ASYNC: dict[str, Callable[[str, int], Awaitable[Result]]] = {
    "listener": with_listener,
    "receive": with_receive,
    "transacted container": with_container,
}
BLOCKING: dict[str, Callable[[str, int], Result]] = {
    "blocking listener": blocking_listener,
    "blocking receive": blocking_receive,
}
SHARES = {"transacted container": 4, "blocking listener": 10, "blocking receive": 10}
"""What the slower cases divide the number of messages by."""
TRANSPORTS = ("vm", "tcp")
CASES = (
    *(f"{transport} {kind}" for kind in (*ASYNC, *BLOCKING) for transport in TRANSPORTS),
    *(f"ssl {kind}" for kind in ASYNC),
)


def loop_options() -> dict[str, Any]:
    """Use uvloop where it is installed, as the command line does."""
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return {}
    return {"use_uvloop": True}


@contextmanager
def tls_broker_process() -> Iterator[str]:
    """Run a broker with a TLS connector, and yield its URL with the certificate to trust."""
    import trustme

    authority = trustme.CA()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        issued = authority.issue_cert("localhost").private_key_and_cert_chain_pem
        issued.write_to_path(str(folder / "broker.pem"))
        connector = {"uri": f"ssl://localhost:0?ssl.keyStore={folder}/broker.pem"}
        (folder / "broker.yaml").write_text(json.dumps({"connectors": [connector]}))
        with broker_process(None, "--config", str(folder / "broker.yaml")) as url:
            yield f"{url}?ssl.trustStore={folder}/ca.pem"


@contextmanager
def broker_process(tree: Path | None = None, *options: str) -> Iterator[str]:
    """Run a broker of the source `tree` (None: the working directory's) and yield its URL."""
    options = options or ("--openwire", "127.0.0.1:0")
    command = [sys.executable, "-m", "pyjms_broker", "--ephemeral", *options]
    with subprocess.Popen(
        command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            if "accepts connections at" not in ready:
                raise RuntimeError(f"the broker did not start: {ready!r}")
            yield ready.split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)


def run_here(case: str, count: int) -> Result:
    """Run one case in this process."""
    transport, _, kind = case.partition(" ")
    if transport == "vm":
        return _run(kind, VM_URL, count)
    if transport == "ssl":
        with tls_broker_process() as url:
            return _run(kind, url, count)
    with broker_process() as url:
        return _run(kind, url, count)


def _run(kind: str, url: str, count: int) -> Result:
    if kind in BLOCKING:
        return BLOCKING[kind](url, count)

    async def limited() -> Result:
        with anyio.fail_after(DEADLINE):
            await ASYNC[kind](url, max(count // 10, 1))  # warm: specialised code, full pools
            return await ASYNC[kind](url, count)

    return anyio.run(limited, backend_options=loop_options())


def run_apart(case: str, count: int, tree: Path | None = None) -> Result:
    """Run one case in a fresh process that imports pyjms from `tree`."""
    command = [sys.executable, "-m", "benchmarks.queue", "--case", case, "--count", str(count)]
    done = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)
    result: Result = json.loads(done.stdout)
    return result


def compare(
    trees: dict[str, Path | None], cases: tuple[str, ...], count: int, rounds: int
) -> dict[str, dict[str, Result]]:
    """Return the medians of each case for each named tree; the runs alternate between the trees."""
    runs: dict[tuple[str, str], list[Result]] = {}
    for _ in range(rounds):
        for case in cases:
            share = max(count // SHARES.get(case.partition(" ")[2], 1), 1)
            for name, tree in trees.items():
                runs.setdefault((name, case), []).append(run_apart(case, share, tree))
    return {name: {case: _median(runs[name, case]) for case in cases} for name in trees}


def _median(results: list[Result]) -> Result:
    return {key: round(statistics.median(r[key] for r in results), 1) for key in results[0]}


def measure(*, quick: bool = False) -> dict[str, Result]:
    """Return the medians of all cases."""
    count, rounds = (200, 1) if quick else (30_000, 3)
    return compare({"": None}, CASES, count, rounds)[""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, help="one run of one case, here, as JSON")
    parser.add_argument("--count", type=int, default=30_000, help="messages of a run")
    parser.add_argument("--quick", action="store_true", help="a few messages only")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_here(arguments.case, arguments.count)))
        return
    for case, result in measure(quick=arguments.quick).items():
        print(f"{result['msg_per_s']:9.0f} msg/s {result['cpu_us_per_msg']:7.1f} us/msg  {case}")


if __name__ == "__main__":
    main()
