"""A Spark session, a broker in this process that Spark's processes reach, and what kills drivers."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest

from broker.service import BrokerService
from pyjms import Connection, ConnectionFactory
from pyjms.sync.portal import call_on_loop, shared_loop

pytest.importorskip("pyspark")
HERE = Path(__file__).parent


def load(name: str) -> ModuleType:
    """Return a module beside this file, which processes of the tests run or import, too."""
    spec = importlib.util.spec_from_file_location(f"spark_test_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


killing = load("killing")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test that counts its turns run in all rounds of a night."""
    if "turn" in metafunc.fixturenames:
        metafunc.parametrize("turn", range(int(os.environ.get("TEST_ROUNDS", "20"))))


@pytest.fixture(scope="session")
def driver() -> ModuleType:
    """The query of the tests."""
    return load("driver")


@pytest.fixture(scope="session")
def kills() -> ModuleType:
    """What can be killed."""
    return killing


class SparkBroker:
    """A broker with a KahaDB store in this process."""

    def __init__(self, folder: Path) -> None:
        self.killers: list[Any] = []
        self.folder = folder
        self.port = 0
        self.attributes: dict[str, Any] = {}
        self._guard: Any = None

    def guard(self, user: str, password: str) -> None:
        """Let nobody in from now on who has not this name and password."""
        self._guard.login = (user, password)

    def unguard(self) -> None:
        self._guard.login = None

    def _guarded(self, inner: Any) -> Any:
        self._guard = killing.Guard(inner)
        return self._guard

    def _killer(self, inner: Any) -> Any:
        self.killers.append(killing.Killer(inner))
        return self.killers[-1]

    @property
    def killer(self) -> Any:
        return self.killers[-1]

    def start(self) -> None:
        call_on_loop(shared_loop(), self._start)

    async def _start(self) -> None:
        self.service = BrokerService(
            f"spark-{self.folder.name}",
            data_directory=self.folder,
            plugins=[self._killer, self._guarded],
            **self.attributes,
        )
        self.service.add_connector(f"tcp://127.0.0.1:{self.port}")
        await self.service.start()
        self.url = self.service.connect_uri
        self.port = int(self.url.split("?")[0].rsplit(":", 1)[1])

    def stop(self) -> None:
        call_on_loop(shared_loop(), self.service.stop)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Connection]:
        connection = ConnectionFactory(self.url).create_connection()
        try:
            connection.start()
            yield connection
        finally:
            connection.close()

    def send(self, queue: str, texts: Sequence[str]) -> None:
        send(self.url, queue, texts)

    def count(self, queue: str) -> int:
        there = self.service.region_broker.destinations()
        return sum(d.statistics.messages for n, d in there.items() if n.physical_name == queue)

    def texts(self, queue: str) -> list[str]:
        """Take all messages of a queue."""
        return take(self.url, queue, self.count(queue))


def send(url: str, queue: str, texts: Sequence[str]) -> None:
    """Send texts in one transaction."""
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(True)
        producer = session.create_producer(session.create_queue(queue))
        for text in texts:
            producer.send(session.create_text_message(text))
        session.commit()


def take(url: str, queue: str, count: int | None = None) -> list[str]:
    """Take so many messages of a queue; None: until none comes for two seconds."""
    found: list[str] = []
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(True)
        consumer = session.create_consumer(
            session.create_queue(f"{queue}?consumer.prefetchSize=100")
        )
        while count is None or len(found) < count:
            message = consumer.receive(2 if count is None else 5)
            if message is None:
                break
            found.append(message.text)
        session.commit()
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SparkBroker]:
    """A broker at a port of its own."""
    made = SparkBroker(tmp_path)
    made.start()
    yield made
    made.stop()


RunDriver = Callable[..., int]


