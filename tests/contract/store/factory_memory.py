"""The memory store in the contract suite."""

from __future__ import annotations

from pathlib import Path

from broker.store.memory import MemoryPersistenceAdapter

NAME = "memory"
PERSISTENT = False


def make(directory: Path) -> MemoryPersistenceAdapter:
    return MemoryPersistenceAdapter()
