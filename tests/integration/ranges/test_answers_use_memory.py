"""Answers to range requests count towards the broker's limits, and wait for space."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import TextMessage
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from tests.kit.stores.ranges import Broker, MakeBroker, RangesClient
from tests.kit.values import present
from tests.kit.waiting import until

MEGABYTE = 1 << 20
LIMIT = 8 * MEGABYTE
TEXT = "x" * 100_000
MESSAGES = 40


async def filled(make_broker: MakeBroker, **attributes: Any) -> Broker:
    broker = await make_broker("kahadb", memory_limit=LIMIT, **attributes)
    await broker.send("IN", *[TEXT] * MESSAGES)
    return broker


async def flood(client: RangesClient, to: Destination, count: int = 32) -> None:
    """Request the same range again and again, receiving no answer."""
    producer = await client.session.create_producer(Queue("PyJMS.Ranges"))
    for _ in range(count):
        request = {"op": "range", "queue": "IN", "from": 1, "to": MESSAGES + 1}
        message = TextMessage(json.dumps(request))
        message.reply_to = to
        await producer.send(message)


async def silent_queue(broker: Broker) -> tuple[RangesClient, Destination]:
    """Return a client, and a temporary queue of it that nothing is received from."""
    client = await broker.client()
    return client, await client.session.create_temporary_queue()


async def test_unreceived_answers_stay_within_memory(make_broker: MakeBroker) -> None:
    broker = await filled(make_broker)
    memory = broker.service.region_broker.system_usage.memory
    for _ in range(3):
        await flood(*await silent_queue(broker))
    await until(lambda: memory.is_full)
    reader = await broker.client()
    for _ in range(3):  # whose queue is empty goes on, though there is no room
        token = (await reader.ask("lease", queue="IN", owner="q"))["token"]
        _, message = await reader.chunk(token, 1, MESSAGES + 1)
        assert int(str(message.properties["next"])) > 1
    assert memory.used < LIMIT + 4 * MEGABYTE


async def test_waiting_answers_come_when_there_is_room(make_broker: MakeBroker) -> None:
    broker = await filled(make_broker)
    memory = broker.service.region_broker.system_usage.memory
    client, answers = await silent_queue(broker)
    await flood(client, answers)
    await until(lambda: memory.is_full)
    consumer = await client.session.create_consumer(answers)
    for _ in range(32):
        message = await consumer.receive()
        assert [number for number, _ in client.texts(present(message))] == list(range(1, 11))


async def test_answers_to_a_queue_stay_within_the_temp_limit(make_broker: MakeBroker) -> None:
    broker = await filled(make_broker, temp_limit=6 * MEGABYTE)
    client = await broker.client()
    await flood(client, Queue("ANSWERS"))
    temp = broker.service.region_broker.system_usage.temp
    await until(temp.is_full)
    assert temp.used < 8 * MEGABYTE
    session = await client.connection.create_session()
    consumer = await session.create_consumer(Queue("ANSWERS"))
    for _ in range(32):
        assert await consumer.receive() is not None


async def test_a_reader_whose_queue_fills_all_memory_continues(make_broker: MakeBroker) -> None:
    policies = PolicyMap(
        [PolicyEntry(destination=Queue(">"), pending_queue_policy="vmQueueCursor")]
    )
    broker = await make_broker("kahadb", memory_limit=MEGABYTE, policies=policies)
    memory = broker.service.region_broker.system_usage.memory
    session = await (await broker.connect()).create_session()
    producer = await session.create_producer(Queue("IN"))
    while not memory.is_full:
        await producer.send(TextMessage(TEXT))
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q")
    assert len(await reader.range(lease["token"], lease["first"], lease["next"])) > 1
    await reader.ask("trim", token=lease["token"], to=lease["next"])
    assert not memory.is_full


async def test_refusals_also_wait_for_space(make_broker: MakeBroker) -> None:
    broker = await filled(make_broker)
    client, answers = await silent_queue(broker)
    with pytest.raises(JMSException, match="More than 32 requests at a time"):
        for _ in range(2000):
            await flood(client, answers)
    memory = broker.service.region_broker.system_usage.memory
    assert memory.used < LIMIT + 2 * MEGABYTE


async def test_answers_go_only_where_their_client_may_send(make_broker: MakeBroker) -> None:
    broker = await filled(make_broker)
    client = await broker.client()
    for name, reason in (
        ("PyJMS.Ranges.Marks", "reserved for the broker"),
        ("ActiveMQ.Scheduler.Jobs", "reserved for the broker"),
        ("A,PyJMS.Ranges.Marks", "single reply destination"),
        ("A,B", "single reply destination"),
    ):
        with pytest.raises(JMSException, match=reason):
            await flood(client, Queue(name), 1)
