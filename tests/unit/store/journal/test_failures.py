"""A full disk and a broken one: what the journal says, keeps and does then."""

from __future__ import annotations

import errno
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.testing.clock import VirtualClock
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import DiskSyncStrategy, JournalSettings
from tests.kit.stores.simulated_disk import SimulatedDisk
from tests.kit.waiting import until

Answer = Callable[[Completion], Awaitable[Exception | None]]
FOLDER = Path("/journal")
QUICK = JournalSettings(
    max_file_length=2048, max_write_batch_size=1024, resume_check_sleep_period=0.001
)


class States(list[StoreState]):
    """The states a journal went through."""

    def __call__(self, state: StoreState, error: Exception | None) -> None:
        self.append(state)
        self.changed.set()

    def __init__(self) -> None:
        super().__init__()
        self.changed = anyio.Event()


def _has_other_calls(disk: Any, calls: int) -> bool:
    return bool(disk.calls != calls)


def found_on(disk: SimulatedDisk) -> Callable[[], Awaitable[list[bytes]]]:
    async def found() -> list[bytes]:
        async with Journal(FOLDER, QUICK, disk) as journal:
            return [record.payload for record in journal.records_from()]

    return found


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_is_tried_again_until_it_has_space(
    simulated_disk: SimulatedDisk, answer: Answer, code: int
) -> None:
    states = States()
    settings = JournalSettings(max_file_length=4096)
    async with (
        VirtualClock() as clock,
        Journal(FOLDER, settings, simulated_disk, states) as journal,
    ):
        simulated_disk.fail_once("write", code, times=2)
        first, second = Completion(), Completion()
        place = journal.append(b"first", first, sync=True)
        await states.changed.wait()
        assert journal.state is StoreState.SUSPENDED
        assert isinstance(journal.error, OSError)
        journal.append(b"second", second, sync=True)
        assert journal.read(place) == b"first", "it is kept"
        for _ in range(2):
            assert not first.done
            calls = simulated_disk.calls
            await clock.advance(5.0)
            await until(partial(_has_other_calls, simulated_disk, calls))
        assert await answer(first) is None
        assert await answer(second) is None
        assert states == [StoreState.SUSPENDED, StoreState.RUNNING]
    assert await found_on(simulated_disk.after_crash())() == [b"first", b"second"]


