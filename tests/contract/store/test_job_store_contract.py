"""What every job store must do; runs for each implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from pyjms_broker.store.jobs.scheduler import (
    JobScheduler,
    JobSchedulerStore,
    MemoryJobSchedulerStore,
)

STORES: dict[str, Callable[[Path], JobSchedulerStore]] = {
    "memory": lambda _: MemoryJobSchedulerStore(),
    "kahadb": lambda folder: KahaDBJobSchedulerStore(folder / "scheduler"),
}
PRODUCER = ProducerId("c", 1, 1)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JobSchedulerStore]:
    made: JobSchedulerStore = STORES[request.param](tmp_path)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def scheduler(store: JobSchedulerStore) -> JobScheduler:
    return store.scheduler()


def message(text: str) -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=Queue("Q"),
        message_id=MessageId(None, PRODUCER, 1, 1),
        type=text,
    )


def add(scheduler: JobScheduler, job_id: str, next_time: int, **options: Any) -> ScheduledJob:
    job = ScheduledJob(job_id, 1000, next_time, **options)
    scheduler.add(job, message(job_id))
    return job


def _next_time(scheduler: JobScheduler) -> int | None:
    return scheduler.next_time


def ids(jobs: Any) -> list[str]:
    return [job.job_id for job in jobs]


async def test_a_job_is_found_as_it_was_given(scheduler: Any) -> None:
    job = ScheduledJob("a", 1000, 5000, "0 1 * * *", delay=10, period=20, repeat=-1)
    scheduler.add(job, message("body"))
    assert scheduler.get("a") == job
    assert scheduler.message("a").type == "body"
    assert scheduler.get("b") is None and scheduler.message("b") is None
    assert len(scheduler) == 1


async def test_jobs_are_due_in_the_order_of_their_times(scheduler: Any) -> None:
    assert scheduler.next_time is None and scheduler.due(10**15) == []
    for job_id, time in (("c", 3000), ("a", 1000), ("b2", 2000), ("b1", 2000), ("d", 4000)):
        add(scheduler, job_id, time)
    assert _next_time(scheduler) == 1000
    assert scheduler.due(999) == []
    assert ids(scheduler.due(2000)) == ["a", "b2", "b1"]
    assert ids(scheduler.due(9999, limit=2)) == ["a", "b2"]
    # it is still there until it has fired and this is said
    scheduler.remove("a")
    add(scheduler, "often", 1500, period=100, repeat=2)
    scheduler.reschedule("often", 1600)
    often = scheduler.get("often")
    assert (often.next_time, often.repeat, often.execution_count) == (1600, 1, 1)
    assert ids(scheduler.due(1700)) == ["often"]
    scheduler.reschedule("often", 2000)
    assert ids(scheduler.due(2000)) == ["b2", "b1", "often"]
    assert scheduler.get("often").repeat == 0
    scheduler.remove("often")
    assert scheduler.next_time == 2000


async def test_repetitions_of_endless_and_cron_jobs_are_not_used_up(
    scheduler: JobScheduler,
) -> None:
    add(scheduler, "endless", 1000, repeat=-1)
    add(scheduler, "cron", 1000, cron_entry="* * * * *", repeat=4)
    for time in (2000, 3000):
        scheduler.reschedule("endless", time)
        scheduler.reschedule("cron", time)
    assert [(j.repeat, j.execution_count) for j in scheduler.jobs()] == [(-1, 2), (4, 2)]


async def test_unknown_jobs_are_ignored(scheduler: JobScheduler) -> None:
    assert scheduler.remove("none") is COMPLETED
    assert scheduler.reschedule("none", 1) is COMPLETED
    assert len(scheduler) == 0


async def test_a_job_takes_the_place_of_one_with_its_id(scheduler: Any) -> None:
    add(scheduler, "a", 1000)
    job = ScheduledJob("a", 1000, 9000)
    scheduler.add(job, message("newer"))
    assert list(scheduler.jobs()) == [job]
    assert scheduler.message("a").type == "newer"


async def test_jobs_of_a_time_span_are_listed_and_removed(scheduler: JobScheduler) -> None:
    for number in range(1, 9):
        add(scheduler, f"j{number}", number * 1000)
    assert ids(scheduler.jobs(3000, 5000)) == ["j3", "j4", "j5"]
    scheduler.remove_range(3000, 5000)
    assert ids(scheduler.jobs()) == ["j1", "j2", "j6", "j7", "j8"]
    scheduler.remove_range(6000, 6000)
    assert ids(scheduler.jobs(end=7000)) == ["j1", "j2", "j7"]
    scheduler.remove_range()
    assert list(scheduler.jobs()) == []


async def test_many_jobs_with_one_time_are_all_listed(scheduler: JobScheduler) -> None:
    for number in range(1203):
        add(scheduler, f"j{number:04}", 5000)
    assert ids(scheduler.jobs()) == [f"j{number:04}" for number in range(1203)]


async def test_messages_of_removed_jobs_are_released(store: Any, scheduler: Any) -> None:
    for number in range(1500):
        add(scheduler, f"j{number}", number)
        scheduler.remove(f"j{number}")
    add(scheduler, "last", 1)
    assert scheduler.message("last").type == "last"
    frames = getattr(store, "_frames", {})
    assert len(frames) <= 1001


async def test_schedulers_do_not_mix(store: JobSchedulerStore, scheduler: JobScheduler) -> None:
    other = store.scheduler("other")
    add(scheduler, "a", 1000)
    add(other, "a", 2000)
    add(other, "b", 3000)
    assert store.schedulers() == ["JMS", "other"]
    assert (scheduler.next_time, other.next_time) == (1000, 2000)
    store.remove_scheduler("other")
    assert store.schedulers() == ["JMS"]
    assert (len(scheduler), len(other)) == (1, 0)


async def test_what_was_answered_is_safe(store: JobSchedulerStore, scheduler: JobScheduler) -> None:
    answer = scheduler.add(ScheduledJob("a", 1, 2), message("a"))
    if answer is not None:
        await store.checkpoint()
        assert answer.done and answer.error is None
    await store.checkpoint()
    assert store.state is StoreState.RUNNING
