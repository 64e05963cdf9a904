"""Settings of the journal with two values, and what it does with each of them."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pyjms.testing.clock import VirtualClock
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationStrategy
from tests.kit.stores.simulated_disk import SimulatedDisk
from tests.kit.waiting import until_stored

Answer = Callable[[Completion], Awaitable[Exception | None]]
FOLDER = Path("/journal")


@pytest.mark.parametrize("checksum", [True, False])
async def test_a_checksum_finds_a_wrong_byte(
    tmp_path: Path, answer: Answer, checksum: bool
) -> None:
    settings = JournalSettings(max_file_length=4096, checksum=checksum)
    async with Journal(tmp_path, settings) as journal:
        journal.append(b"a" * 100)
        assert await answer(journal.barrier()) is None
    path = tmp_path / "db-1.log"
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"baaa", 1))
    assert len(list(JournalFiles(tmp_path).records())) == (0 if checksum else 1)


@pytest.mark.parametrize(
    ("strategy", "calls"),
    [
        (PreallocationStrategy.SPARSE_FILE, {"truncate", "write"}),
        (PreallocationStrategy.OS_KERNEL_COPY, {"allocate"}),
        (PreallocationStrategy.ZEROS, {"write"}),
    ],
)
async def test_how_segments_are_preallocated(
    simulated_disk: SimulatedDisk, strategy: PreallocationStrategy, calls: set[str]
) -> None:
    settings = JournalSettings(max_file_length=65536, preallocation_strategy=strategy)
    async with Journal(FOLDER, settings, simulated_disk):
        before = [call for call in simulated_disk.log if call in ("truncate", "allocate", "write")]
    if strategy is PreallocationStrategy.OS_KERNEL_COPY:
        assert "allocate" in before and "truncate" not in before
    else:
        assert set(before) == calls


@pytest.mark.parametrize("period", [5.0, 50.0])
async def test_a_full_disk_is_tried_again_after_the_period(
    simulated_disk: SimulatedDisk, period: float
) -> None:
    states: list[StoreState] = []
    settings = JournalSettings(max_file_length=2048, resume_check_sleep_period=period)
    async with (
        VirtualClock() as clock,
        Journal(FOLDER, settings, simulated_disk, lambda state, _: states.append(state)) as journal,
    ):
        simulated_disk.fail_once("write", errno.ENOSPC)
        waiter = Completion()
        journal.append(b"record", waiter)
        await until_stored(lambda: states == [StoreState.SUSPENDED])
        await clock.advance(period - 1)
        assert not waiter.done
        await clock.advance(2)
        await until_stored(lambda: waiter.done)
        assert states == [StoreState.SUSPENDED, StoreState.RUNNING]
