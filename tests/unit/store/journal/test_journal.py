"""What the journal promises while the disk does its duty."""

from __future__ import annotations

import errno
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from pyjms.errors import IllegalStateException, LocalProtocolError, ResourceAllocationException
from pyjms.testing.clock import VirtualClock
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import END_MARKER, Location
from pyjms.wire.kahadb.segments import JournalFiles, SegmentReader
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import (
    DiskSyncStrategy,
    JournalSettings,
    PreallocationScope,
    PreallocationStrategy,
)
from tests.kit.stores.simulated_disk import SimulatedDisk
from tests.kit.waiting import until

Answer = Callable[[Completion], Awaitable[Exception | None]]
SMALL = JournalSettings(max_file_length=4096, max_write_batch_size=1024)
FOLDER = Path("/journal")


def on_disk(folder: Path) -> list[bytes]:
    return [record.payload for record in JournalFiles(folder).records()]


async def test_a_record_has_its_location_and_is_readable_before_it_is_written(
    tmp_path: Path, answer: Answer
) -> None:
    async with Journal(tmp_path) as journal:
        first = journal.append(b"first", lazy=True)
        second = journal.append(b"second", lazy=True)
        assert (first, second) == (Location(1, 28), Location(1, 38))
        assert journal.end == Location(1, 49)
        assert journal.written == Location(1, 0)
        assert journal.read(second) == b"second"
        with pytest.raises(KahaDBFormatError):
            journal.read(Location(1, 30))
        assert await answer(journal.barrier()) is None
        assert journal.written == journal.synced == journal.end
        assert journal.read(first) == b"first"
        assert journal.read_run([first, second]) == [b"first", b"second"]
        assert journal.barrier() is COMPLETED
        with pytest.raises(KahaDBFormatError):
            journal.read(Location(1, 40_000_000))
        with pytest.raises(ResourceAllocationException):
            journal.read(Location(9, 28))
        assert on_disk(tmp_path) == [b"first", b"second"]


async def test_a_record_that_is_not_lazy_is_written_at_the_end_of_the_turn_with_lazy_ones(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, SMALL, simulated_disk) as journal:
        waiter = Completion()
        journal.append(b"lazy", lazy=True)
        journal.append(b"now")
        journal.append(b"too", waiter, lazy=True)
        assert not waiter.done
        assert await answer(waiter) is None
        assert journal.written == journal.end
        assert (journal.batches, journal.syncs, journal.records) == (1, 0, 3)
        assert journal.synced < journal.written


async def test_records_appended_soon_are_written_without_a_further_call(tmp_path: Path) -> None:
    async with Journal(tmp_path) as journal:
        journal.append(b"soon", soon=True)
        journal.append(b"too", soon=True)
        assert journal.written == Location(1, 0)
        with anyio.fail_after(30):
            await until(lambda: journal.written == journal.end)
        assert (journal.batches, journal.syncs) == (1, 0)
        journal.append(b"again", soon=True)
        with anyio.fail_after(30):
            await until(lambda: journal.written == journal.end)
        journal.append(b"last", soon=True)
    await anyio.sleep(0.02)  # its time comes, and the journal is closed
    assert on_disk(tmp_path) == [b"soon", b"too", b"again", b"last"]


async def test_a_mebibyte_of_lazy_records_is_written_without_being_asked(tmp_path: Path) -> None:
    async with Journal(tmp_path) as journal:
        for _ in range(11):
            journal.append(bytes(100_000), lazy=True)
        await until(lambda: journal.written.offset >= 1 << 20)
        assert journal.batches == 1


@pytest.mark.parametrize("inline", [True, False, None])
async def test_sixteen_waiting_callers_share_one_sync_and_complete_in_order(
    simulated_disk: SimulatedDisk, answer: Answer, inline: bool | None
) -> None:
    async with Journal(FOLDER, SMALL, simulated_disk, inline=inline) as journal:
        answered: list[int] = []
        waiters = [Completion() for _ in range(16)]
        for number, waiter in enumerate(waiters):
            waiter.then(lambda _, number=number: answered.append(number))  # type: ignore[misc]
            journal.append(b"%d" % number, waiter, sync=True)
        assert await answer(waiters[-1]) is None
        assert answered == list(range(16))
        assert (journal.syncs, journal.batches) == (1, 1)
        assert journal.synced == journal.end


