"""Spooled messages come back in order, from memory or the disk, and leave nothing behind."""

from __future__ import annotations

import errno
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.store import temp as store_module
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.memory import MemoryPersistenceAdapter
from pyjms_broker.store.temp import SpoolFiles, TempStore
from tests.kit.waiting import until

PRODUCER = ProducerId("c", 1, 1)
BIG = 300_000


class Stage:
    """References to spool, and a store to spool them to."""

    def __init__(self, directory: Path, files: SpoolFiles | None = None) -> None:
        self.files = files or SpoolFiles(directory)
        self.store = TempStore(directory, files=self.files, resume_check_sleep_period=5)
        self.numbers = itertools.count(1)
        broker = RegionBroker(MemoryPersistenceAdapter())
        self.destination = broker.add_destination(broker.context, Queue("Q"))

    def reference(self, size: int = 10) -> MessageReference:
        number = next(self.numbers)
        message = ActiveMQTextMessage(
            producer_id=PRODUCER,
            destination=Queue("Q"),
            message_id=MessageId(None, PRODUCER, number, number),
            type=str(number),
            content=bytes(size),
        )
        return MessageReference(message, self.destination)


def texts(spooled: Any) -> list[str]:
    return [each.message.type for each in spooled]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path / "tmp_storage")
    await made.store.start()
    yield made
    await made.store.stop()


async def test_messages_come_back_in_order_and_leave(stage: Stage) -> None:
    spool = stage.store.spool("Q")
    references = [stage.reference() for _ in range(5)]
    references[1].redelivery_counter = 3
    tokens = [spool.append(r) for r in references]
    assert tokens == sorted(tokens)
    assert (len(spool), spool.message_size) == (5, sum(r.size for r in references))
    first = spool.pop(2)
    assert texts(first) == ["1", "2"]
    assert [t.token for t in first] == tokens[:2]
    assert [t.size for t in first] == [r.size for r in references[:2]]
    assert [t.redelivery_counter for t in first] == [0, 3]
    assert first[0].message.content == references[0].message.content
    assert len(spool) == 3
    assert texts(spool.pop(10)) == ["3", "4", "5"]
    assert (len(spool), spool.message_size, stage.store.size) == (0, 0, 0)
    assert spool.pop(1) == []
    spool.append(stage.reference())
    assert texts(spool.pop(1)) == ["6"]


async def test_what_the_broker_noted_is_kept(stage: Stage) -> None:
    spool = stage.store.spool("Q")
    reference = stage.reference()
    assert reference.message.raw is None
    spool.append(reference)
    reference.message.broker_in_time = 77
    spool.append(reference)
    assert [s.message.broker_in_time for s in spool.pop(2)] == [0, 77]


async def test_browsing_pages_without_taking(stage: Stage) -> None:
    spool = stage.store.spool("Q")
    for _ in range(9):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    page = spool.browse(None, 2)
    seen = texts(page)
    while page := spool.browse(page[-1].token, 2):
        seen += texts(page)
    assert seen == [str(n) for n in range(1, 10)]
    assert len(spool) == 9


async def test_single_messages_are_removed_from_the_middle(stage: Stage) -> None:
    spool = stage.store.spool("Q")
    for _ in range(9):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    second, fifth, last = (spool.browse(None, 9)[n] for n in (1, 4, 8))
    assert spool.remove(second) and spool.remove(fifth) and spool.remove(last)
    assert not spool.remove(second)
    assert len(spool) == 6
    assert texts(spool.browse(second.token, 2)) == ["3", "4"]
    assert texts(spool.pop(9)) == ["1", "3", "4", "6", "7", "8"]
    assert not spool.remove(fifth)
    assert (len(spool), spool.message_size, stage.store.size) == (0, 0, 0)


