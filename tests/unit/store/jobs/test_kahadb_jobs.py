"""Jobs on the disk: restarts, lost and foreign indexes, segments that go, disks that fail."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.kahadb import INDEX, KahaDBJobSchedulerStore
from pyjms_broker.store.journal.disk import Bytes, Disk
from pyjms_broker.store.journal.settings import JournalSettings
from tests.kit.waiting import until

PRODUCER = ProducerId("c", 1, 1)
SMALL = JournalSettings(max_file_length=16384)


def message(text: str, size: int = 10) -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=Queue("Q"),
        message_id=MessageId(None, PRODUCER, 1, 1),
        type=text,
        content=bytes(size),
    )


def make(folder: Path, journal: JournalSettings = SMALL, **options: Any) -> KahaDBJobSchedulerStore:
    options = {"checkpoint_interval": 0, "cleanup_interval": 0, **options}
    return KahaDBJobSchedulerStore(folder, journal, **options)


async def opened(folder: Path, **options: Any) -> KahaDBJobSchedulerStore:
    store = make(folder, **options)
    await store.start()
    return store


def fill(
    store: KahaDBJobSchedulerStore, numbers: Any = range(10), **options: Any
) -> list[ScheduledJob]:
    """Jobs that have been through everything; returns those that are left."""
    scheduler = store.scheduler()
    for number in numbers:
        job = ScheduledJob(f"j{number}", 5, 1000 + number, period=100, repeat=3)
        scheduler.add(job, message(f"m{number}", **options))
    first, second, *_ = numbers
    scheduler.remove(f"j{first}")
    scheduler.reschedule(f"j{second}", 9000)
    return list(scheduler.jobs())


def killed(store: KahaDBJobSchedulerStore, to: Path) -> Path:
    """What a broker that is killed now leaves on the disk."""
    shutil.copytree(store.directory, to)
    return to


async def written(store: KahaDBJobSchedulerStore) -> None:
    waiter = store.journal.barrier(sync=False)
    await until(lambda: waiter.done)


async def check(folder: Path, jobs: list[ScheduledJob], **options: Any) -> KahaDBJobSchedulerStore:
    store = await opened(folder, **options)
    assert list(store.scheduler().jobs()) == jobs
    for job in jobs:
        found = store.scheduler().message(job.job_id)
        assert found is not None
        assert found.type == job.job_id.replace("j", "m")
    return store


@pytest.mark.fact("activemq-persistence K2")
@pytest.mark.parametrize("checkpointed", [False, True])
async def test_jobs_survive_a_restart_and_a_kill(tmp_path: Path, checkpointed: bool) -> None:
    store = await opened(tmp_path / "a")
    fill(store)
    if checkpointed:
        await store.checkpoint()
    jobs = fill(store, range(20, 25))
    await written(store)
    copy = killed(store, tmp_path / "b")
    await store.stop()
    for folder in (tmp_path / "a", copy):
        again = await check(folder, jobs)
        fill(again, range(100, 110))
        jobs_later = list(again.scheduler().jobs())
        await again.stop()
        await (await check(folder, jobs_later)).stop()


async def test_only_what_the_index_does_not_cover_is_replayed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store = await opened(tmp_path / "a")
    fill(store)
    await store.checkpoint()
    answer = store.scheduler().add(ScheduledJob("j77", 5, 7), message("m77"))
    await until(lambda: answer.done)
    jobs = list(store.scheduler().jobs())
    copy = killed(store, tmp_path / "b")
    await store.stop()
    await (await check(copy, jobs)).stop()
    assert "Recovery replayed 1 records" in caplog.text


@pytest.mark.parametrize("damage", ["missing", "garbage", "empty", "another", "older version"])
async def test_an_index_that_does_not_fit_is_rebuilt(tmp_path: Path, damage: str) -> None:
    store = await opened(tmp_path / "a")
    jobs = fill(store)
    await store.stop()
    index = tmp_path / "a" / INDEX
    if damage == "missing":
        index.unlink()
    elif damage == "garbage":
        index.write_bytes(b"not a database " * 1000)
    elif damage == "empty":
        index.write_bytes(b"")
    elif damage == "another":
        other = await opened(tmp_path / "other")
        fill(other, range(50, 60))
        await other.stop()
        shutil.copy(tmp_path / "other" / INDEX, index)
    else:
        with sqlite3.connect(index) as connection:
            connection.execute("DELETE FROM jobs")
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    await (await check(tmp_path / "a", jobs)).stop()


async def test_an_index_ahead_of_the_journal_is_rebuilt(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a")
    fill(store)
    await store.checkpoint()
    early = killed(store, tmp_path / "early")
    jobs = list(store.scheduler().jobs())
    fill(store, range(20, 30))
    await store.stop()
    for path in early.glob("db-*.log"):
        path.replace(tmp_path / "a" / path.name)
    await (await check(tmp_path / "a", jobs)).stop()


@pytest.mark.fact("activemq-persistence K2")
@pytest.mark.parametrize("name", ["scheduleDB.data", "scheduleDB.redo"])
async def test_after_activemq_the_index_is_rebuilt(tmp_path: Path, name: str) -> None:
    store = await opened(tmp_path / "a")
    jobs = fill(store)
    await store.stop()
    (tmp_path / "a" / name).write_bytes(b"its index")
    with sqlite3.connect(tmp_path / "a" / INDEX) as connection:
        connection.execute("DELETE FROM jobs")  # shows that it is not believed
    connection.close()
    await (await check(tmp_path / "a", jobs)).stop()
    assert not (tmp_path / "a" / name).exists()
    assert (tmp_path / "a" / "activemq-index" / name).read_bytes() == b"its index"


async def test_segments_without_jobs_go_from_the_beginning(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a")
    scheduler = store.scheduler()
    for number in range(60):
        scheduler.add(ScheduledJob(f"j{number}", 1, number), message(f"m{number}", 1000))
    assert len(await written_segments(store)) >= 4
    first, *_, last = await written_segments(store)
    for number in range(20):
        scheduler.remove(f"j{number}")
    await store.cleanup()
    assert first not in store.journal.segments()
    assert last in store.journal.segments()
    jobs = list(scheduler.jobs())
    assert len(jobs) == 40
    await store.stop()
    (tmp_path / "a" / INDEX).unlink()
    await (await check(tmp_path / "a", jobs)).stop()


async def test_a_lasting_job_does_not_keep_everything_since(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a")
    scheduler = store.scheduler()
    scheduler.add(ScheduledJob("j0", 1, 10**12, "0 0 1 1 *", repeat=2), message("m0"))
    scheduler.reschedule("j0", 2 * 10**12)
    for number in range(1, 200):
        scheduler.add(ScheduledJob(f"j{number}", 1, number), message(f"m{number}", 1000))
        scheduler.remove(f"j{number}")
    assert len(await written_segments(store)) > 10
    await store.cleanup()
    assert len(store.journal.segments()) <= 3
    assert store.size <= 4 * SMALL.max_file_length
    (job,) = scheduler.jobs()
    assert (job.next_time, job.repeat, job.execution_count) == (2 * 10**12, 2, 1)
    copy = killed(store, tmp_path / "b")
    await store.stop()
    await (await check(tmp_path / "a", [job])).stop()
    (copy / INDEX).unlink()
    await (await check(copy, [job])).stop()


async def test_a_job_written_again_twice_is_there_once(tmp_path: Path) -> None:
    """A crash after the copying and before the old segment is gone."""
    store = await opened(tmp_path / "a")
    jobs = fill(store)
    for job in jobs:
        store.rewrite("JMS", job.job_id)
    await store.checkpoint()
    assert list(store.scheduler().jobs()) == jobs
    await store.stop()
    (tmp_path / "a" / INDEX).unlink()
    again = await opened(tmp_path / "a")
    assert jobs == list(again.scheduler().jobs())
    await again.stop()


async def written_segments(store: KahaDBJobSchedulerStore) -> list[int]:
    await store.checkpoint()
    return store.journal.segments()


@pytest.mark.parametrize("indexed", [False, True])
async def test_missing_segments_stop_the_start_unless_configured_otherwise(
    tmp_path: Path, indexed: bool
) -> None:
    store = await opened(tmp_path / "a")
    jobs = fill(store, range(60), size=1000)
    await store.stop()
    middle = sorted(JournalFiles(tmp_path / "a").segments())[1]
    data = (tmp_path / "a" / f"db-{middle}.log").read_bytes()
    if indexed:
        (tmp_path / "a" / f"db-{middle}.log").unlink()
    else:
        (tmp_path / "a" / INDEX).unlink()
        damaged = bytearray(data)
        damaged[500] ^= 0xFF
        (tmp_path / "a" / f"db-{middle}.log").write_bytes(damaged)
    with pytest.raises(ResourceAllocationException, match="missing/corrupt journal files"):
        await make(tmp_path / "a").start()
    again = await opened(tmp_path / "a", ignore_missing_journalfiles=True)
    left = list(again.scheduler().jobs())
    assert 0 < len(left) < len(jobs)
    assert {j.job_id for j in left} < {j.job_id for j in jobs}
    await again.stop()


async def test_the_lock_keeps_a_second_one_out(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a")
    with pytest.raises(ResourceAllocationException, match="locked"):
        await make(tmp_path / "a", fail_if_locked=True).start()
    await store.stop()
    await (await opened(tmp_path / "a", fail_if_locked=True)).stop()


async def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceAllocationException, match="cannot be opened"):
        await make(tmp_path / "file" / "a").start()


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a")
    await store.stop()
    with pytest.raises(IllegalStateException, match="not open"):
        store.scheduler().add(ScheduledJob("a", 1, 2), message("a"))


async def test_checkpoints_and_cleanups_come_by_themselves(tmp_path: Path) -> None:
    async with VirtualClock() as clock:
        store = await opened(tmp_path / "a", checkpoint_interval=5, cleanup_interval=30)
        fill(store)
        await clock.advance(5)
        await until(
            lambda: store.index.coverage() is not None and not store._maintenance_lock.locked()
        )
        fill(store, range(20, 80), size=1000)
        store.scheduler().remove_range()
        before = store.journal.segments()
        await clock.advance(30)
        await until(
            lambda: (
                store.journal.segments()[:1] != before[:1] and not store._maintenance_lock.locked()
            )
        )
        assert store.state is StoreState.RUNNING
        await store.stop()


async def test_an_index_that_fails_stops_the_store(tmp_path: Path) -> None:
    states = []
    store = await opened(tmp_path / "a")
    store.on_state = lambda state, error: states.append(state)
    jobs = fill(store)
    store.index.close()
    with pytest.raises(ResourceAllocationException):
        store.remove_scheduler("JMS2")
    assert states == [StoreState.FAILED]
    assert store.state is StoreState.FAILED
    await store.stop()
    await (await check(tmp_path / "a", jobs)).stop()


class FullDisk(Disk):
    """The real disk, which may have no space left."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def write(self, fd: int, data: Bytes, offset: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "simulated")
        super().write(fd, data, offset)


async def test_a_full_disk_does_not_keep_it_from_its_end(tmp_path: Path) -> None:
    disk = FullDisk()
    store = await opened(tmp_path / "a", disk=disk)
    jobs = fill(store)
    await written(store)
    disk.full = True
    answer = store.scheduler().add(ScheduledJob("j77", 5, 7), message("m77"))
    await until(lambda: store.state is StoreState.SUSPENDED)
    await store.stop()
    assert isinstance(answer.error, ResourceAllocationException)
    disk.full = False
    await (await check(tmp_path / "a", jobs)).stop()
