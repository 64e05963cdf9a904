"""Fixtures of this folder's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from pyjms.outbox import metadata
from tests.kit.brokers.comparison import name
from tests.kit.servers.postgresql import postgresql_fixture


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """A database of the test's own, with the tables."""
    made = create_engine(f"sqlite:///{tmp_path}/shop.db")
    metadata.create_all(made)
    return made