async def test_a_block_all_of_whose_messages_are_removed_goes(stage: Stage) -> None:
    spool = stage.store.spool("Q")
    for _ in range(5):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    assert len(list(stage.store.directory.iterdir())) == 1
    for spooled in spool.browse(None, 4):
        assert spool.remove(spooled)
    await stage.store.wait_idle()
    assert list(stage.store.directory.iterdir()) == []
    assert texts(spool.pop(4)) == ["5"]


async def test_files_come_and_go_with_their_messages(stage: Stage) -> None:
    freed = []
    stage.store.on_space = lambda: freed.append(stage.store.size)
    spool = stage.store.spool("Q")
    for _ in range(40):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    files = list(stage.store.directory.iterdir())
    assert len(files) == 10
    assert sum(f.stat().st_size for f in files) == stage.store.size
    assert texts(spool.pop(39)) == [str(n) for n in range(1, 40)]
    await stage.store.wait_idle()
    assert len(list(stage.store.directory.iterdir())) == 1
    spool.clear()
    await stage.store.wait_idle()
    assert list(stage.store.directory.iterdir()) == []
    assert freed == sorted(freed, reverse=True) and freed[-1] == 0 == len(spool)


async def test_what_is_consumed_quickly_never_touches_the_disk(stage: Stage) -> None:
    spool = stage.store.spool("Q")
    for _ in range(8):
        spool.append(stage.reference(BIG))
    assert len(spool.pop(8)) == 8
    await stage.store.wait_idle()
    assert next(stage.store._numbers) > 1
    assert list(stage.store.directory.iterdir()) == []


async def test_one_message_larger_than_a_block(stage: Stage) -> None:
    spool = stage.store.spool("Q")
    spool.append(stage.reference(3 * store_module.BLOCK_SIZE))
    spool.append(stage.reference())
    await stage.store.wait_idle()
    taken = spool.pop(2)
    assert len(taken[0].message.content or b"") == 3 * store_module.BLOCK_SIZE
    assert texts(taken) == ["1", "2"]


async def test_spools_do_not_mix_and_clearing_one_keeps_the_other(stage: Stage) -> None:
    one, other = stage.store.spool("one"), stage.store.spool("other")
    for _ in range(10):
        one.append(stage.reference(BIG))
        other.append(stage.reference(BIG))
    one.clear()
    assert texts(other.pop(10)) == [str(n) for n in range(2, 21, 2)]


async def test_memory_of_many_spools_is_bounded(stage: Stage) -> None:
    spools = [stage.store.spool(str(n)) for n in range(80)]
    for spool in spools:
        spool.append(stage.reference(BIG))
        assert stage.store._open_size <= store_module.MAX_OPEN
    await stage.store.wait_idle()
    assert len(list(stage.store.directory.iterdir())) > 20
    assert [len(spool.pop(1)) for spool in spools] == [1] * 80


@pytest.mark.fact("activemq-persistence K2")
@pytest.mark.fact("activemq-broker M10")
async def test_the_folder_is_emptied_at_start_and_stop(tmp_path: Path) -> None:
    left = ["7.spool", "tmpDB.data", "tmpDB.redo", "tmpDB.free", "db-1.log"]
    for name in [*left, "notes.txt"]:
        (tmp_path / name).write_bytes(b"x")
    stage = Stage(tmp_path)
    await stage.store.start()
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    spool = stage.store.spool("Q")
    for _ in range(5):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    assert len(list(tmp_path.iterdir())) == 2
    await stage.store.stop()
    await stage.store.stop()
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    spool.clear()
    again = Stage(tmp_path)
    await again.store.start()
    assert again.store.size == 0 and len(again.store.spool("Q")) == 0
    await again.store.stop()


async def test_a_journal_is_not_emptied_by_mistake(tmp_path: Path) -> None:
    for name in ("db-1.log", "db.data", "lock"):
        (tmp_path / name).write_bytes(b"x")
    stage = Stage(tmp_path)
    await stage.store.start()
    await stage.store.stop()
    assert len(list(tmp_path.iterdir())) == 3