async def test_the_next_batch_fills_while_one_is_on_its_way(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, SMALL, simulated_disk, inline=False) as journal:
        with simulated_disk._lock:  # the writer's thread gets no further than this
            first = Completion()
            journal.append(b"first", first, sync=True)
            await until(lambda: journal.is_writing)
            rest = [Completion() for _ in range(15)]
            places = [journal.append(b"next", waiter, sync=True) for waiter in rest]
            assert journal.read(Location(1, 28)) == b"first"
            assert journal.read(places[-1]) == b"next"
            assert journal.read_run(places) == [b"next"] * 15
        assert await answer(rest[-1]) is None
        assert (journal.batches, journal.syncs, journal.records) == (2, 2, 16)


async def test_a_lone_sender_is_served_on_the_loop_and_more_by_the_thread(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    import threading

    threads: list[bool] = []

    def note(call: str, count: int) -> None:
        if call == "sync":
            threads.append(threading.current_thread() is threading.main_thread())

    async with Journal(FOLDER, SMALL, simulated_disk) as journal:
        simulated_disk.fail = note

        async def send(count: int) -> None:
            waiters = [Completion() for _ in range(count)]
            for waiter in waiters:
                journal.append(b"record", waiter, sync=True)
            await answer(waiters[-1])

        for count in (1, 1, 2, 1, 1, 1):
            await send(count)
        # one after two who waited together still goes to the thread
        assert threads == [True, True, False, False, True, True]


@pytest.mark.fact("activemq-persistence K6")
async def test_batches_end_at_their_limit_or_the_segments_and_one_sync_serves_a_batch(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, SMALL, simulated_disk) as journal:
        places = [journal.append(bytes([n]) * 300) for n in range(1, 14)]
        assert await answer(journal.barrier()) is None
    data = simulated_disk.content(FOLDER / "db-1.log")
    batches = list(SegmentReader(data, 1).batches())
    # three records of 305 bytes make a batch of 943; a fourth would exceed 1024
    assert [len(b.offsets) for b in batches] == [3, 3, 3, 3]
    assert [b.end for b in batches] == [943, 1886, 2829, 3772]
    assert places[12] == Location(2, 28), "323 bytes are left, 333 would be needed"
    assert journal.syncs == 2, "the full segment and the barrier; none for each batch"

    periodic = JournalSettings(
        max_file_length=4096, disk_sync_strategy=DiskSyncStrategy.PERIODIC, disk_sync_interval=1.0
    )
    async with VirtualClock() as clock, Journal(Path("/p"), periodic, simulated_disk) as journal:
        waiter = Completion()
        journal.append(b"record", waiter, sync=True)
        assert await answer(waiter) is None
        assert journal.syncs == 0, "not for who asks"
        await clock.advance(1.0)
        assert journal.syncs == 1, "each interval"
        await clock.advance(1.0)
        assert journal.syncs == 1, "nothing new"
        waiter = Completion()
        journal.append(bytes(4000))
        journal.append(bytes(4000), waiter)
        assert await answer(waiter) is None
        assert journal.syncs == 2, "when a segment is full"
        assert journal.synced == Location(1, 4072)
    assert journal.syncs == 3, "at close"


async def test_never_means_never(simulated_disk: SimulatedDisk, answer: Answer) -> None:
    settings = JournalSettings(
        max_file_length=4096,
        disk_sync_strategy=DiskSyncStrategy.NEVER,
        preallocation_scope=PreallocationScope.NONE,
    )
    async with Journal(FOLDER, settings, simulated_disk) as journal:
        for _ in range(3):
            journal.append(bytes(3000), sync=True)
        assert await answer(journal.barrier(sync=True)) is None
        assert journal.synced == journal.written == Location(3, 3033)
    assert "sync" not in simulated_disk.log
    assert journal.syncs == 0


async def test_records_appended_together_share_a_batch(tmp_path: Path, answer: Answer) -> None:
    async with Journal(tmp_path, SMALL) as journal:
        journal.append(bytes(900))
        places = journal.append_together([b"a" * 300, b"b" * 500, b"c" * 900])
        journal.append(b"after")
        assert await answer(journal.barrier()) is None
        batches = list(SegmentReader((tmp_path / "db-1.log").read_bytes(), 1).batches())
        assert batches[1].offsets == tuple(place.offset for place in places)
        assert [len(batch.offsets) for batch in batches] == [1, 3, 1]


async def test_each_segment_begins_with_the_header(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, SMALL, simulated_disk) as journal:
        journal.set_segment_header(lambda: [b"header of", b"%d" % journal.end.file_id])
        for _ in range(9):
            journal.append(bytes([1]) * 900)
        assert await answer(journal.barrier()) is None
        assert journal.segments() == [1, 2, 3]
        for number in (1, 2, 3):
            data = simulated_disk.content(FOLDER / f"db-{number}.log")
            first, second, third, *_ = [r.payload for r in SegmentReader(data, number).records()]
            assert (first, second, third) == (b"header of", b"%d" % number, bytes([1]) * 900)
    async with Journal(FOLDER, SMALL, simulated_disk) as journal:
        journal.set_segment_header(lambda: [b"not in the middle"])
        journal.append(b"record")
        assert await answer(journal.barrier()) is None
        assert b"not in the middle" not in [r.payload for r in journal.records_from()]


@pytest.mark.parametrize("strategy", PreallocationStrategy)
async def test_segments_are_numbered_from_one_and_preallocated(
    tmp_path: Path, answer: Answer, strategy: PreallocationStrategy
) -> None:
    settings = JournalSettings(max_file_length=65536, preallocation_strategy=strategy)
    async with Journal(tmp_path, settings) as journal:
        assert journal.segments() == [1]
        data = (tmp_path / "db-1.log").read_bytes()
        assert data == END_MARKER + bytes(65526) + END_MARKER
        for _ in range(3):
            journal.append(bytes(40_000))
        assert await answer(journal.barrier()) is None
        assert journal.segments() == [1, 2, 3]
        assert journal.size == 2 * 65536 + journal.end.offset < 3 * 65536
    assert sorted(OS_DISK.names(tmp_path)) == ["db-1.log", "db-2.log", "db-3.log"]
    data = (tmp_path / "db-3.log").read_bytes()
    (records,) = struct.unpack_from(">i", data, 16)
    assert data[28 + records :].startswith(END_MARKER)
    assert data.endswith(END_MARKER)
    assert len(data) == 65536


async def test_the_next_segment_is_made_ahead_while_this_one_fills(
    tmp_path: Path, answer: Answer
) -> None:
    settings = JournalSettings(
        max_file_length=65536, preallocation_scope=PreallocationScope.ENTIRE_JOURNAL_ASYNC
    )
    async with Journal(tmp_path, settings) as journal:
        assert (tmp_path / "db-1.log").stat().st_size == 0, "nobody has made it ahead"
        for _ in range(2):
            journal.append(bytes(33_000))
            assert await answer(journal.barrier()) is None
        journal.append(b"the batch after half of it has the next one made")
        assert await answer(journal.barrier()) is None
        await journal._tasks[-1].wait()
        assert (tmp_path / "next-segment.tmp").stat().st_size == 65536
        journal.append(bytes(64_000))
        assert await answer(journal.barrier()) is None
        assert (tmp_path / "db-3.log").stat().st_size == 65536
        assert not (tmp_path / "next-segment.tmp").exists()
    (tmp_path / "next-segment.tmp").write_bytes(b"of a broker that was killed")
    async with Journal(tmp_path, settings) as journal:
        assert journal.segments() == [2, 3] or journal.segments() == [1, 2, 3]
    assert not (tmp_path / "next-segment.tmp").exists()


async def test_without_preallocation_segments_grow(tmp_path: Path, answer: Answer) -> None:
    settings = JournalSettings(preallocation_scope=PreallocationScope.NONE)
    async with Journal(tmp_path, settings) as journal:
        journal.append(b"record")
        assert await answer(journal.barrier()) is None
    assert (tmp_path / "db-1.log").stat().st_size == 28 + 11 + len(END_MARKER)


async def test_a_record_larger_than_a_segment_gets_a_separate_one(
    tmp_path: Path, answer: Answer
) -> None:
    large = bytes(range(256)) * 40
    async with Journal(tmp_path, SMALL) as journal:
        places = [journal.append(p) for p in (b"before", large, b"after", large)]
        assert [p.file_id for p in places] == [1, 2, 3, 4]
        assert journal.read(places[1]) == large
        assert await answer(journal.barrier()) is None
        assert journal.read(places[1]) == large
        full = 2 * 4096 + 28 + 5 + len(large) + len(END_MARKER)
        assert journal.size == full + journal.end.offset
    async with Journal(tmp_path, SMALL) as journal:
        assert journal.end == Location(4, 28 + 5 + len(large))
        assert journal.append(b"more") == Location(5, 28)
        assert await answer(journal.barrier()) is None
        found = [r.payload for r in journal.records_from()]
        assert found == [b"before", large, b"after", large, b"more"]
        assert [r.payload for r in journal.records_from(places[2])] == [b"after", large, b"more"]


async def test_foreign_names_and_empty_segments_are_left_alone(
    tmp_path: Path, answer: Answer
) -> None:
    for name in ("db-7.log", "db-x.log", "db.data", "db-01.log"):
        (tmp_path / name).touch()
    (tmp_path / "db-x.log").write_bytes(b"foreign")
    async with Journal(tmp_path, SMALL) as journal:
        assert journal.segments() == [1]
        journal.append(b"record")
        assert await answer(journal.barrier()) is None
    assert (tmp_path / "db-x.log").read_bytes() == b"foreign"
    assert (tmp_path / "db-7.log").stat().st_size == 0
    # a last segment that is only preallocated is the one to write to
    (tmp_path / "db-2.log").write_bytes(END_MARKER + bytes(4086) + END_MARKER)
    async with Journal(tmp_path, SMALL) as journal:
        assert journal.end == Location(2, 0)


async def test_runs_of_neighbours_cost_one_read(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, JournalSettings(), simulated_disk) as journal:
        payloads = [bytes([n]) * (1000 + n) for n in range(1, 101)]
        places = [journal.append(payload) for payload in payloads]
        last = journal.append(bytes(9000))
        assert await answer(journal.barrier()) is None
        simulated_disk.log.clear()
        assert journal.read_run(places) == payloads
        assert simulated_disk.log == ["open", "read", "read"], "the batch's header, and the batch"
        simulated_disk.log.clear()
        assert journal.read_run(places) == payloads
        assert simulated_disk.log == ["read"]
        assert journal.read_run([*places[50:], last, *places[:50]]) == [
            *payloads[50:],
            bytes(9000),
            *payloads[:50],
        ]
        assert simulated_disk.log.count("read") == 1 + 3, "the long record's end is a third"
        assert journal.read_run([]) == []


async def test_few_segments_are_open_at_once(simulated_disk: SimulatedDisk, answer: Answer) -> None:
    async with Journal(FOLDER, SMALL, simulated_disk) as journal:
        places = [journal.append(bytes([n]) * 4000) for n in range(1, 41)]
        assert await answer(journal.barrier()) is None
        assert [journal.read(place)[0] for place in places] == list(range(1, 41))
        assert simulated_disk.open_files == 17
    assert simulated_disk.open_files == 0


@pytest.mark.fact("activemq-persistence K19")
async def test_segments_are_removed_or_archived(tmp_path: Path, answer: Answer) -> None:
    async with Journal(tmp_path / "a", SMALL) as journal:
        places = [journal.append(bytes(4000)) for _ in range(3)]
        assert await answer(journal.barrier()) is None
        journal.read(places[0])
        await journal.delete(1)
        assert journal.segments() == [2, 3]
        assert journal.size == 4096 + journal.end.offset
        for number in (1, 3, 9):
            with pytest.raises(ValueError, match="cannot be removed"):
                await journal.delete(number)
    archiving = JournalSettings(max_file_length=4096, archive_data_logs=True)
    async with Journal(tmp_path / "b", archiving) as journal:
        for _ in range(2):
            journal.append(bytes(4000))
        assert await answer(journal.barrier()) is None
        await journal.delete(1)
        assert journal.segments() == [2]
    assert (tmp_path / "b" / "data-archive" / "db-1.log").stat().st_size == 4096
    assert not (tmp_path / "b" / "db-1.log").exists()


class ForgetfulDisk(Disk):
    """The real disk, on which the next sync of a folder fails."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    def sync_directory(self, path: Path) -> None:
        if self.fails:
            self.fails = False
            raise OSError(errno.EIO, "simulated")
        super().sync_directory(path)


@pytest.mark.parametrize("archived", [True, False])
async def test_a_removal_that_was_not_synced_is_done_again(
    tmp_path: Path, answer: Answer, archived: bool
) -> None:
    disk = ForgetfulDisk()
    settings = JournalSettings(max_file_length=4096, archive_data_logs=archived)
    async with Journal(tmp_path, settings, disk) as journal:
        for _ in range(2):
            journal.append(bytes(4000))
        assert await answer(journal.barrier()) is None
        disk.fails = True
        with pytest.raises(ResourceAllocationException, match="Cannot remove segment 1"):
            await journal.delete(1)
        assert journal.segments() == [1, 2]
        await journal.delete(1)
        assert journal.segments() == [2]
    assert (tmp_path / "data-archive" / "db-1.log").exists() is archived


async def test_invalid_records_are_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(IllegalStateException):
        journal.append(b"too early")
    with pytest.raises(IllegalStateException):
        assert journal.written
    async with journal:
        with pytest.raises(LocalProtocolError):
            journal.append(b"")
    with pytest.raises(IllegalStateException):
        journal.append(b"too late")
    with pytest.raises(IllegalStateException):
        journal.read(Location(1, 28))
    await journal.close()


async def test_a_small_journal_can_be_opened_without_waiting(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SMALL)
    journal.open_blocking()
    journal.append(b"record")
    await journal.close()
    assert on_disk(tmp_path) == [b"record"]
    (tmp_path / "file").touch()
    with pytest.raises(ResourceAllocationException, match="Cannot open the journal"):
        Journal(tmp_path / "file", SMALL).open_blocking()


async def test_close_writes_appended_records(simulated_disk: SimulatedDisk) -> None:
    journal = Journal(FOLDER, SMALL, simulated_disk)
    await journal.open()
    waiter = Completion()
    journal.append(b"lazy", waiter, lazy=True)
    await journal.close()
    assert waiter.done
    assert journal.synced == journal.end
    async with Journal(FOLDER, SMALL, simulated_disk.after_crash()) as journal:
        assert [r.payload for r in journal.records_from()] == [b"lazy"]


async def test_too_much_that_waits_is_congestion(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    states: list[str] = []
    settings = JournalSettings(max_write_batch_size=1024, max_async_jobs=10, max_waiting_bytes=8192)
    async with Journal(
        FOLDER, settings, simulated_disk, lambda state, _: states.append(state.value)
    ) as journal:
        waiters = [Completion() for _ in range(11)]
        for waiter in waiters[:10]:
            journal.append(b"record", waiter)
        assert states == []
        journal.append(b"record", waiters[-1])
        assert states == ["congested"]
        assert await answer(waiters[-1]) is None
        assert states == ["congested", "running"]
        for _ in range(12):
            journal.append(bytes(900))
        assert states == ["congested", "running", "congested"]
        assert await answer(journal.barrier()) is None
        assert states[3:] == ["running"]


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="max_file_length"):
        JournalSettings(max_file_length=10)
    with pytest.raises(ValueError, match="max_async_jobs"):
        JournalSettings(max_async_jobs=0)
    with pytest.raises(ValueError, match="disk_sync_interval"):
        JournalSettings(disk_sync_interval=0)


async def test_a_segment_has_space_for_records_after_a_long_header(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, SMALL, simulated_disk) as journal:
        journal.set_segment_header(lambda: [bytes(5000)])
        for _ in range(100):
            journal.append(bytes(400))
        assert await answer(journal.barrier()) is None
        assert len(journal.segments()) < 15
        assert sum(len(r.payload) == 400 for r in journal.records_from()) == 100
