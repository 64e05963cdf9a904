"""A process that may open few files: clients leave the stores enough, and a store waits."""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI
from pyjms_broker.service import BrokerService
from pyjms_broker.store.api import PersistenceAdapter, StoreState
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.temp import SpoolFiles
from tests.kit.clients.raw import RawClient

Q = Queue("q")
SILENT = """
import resource, socket, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the limit is the broker's
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sockets = [socket.create_connection((host, port)) for _ in range(count)]
print("connected", flush=True)
sys.stdin.read()
"""


class SmallSegments:
    """KahaDB with small segments, so that it often needs a new file."""

    directory_name: str | None = "KahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        journal = JournalSettings(max_file_length=1 << 16, resume_check_sleep_period=0.01)
        return KahaDBPersistenceAdapter(directory, KahaDBSettings(journal=journal))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., BrokerService]:
    def make(**settings: Any) -> BrokerService:
        service = BrokerService(
            "handles", data_directory=tmp_path, persistence=SmallSegments(), **settings
        )
        service.add_connector("tcp://127.0.0.1:0")
        return service

    return make


def handles_in_use() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - of this process


@contextmanager
def limited(more: int) -> Iterator[int]:
    """Let this process have at most `more` more files open than it has; yields the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = handles_in_use() + more
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_handle_left() -> Iterator[None]:
    taken: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.dup(1))
        yield
    finally:
        for fd in taken:
            os.close(fd)


@pytest.fixture
async def silent_clients() -> AsyncIterator[Callable[[BrokerService, int], Any]]:
    """`await silent_clients(service, n)`: n sockets of another process that send nothing."""
    processes: list[subprocess.Popen[str]] = []

    async def connect(service: BrokerService, count: int) -> None:
        uri = TransportURI.parse(service.connectors[0].connect_uri)
        process = await to_thread.run_sync(
            partial(
                subprocess.Popen,
                [sys.executable, "-c", SILENT, str(uri.host), str(uri.port), str(count)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        processes.append(process)
        assert process.stdout is not None
        assert await to_thread.run_sync(process.stdout.readline) == "connected\n"

    yield connect
    for process in processes:
        process.communicate()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        await anyio.sleep(0.01)
    raise AssertionError("the condition did not become true")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio reads through a stream: two handles
async def test_a_connection_takes_one_file_handle(
    make: Callable[..., BrokerService], silent_clients: Callable[..., Any]
) -> None:
    async with make() as service:
        before = handles_in_use()
        await silent_clients(service, 50)
        pipes = 2  # of the other process
        await until(lambda: len(service.connectors[0].connections) == 50)
        await until(lambda: handles_in_use() - before <= 50 + pipes)
        assert len(service.connectors[0].connections) == 50


async def test_silent_clients_leave_the_store_its_file_handles(
    make: Callable[..., BrokerService],
    raw_client: type[RawClient],
    silent_clients: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Attack: more idle sockets than the process may open files."""
    async with make(reserved_file_handles=40) as service:
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        with limited(80):
            await silent_clients(service, 200)
            await until(lambda: "reserved for the stores" in caplog.text)
            for _ in range(30):  # each in a segment of its own, nearly
                await client.send(Q, "x" * 40_000)
        assert service.stores.store.state is StoreState.RUNNING
        assert 0 < len(service.connectors[0].connections) < 50
        refusals = [r for r in caplog.records if "reserved for the stores" in r.getMessage()]
        assert len(refusals) < 5  # of 160


async def test_a_store_waits_for_a_file_handle(
    make: Callable[..., BrokerService], raw_client: type[RawClient]
) -> None:
    async with make() as service:
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        with limited(30):
            sent = 0

            async def send() -> None:
                nonlocal sent
                for _ in range(5):
                    await client.send(Q, "x" * 40_000)
                    sent += 1

            async with anyio.create_task_group() as group:
                with no_handle_left():
                    group.start_soon(send)
                    await until(lambda: service.stores.store.state is StoreState.SUSPENDED)
            assert sent == 5
        assert service.stores.store.state is StoreState.RUNNING


def test_spooled_messages_are_read_without_a_free_handle(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path)
    files.wipe()
    files.write(1, b"spooled")
    with limited(10), no_handle_left():
        for _ in range(2):
            assert files.read(1, 0, 7) == b"spooled"
    files.close()


async def test_the_start_says_what_the_limit_of_file_handles_means(
    make: Callable[..., BrokerService], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with limited(200) as limit:
        async with make():
            pass
    (line,) = [r.getMessage() for r in caplog.records if "ulimit -n" in r.getMessage()]
    assert f"may open {limit} files" in line
    assert "reserved_file_handles" in line
    assert "maximumConnections" in line
