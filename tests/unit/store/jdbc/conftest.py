"""JDBC stores on SQLite, with what the contract suite does to stores."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from broker.store.jdbc.adapter import JDBCPersistenceAdapter
from broker.store.jdbc.settings import JDBCSettings

CONTRACT = Path(__file__).parents[3] / "contract" / "store" / "conftest.py"


def load_contract() -> ModuleType:
    name = "store_contract_helpers"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, CONTRACT)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


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
        store = load_contract().Opened(factory, directory or tmp_path / "store")
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
