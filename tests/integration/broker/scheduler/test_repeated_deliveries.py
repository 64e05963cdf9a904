"""Repeated deliveries and requests: the same ids, nothing done twice. (activemq-persistence E3)"""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import spawn
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.region.queue import Queue as BrokerQueue
from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from pyjms_broker.store.jobs.scheduler import JobScheduler
from tests.kit.brokers.scheduled import (
    Make,
    Scheduling,
    deliver_without_end,
    replace_deliveries,
    scheduler_of,
)

HOUR = 3_600_000


async def test_of_two_destinations_the_one_with_space_gets_each_repetition_once(
    clock: VirtualClock, make_broker: Make
) -> None:
    full = PolicyEntry(destination=Queue("full"), memory_limit=2000, send_fail_if_no_space=True)
    broker = await make_broker(policies=PolicyMap([full]))
    await broker.send("full", "x" * 2000)
    await broker.order(to="one,full", period=1000, repeat=3)
    consumer = await broker.session.create_consumer(Queue("one"))
    assert await consumer.receive(30) is not None
    assert await consumer.receive(30) is None, "which is tried again meanwhile"
    await consumer.close()
    found = await broker.receive(30, "full")
    assert len(found) == 5
    assert len(await broker.receive(30, "one")) == 3
    assert broker.jobs == []


async def test_a_repetition_that_was_not_rescheduled_is_repeated_with_the_same_id(
    make_broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await make_broker(persistent=True)
    deliver_without_end(broker, monkeypatch)
    monkeypatch.setattr(
        "pyjms_broker.filters.scheduler.job_dispatcher._STOP_TIMEOUT", 0.0
    )  # that never come
    await broker.order("x", delay=100, period=HOUR, repeat=2)
    await broker.until(lambda: broker.count("Q") == 1)
    assert broker.jobs[0].execution_count == 0
    await broker.restart()
    await broker.until(lambda: broker.jobs[0].execution_count == 1)
    assert len(await broker.receive(0.3)) == 1


async def test_a_delivery_that_ends_while_the_broker_stops_is_settled(
    make_broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await make_broker(persistent=True)
    delivered: list[Completion] = []

    def send(exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        delivered.append(Completion())
        return delivered[-1]

    replace_deliveries(broker, monkeypatch, send)
    await broker.order("x", delay=10)
    await broker.until(lambda: delivered)
    stopping = spawn(broker.stop, name="stop")
    await _clock.sleep(0.1)
    delivered[0].complete()
    await stopping.wait()
    await broker.start()
    assert broker.jobs == []


@pytest.mark.fact("activemq-broker S4")
async def test_each_time_of_a_cron_entry_starts_one_job_even_if_repeated(
    broker: Any,
) -> None:
    await broker.order(cron="0 * * * *", delay=1000, period=30 * 60_000, repeat=1)
    [parent] = broker.jobs
    jobs = broker.service.stores.job_store.scheduler()
    await broker.receive((parent.next_time - _clock.time_ms()) / 1000 + 0.5, "other")
    children = [job for job in broker.jobs if job.job_id != parent.job_id]
    assert [job.job_id for job in children] == [f"{parent.job_id}:0"]
    for fired in (0, 1):
        message = jobs.message(parent.job_id)
        jobs.add(parent, message)  # as after a crash before the tick was noted
        scheduler_of(broker)._dispatcher.wake()
        await broker.receive(5)
        [child] = [job for job in broker.jobs if job.job_id != parent.job_id]
        assert child.execution_count == 1, fired


async def test_a_job_that_has_fired_is_not_restarted_by_its_remaining_request(
    make_broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await make_broker(persistent=True)
    monkeypatch.setattr(BrokerQueue, "remove_for_reader", lambda *_: False)
    await broker.order("x", delay=50, period=HOUR, repeat=5)
    await broker.until(lambda: broker.count("Q") == 1)
    assert broker.count("PyJMS.Scheduled") == 1
    monkeypatch.undo()
    await broker.restart()
    await _clock.sleep(0.3)
    assert [job.execution_count for job in broker.jobs] == [1]
    assert (broker.count("Q"), broker.count("PyJMS.Scheduled")) == (1, 0)


async def test_a_job_does_not_fire_before_its_request_is_removed(
    broker: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Completion()
    add = JobScheduler.add

    def add_until_stored(*arguments: Any) -> Completion:
        add(*arguments)
        return stored

    with monkeypatch.context() as patch:
        patch.setattr(JobScheduler, "add", add_until_stored)
        await broker.order("x", delay=1000)
        scheduler_of(broker)._dispatcher.wake()
        assert await broker.receive(60) == []
    stored.complete()
    assert len(await broker.receive(1)) == 1


async def test_a_removal_completes_when_it_is_durable(
    make_broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await make_broker(persistent=True)
    sent = await broker.order("x", delay=HOUR)
    await broker.until(lambda: broker.jobs)
    record, synced = KahaDBJobSchedulerStore.record, Completion()

    def slow(store: Any, command: Any, *, sync: bool) -> Completion:
        record(store, command, sync=sync)
        assert sync
        return synced

    monkeypatch.setattr(KahaDBJobSchedulerStore, "record", slow)
    removing = spawn(lambda: broker.manage("REMOVE", scheduledJobId=sent.message_id), name="remove")
    await broker.until(lambda: not broker.jobs)
    await _clock.sleep(0.1)
    assert not removing.done
    synced.complete()
    await removing.wait()
    assert removing.error is None


@pytest.mark.fact("activemq-broker S5")
async def test_a_request_does_not_expire_while_it_waits_for_space(
    make_broker: Make,
) -> None:
    broker = await make_broker(persistent=True, job_scheduler_limit=1)
    session = await (await broker.connect()).create_session()
    await broker.send("Q", session=session, AMQ_SCHEDULED_DELAY=3_600_000)  # uses the space
    how = {"time_to_live": 0.3}
    sending = spawn(
        lambda: broker.send("Q", session=session, how=how, AMQ_SCHEDULED_DELAY=1), name="send"
    )
    await _clock.sleep(0.6)
    assert not sending.done
    broker.service.system_usage.job_scheduler.limit = 0
    consumer = await broker.session.create_consumer(Queue("Q"))
    message = await consumer.receive(5)
    assert message is not None
    assert message.expiration - message.timestamp == 300
    assert dict(message.properties).keys() == {"scheduledJobId"}
    await sending.wait()
