"""`@jms_scheduled`: the broker's scheduler calls handlers; virtual time."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms import (
    ConfigurationException,
    JmsApplication,
    Message,
    PyjmsSettings,
    jms_listener,
    jms_scheduled,
)
from pyjms.aio import ConnectionFactory, JmsScheduler, JmsTemplate
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from tests.kit.waiting import until as until_in_real_time

MINUTE = 60.0


async def until(condition: Callable[[], object]) -> None:
    """Wait in virtual time."""
    await until_in_real_time(condition, turn=lambda: _clock.sleep(1.0))


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock(autojump=True) as clock:
        yield clock


def broker(name: str = "schedules", *, scheduler: bool = True) -> BrokerService:
    return BrokerService(name, persistent=False, scheduler_support=scheduler)


def application(*targets: object, name: str = "schedules", **sections: Any) -> JmsApplication:
    settings = PyjmsSettings.model_validate(sections)
    return JmsApplication(*targets, settings=settings.with_broker_url(f"vm://{name}?create=false"))


@asynccontextmanager
async def running(*targets: object, **sections: Any) -> AsyncIterator[JmsApplication]:
    async with broker(), application(*targets, **sections) as app:
        yield app


class Counter:
    """Handlers with the same schedule, and their calls."""

    def __init__(self, clock: VirtualClock, name: str = "") -> None:
        self.clock = clock
        self.name = name
        self.times: list[float] = []

    @jms_scheduled(cron="* * * * *", id="minutely")
    async def tick(self) -> None:
        self.times.append(self.clock.time_ms() / 1000)

    async def reached(self, number: int) -> None:
        await until(lambda: len(self.times) >= number)


async def test_a_function_is_called_at_its_times(clock: VirtualClock) -> None:
    counter = Counter(clock)
    async with running(counter) as app:
        (job,) = await app.scheduler.jobs()
        assert (job.name, job.cron, str(job.destination)) == (
            "minutely",
            "* * * * *",
            "queue://pyjms.scheduled.minutely",
        )
        await counter.reached(3)
    assert all(time % MINUTE < 5 for time in counter.times)
    assert len({time // MINUTE for time in counter.times}) == len(counter.times)


async def test_of_several_processes_one_gets_each_tick(clock: VirtualClock) -> None:
    one, two = Counter(clock, "one"), Counter(clock, "two")
    async with broker(), anyio.create_task_group() as tasks:
        applications = [application(one), application(two)]
        for each in applications:
            tasks.start_soon(each.start)
        await until(lambda: all(each.is_running for each in applications))
        await until(lambda: len(one.times) + len(two.times) >= 4)
        for each in applications:
            await each.stop()
    minutes = [time // MINUTE for time in one.times + two.times]
    assert len(minutes) == len(set(minutes))


async def test_a_tick_waits_until_a_process_runs(clock: VirtualClock) -> None:
    counter = Counter(clock)
    async with broker():
        async with application(counter):
            pass
        await clock.advance(2 * MINUTE)
        assert counter.times == []
        async with application(counter):
            await counter.reached(2)
    assert counter.times[0] == counter.times[1]


async def test_a_tick_that_expires_does_not_wait(clock: VirtualClock) -> None:
    calls: list[object] = []

    @jms_scheduled(fixed_rate=MINUTE, expires=10.0, id="expiring")
    async def handler(message: Message) -> None:
        calls.append(message.expiration)

    async with broker():
        async with application(handler):
            pass
        await clock.advance(2 * MINUTE + 30)
        async with application(handler):
            await until(lambda: bool(calls))
    assert len(calls) == 1


async def test_a_fixed_rate_a_payload_and_a_failure(clock: VirtualClock) -> None:
    calls: list[tuple[str, float]] = []
    began = clock.now()

    @jms_scheduled(fixed_rate=60.0, initial_delay=5.0, payload={"kind": "full"}, id="work")
    def handler(order: dict[str, str]) -> None:
        calls.append((order["kind"], round(clock.now() - began)))
        if len(calls) == 1:
            raise OSError("no disk")

    async with running(handler):
        await until(lambda: len(calls) >= 3)
    assert calls == [("full", 5), ("full", 6), ("full", 65)]


async def test_yaml_changes_a_schedule_and_switches_it_off(clock: VirtualClock) -> None:
    counter = Counter(clock)
    async with broker():
        for given, cron, period in (
            ({}, "* * * * *", None),
            ({"cron": "${app.when}"}, "0,30 * * * *", None),
            ({"fixed_rate": "90s"}, None, 90.0),
        ):
            app = application(counter, listeners={"minutely": given}, app={"when": "*/30 * * * *"})
            async with app:
                (job,) = await app.scheduler.jobs()
                assert (job.cron, job.period) == (cron, period)
        app = application(counter, listeners={"minutely": {"cron": "-"}})
        async with app:
            assert await app.scheduler.jobs() == []


async def test_a_broker_without_a_scheduler_is_an_error_of_the_start(clock: VirtualClock) -> None:
    async with broker(scheduler=False):
        app = application(Counter(clock))
        with pytest.raises(ConfigurationException) as raised:
            await app.start()
        assert not app.is_running
    assert "@jms_scheduled minutely: The broker has no scheduler" in str(raised.value)
    assert "scheduler_support: true in broker.yaml" in str(raised.value)


def made(caplog: pytest.LogCaptureFixture) -> list[str]:
    name = "pyjms.app.schedules"
    return [record.getMessage() for record in caplog.records if record.name == name]


async def test_a_job_waits_for_its_broker(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    counter = Counter(clock)
    caplog.set_level(logging.INFO, logger="pyjms.app.schedules")
    async with application(counter):
        assert made(caplog) == []
        async with broker():
            await counter.reached(1)
        # in memory: what comes back has no jobs
        before = len(counter.times)
        async with broker():
            await counter.reached(before + 1)
    assert made(caplog) == ["Scheduled: minutely at * * * * * of the broker's time"] * 2


async def test_a_broker_that_comes_without_a_scheduler_is_reported(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def reported() -> bool:
        return "The schedule of minutely cannot be created: @jms_scheduled minutely" in caplog.text

    async with application(Counter(clock)), broker(scheduler=False):
        await until(reported)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"minutely": {"cron": "* * *"}}, "Listener 'minutely': Invalid cron entry"),
        ({"plain": {"cron": "* * * * *"}}, "cron and fixed_rate apply to @jms_scheduled only"),
    ],
)
def test_a_check_finds_invalid_schedules(given: dict[str, Any], words: str) -> None:
    class Both(Counter):
        @jms_scheduled(fixed_rate=1.0, id="other")
        async def other(self) -> None: ...

    @jms_listener("plain", id="plain")
    async def plain(text: str) -> None: ...

    with pytest.raises(ConfigurationException, match=words):
        application(Both(VirtualClock()), plain, listeners=given).check()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, TypeError),
        ({"cron": "* * * * *", "fixed_rate": 1.0}, TypeError),
        ({"fixed_rate": 0.0}, ValueError),
        ({"fixed_rate": "1s"}, TypeError),
        ({"cron": "* * * * *", "expires": -1}, ValueError),
    ],
)
def test_a_mark_refuses_invalid_schedules(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        jms_scheduled(**arguments)


async def test_jobs_of_code(clock: VirtualClock) -> None:
    """A schedule without a mark: `app.scheduler`, and what listens is any listener."""
    async with running() as app:
        await app.scheduler.schedule("reports", "x", fixed_rate=60.0, name="reports")
        template = JmsTemplate(app.template.connection_factory, receive_timeout=100.0)
        assert await template.receive_and_convert("reports") == "x"
        other = JmsScheduler(ConnectionFactory("vm://schedules?create=false"))
        assert await other.cancel_named("reports") == 1
