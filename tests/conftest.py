"""Every coroutine test runs on asyncio and on trio; workers share the tests out by file."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pyjms.testing.spark_names import run_pipeline, spark
from tests.kit.parallel import FileOrGroupScheduling, add_groups, longest_first
from tests.kit.plain_logs import format_logs_plainly
from tests.kit.temporary_folders import keep_temporary_folders_in_memory


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pytest_configure() -> None:
    keep_temporary_folders_in_memory()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    add_groups(items)
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist
        longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileOrGroupScheduling | None:
    by_group = config.getvalue("dist") == "loadgroup"
    return FileOrGroupScheduling(config, log) if by_group else None


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Run after pytest has attached its handlers for this phase."""
    format_logs_plainly()
    return (yield)
