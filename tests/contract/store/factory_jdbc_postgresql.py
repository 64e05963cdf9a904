"""JDBC on PostgreSQL in the contract suite; skips where PostgreSQL is absent."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from broker.store.jdbc.adapter import JDBCPersistenceAdapter

NAME = "jdbc-postgresql"
PERSISTENT = True
MARKS = (pytest.mark.postgresql,)


def _cluster() -> ModuleType:
    name = "pyjms_tests_postgresql_cluster"
    if name not in sys.modules:
        path = Path(__file__).parents[2] / "integration" / "postgresql" / "cluster.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def skip_reason() -> str | None:
    reason: str | None = _cluster().skip_reason()
    return reason


def make(directory: Path) -> JDBCPersistenceAdapter:
    return JDBCPersistenceAdapter(directory, _cluster().settings(directory))
