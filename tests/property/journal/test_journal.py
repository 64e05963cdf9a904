"""Any use of a journal, cut off anywhere: what is found is a prefix with all that was promised."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pyjms.errors import ResourceAllocationException
from pyjms.wire.kahadb.journal import END_MARKER, Location
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from tests.kit.properties import examples
from tests.kit.stores.simulated_disk import SimulatedDisk

FOLDER = Path("/journal")

_SIZES = st.one_of(st.integers(1, 60), st.integers(400, 700), st.just(3000))
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _SIZES),
        st.tuples(st.just("lazy"), _SIZES),
        st.tuples(st.just("send"), _SIZES),
        st.tuples(st.sampled_from(["write", "sync", "turn", "fail", "reopen"]), st.just(0)),
    ),
    max_size=40,
)


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Hundreds of broken disks need not be told of."""
    logger = logging.getLogger("pyjms_broker.store.journal")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def _is_in(number: int, write: int, _sector: int) -> bool:
    return write == number


def _is_one_of(modulus: int, factor: int, rest: int, write: int, sector: int) -> bool:
    return (write * factor + sector) % modulus == rest


class Driver:
    """Uses a journal and remembers what it was promised."""

    def __init__(self, kind: JournalSettings) -> None:
        self.disk = SimulatedDisk()
        self.settings = kind
        self.sent: list[bytes] = []
        self.places: list[Location] = []
        self.promised = 0

    async def run(self, steps: list[tuple[str, int]]) -> None:
        journal = Journal(FOLDER, self.settings, self.disk)
        await journal.open()
        for step, size in steps:
            if step == "reopen":
                self.disk.fail = lambda call, count: None
                await journal.close()
                self.promised = len(self.sent)
                journal = Journal(FOLDER, self.settings, self.disk)
                await journal.open()
            elif step == "fail":
                kind = ("write", "sync")[len(self.sent) % 2]
                self.disk.fail_once(kind, errno.ENOSPC, times=1 + len(self.sent) % 3)
            elif step == "turn":
                await anyio.lowlevel.checkpoint()
            elif step in {"write", "sync"}:
                await self._wait(journal.barrier(sync=step == "sync"))
                if step == "sync":
                    self.promised = len(self.sent)
            else:
                await self._append(journal, step, size)
            assert journal.state in {StoreState.RUNNING, StoreState.SUSPENDED}
        assert journal.read_run(self.places) == self.sent
        self.disks = self._crashes()
        try:
            await journal.close()
        except ResourceAllocationException:
            assert journal.state is StoreState.FAILED

    def _crashes(self) -> list[Any]:
        """The disk after power cuts at this very moment, in some of the ways there are."""
        ways = [self.disk.after_crash(), self.disk.after_crash_losing(lambda w, s: False)]
        for number, write in enumerate(self.disk.unsynced):
            size = len(write.data or b"")
            ways += [self.disk.after_crash(number, torn) for torn in (1, size // 2, size - 1)]
            ways.append(self.disk.after_crash_losing(partial(_is_in, number)))
        for modulus in (2, 3, 5):
            ways.append(self.disk.after_crash_losing(partial(_is_one_of, modulus, 1, 0)))
            ways.append(self.disk.after_crash_losing(partial(_is_one_of, modulus, 7, 1)))
        return ways

    async def _append(self, journal: Journal, step: str, size: int) -> None:
        payload = (b"%d:" % len(self.sent) * (size // 2 + 1))[: max(size, 4)]
        self.sent.append(payload)
        waiter = Completion() if step == "send" else COMPLETED
        place = journal.append(payload, waiter, sync=step == "send", lazy=step == "lazy")
        assert not self.places or place > self.places[-1]
        self.places.append(place)
        if waiter is not COMPLETED:
            await self._wait(waiter)
            self.promised = len(self.sent)

    async def _wait(self, waiter: Completion) -> None:
        done = anyio.Event()
        waiter.then(lambda _: done.set())
        await done.wait()
        assert waiter.error is None


async def goes_on(disk: Any, kind: JournalSettings, lost: list[bytes]) -> int:
    """Send another record of the size of the first lost one, whose end marker gets lost, too.

    What lies behind it on the disk, of the time before the crash, must not come back. Returns
    how many records are found before it.
    """
    record = b"*" * len(lost[0]) if lost else b"*"
    async with Journal(FOLDER, kind, disk) as journal:
        journal.append(record)
        waiter = journal.barrier(sync=False)
        assert waiter is not COMPLETED
        done = anyio.Event()
        waiter.then(lambda _: done.set())
        await done.wait()
        last = disk.unsynced[-1].data
        torn = disk.after_crash(len(disk.unsynced) - 1, len(last) - len(END_MARKER))
    async with Journal(FOLDER, kind, torn) as journal:
        found = [found.payload for found in journal.records_from()]
    assert found.pop() == record
    return len(found)


@pytest.mark.parametrize("scope", [PreallocationScope.ENTIRE_JOURNAL, PreallocationScope.NONE])
@examples(38, suppress_health_check=[HealthCheck.too_slow])
@given(steps=_STEPS)
def test_a_crash_leaves_a_prefix_with_all_that_was_answered(
    scope: PreallocationScope, steps: list[tuple[str, int]]
) -> None:
    kind = JournalSettings(
        max_file_length=2048,
        max_write_batch_size=1024,
        preallocation_scope=scope,
        resume_check_sleep_period=0.0005,
    )

    async def scenario() -> None:
        driver = Driver(kind)
        await driver.run(steps)
        for disk in driver.disks:
            async with Journal(FOLDER, kind, disk) as journal:
                found = [(record.location, record.payload) for record in journal.records_from()]
            known = list(zip(driver.places, driver.sent, strict=True))
            assert found == known[: len(found)]
            assert len(found) >= driver.promised
            assert await goes_on(disk, kind, driver.sent[len(found) :]) == len(found)

    anyio.run(scenario)
