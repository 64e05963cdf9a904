"""Jobs with damaged content: none of them stops a start, or the store."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaAddScheduledJobCommand, KahaRescheduleJobCommand
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.kahadb import INDEX, KahaDBJobSchedulerStore
from pyjms_broker.store.journal.settings import JournalSettings

PRODUCER = ProducerId("c", 1, 1)
SMALL = JournalSettings(max_file_length=16384)
LARGEST = (1 << 63) - 1
RECORDS = {
    "unknown": b"\x63\x01\x00",
    "truncated": b"\x01\x7f\x0a",
    "surrogate": encode_command(
        KahaAddScheduledJobCommand("JMS", "x\0", 0, "", 0, 0, 0, b"", LARGEST)
    ).replace(b"x\0", b"\xff\xfe"),
    "reschedule": encode_command(KahaRescheduleJobCommand("JMS", "j", 0, 0, 0))[:-1],
}


def message(text: str, size: int = 10) -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=Queue("Q"),
        message_id=MessageId(None, PRODUCER, 1, 1),
        type=text,
        content=bytes(size),
    )


async def opened(folder: Path) -> KahaDBJobSchedulerStore:
    store = KahaDBJobSchedulerStore(folder, SMALL, checkpoint_interval=0, cleanup_interval=0)
    await store.start()
    return store


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("kind", RECORDS)
async def test_a_record_that_cannot_be_applied(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = await opened(tmp_path)
    store.scheduler().add(ScheduledJob("j1", 5, 1000), message("1"))
    store.journal.append(RECORDS[kind])
    store.scheduler().add(ScheduledJob("j2", 5, 1000), message("2"))
    await store.stop()
    for name in (INDEX, f"{INDEX}-wal", f"{INDEX}-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    store = await opened(tmp_path)
    assert [job.job_id for job in store.scheduler().jobs()] == ["j1", "j2"]
    await store.stop()
    (error,) = errors(caplog)
    assert "quarantine" in error
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert kept.read_bytes() == RECORDS[kind]


async def test_a_job_whose_message_cannot_be_read_does_not_fail_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cleanup moves old jobs; that of a damaged one was an error that failed the store."""
    store = await opened(tmp_path)
    scheduler = store.scheduler()
    for number in range(40):
        job = ScheduledJob(f"j{number}", 5, 1000 + number)
        scheduler.add(job, message(str(number), size=2000))
    for number in range(2, 40):
        scheduler.remove(f"j{number}")
    await store.checkpoint()
    entry = store.index.get("JMS", "j0")
    assert entry is not None
    assert entry.location.file_id < store.journal.end.file_id
    path = tmp_path / f"db-{entry.location.file_id}.log"
    with path.open("r+b") as file:
        file.seek(entry.location.offset + 4)
        file.write(b"\xff")
    await store.cleanup()
    await store.cleanup()
    assert store.state is StoreState.RUNNING
    assert [job.job_id for job in scheduler.jobs()] == ["j0", "j1"]
    (error,) = errors(caplog)
    assert "j0" in error
    await store.stop()


@pytest.mark.parametrize("checked", [True, False])
async def test_a_flipped_bit_in_a_jobs_message(tmp_path: Path, checked: bool) -> None:
    journal = JournalSettings(max_file_length=4096, verify_checksums_at_reading=checked)
    store = KahaDBJobSchedulerStore(tmp_path, journal, checkpoint_interval=0, cleanup_interval=0)
    await store.start()
    scheduler = store.scheduler()
    for number in range(3):
        scheduler.add(ScheduledJob(f"j{number}", 5, 1000 + number), message(str(number), size=2000))
        await store.checkpoint()
    entry = store.index.get("JMS", "j1")
    assert entry is not None
    with (tmp_path / f"db-{entry.location.file_id}.log").open("r+b") as file:
        file.seek(entry.location.offset + 1000)
        file.write(b"\x10")
    found = {}
    for number in range(3):
        try:
            found[number] = scheduler.message(f"j{number}") is not None
        except KahaDBFormatError:
            found[number] = False
    assert found == {0: True, 1: not checked, 2: True}
    await store.stop()
