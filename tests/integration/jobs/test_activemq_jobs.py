"""Jobs that a real ActiveMQ 5.17.2 keeps, opened by us; and ours, opened by it; there and back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import decode_text, encode_text
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from pyjms_broker.store.jobs.scheduler import JobScheduler
from pyjms_broker.store.journal.settings import JournalSettings
from tests.kit.processes.children import Start

pytestmark = [pytest.mark.activemq, pytest.mark.timeout(120)]

HOUR = 3_600_000
PRODUCER = ProducerId("ID:ours-1", 1, 1)


class Listed(NamedTuple):
    """A job as ActiveMQ lists it (activemq-persistence E4): times are texts."""

    job_id: str
    cron_entry: str
    delay: int
    period: int
    repeat: int
    execution_count: int
    start: str
    next: str
    text: str


@pytest.fixture(scope="module")
def jobs_program(java_program: Callable[[Path], list[str]]) -> list[str]:
    return [*java_program(Path(__file__).with_name("program")), "Jobs"]


def listed(lines: list[str]) -> list[Listed]:
    parts = [line.rstrip("\n").split("\t") for line in lines if line.startswith("job\t")]
    return sorted(
        Listed(p[1], p[2], int(p[3]), int(p[4]), int(p[5]), int(p[6]), p[7], p[8], p[9])
        for p in parts
    )


def as_text(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))


def ours(scheduler: JobScheduler) -> list[Listed]:
    found = []
    for job in scheduler.jobs():
        message = scheduler.message(job.job_id)
        assert isinstance(message, ActiveMQTextMessage) and message.content is not None
        found.append(
            Listed(
                *(job.job_id, job.cron_entry, job.delay, job.period, job.repeat),
                *(job.execution_count, as_text(job.start_time), as_text(job.next_time)),
                decode_text(message.content) or "",
            )
        )
    return sorted(found)


def activemq_reads(program: list[str], folder: Path) -> list[Listed]:
    run = subprocess.run(
        [*program, "read", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    return listed(run.stdout.splitlines())


def add(scheduler: JobScheduler, number: int, **options: Any) -> None:
    now = _clock.time_ms()
    job = ScheduledJob(f"ID:ours-1:1:1:{number}", now, now + HOUR + number * 1000, **options)
    message = ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=Queue("later"),
        message_id=MessageId(None, PRODUCER, number, number),
        content=encode_text(f"ours {number} \u00e9"),
    )
    scheduler.add(job, message)


async def test_jobs_of_activemq_open_here_and_go_back(
    jobs_program: list[str], process: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    store = KahaDBJobSchedulerStore(folder / "scheduler", fail_if_locked=True)
    with process([*jobs_program, "write", str(folder)], tmp_path / "log") as child:
        lines = []
        for line in child.stdout:
            lines.append(line)
            if line.startswith("WRITTEN"):
                break
        theirs = listed(lines)
        assert len(theirs) == 22, (tmp_path / "log").read_text(encoding="utf-8")
        # Java's lock keeps us out while it runs
        with pytest.raises(ResourceAllocationException, match="locked"):
            await store.start()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.wait(30) == 0
    store = KahaDBJobSchedulerStore(folder / "scheduler", fail_if_locked=True)
    await store.start()
    scheduler = store.scheduler()
    lasting = [job for job in theirs if job.text != "often"]
    mine = ours(scheduler)
    assert [job for job in mine if job.text != "often"] == lasting
    (often,) = (job for job in mine if job.text == "often")
    # it fired on until the broker stopped
    assert often.repeat + often.execution_count == 900 and often.execution_count >= 5
    scheduler.remove(often.job_id)
    for number in range(5):
        add(scheduler, number)
    expected = ours(scheduler)
    await store.stop()
    assert activemq_reads(jobs_program, folder) == expected
    again = KahaDBJobSchedulerStore(folder / "scheduler")
    await again.start()
    assert ours(again.scheduler()) == expected
    await again.stop()


async def test_jobs_of_ours_open_in_activemq(jobs_program: list[str], tmp_path: Path) -> None:
    """Segments have gone, jobs were written again, some fired, some were removed in all ways."""
    folder = tmp_path / "data"
    settings = JournalSettings(max_file_length=16384)
    store = KahaDBJobSchedulerStore(folder / "scheduler", settings)
    await store.start()
    scheduler = store.scheduler()
    add(scheduler, 1, cron_entry="0 1 1 1 *", repeat=2)
    add(scheduler, 2, delay=10, period=20, repeat=-1)
    add(scheduler, 3, period=1000, repeat=5)
    now = _clock.time_ms()
    for job_id in ("ID:ours-1:1:1:1", "ID:ours-1:1:1:2", "ID:ours-1:1:1:3"):
        scheduler.reschedule(job_id, now + 2 * HOUR)
    for number in range(100, 400):
        add(scheduler, number)
        if number % 3:
            scheduler.remove(f"ID:ours-1:1:1:{number}")
    scheduler.remove_range(now + HOUR + 300_000, now + HOUR + 350_000)
    message = scheduler.message("ID:ours-1:1:1:1")
    assert message is not None
    store.scheduler("other").add(ScheduledJob("o", now, now + HOUR), message)
    store.remove_scheduler("other")
    for _ in range(2):  # what a crash between the copying and the removing leaves
        store.rewrite("JMS", "ID:ours-1:1:1:3")
    expected = ours(scheduler)
    await store.cleanup()
    assert ours(scheduler) == expected and len(expected) > 80
    assert min(store.journal.segments()) > 1
    await store.stop()
    assert activemq_reads(jobs_program, folder) == expected