async def test_waiting_is_logged_at_growing_intervals(
    simulated_disk: SimulatedDisk, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    async with Journal(FOLDER, QUICK, simulated_disk) as journal:
        simulated_disk.fail_once("write", errno.ENOSPC, times=9)
        waiter = Completion()
        journal.append(b"record", waiter)
        assert await answer(waiter) is None
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [text.split(":")[0].split()[-1] for text in warnings] == ["1", "2", "4", "8"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["write", "sync", "open", "rename", "sync_directory"])
async def test_an_error_at_any_call_loses_nothing_that_was_answered(
    simulated_disk: SimulatedDisk, answer: Answer, call: str, code: int
) -> None:
    """The journal is driven through rolls, with the n-th call of a kind failing, for all n."""
    for skip in range(40):
        disk = type(simulated_disk)()
        left = skip
        failed = False

        def fail(name: str, count: int) -> OSError | None:
            nonlocal left, failed
            if name == call and not failed:
                left -= 1
                failed = left < 0
                return OSError(code, "simulated") if failed else None
            return None

        states = States()
        answered: list[bytes] = []
        sent = [bytes([n]) * 400 for n in range(1, 10)]
        journal = Journal(FOLDER, QUICK, disk, states)
        await journal.open()
        disk.fail = fail
        for number, payload in enumerate(sent):
            waiter = Completion()
            try:
                journal.append(payload, waiter, sync=number % 3 == 0)
            except ResourceAllocationException:
                break
            if await answer(waiter) is None and number % 3 == 0:
                answered = sent[: number + 1]
        with suppress(ResourceAllocationException):  # an error at close: it failed then
            await journal.close()
        assert states in (
            [],
            [StoreState.SUSPENDED, StoreState.RUNNING] if code == errno.ENOSPC else [],
            [StoreState.FAILED],
        )
        found = await found_on(disk.after_crash())()
        assert found == sent[: len(found)]
        assert len(found) >= len(answered)
        if not states or states[-1] is StoreState.RUNNING:
            assert found == sent
        if not failed:
            break
    else:
        pytest.fail("more calls than expected")


async def test_a_sync_that_failed_has_all_that_was_not_safe_written_again(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    states = States()
    async with Journal(FOLDER, QUICK, simulated_disk, states) as journal:
        journal.append(b"safe")
        assert await answer(journal.barrier()) is None
        journal.append(b"written")
        assert await answer(journal.barrier(sync=False)) is None
        simulated_disk.fail_once("sync", errno.ENOSPC)
        waiter = Completion()
        journal.append(b"waited for", waiter, sync=True)
        assert await answer(waiter) is None
        assert states == [StoreState.SUSPENDED, StoreState.RUNNING]
        found = await found_on(simulated_disk.after_crash())()
        assert found == [b"safe", b"written", b"waited for"]


async def test_data_lost_by_a_failed_sync_is_a_permanent_error(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    states = States()
    async with Journal(FOLDER, QUICK, simulated_disk, states) as journal:
        place = journal.append(b"written")
        assert await answer(journal.barrier(sync=False)) is None

        def lose(call: str, count: int) -> OSError | None:
            if call != "sync":
                return None
            simulated_disk.fail = lambda call, count: None
            file = next(iter(simulated_disk._seen_names.values()))
            file.seen[place.offset + 6] ^= 1
            return OSError(errno.ENOSPC, "simulated")

        simulated_disk.fail = lose
        waiter = Completion()
        journal.append(b"waited for", waiter, sync=True)
        error = await answer(waiter)
        assert isinstance(error, ResourceAllocationException)
        assert states == [StoreState.SUSPENDED, StoreState.FAILED]


async def test_any_other_error_ends_it_and_everybody_hears(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    states = States()
    async with Journal(FOLDER, QUICK, simulated_disk, states) as journal:
        safe = journal.append(b"safe")
        assert await answer(journal.barrier()) is None
        simulated_disk.fail_once("write", errno.EIO)
        waiters = [Completion() for _ in range(3)]
        order: list[int] = []
        for number, waiter in enumerate(waiters):
            waiter.then(lambda _, number=number: order.append(number))  # type: ignore[misc]
            journal.append(b"lost", waiter, sync=True)
        errors = [await answer(waiter) for waiter in waiters]
        assert order == [0, 1, 2]
        assert all(isinstance(e, ResourceAllocationException) for e in errors)
        assert isinstance(errors[0].__cause__, OSError)  # type: ignore[union-attr]
        assert states == [StoreState.FAILED]
        assert journal.state is StoreState.FAILED
        with pytest.raises(ResourceAllocationException, match="has failed"):
            journal.append(b"more")
        with pytest.raises(ResourceAllocationException, match="has failed"):
            journal.barrier()
        assert journal.read(safe) == b"safe"
    assert await found_on(simulated_disk)() == [b"safe"]


async def test_records_appended_during_a_failing_write_fail_too(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, QUICK, simulated_disk, inline=False) as journal:
        simulated_disk.fail_once("write", errno.EIO)
        first, second = Completion(), Completion()
        with simulated_disk._lock:
            journal.append(b"first", first)
            await until(lambda: journal.is_writing)
            journal.append(b"second", second)
        assert await answer(second) is not None
        assert first.done
        assert first.error is not None


async def test_a_full_disk_is_a_permanent_error_if_configured(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    settings = JournalSettings(max_file_length=2048, ignore_no_space_errors=False)
    async with Journal(FOLDER, settings, simulated_disk) as journal:
        simulated_disk.fail_once("write", errno.ENOSPC)
        waiter = Completion()
        journal.append(b"record", waiter)
        assert await answer(waiter) is not None
        assert journal.state is StoreState.FAILED


async def test_closing_does_not_wait_for_space(simulated_disk: SimulatedDisk) -> None:
    states = States()
    settings = JournalSettings(max_file_length=2048, resume_check_sleep_period=3600)
    journal = Journal(FOLDER, settings, simulated_disk, states)
    await journal.open()
    simulated_disk.fail = lambda call, count: (
        OSError(errno.ENOSPC, "simulated") if call == "write" else None
    )
    waiter = Completion()
    journal.append(b"record", waiter)
    await states.changed.wait()
    with pytest.raises(ResourceAllocationException, match="Cannot write the end"):
        await journal.close()
    assert waiter.error is not None
    assert states == [StoreState.SUSPENDED, StoreState.FAILED]
    assert simulated_disk.open_files == 0


async def test_closing_tries_once_more(simulated_disk: SimulatedDisk) -> None:
    states = States()
    settings = JournalSettings(max_file_length=2048, resume_check_sleep_period=3600)
    journal = Journal(FOLDER, settings, simulated_disk, states)
    await journal.open()
    simulated_disk.fail_once("write", errno.ENOSPC)
    journal.append(b"record")
    await states.changed.wait()
    journal.append(b"later")
    await journal.close()
    assert states == [StoreState.SUSPENDED, StoreState.RUNNING]
    assert await found_on(simulated_disk.after_crash())() == [b"record", b"later"]


async def test_errors_on_reading_or_clearing_are_reported(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, QUICK, simulated_disk) as journal:
        places = [journal.append(bytes(900)) for _ in range(4)]
        assert await answer(journal.barrier()) is None
        simulated_disk.fail = lambda call, count: OSError(errno.EIO, "simulated")
        with pytest.raises(ResourceAllocationException, match="Cannot read the journal"):
            journal.read(places[0])
        with pytest.raises(ResourceAllocationException, match="Cannot read the journal"):
            journal.read_run(places[:2])
        with pytest.raises(ResourceAllocationException, match="Cannot remove segment 1"):
            await journal.delete(1)
        simulated_disk.fail = lambda call, count: None
        assert journal.segments() == [1, 2]


async def test_a_periodic_sync_that_fails_ends_it(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    states = States()
    settings = JournalSettings(max_file_length=2048, disk_sync_strategy=DiskSyncStrategy.PERIODIC)
    async with (
        VirtualClock() as clock,
        Journal(FOLDER, settings, simulated_disk, states) as journal,
    ):
        waiter = Completion()
        journal.append(b"record", waiter, sync=True)
        assert await answer(waiter) is None
        simulated_disk.fail_once("sync", errno.EIO)
        await clock.advance(1.0)
        await until(lambda: states)
        assert states == [StoreState.FAILED]
        await clock.advance(1.0)


def test_an_event_loop_that_ends_before_the_close_is_logged(
    simulated_disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(FOLDER, QUICK, simulated_disk, inline=False)

    async def leave_it_open() -> None:
        await journal.open()
        simulated_disk._lock.acquire()  # the write goes on only after the loop's end
        journal.append(b"record")
        await until(lambda: journal.is_writing)

    anyio.run(leave_it_open)
    simulated_disk._lock.release()
    for thread in threading.enumerate():
        if thread.name == "pyjms journal":
            thread.join()
    assert "ended before the journal was closed" in caplog.text
