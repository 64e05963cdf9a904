"""Clients use the scheduler as they may use the broker, and never its own queues."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.virtual.composite import CompositeQueue

MINUTE = 60_000
TOPIC = Topic("ActiveMQ.Scheduler.Management")
DEAD = "ActiveMQ.DLQ"


def count_in_all(broker: Any) -> int:
    return sum(broker.count(name) for name in ("PyJMS.Scheduled", "PyJMS.Ranges.Marks"))


@pytest.mark.parametrize("orders", [{}, {"AMQ_SCHEDULED_DELAY": 1}])
async def test_the_queue_of_orders_is_not_among_several_destinations(
    broker: Any, orders: dict[str, Any]
) -> None:
    with pytest.raises(IllegalStateException, match="what the scheduler takes in"):
        await broker.send("PyJMS.Scheduled,X", **orders)
    assert (broker.count("X"), count_in_all(broker)) == (0, 0)


@pytest.mark.parametrize("to", ["PyJMS.Ranges", "PyJMS.Ranges.Marks", "X,PyJMS.Ranges"])
async def test_nothing_is_ordered_for_the_queues_of_ranges(broker: Any, to: str) -> None:
    with pytest.raises(IllegalStateException, match=r"sends nothing to queue://PyJMS\.Ranges"):
        await broker.order(to=to, delay=1000)
    assert broker.jobs == []


@pytest.mark.parametrize("to", ["PyJMS.Scheduled", "PyJMS.Ranges", "X,PyJMS.Scheduled"])
async def test_jobs_are_not_listed_to_such_a_queue(broker: Any, to: str) -> None:
    await broker.order(delay=MINUTE)
    with pytest.raises(JMSException, match="sends nothing to"):
        await broker.send(TOPIC, reply_to=Queue(to), AMQ_SCHEDULER_ACTION="BROWSE")
    assert (broker.count("X"), count_in_all(broker)) == (0, 0)


async def test_what_can_be_no_job_leaves_the_queue_as_a_dead_letter(
    timeless: Any, make_broker: Any
) -> None:
    astray = CompositeQueue("in", [Queue("PyJMS.Scheduled")])
    broker = await make_broker(virtual_destinations=(astray,))
    await broker.send("in", "lost?")
    [letter] = await broker.receive(1, DEAD)
    assert letter.text == "lost?"
    assert letter.properties["dlqDeliveryFailureCause"] == "It orders nothing"
    assert broker.count("PyJMS.Scheduled") == 0


async def test_a_delivery_makes_no_destination_that_a_client_may_not_make(broker: Any) -> None:
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


async def test_the_brokers_own_messages_are_not_put_off(broker: Any) -> None:
    message = ActiveMQTextMessage()
    message.message_id = MessageId(None, ProducerId("broker"), 1)
    message.destination = Queue("Q")
    message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": 60 * MINUTE})
    own = ProducerExchange(broker.service.region_broker.context)
    broker.service.broker.send(own, message)
    assert broker.count("Q") == 1


async def test_orders_are_not_mirrored(timeless: Any, make_broker: Any) -> None:
    broker = await make_broker(use_mirrored_queues=True)
    mirror = await broker.session.create_consumer(Topic("VirtualTopic.Mirror.>"))
    await broker.order(delay=MINUTE)
    assert await mirror.receive(1) is None
    message = await mirror.receive(120)
    assert message is not None
    assert message.destination == Topic("VirtualTopic.Mirror.Q")