async def test_an_unusable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stage = Stage(tmp_path / "file")
    with pytest.raises(ResourceAllocationException, match="Cannot use the temp store"):
        await stage.store.start()
    await stage.store.stop()


class BadDisk(SpoolFiles):
    """Fails while `error` is set."""

    error: OSError | None = None
    unreadable = False

    def write(self, number: int, data: bytes | bytearray) -> None:
        if self.error is not None:
            super().write(number, data[:10])
            raise self.error
        super().write(number, data)

    def read(self, number: int, offset: int, size: int) -> bytes:
        if self.unreadable:
            raise OSError(errno.EIO, "I/O error")
        return super().read(number, offset, size)


States = list[tuple[StoreState, Exception | None]]


async def bad_stage(tmp_path: Path) -> tuple[Stage, BadDisk, States]:
    disk = BadDisk(tmp_path)
    stage = Stage(tmp_path, disk)
    states: States = []
    stage.store.on_state = lambda state, error: states.append((state, error))
    await stage.store.start()
    return stage, disk, states


async def until_state(states: States, wanted: StoreState) -> None:
    await until(lambda: states and states[-1][0] is wanted)


async def test_a_full_disk_suspends_and_nothing_is_lost(tmp_path: Path) -> None:
    async with VirtualClock() as clock:
        stage, disk, states = await bad_stage(tmp_path)
        disk.error = OSError(errno.ENOSPC, "No space left on device")
        spool = stage.store.spool("Q")
        for _ in range(9):
            spool.append(stage.reference(BIG))
        await until_state(states, StoreState.SUSPENDED)
        assert states[-1][1] is disk.error
        assert texts(spool.pop(1)) == ["1"]
        disk.error = None
        await clock.advance(5)
        await until_state(states, StoreState.RUNNING)
        await stage.store.wait_idle()
        assert texts(spool.pop(9)) == [str(n) for n in range(2, 10)]
        assert [s for s, _ in states] == [StoreState.SUSPENDED, StoreState.RUNNING]
        await stage.store.stop()


async def test_a_broken_disk_fails_for_good(tmp_path: Path) -> None:
    stage, disk, states = await bad_stage(tmp_path)
    disk.error = OSError(errno.EIO, "I/O error")
    spool = stage.store.spool("Q")
    for _ in range(5):
        spool.append(stage.reference(BIG))
    await until_state(states, StoreState.FAILED)
    assert texts(spool.pop(9)) == ["1", "2", "3", "4", "5"]
    await stage.store.stop()
    assert stage.store.state is StoreState.FAILED


async def test_unreadable_messages_are_reported_and_the_rest_continues(tmp_path: Path) -> None:
    stage, disk, states = await bad_stage(tmp_path)
    spool = stage.store.spool("Q")
    for _ in range(5):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    disk.unreadable = True
    with pytest.raises(ResourceAllocationException, match="Cannot read the spooled messages of Q"):
        spool.pop(9)
    assert states[-1][0] is StoreState.FAILED
    assert len(spool) == 1
    assert texts(spool.pop(9)) == ["5"]
    assert (len(spool), spool.message_size) == (0, 0)
    await stage.store.stop()


