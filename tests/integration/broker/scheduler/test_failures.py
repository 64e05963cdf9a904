"""The scheduler continues when single jobs, destinations or the store fail."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.store.jobs.scheduler import JobIndex, JobScheduler
from tests.kit.brokers.scheduled import Make, Scheduling

MINUTE = 60_000
HOUR = 60 * MINUTE
DEAD = "ActiveMQ.DLQ"


def policy(name: str, **settings: Any) -> dict[str, PolicyMap]:
    return {"policies": PolicyMap([PolicyEntry(destination=Queue(name), **settings)])}


def scheduler(broker: Any) -> JobScheduler:
    store = broker.service.stores.job_store
    return store.scheduler()  # type: ignore[no-any-return]


def replace_stored_job(broker: Scheduling, **schedule: Any) -> None:
    """Change the stored job to one that this broker would have refused."""
    [job] = broker.jobs
    message = scheduler(broker).message(job.job_id)
    assert message is not None
    scheduler(broker).add(job._replace(**schedule), message)


async def test_a_store_error_does_not_stop_the_dispatcher(
    broker: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.order("x", delay=1000)

    def fail(*_: Any) -> Any:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        for name in ("due", "jobs"):
            patch.setattr(JobIndex, name, fail)
        assert await broker.receive(10) == []
    assert [message.text for message in await broker.receive(60)] == ["x"]
    assert "disk I/O error" in caplog.text


@pytest.mark.parametrize(
    ("schedule", "what"),
    [
        ({"cron_entry": "0 0 31 2 *"}, "matches no day"),
        ({"repeat": -1, "period": 0}, "repeats endlessly without a period"),
        ({"repeat": -1, "period": (1 << 63) - 1}, "after the latest time"),
    ],
)
async def test_a_job_with_an_invalid_schedule_ends_with_a_dead_letter(
    broker: Any, schedule: dict[str, Any], what: str
) -> None:
    await broker.order("odd", delay=1000)
    replace_stored_job(broker, **schedule)
    await broker.order("next", delay=2000)
    [letter] = await broker.receive(60, DEAD)
    assert letter.text == "odd"
    assert what in letter.properties["dlqDeliveryFailureCause"]
    assert [message.text for message in await broker.receive(60)] == ["next"]
    assert broker.jobs == []


async def test_an_endless_job_to_a_deleted_destination_ends_with_one_dead_letter(
    broker: Scheduling,
) -> None:
    other = await broker.connect()
    temporary = await (await other.create_session()).create_temporary_queue()
    await broker.order(to=temporary, period=1000, repeat=-1)
    await broker.order(to=temporary, cron="* * * * *")
    await broker.order(to=temporary, cron="* * * * *", period=1000, repeat=1)
    await other.close()
    consumer = await broker.session.create_consumer(Queue(DEAD))
    for _ in range(3):
        assert await consumer.receive(120) is not None
    assert await consumer.receive(120) is None
    assert broker.jobs == []


async def test_a_full_queue_keeps_few_messages_in_memory_and_delays_no_other_queue(
    clock: VirtualClock, make_broker: Any
) -> None:
    broker = await make_broker(**policy("full", memory_limit=3000))
    await broker.order("x" * 1000, to="full", delay=1000)
    [job] = broker.jobs
    message = scheduler(broker).message(job.job_id)
    assert message is not None
    for number in range(2500):
        scheduler(broker).add(job._replace(job_id=f"j{number}", repeat=1, period=HOUR), message)
    await broker.order("free", delay=1000)
    await broker.receive(3, "other")
    there = broker.service.region_broker.destinations()[Queue("full")].statistics
    assert there.blocked_sends <= 10
    assert [message.text for message in await broker.receive(1)] == ["free"]
    await broker.manage("REMOVEALL")
    assert len(await broker.receive(1, "full")) <= 15


async def test_a_long_backlog_is_delivered_completely(
    clock: VirtualClock, make_broker: Make
) -> None:
    broker = await make_broker(**policy("full", memory_limit=100_000))
    await broker.order(to="full", delay=1000)
    [job] = broker.jobs
    message = scheduler(broker).message(job.job_id)
    assert message is not None
    for number in range(2000):
        scheduler(broker).add(job._replace(job_id=f"j{number}", repeat=1), message)
    while broker.count("full") < 50:
        await _clock.sleep(1)
    found = await broker.receive(10, "full")
    assert len(found) == len({message.message_id for message in found}) == 4001
    assert broker.jobs == []


async def test_failing_sends_are_retried_a_few_at_a_time(
    clock: VirtualClock, make_broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    full = policy("full", memory_limit=3000, send_fail_if_no_space=True)
    broker = await make_broker(**full)
    for _ in range(100):
        await broker.order("x" * 1000, to="full", delay=1000)
    await broker.order("free", delay=1500)
    [message] = await broker.receive(3.9)
    assert message.text == "free"
    assert caplog.text.count("is delivered later") <= 10
    consumer = await broker.session.create_consumer(Queue("full"))
    for _ in range(100):
        assert await consumer.receive(1000) is not None
    assert broker.jobs == []


async def test_jobs_in_memory_have_a_limit(clock: VirtualClock, make_broker: Make) -> None:
    broker = await make_broker(memory_limit=20_000)
    limit = broker.service.system_usage.job_scheduler
    assert limit.limit == 20_000
    factory_session = await (await broker.connect()).create_session()
    sent = 0
    with _clock.timeout(60):
        while sent < 100:
            await broker.send(
                "Q",
                "x" * 1000,
                session=factory_session,
                how={"delivery_mode": 1},
                AMQ_SCHEDULED_DELAY=HOUR,
            )
            sent += 1
    assert 5 < sent < 20
    assert limit.used >= 20_000
    await broker.manage("REMOVEALL")
    assert limit.used < 3000
    await broker.manage("REMOVEALL")
    await broker.receive(2)
    await broker.manage("REMOVEALL")
    assert limit.used == 0


@pytest.mark.fact("activemq-broker S4")
async def test_a_cron_entry_starts_no_jobs_above_the_store_limit(
    clock: VirtualClock, make_broker: Make
) -> None:
    broker = await make_broker(job_scheduler_limit=10_000)
    await broker.order("x" * 1000, cron="* * * * *", delay=1000, period=24 * HOUR, repeat=1)
    await broker.receive(65, "other")
    assert len(broker.jobs) == 2
    await broker.receive(3600, "other")
    assert 5 < len(broker.jobs) < 10


async def test_listing_stops_when_its_client_disconnects(
    clock: VirtualClock, make_broker: Make
) -> None:
    broker = await make_broker(**policy("list", memory_limit=10_000))
    for number in range(30):
        await broker.order("x" * 1000, delay=HOUR + number)
    other = await broker.connect()
    session = await other.create_session()
    await broker.send(
        Topic("ActiveMQ.Scheduler.Management"),
        session=session,
        reply_to=Queue("list"),
        AMQ_SCHEDULER_ACTION="BROWSE",
    )
    await broker.receive(1, "other")
    listed = broker.count("list")
    assert 0 < listed < 30
    await other.close()
    assert len(await broker.receive(1, "list")) == listed
