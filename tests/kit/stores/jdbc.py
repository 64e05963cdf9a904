"""JDBC stores on SQLite, with the operations of the contract suite."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.testing.contract.store import StoreHarness
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.settings import JDBCSettings


class States:
    """Records the states that an adapter reports, and waits for one."""

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
    """Records an adapter's states from now on: `watch(adapter)`."""
    return States


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Start a store, `open_store(max_rows=5)`; `make` makes another adapter than JDBC's."""
    opened: list[Any] = []

    async def open_store(
        make: Callable[[Path], Any] | None = None, directory: Path | None = None, **settings: Any
    ) -> StoreHarness:
        def plain(where: Path) -> JDBCPersistenceAdapter:
            return JDBCPersistenceAdapter(where, JDBCSettings(**settings))

        where = directory or tmp_path / "store"
        store = StoreHarness(lambda: (make or plain)(where))
        await store.start()
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        await store.adapter.stop()


@pytest.fixture
def sql(tmp_path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """Queries the store's database on a separate connection."""

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
