"""A disk that fails and forgets on command, for all rooms that write a journal."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from broker.completion import Completion

MODULE = Path(__file__).resolve().parent / "simulated_disk.py"


def load_simulated_disk() -> ModuleType:
    name = "simulated_disk"
    if name not in sys.modules:  # once, for all rooms
        spec = importlib.util.spec_from_file_location(name, MODULE)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def simulated_disk() -> Any:
    return load_simulated_disk().SimulatedDisk()


async def _answer(waiter: Completion | None) -> Exception | None:
    if waiter is None:
        return None
    done = anyio.Event()
    waiter.then(lambda _: done.set())
    await done.wait()
    return waiter.error


@pytest.fixture
def answer() -> Callable[[Completion | None], Awaitable[Exception | None]]:
    """Wait for a completion and return its error."""
    return _answer
