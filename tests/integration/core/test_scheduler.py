"""JmsScheduler, on the bundled broker's scheduler in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from pyjms import UnsupportedOperationException
from pyjms.aio import CachingConnectionFactory, ConnectionFactory, JmsScheduler, JmsTemplate
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock(autojump=True) as clock:
        yield clock


@pytest.fixture
async def factory(clock: VirtualClock) -> AsyncIterator[ConnectionFactory]:
    async with BrokerService("scheduling", persistent=False, scheduler_support=True) as broker:
        yield ConnectionFactory(broker.vm_uri)


@pytest.fixture
def scheduler(factory: ConnectionFactory) -> JmsScheduler:
    return JmsScheduler(factory)


@pytest.fixture
def template(factory: ConnectionFactory) -> JmsTemplate:
    return JmsTemplate(factory, receive_timeout=10_000.0)


async def test_a_fixed_rate(
    scheduler: JmsScheduler, template: JmsTemplate, clock: VirtualClock
) -> None:
    began = clock.now()
    await scheduler.schedule("ticks", {"n": 1}, fixed_rate=60.0, initial_delay=5.0, repeat=2)
    (job,) = await scheduler.jobs()
    assert (job.destination, job.name, job.cron) == (Queue("ticks"), None, None)
    assert (job.delay, job.period, job.repeat) == (5.0, 60.0, 2)
    assert job.next_time is not None
    times = []
    for _ in range(3):
        assert await template.receive_and_convert("ticks") == {"n": 1}
        times.append(round(clock.now() - began))
    assert times == [5, 65, 125]
    assert await scheduler.jobs() == []


async def test_cron_until_it_is_cancelled(
    scheduler: JmsScheduler, template: JmsTemplate, clock: VirtualClock
) -> None:
    await scheduler.schedule("ticks", "x", cron="*/20 * * * *", properties={"a": 1})
    (job,) = await scheduler.jobs()
    assert (job.cron, job.destination) == ("0,20,40 * * * *", Queue("ticks"))
    for _ in range(3):
        message: Any = await template.receive("ticks")
        assert datetime.fromtimestamp(clock.time_ms() / 1000, UTC).minute % 20 == 0
        assert message.properties["a"] == 1
        assert message.properties["scheduledJobId"] == job.id
    await scheduler.cancel(job)
    assert await scheduler.jobs() == []
    await scheduler.cancel(job.id)  # no error


async def test_a_job_with_a_name_exists_once(factory: ConnectionFactory) -> None:
    """Also if several processes request it at the same time."""

    async def ask(rate: float) -> None:
        scheduler = JmsScheduler(CachingConnectionFactory(factory))
        await scheduler.schedule("ticks", "x", fixed_rate=rate, name="clean-up")

    scheduler = JmsScheduler(factory)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask, 60.0)
    (first,) = await scheduler.jobs("clean-up")
    await ask(60.0)
    assert await scheduler.jobs() == [first]
    await ask(30.0)
    (changed,) = await scheduler.jobs()
    assert (changed.name, changed.period) == ("clean-up", 30.0)
    await scheduler.schedule("ticks", "x", fixed_rate=60.0, name="other")
    assert await scheduler.cancel_named("clean-up") == 1
    assert await scheduler.cancel_named("clean-up") == 0
    assert [job.name for job in await scheduler.jobs()] == ["other"]


async def test_without_a_name_it_is_part_of_the_transaction(factory: ConnectionFactory) -> None:
    scheduler = JmsScheduler(JmsTemplate(factory))
    async with JmsTransactionManager(factory).transaction() as status:
        await scheduler.schedule("ticks", "x", fixed_rate=60.0)
        await scheduler.schedule("ticks", "x", fixed_rate=60.0, name="at once")
        status.set_rollback_only()
    assert [job.name for job in await scheduler.jobs()] == ["at once"]


async def test_a_broker_without_a_scheduler_is_an_error(clock: VirtualClock) -> None:
    async with BrokerService("without", persistent=False) as broker:
        scheduler = JmsScheduler(ConnectionFactory(broker.vm_uri))
        with pytest.raises(UnsupportedOperationException, match="The broker has no scheduler"):
            await scheduler.jobs()
        with pytest.raises(UnsupportedOperationException, match="schedulerSupport"):
            await scheduler.schedule("ticks", "x", fixed_rate=60.0, name="n")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, TypeError, "Give either cron"),
        ({"cron": "0 6 * * *", "fixed_rate": 1.0}, TypeError, "Give either cron"),
        ({"fixed_rate": 1.0, "delay": 1.0}, TypeError, "initial_delay"),
        ({"fixed_rate": 0}, ValueError, "fixed_rate"),
        ({"cron": "0 6 * *"}, ValueError, "write minute, hour"),
    ],
)
async def test_invalid_schedules(
    arguments: dict[str, Any], error: type[Exception], words: str, scheduler: JmsScheduler
) -> None:
    with pytest.raises(error, match=words):
        await scheduler.schedule("ticks", "x", **arguments)


async def test_views_of_a_template(template: JmsTemplate, clock: VirtualClock) -> None:
    """`with_...` of JmsClient, on the template itself."""
    began = clock.now()
    later = template.with_delay(5.0).with_priority(9).with_time_to_live(60.0)
    await later.convert_and_send("q", "later")
    await template.with_delivery_persistent(False).convert_and_send("q", "at once")
    message: Any = await template.receive("q")
    assert (message.text, int(message.delivery_mode)) == ("at once", 1)
    message = await template.receive("q")
    assert (message.text, message.priority, clock.now() - began >= 5.0) == ("later", 9, True)
    assert message.expiration - message.timestamp == 60_000
    assert await template.with_receive_timeout(0.5).receive("q") is None
    assert (template.delivery_delay, template.priority, template.time_to_live) == (None, 4, 0.0)
    with pytest.raises(ValueError, match="delay"):
        template.with_delay(-1)
