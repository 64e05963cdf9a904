"""The scheduler gives clients no access to the broker's reserved queues."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.context import ProducerExchange
from tests.kit.brokers.internal_messages import store_internal
from tests.kit.brokers.scheduled import Make, Scheduling

MINUTE = 60_000
TOPIC = Topic("ActiveMQ.Scheduler.Management")
DEAD = "ActiveMQ.DLQ"


def count_in_all(broker: Scheduling) -> int:
    return sum(broker.count(name) for name in ("PyJMS.Scheduled", "PyJMS.Ranges.Marks"))


@pytest.mark.parametrize("schedule", [{}, {"AMQ_SCHEDULED_DELAY": 1}])
async def test_a_composite_must_not_contain_the_queue_of_schedule_requests(
    broker: Scheduling, schedule: dict[str, Any]
) -> None:
    with pytest.raises(IllegalStateException, match="is reserved for the scheduler"):
        await broker.send("PyJMS.Scheduled,X", **schedule)
    assert (broker.count("X"), count_in_all(broker)) == (0, 0)


@pytest.mark.parametrize("to", ["PyJMS.Ranges", "PyJMS.Ranges.Marks", "X,PyJMS.Ranges"])
async def test_messages_to_reserved_queues_cannot_be_scheduled(broker: Scheduling, to: str) -> None:
    with pytest.raises(IllegalStateException, match=r"PyJMS\.Ranges\S* is reserved"):
        await broker.order(to=to, delay=1000)
    assert broker.jobs == []


@pytest.mark.parametrize("to", ["PyJMS.Scheduled", "PyJMS.Ranges", "X,PyJMS.Scheduled"])
async def test_a_reserved_queue_is_refused_as_reply_destination(
    broker: Scheduling, to: str
) -> None:
    await broker.order(delay=MINUTE)
    with pytest.raises(JMSException, match="is reserved for the broker"):
        await broker.send(TOPIC, reply_to=Queue(to), AMQ_SCHEDULER_ACTION="BROWSE")
    assert (broker.count("X"), count_in_all(broker)) == (0, 0)


async def test_an_invalid_request_becomes_a_dead_letter(broker: Any) -> None:
    store_internal(broker.service, "PyJMS.Scheduled", "lost?", Queue("in"))
    [letter] = await broker.receive(1, DEAD)
    assert letter.text == "lost?"
    assert (
        letter.properties["dlqDeliveryFailureCause"]
        == "The message has no AMQ_SCHEDULED_* properties"
    )
    assert broker.count("PyJMS.Scheduled") == 0


async def test_a_delivery_creates_no_destination_that_a_client_may_not_create(
    broker: Any,
) -> None:
    name = "x" * 9000
    await broker.order(delay=MINUTE)
    await broker.send(TOPIC, reply_to=Queue(name), AMQ_SCHEDULER_ACTION="BROWSE")
    producer = await broker.session.create_producer()
    message = broker.session.create_text_message("x")
    message.properties["AMQ_SCHEDULED_DELAY"] = 1000
    await producer.send(message, destination=Queue(name))
    [letter] = await broker.receive(5, DEAD)
    assert "9000 characters" in letter.properties["dlqDeliveryFailureCause"]
    assert Queue(name) not in broker.service.region_broker.destinations()


async def test_the_brokers_own_messages_are_not_scheduled(broker: Scheduling) -> None:
    message = ActiveMQTextMessage()
    message.message_id = MessageId(None, ProducerId("broker"), 1)
    message.destination = Queue("Q")
    message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": 60 * MINUTE})
    own = ProducerExchange(broker.service.region_broker.context)
    broker.service.broker.send(own, message)
    assert broker.count("Q") == 1


async def test_schedule_requests_are_not_mirrored(clock: VirtualClock, make_broker: Make) -> None:
    broker = await make_broker(use_mirrored_queues=True)
    mirror = await broker.session.create_consumer(Topic("VirtualTopic.Mirror.>"))
    await broker.order(delay=MINUTE)
    assert await mirror.receive(1) is None
    message = await mirror.receive(120)
    assert message is not None
    assert message.destination == Topic("VirtualTopic.Mirror.Q")
