"""A provider in memory, and the recorded behaviour of Spring beside the repository."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.kit.data import spring_oracle

PROVIDER = Path(__file__).resolve().parent / "core" / "memory_provider.py"


def load_provider() -> ModuleType:
    name = "memory_provider"
    if name not in sys.modules:  # once, for all rooms
        spec = importlib.util.spec_from_file_location(name, PROVIDER)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def provider() -> Any:
    return load_provider().MemoryProvider()


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    return spring_oracle()
