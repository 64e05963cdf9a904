"""The broker's internal destinations accept nothing from clients, and spoil no start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyjms.aio import ConnectionFactory, MessageProducer, Session
from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    TransactionRolledBackException,
)
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms_broker.filters.composite_queues import CompositeQueue, FilteredDestination
from pyjms_broker.service import BrokerService
from tests.kit.brokers.internal_messages import store_internal
from tests.kit.clients.raw import Connect

MARKS = "PyJMS.Ranges.Marks"
INTERNAL = [
    Queue("PyJMS.Ranges.Marks"),
    Queue("PyJMS.Scheduled"),
    Queue("PyJMS.Anything"),
    Topic("PyJMS.Ranges.Marks"),
    Topic("ActiveMQ.Scheduler.Jobs"),
    Queue("a,PyJMS.Ranges.Marks"),
]
RECORDS = [
    '{"queue":"q","held":Infinity,"changes":0}',
    '{"queue":"q","held":1e400,"changes":0}',
    '{"queue":"q","held":-1,"changes":0}',
    f'{{"queue":"q","held":{"9" * 5000},"changes":0}}',
    "[" * 100_000 + "]" * 100_000,
    '{"queue":" ","held":1,"changes":0}',
    '{"queue":7,"held":1,"changes":0}',
    '{"queue":"q","held":true,"changes":0}',
    "null",
    "\ud800",
    "",
]


@pytest.mark.parametrize("destination", INTERNAL, ids=str)
@pytest.mark.parametrize("transacted", [False, True])
async def test_clients_cannot_send_to_internal_destinations(
    destination: Destination, transacted: bool
) -> None:
    async with BrokerService("b", persistent=False) as broker:
        async with await ConnectionFactory(broker.vm_uri).create_connection() as connection:
            session = await connection.create_session(transacted)
            producer = await session.create_producer()
            if transacted:  # a send in a transaction has no response; its commit fails
                with pytest.raises(TransactionRolledBackException, match="rollback only"):
                    await send_and_commit(session, producer, destination)
            else:
                with pytest.raises(IllegalStateException, match="is reserved for the broker"):
                    await producer.send(session.create_text_message(), destination=destination)
        found = broker.region_broker.destinations()
        assert not {each for each in found if each.physical_name.startswith("PyJMS.")}


@pytest.mark.parametrize("destination", INTERNAL, ids=str)
async def test_a_clients_producer_creates_no_internal_destination(destination: Destination) -> None:
    async with BrokerService("b", persistent=False) as broker:
        async with await ConnectionFactory(broker.vm_uri).create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(destination)
            with pytest.raises(IllegalStateException, match="is reserved for the broker"):
                await producer.send(session.create_text_message())
            await producer.close()
        found = broker.region_broker.destinations()
        assert not {each for each in found if each.physical_name.startswith("PyJMS.")}


@pytest.mark.parametrize("destination", INTERNAL, ids=str)
async def test_clients_cannot_consume_from_internal_destinations(destination: Destination) -> None:
    async with (
        BrokerService("b", persistent=False) as broker,
        await ConnectionFactory(broker.vm_uri).create_connection() as connection,
    ):
        session = await connection.create_session()
        with pytest.raises(IllegalStateException, match="is reserved for the broker"):
            await session.create_consumer(destination)


@pytest.mark.parametrize("operation", [0, 1], ids=["add", "remove"])
async def test_clients_cannot_add_or_remove_internal_destinations(
    operation: int, service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    store_internal(service, MARKS, "own")
    with pytest.raises(IllegalStateException, match="is reserved for the broker"):
        await client.destination(Queue("PyJMS.Ranges.Marks"), operation)
    assert Queue("PyJMS.Ranges.Marks") in service.region_broker.destinations()


async def test_patterns_do_not_match_internal_destinations() -> None:
    async with (
        BrokerService("b", persistent=False) as broker,
        await ConnectionFactory(broker.vm_uri).create_connection() as connection,
    ):
        await connection.start()
        session = await connection.create_session()
        consumer = await session.create_consumer(Queue(">"))
        store_internal(broker, MARKS, "own")
        later = await session.create_consumer(Queue("PyJMS.>"))
        assert await consumer.receive_no_wait() is None
        assert await later.receive_no_wait() is None


@pytest.mark.parametrize("filtered", [False, True])
def test_a_composite_destination_cannot_forward_to_internal_ones(filtered: bool) -> None:
    target = Queue("PyJMS.Ranges.Marks")
    wanted = FilteredDestination(target, "a = 1") if filtered else target
    with pytest.raises(ConfigurationException, match=r"orders: queue://PyJMS\.Ranges\.Marks is"):
        CompositeQueue("orders", (wanted,))


@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
async def test_no_stored_progress_record_keeps_the_broker_from_starting(
    record: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with BrokerService("b", data_directory=tmp_path) as broker:
        store_internal(broker, MARKS, record)
        store_internal(broker, MARKS, json.dumps({"queue": "good", "held": 3, "changes": 1}))
    async with BrokerService("b", data_directory=tmp_path) as broker:
        assert "which is not a progress record: it is ignored" in caplog.text
        async with await ConnectionFactory(broker.vm_uri).create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Queue("good"))
            await producer.send(session.create_text_message("still works"))


async def send_and_commit(
    session: Session, producer: MessageProducer, destination: Destination
) -> None:
    await producer.send(session.create_text_message(), destination=destination)
    await session.commit()
