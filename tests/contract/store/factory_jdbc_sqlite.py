"""JDBC on SQLite in the contract suite."""

from __future__ import annotations

from pathlib import Path

from broker.store.jdbc.adapter import JDBCPersistenceAdapter

NAME = "jdbc-sqlite"
PERSISTENT = True


def make(directory: Path) -> JDBCPersistenceAdapter:
    return JDBCPersistenceAdapter(directory)
