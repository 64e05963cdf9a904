"""Jobs are listed and removed by messages to ActiveMQ.Scheduler.Management."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from tests.kit.brokers.scheduled import Make, Scheduling

MINUTE = 60_000
TOPIC = Topic("ActiveMQ.Scheduler.Management")


def ids(broker: Scheduling) -> list[str]:
    return [job.job_id for job in broker.jobs]


@pytest.mark.fact("activemq-broker S8", "activemq-persistence E4")
async def test_browse_sends_one_message_for_each_job(broker: Any) -> None:
    one = await broker.order("one", delay=5 * MINUTE)
    two = await broker.order("two", delay=2 * MINUTE, period=1000, repeat=3)
    replies = await broker.session.create_temporary_queue()
    await broker.send(TOPIC, reply_to=replies, AMQ_SCHEDULER_ACTION="BROWSE")
    found = await broker.receive(1, replies)
    assert [message.text for message in found] == ["two", "one"]
    assert [message.properties["scheduledJobId"] for message in found] == [
        two.message_id,
        one.message_id,
    ]
    assert {message.type for message in found} == {"Advisory"}
    assert {int(message.delivery_mode) for message in found} == {1}
    assert found[0].properties["AMQ_SCHEDULED_REPEAT"] == 3
    assert [m.properties["PyJMSNextTime"] for m in found] == [j.next_time for j in broker.jobs]
    assert len(broker.jobs) == 2


@pytest.mark.fact("activemq-broker S8")
async def test_browse_between_two_times(broker: Any) -> None:
    for minutes in (1, 2, 3):
        await broker.order(str(minutes), delay=minutes * MINUTE)
    middle = broker.jobs[1].next_time
    replies = await broker.session.create_temporary_queue()
    times = {"ACTION_START_TIME": str(middle - 1000), "ACTION_END_TIME": middle + 1000}
    await broker.send(TOPIC, reply_to=replies, AMQ_SCHEDULER_ACTION="BROWSE", **times)
    assert [message.text for message in await broker.receive(1, replies)] == ["2"]


@pytest.mark.fact("activemq-broker S8")
async def test_remove_one_some_and_all(broker: Scheduling) -> None:
    for minutes in (1, 2, 3, 4):
        await broker.order(str(minutes), delay=minutes * MINUTE)
    first, second, third, fourth = broker.jobs
    await broker.manage("REMOVE", scheduledJobId=second.job_id)
    assert ids(broker) == [first.job_id, third.job_id, fourth.job_id]
    for missing in ("no such job", "\ud800"):
        await broker.manage("REMOVE", scheduledJobId=missing)
    times = {"ACTION_START_TIME": third.next_time, "ACTION_END_TIME": fourth.next_time}
    await broker.manage("REMOVEALL", **times)
    assert ids(broker) == [first.job_id]
    await broker.manage("REMOVEALL")
    assert ids(broker) == []
    assert await broker.receive(10 * 60) == []


@pytest.mark.fact("activemq-broker S8")
async def test_management_requests_are_not_delivered_to_consumers(broker: Scheduling) -> None:
    listener = await broker.session.create_consumer(TOPIC)
    everything = await broker.session.create_consumer(Topic("ActiveMQ.Scheduler.>"))
    await broker.manage("REMOVEALL")
    assert await listener.receive(1) is None
    assert await everything.receive(1) is None


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        ({}, "AMQ_SCHEDULER_ACTION is none of BROWSE, REMOVE, REMOVEALL"),
        ({"AMQ_SCHEDULER_ACTION": "browse"}, "is none of"),
        ({"AMQ_SCHEDULER_ACTION": 5}, "is none of"),
        ({"AMQ_SCHEDULER_ACTION": "BROWSE"}, "reply destination"),
        ({"AMQ_SCHEDULER_ACTION": "REMOVE"}, "scheduledJobId"),
        (
            {
                "AMQ_SCHEDULER_ACTION": "REMOVEALL",
                "ACTION_START_TIME": "x",
                "ACTION_END_TIME": 1,
            },
            "ACTION_START_TIME is not an integer",
        ),
    ],
)
async def test_invalid_requests_are_refused(
    broker: Scheduling, request_: dict[str, Any], what: str
) -> None:
    await broker.order(delay=MINUTE)
    with pytest.raises(JMSException, match=what):
        await broker.send(TOPIC, **request_)
    assert len(broker.jobs) == 1


async def test_listing_is_subject_to_flow_control(clock: VirtualClock, make_broker: Make) -> None:
    short = PolicyEntry(destination=Queue("list"), memory_limit=100_000)
    broker = await make_broker(policies=PolicyMap([short]))
    for number in range(300):
        await broker.order("x" * 1000, delay=MINUTE + number)
    await broker.send(TOPIC, reply_to=Queue("list"), AMQ_SCHEDULER_ACTION="BROWSE")
    await broker.session.create_consumer(Queue("other"))
    assert 0 < broker.count("list") < 150
    assert len(await broker.receive(1, "list")) == 300
