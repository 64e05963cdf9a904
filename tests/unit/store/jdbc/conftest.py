"""JDBC stores on SQLite, with what the contract suite does to stores."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import pytest

from broker.store.api import StoreState
from broker.store.jdbc.adapter import JDBCPersistenceAdapter
from broker.store.jdbc.settings import JDBCSettings

CONTRACT = Path(__file__).parents[3] / "contract" / "store" / "conftest.py"
DISK = Path(__file__).parents[1] / "journal" / "simulated_disk.py"


def load(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class States:
    """The states that an adapter tells of, and waiting for one."""

    def __init__(self, adapter: JDBCPersistenceAdapter) -> None:
        self.told: list[tuple[StoreState, Exception | None]] = []
        self._waiting: dict[StoreState, anyio.Event] = {}
        adapter.on_state = self._on_state

    def _on_state(self, state: StoreState, error: Exception | None) -> None:
        self.told.append((state, error))
        self._waiting.setdefault(state, anyio.Event()).set()

    async def reached(self, state: StoreState) -> None:
        await self._waiting.setdefault(state, anyio.Event()).wait()

    @property
    def names(self) -> list[StoreState]:
        return [state for state, _ in self.told]


@pytest.fixture
def watch() -> type[States]:
    """Watch an adapter's state from now on: `watch(adapter)`."""
    return States


@pytest.fixture
def simulated_disk() -> Any:
    """A disk for a journal, which fails and forgets on command."""
    return load("simulated_disk", DISK).SimulatedDisk()


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Start a store, `open_store(max_rows=5)`; `make` makes another adapter than JDBC's."""
    opened: list[Any] = []

    async def open_store(
        make: Callable[[Path], Any] | None = None, directory: Path | None = None, **settings: Any
    ) -> Any:
        def plain(where: Path) -> JDBCPersistenceAdapter:
            return JDBCPersistenceAdapter(where, JDBCSettings(**settings))

        factory: Any = SimpleNamespace(PERSISTENT=True, make=make or plain)
        contract = load("store_contract_helpers", CONTRACT)
        store = contract.Opened(factory, directory or tmp_path / "store")
        await store.start()
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        await store.adapter.stop()


@pytest.fixture
def sql(tmp_path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """Ask the store's database behind its back."""

    def ask(
        statement: str, *parameters: Any, directory: Path | None = None
    ) -> list[tuple[Any, ...]]:
        file = (directory or tmp_path / "store") / "activemq.db"
        connection = sqlite3.connect(file)
        try:
            with connection:
                return connection.execute(statement, parameters).fetchall()
        finally:
            connection.close()

    return ask
