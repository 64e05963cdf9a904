"""PostgreSQL for real."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CLUSTER = Path(__file__).with_name("cluster.py")
CONTRACT = Path(__file__).parents[2] / "contract" / "store" / "conftest.py"


def load(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture
def postgresql() -> Any:
    """`cluster()` and `settings(directory)`; skips where PostgreSQL is absent."""
    module = load("pyjms_tests_postgresql_cluster", CLUSTER)
    reason = module.skip_reason()
    if reason:
        pytest.skip(reason)
    return module


@pytest.fixture
def contract() -> ModuleType:
    """What the contract suite does to stores."""
    return load("store_contract_helpers", CONTRACT)
