"""Runs of the tests' query: in this process, and in driver processes that get killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest

from tests.kit.processes.children import environment
from tests.kit.spark import driver as query_driver
from tests.kit.spark import killing
from tests.kit.spark.brokers import SparkBroker

RunDriver = Callable[..., int]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the parameter `turn` as often as `TEST_ROUNDS` says."""
    if "turn" in metafunc.fixturenames:
        metafunc.parametrize("turn", range(int(os.environ.get("TEST_ROUNDS", "20"))))


@pytest.fixture(scope="session")
def driver() -> ModuleType:
    """The query of the tests."""
    return query_driver


@pytest.fixture(scope="session")
def kills() -> ModuleType:
    """The points where something can be killed, and how."""
    return killing


@pytest.fixture(scope="session")
def quick_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of drivers in long rounds: the bundled Java, and a cache of its classes."""
    folder = tmp_path_factory.mktemp("quick")
    made = {"TEST_SPARK_JAVA": "bundled", "XDG_CACHE_HOME": str(folder)}
    run_until_java_has_ended(folder, made)
    assert list(folder.glob("pyjms/aot/*.aot"))
    return made


def run_until_java_has_ended(folder: Path, more: Mapping[str, str]) -> None:
    """Run the driver once, with more environment variables; Java writes its archives as it exits."""
    folder.mkdir(exist_ok=True)
    broker = SparkBroker(folder)
    broker.start()
    try:
        broker.send("IN", ["a"])
        with (folder / "driver.log").open("a") as log:
            child = _start_driver(folder, more, log, broker.url)
            assert child.wait(240) == 0, (folder / "driver.log").read_text()[-3000:]
            for _ in range(1200):  # not for ever: without an init process what has ended stays
                if not _exists(child.pid):
                    break
                time.sleep(0.1)
    finally:
        broker.stop()


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def run_driver(request: pytest.FixtureRequest, tmp_path: Path) -> RunDriver:
    """Runs the driver as a process and returns how it ended: 0, or the signal that killed it.

    `run_driver(url, armed, master=..., mode=..., ...)`; `armed(pid)` is called with its process group.
    """
    is_round = "turn" in request.fixturenames
    more: dict[str, str] = request.getfixturevalue("quick_java") if is_round else {}
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
        [sys.executable, "-m", "tests.kit.spark.driver", url, str(folder), *settings],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env=environment(**more),
    )


@pytest.fixture
def finish(spark: Any, broker: Any, tmp_path: Path, driver: ModuleType) -> Callable[..., Any]:
    """Runs the query to its end in this process; returns the numbers of lost and duplicated rows."""

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
    """Kills the broker while a query runs, once there is some output.

    `outage(seconds_away, mode=..., ...)` returns how many messages are lost and how many doubled.
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
