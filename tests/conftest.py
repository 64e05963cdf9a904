"""Coroutine tests run on asyncio or trio (`event_loops`); workers share the tests out by file."""

from __future__ import annotations

import gc
import logging
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

from pyjms.testing.spark_names import run_pipeline, spark
from tests.kit.properties import DEFAULT, examples, leave_out_constants_of_modules
from tests.kit.runs.event_loops import LOOPS, loops_of, wait_for_events_in_one_thread
from tests.kit.runs.few_cases import beyond
from tests.kit.runs.parallel import (
    SERVER_FOLDERS,
    FileOrGroupScheduling,
    add_groups,
    count_reruns_here,
    each_with_other_folders,
    longest_first,
    name_failed_without_groups,
    not_grouped,
    outside_of_server_folders,
    restore,
    shorten,
)
from tests.kit.runs.plain_logs import format_logs_plainly
from tests.kit.runs.python_versions import one_version_each
from tests.kit.runs.temporary_folders import keep_temporary_folders_in_memory


@pytest.fixture
def anyio_backend(loop: str) -> str:
    """Return the event loop of a test that does not name its own."""
    return loop


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose before pytest makes a test of each choice: half of its time to collect them."""
    if "loop" in metafunc.fixturenames:
        every = metafunc.config.getoption("every_loop")
        metafunc.parametrize("loop", LOOPS if every else loops_of(metafunc.definition.nodeid))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long text by its beginning: some have 100,000 characters, and workers send names."""
    return f"{val[:40]!r}..." if isinstance(val, str | bytes) and len(val) > 400 else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-loop",
        action="store_true",
        help="run each coroutine test on asyncio and on trio, not on one of them only",
    )
    parser.addoption(
        "--server-folders",
        action="store_true",
        help="collect only the folders of tests that need servers or Spark",
    )
    parser.addoption(
        "--cases",
        type=int,
        metavar="NUMBER",
        help="run each test function with so many of its parameter sets at most",
    )
    parser.addoption(
        "--one-python-each",
        metavar="VERSIONS",
        help="run each program of users on one of these Pythons (3.11,3.12), which share them out",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("server_folders") and config.args == config.getini("testpaths"):
        config.args = list(SERVER_FOLDERS)
    keep_temporary_folders_in_memory()
    wait_for_events_in_one_thread()
    logging.getLogger("pyjms.runtime.watchdog").setLevel(logging.ERROR)  # the machine may be busy
    # no test asserts wall-clock times, and the machine may be busy
    hypothesis.settings.register_profile(
        "busy machine", examples(DEFAULT, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    )
    hypothesis.settings.load_profile("busy machine")
    leave_out_constants_of_modules()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Leave modules and tests, a million objects, out of all garbage collections.

    They live as long as the run. Collecting garbage among them took a third of the collection of
    tests, and its seconds again in a test that calls `gc.collect`, and at the end. What the tests
    leave is collected less often than by default: a twentieth of their processor time.
    """
    if hasattr(session.config, "workerinput"):  # a worker of pytest-xdist
        each_with_other_folders(session.config)
        count_reruns_here(session.config)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if versions := config.getoption("one_python_each"):
        _leave_out(config, items, one_version_each(items, versions.split(",")))
    if number := config.getoption("cases"):
        _leave_out(config, items, beyond(number, items))
    add_groups(items)
    if outside := outside_of_server_folders(items):
        raise pytest.UsageError(f"SERVER_FOLDERS lacks that of {', '.join(outside)}")
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist
        longest_first(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    is_grouping = hasattr(config, "workerinput") and config.getvalue("loadgroup")
    if is_grouping and (spread := not_grouped(session.items)):
        raise RuntimeError(  # a worker's `UsageError` would not be shown
            f"pytest-xdist has not grouped {len(spread)} tests, such as {spread[0]}: "
            f"it does not support pytest {pytest.__version__}"
        )


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]
) -> None:
    without = set(left_out)
    items[:] = [item for item in items if item not in without]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileOrGroupScheduling | None:
    by_group = config.getvalue("dist") == "loadgroup"
    return FileOrGroupScheduling(config, log) if by_group else None


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(report: object) -> dict[str, Any] | None:
    return shorten(report)


@pytest.hookimpl(tryfirst=True)
def pytest_report_from_serializable(data: dict[str, Any]) -> pytest.TestReport | None:
    return restore(data)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Run after pytest has written down what failed."""
    name_failed_without_groups(session.config)
    # pytest collects garbage five times at the end, each time among all that is left: once is enough
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Run after pytest has attached its handlers for this phase."""
    format_logs_plainly()
    return (yield)