async def test_a_slow_disk_makes_senders_wait(tmp_path: Path) -> None:
    async with VirtualClock() as clock:
        stage, disk, states = await bad_stage(tmp_path)
        disk.error = OSError(errno.ENOSPC, "No space left on device")
        spool = stage.store.spool("Q")
        size = 1 << 20
        for _ in range(store_module.MAX_WAITING // size + 1):
            spool.append(stage.reference(size))
        assert [s for s, _ in states] == [StoreState.CONGESTED]
        await until_state(states, StoreState.SUSPENDED)
        disk.error = None
        await clock.advance(5)
        await until_state(states, StoreState.RUNNING)
        await stage.store.stop()


class FlippedBytes(SpoolFiles):
    """Returns damaged records for the messages whose types are in `damaged`."""

    damaged: tuple[str, ...] = ()

    def read(self, number: int, offset: int, size: int) -> bytes:
        data = super().read(number, offset, size)
        for text in self.damaged:
            mark = b"ID:" + b"x" * 8 + text.encode()
            data = data.replace(mark, b"\xff" * len(mark))
        return data


async def flipping_stage(tmp_path: Path) -> tuple[Stage, FlippedBytes]:
    files = FlippedBytes(tmp_path)
    stage = Stage(tmp_path, files)
    await stage.store.start()
    return stage, files


def marked_references(stage: Stage, count: int) -> list[MessageReference]:
    """References whose correlation ids can be found in the file, encoded as UTF-8."""
    made = [stage.reference(BIG) for _ in range(count)]
    for reference in made:
        reference.message.correlation_id = "ID:" + "x" * 8 + str(reference.message.type)
    return made


async def test_a_record_that_cannot_be_decoded_is_lost_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[int] = []
    stage, files = await flipping_stage(tmp_path)
    spool = stage.store.spool("queue://Q", lost.append)
    for reference in marked_references(stage, 9):
        spool.append(reference)
    await stage.store.wait_idle()
    files.damaged = ("2", "4", "8")
    assert texts(spool.pop(9)) == ["1", "3", "5", "6", "7", "9"]
    assert (len(spool), spool.message_size, stage.store.size) == (0, 0, 0)
    assert lost == [1, 1, 1]
    messages = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(messages) == 3
    assert messages[0].startswith("queue://Q: message 2 of the temp store's file 1 cannot be dec")
    await stage.store.stop()


async def test_browsing_passes_records_that_cannot_be_decoded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[int] = []
    stage, files = await flipping_stage(tmp_path)
    spool = stage.store.spool("Q", lost.append)
    for reference in marked_references(stage, 9):
        spool.append(reference)
    await stage.store.wait_idle()
    files.damaged = ("1", "2", "3", "4", "8")
    assert texts(spool.browse(None, 2)) == ["5", "6"]
    assert texts(spool.browse(6, 9)) == ["7", "9"]
    assert texts(spool.browse(None, 9)) == ["5", "6", "7", "9"]
    assert (len(spool), sum(lost)) == (4, 5)
    assert len(caplog.records) == 5  # each once, though they were browsed again
    assert texts(spool.pop(9)) == ["5", "6", "7", "9"]
    assert (len(spool), spool.message_size, stage.store.size) == (0, 0, 0)
    await stage.store.stop()


async def test_what_was_read_before_an_unreadable_file_is_returned(tmp_path: Path) -> None:
    lost: list[int] = []
    stage, _disk, states = await bad_stage(tmp_path)
    spool = stage.store.spool("Q", lost.append)
    for _ in range(10):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    (tmp_path / "2.spool").unlink()
    assert texts(spool.browse(None, 9)) == ["1", "2", "3", "4"]
    assert (states[-1][0], lost) == (StoreState.FAILED, [4])
    assert texts(spool.pop(9)) == ["1", "2", "3", "4", "9", "10"]
    await stage.store.stop()


async def test_popped_messages_are_kept_when_a_later_file_is_unreadable(tmp_path: Path) -> None:
    lost: list[int] = []
    stage, _disk, states = await bad_stage(tmp_path)
    spool = stage.store.spool("Q", lost.append)
    for _ in range(10):
        spool.append(stage.reference(BIG))
    await stage.store.wait_idle()
    (tmp_path / "2.spool").unlink()
    assert texts(spool.pop(9)) == ["1", "2", "3", "4"]
    assert (states[-1][0], lost, len(spool)) == (StoreState.FAILED, [4], 2)
    assert texts(spool.pop(9)) == ["9", "10"]
    await stage.store.stop()