@pytest.fixture(scope="session")
def quick_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What drivers get in a night of many starts: the bundled Java, and a cache of its classes."""
    folder = tmp_path_factory.mktemp("quick")
    made = {"TEST_SPARK_JAVA": "bundled", "XDG_CACHE_HOME": str(folder)}
    broker = SparkBroker(folder)
    broker.start()
    try:
        broker.send("IN", ["a"])
        with (folder / "driver.log").open("a") as log:
            child = _start_driver(folder, made, log, broker.url)
            assert child.wait(240) == 0
            while _is_there(child.pid):  # Java writes the cache behind its end
                time.sleep(0.1)
    finally:
        broker.stop()
    assert list(folder.glob("pyjms/aot/*.aot"))
    return made


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def run_driver(request: pytest.FixtureRequest, tmp_path: Path) -> RunDriver:
    """Runs the driver as a process and returns how it ended: 0, or the signal that killed it.

    `run_driver(url, armed, master=..., mode=..., ...)`; `armed(pid)` is told its process group.
    """
    is_night = "turn" in request.fixturenames
    more: dict[str, str] = request.getfixturevalue("quick_java") if is_night else {}
    return partial(_run_driver, tmp_path, more)


def _run_driver(
    folder: Path,
    more: Mapping[str, str],
    url: str,
    armed: Callable[[int], None] | None = None,
    **how: str,
) -> int:
    with (folder / "driver.log").open("a") as log:
        child = _start_driver(folder, more, log, url, **how)
        try:
            if armed is not None:
                armed(child.pid)
            code = child.wait(240)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert code in (0, -signal.SIGKILL), (folder / "driver.log").read_text()[-3000:]
    return code


def _start_driver(
    folder: Path, more: Mapping[str, str], log: IO[str], url: str, **how: str
) -> subprocess.Popen[bytes]:
    settings = [f"{name}={value}" for name, value in how.items()]
    return subprocess.Popen(
        [sys.executable, str(HERE / "driver.py"), url, str(folder), *settings],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={**os.environ, **more, "PYTHONPATH": str(HERE.parents[2])},
    )


@pytest.fixture
def finish(spark: Any, broker: Any, tmp_path: Path, driver: ModuleType) -> Callable[..., Any]:
    """Runs the query to its end in this process; returns how many are lost, how many doubled."""

    def run(**how: str) -> tuple[int, int]:
        query = driver.start(spark, broker.url, tmp_path, **how)
        query.awaitTermination(120)
        assert query.exception() is None
        assert not query.isActive
        assert broker.count("IN") == 0
        found: tuple[int, int] = killing.lost_and_doubled(broker.texts("OUT"))
        return found

    return run


@pytest.fixture
def outage(
    spark: Any, broker: Any, tmp_path: Path, driver: ModuleType
) -> Callable[..., tuple[int, int]]:
    """Kills the broker while a query runs, when something has come out of it.

    `outage(seconds_away, mode=..., ...)` returns how many are lost and how many doubled.
    """

    def run(away: float, **how: str) -> tuple[int, int]:
        broker.send("IN", killing.TEXTS)
        query = driver.start(spark, broker.url, tmp_path, rows="10", **how)
        while not broker.count("OUT") and query.isActive:
            query.awaitTermination(0.05)
        assert query.isActive
        broker.kill()
        query.awaitTermination(away)
        broker.start()
        query.awaitTermination(120)
        assert query.exception() is None, "the query died of it"
        assert broker.count("IN") == 0
        assert broker.count("OUT") == len(killing.TEXTS)
        found: tuple[int, int] = killing.lost_and_doubled(broker.texts("OUT"))
        return found

    return run


@pytest.fixture
def run_killed(broker: SparkBroker, run_driver: RunDriver) -> Callable[..., bool]:
    """Runs the driver as a process that the broker kills at a point; whether it got there."""

    def run(point: str, number: int = 1, **how: str) -> bool:
        def arm(leader: int) -> None:
            broker.killer.arm(point, number, killing.group(leader))

        try:
            return run_driver(broker.url, arm, **how) != 0
        finally:
            broker.killer.arm(None)

    return run


class BrokerChild:
    """The broker's process, at one port with one folder of data."""

    def __init__(self, process: Any, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._running: Any = None
        self._port = 0
        self.child: Any = None

    def start(self, point: str | None = None, number: int = 1) -> None:
        """Start it; where a point is named, it kills itself there."""
        command = [sys.executable, str(HERE / "broker_child.py"), str(self._folder / "data")]
        deadly = [] if point is None else [point, str(number)]
        log = self._folder / "broker.log"
        self._running = self._process([*command, str(self._port), *deadly], log)
        self.child = self._running.__enter__()
        line = self.child.stdout.readline()
        assert "accepts connections at" in line, log.read_text()[-3000:]
        self.url = line.split()[-1].split("?")[0]
        self._port = int(self.url.rsplit(":", 1)[1])

    def wait(self, timeout: float) -> int:
        """Wait until it is dead and return how."""
        code = int(self.child.wait(timeout))
        self.end()
        return code

    def end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)


@pytest.fixture
def broker_child(process: Any, tmp_path: Path) -> Iterator[BrokerChild]:
    """A broker in a process that can be killed, with data that outlives it."""
    child = BrokerChild(process, tmp_path)
    yield child
    child.end()


@pytest.fixture
def send_texts() -> Callable[..., None]:
    return send


@pytest.fixture
def take_texts() -> Callable[..., list[str]]:
    return take
