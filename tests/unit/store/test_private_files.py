"""Files and directories of stores belong to their owner alone."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from pyjms_broker.store.temp import TempStore
from tests.kit.stores.factories import FACTORIES, StoreFactory

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
FILES = [f for f in FACTORIES if f.persistent and not f.marks]


@pytest.fixture(autouse=True)
def generous_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    """Return the mode of each file and directory that others may use."""
    paths = [directory, *directory.rglob("*")]
    assert len(paths) > 1
    found = {str(p.relative_to(directory)): stat.S_IMODE(p.stat().st_mode) for p in paths}
    return {name: mode for name, mode in found.items() if mode & 0o077}


@pytest.mark.parametrize("factory", FILES, ids=lambda factory: factory.name)
async def test_those_of_message_stores(tmp_path: Path, factory: StoreFactory) -> None:
    directory = tmp_path / "data" / "broker"
    adapter = factory.make(directory)
    await adapter.start()
    await adapter.checkpoint()
    assert modes(tmp_path / "data") == {}
    await adapter.stop()
    assert modes(tmp_path / "data") == {}


async def test_those_of_the_other_stores(tmp_path: Path) -> None:
    jobs = KahaDBJobSchedulerStore(tmp_path / "data" / "jobs")
    temp = TempStore(tmp_path / "data" / "temp")
    await jobs.start()
    await temp.start()
    assert modes(tmp_path / "data") == {}
    await temp.stop()
    await jobs.stop()
