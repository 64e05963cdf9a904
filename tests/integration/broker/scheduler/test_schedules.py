"""Delayed and repeated messages: in virtual time, by a broker in memory."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import TextMessage
from pyjms.runtime import clock as _clock
from pyjms_broker.service import BrokerService
from tests.kit.brokers.scheduled import Make, Scheduling

HOUR = 3600.0


def texts(messages: list[Any]) -> list[str]:
    return [message.text for message in messages]


@pytest.mark.fact("activemq-broker S1", "activemq-broker S2")
@pytest.mark.parametrize("delay", [2000, "2000"])
async def test_a_delayed_message_is_delivered_after_its_delay(
    broker: Scheduling, delay: int | str
) -> None:
    await broker.order("late", delay=delay)
    await broker.send("Q", "now")
    found = await broker.receive(10)
    assert texts(found) == ["now", "late"]
    assert 2.0 <= broker.arrivals[1] <= 2.5  # ActiveMQ rounds up to half a second
    assert broker.jobs == []


@pytest.mark.fact("activemq-broker S2")
async def test_a_period_alone_is_a_delay_and_one_delivery(broker: Scheduling) -> None:
    await broker.order(period=3000)
    found = await broker.receive(60)
    assert len(found) == 1
    assert 3.0 <= broker.arrivals[0] <= 3.5


@pytest.mark.fact("activemq-broker S3")
async def test_repetitions_are_one_more_than_their_number(broker: Scheduling) -> None:
    await broker.order(delay=1000, period=2000, repeat=3)
    found = await broker.receive(60)
    assert [round(at) for at in broker.arrivals] == [1, 3, 5, 7]
    assert len({message.message_id for message in found}) == 4
    assert broker.jobs == []


@pytest.mark.fact("activemq-broker S3")
async def test_a_negative_repeat_count_is_endless(broker: Scheduling) -> None:
    await broker.order(period=3_600_000, repeat=-1)
    consumer = await broker.session.create_consumer(Queue("Q"))
    for _ in range(10):
        assert await consumer.receive(2 * HOUR) is not None
    [job] = broker.jobs
    assert job.repeat == -1
    assert job.execution_count == 10


@pytest.mark.fact("activemq-broker S3")
async def test_too_many_repetitions_are_refused(make_broker: Make) -> None:
    broker = await make_broker(max_scheduler_repeat_allowed=5)
    with pytest.raises(JMSException, match="The scheduled repeat value is too large"):
        await broker.order(period=1, repeat=6)
    assert broker.jobs == []


@pytest.mark.fact("activemq-broker S1")
@pytest.mark.parametrize(
    ("schedule", "what"),
    [
        ({"delay": "soon"}, "AMQ_SCHEDULED_DELAY is not an integer"),
        ({"delay": 1.5}, "AMQ_SCHEDULED_DELAY is not an integer"),
        ({"delay": True}, "AMQ_SCHEDULED_DELAY is not an integer"),
        ({"delay": 2**60}, "AMQ_SCHEDULED_DELAY is too large"),
        ({"delay": 1, "repeat": -1}, "endless"),
        ({"cron": "* * * * *", "repeat": -1}, "endless"),
        ({"cron": 5}, "AMQ_SCHEDULED_CRON is not a string"),
        ({"cron": "* *"}, "2 fields"),
        ({"cron": "0 0 30 2 *"}, "matches no day"),
    ],
)
async def test_invalid_properties_are_refused_by_name(
    make_broker: Make, schedule: dict[str, Any], what: str
) -> None:
    broker = await make_broker()
    with pytest.raises(JMSException, match=what):
        await broker.order(**schedule)
    assert broker.jobs == []
    await broker.send("Q", "the rest goes on working")
    assert len(await broker.receive(0.2)) == 1


@pytest.mark.fact("activemq-broker S4")
async def test_a_cron_entry_alone_delivers_each_time(broker: Any) -> None:
    await broker.order(cron="*/10 * * * *")
    consumer = await broker.session.create_consumer(Queue("Q"))
    found = [await consumer.receive(HOUR) for _ in range(7)]
    stamps = {message.message_id for message in found}
    assert len(stamps) == 7
    [job] = broker.jobs
    assert job.next_time % 600_000 == 0


@pytest.mark.fact("activemq-broker S2", "activemq-broker S4")
async def test_the_delay_is_added_to_the_first_time_of_a_cron_entry(broker: Scheduling) -> None:
    await broker.order(cron="0 * * * *", delay=90_000)
    [job] = broker.jobs
    assert job.next_time % 3_600_000 == 90_000


@pytest.mark.fact("activemq-broker S4")
async def test_a_cron_entry_with_repetitions_starts_a_job_each_time(broker: Scheduling) -> None:
    await broker.order(cron="0 * * * *", delay=1000, period=2000, repeat=1)
    consumer = await broker.session.create_consumer(Queue("Q"))
    for _ in range(4):
        assert await consumer.receive(2 * HOUR) is not None
    hours = [job for job in broker.jobs if job.cron_entry]
    assert len(hours) == 1
    assert hours[0].execution_count == 2


@pytest.mark.fact("activemq-broker S4")
async def test_a_time_of_a_cron_entry_with_repetitions_delivers_nothing_itself(
    broker: Scheduling,
) -> None:
    await broker.order(cron="0 * * * *", delay=1000, period=2000, repeat=1)
    consumer = await broker.session.create_consumer(Queue("Q"))
    hours = []
    for _ in range(6):
        assert await consumer.receive(2 * HOUR) is not None
        hours.append(_clock.time_ms() // 3_600_000)
    first = hours[0]
    assert hours == [first, first, first + 1, first + 1, first + 2, first + 2]


@pytest.mark.fact("activemq-broker S5")
async def test_a_delivered_message_has_the_job_id_instead_of_the_schedule(
    broker: Scheduling,
) -> None:
    sent = await broker.order(delay=60_000, repeat=0)
    properties = await broker.send("Q", "other", AMQ_SCHEDULED_DELAY=60_000, n=5)
    assert properties.properties["n"] == 5
    first, second = await broker.receive(120)
    assert first.message_id == sent.message_id
    assert dict(first.properties) == {"scheduledJobId": sent.message_id}
    assert second.properties["n"] == 5
    assert first.timestamp == sent.timestamp


@pytest.mark.fact("activemq-broker S5")
async def test_the_time_to_live_counts_from_the_delivery(broker: Scheduling) -> None:
    sent = await broker.send("Q", how={"time_to_live": 2}, AMQ_SCHEDULED_DELAY=60_000)
    consumer = await broker.session.create_consumer(Queue("Q"))
    message = await consumer.receive(120)
    assert message is not None
    assert message.expiration - message.timestamp == 2000
    assert message.timestamp - sent.timestamp >= 60_000


@pytest.mark.fact("activemq-broker S1")
async def test_without_scheduler_support_messages_are_delivered_at_once() -> None:
    async with BrokerService("no-scheduler", persistent=False) as service:
        connection = await ConnectionFactory(service.vm_uri).create_connection()
        async with connection:
            await connection.start()
            session = await connection.create_session()
            producer = await session.create_producer(Queue("Q"))
            message = TextMessage("x")
            message.properties["AMQ_SCHEDULED_DELAY"] = 3_600_000
            await producer.send(message)
            consumer = await session.create_consumer(Queue("Q"))
            found = await consumer.receive(5)
            assert found is not None
            assert found.properties["AMQ_SCHEDULED_DELAY"] == 3_600_000


@pytest.mark.fact("activemq-broker X8")
async def test_a_schedule_in_a_transaction_counts_from_the_commit(broker: Scheduling) -> None:
    session = await broker.connection.create_session(True)
    await broker.send("Q", "rolled back", session=session, AMQ_SCHEDULED_DELAY=1000)
    assert broker.jobs == []
    await session.rollback()
    await broker.send("Q", "committed", session=session, AMQ_SCHEDULED_DELAY=1000)
    assert broker.jobs == []
    await session.commit()
    assert len(broker.jobs) == 1
    assert texts(await broker.receive(10)) == ["committed"]


async def test_delivery_to_a_topic_a_virtual_topic_and_a_composite(broker: Scheduling) -> None:
    listener = await broker.session.create_consumer(Topic("T"))
    app = await broker.session.create_consumer(Queue("Consumer.app.VirtualTopic.v"))
    await broker.order(to=Topic("T"), delay=1000)
    await broker.order(to=Topic("VirtualTopic.v"), delay=1000)
    await broker.order(to="one,two", delay=1000)
    assert broker.count("PyJMS.Scheduled") == 0
    assert await listener.receive(10) is not None
    assert await app.receive(10) is not None
    for name in ("one", "two"):
        [message] = await broker.receive(10, name)
        assert message.destination == Queue(name)


async def test_a_wildcard_consumer_gets_a_message_when_it_is_due_and_not_before(
    broker: Scheduling,
) -> None:
    consumer = await broker.session.create_consumer(Queue(">"))
    await broker.order(delay=5000)
    assert await consumer.receive(4) is None
    assert await consumer.receive(4) is not None


async def test_a_message_to_a_deleted_destination_becomes_a_dead_letter(broker: Any) -> None:
    other = await broker.connect()
    temporary = await (await other.create_session()).create_temporary_queue()
    await broker.order("lost?", to=temporary, delay=60_000)
    await other.close()
    consumer = await broker.session.create_consumer(Queue("ActiveMQ.DLQ"))
    letter = await consumer.receive(120)
    assert letter is not None
    assert letter.text == "lost?"
    assert "temp-queue" in letter.properties["dlqDeliveryFailureCause"]
    assert broker.jobs == []


async def test_the_queue_of_schedule_requests_is_reserved(broker: Any) -> None:
    await broker.order(delay=1000)
    with pytest.raises(IllegalStateException):
        await broker.send("PyJMS.Scheduled", AMQ_SCHEDULED_DELAY=1)
    with pytest.raises(IllegalStateException):
        await broker.send("PyJMS.Scheduled")
    replies = await broker.session.create_temporary_queue()
    lease = '{"op": "lease", "queue": "PyJMS.Scheduled", "owner": "me"}'
    await broker.send("PyJMS.Ranges", lease, reply_to=replies)
    [answer] = await broker.receive(1, replies)
    assert "is reserved for the broker" in answer.text
    assert len(await broker.receive(5)) == 1


async def test_a_duplicate_id_is_detected_on_its_own_queue_only(broker: Any) -> None:
    schedule = {"_AMQ_DUPL_ID": "1", "AMQ_SCHEDULED_DELAY": 1000}
    for to in ("Q", "Q", "other"):
        await broker.send(to, to, **schedule)
    [message] = await broker.receive(5)
    assert message.properties["_AMQ_DUPL_ID"] == "1"
    await broker.send("Q", "again", _AMQ_DUPL_ID="1")
    await broker.send("Q", "and again", **schedule)
    assert await broker.receive(5) == []
    assert texts(await broker.receive(5, "other")) == ["other"]


async def test_repetitions_are_not_duplicates(broker: Scheduling) -> None:
    await broker.send("Q", _AMQ_DUPL_ID="1", AMQ_SCHEDULED_PERIOD=1000, AMQ_SCHEDULED_REPEAT=2)
    assert len(await broker.receive(5)) == 3
