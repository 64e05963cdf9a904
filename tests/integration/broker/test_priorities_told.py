"""Priorities without effect are one line in the broker's log."""

from __future__ import annotations

import pytest

from pyjms import DeliveryMode
from pyjms.aio import ConnectionFactory
from pyjms.jms.destination import Queue
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService

LOGGER = "pyjms_broker.region.queue"


@pytest.mark.fact("activemq-broker Q35")
@pytest.mark.parametrize("mode", [DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT])
async def test_priorities_without_effect_are_told_once_for_each_queue(
    mode: DeliveryMode, caplog: pytest.LogCaptureFixture
) -> None:
    policies = PolicyMap([PolicyEntry(destination=Queue("urgent"), prioritized_messages=True)])
    async with BrokerService("priorities", persistent=False, policies=policies) as service:
        factory = ConnectionFactory(f"{service.vm_uri}?jms.useAsyncSend=true")
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            temporary = await session.create_temporary_queue()
            for queue in (Queue("plain"), Queue("urgent"), temporary):
                producer = await session.create_producer(queue)
                producer.delivery_mode = mode
                for priority in (4, 5, 7, 9, 1):
                    await producer.send(session.create_text_message("x"), priority=priority)
    (line,) = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert line.startswith("Messages to queue://plain have priorities, such as 7 of ID:")
    assert "prioritized_messages" in line


@pytest.mark.fact("activemq-broker Q35")
async def test_dead_letters_keep_their_priority_untold(caplog: pytest.LogCaptureFixture) -> None:
    policies = PolicyMap([PolicyEntry(destination=Queue("urgent"), prioritized_messages=True)])
    async with BrokerService("dead", persistent=False, policies=policies) as service:
        factory = ConnectionFactory(f"{service.vm_uri}?jms.redeliveryPolicy.maximumRedeliveries=0")
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session(transacted=True)
            producer = await session.create_producer(Queue("urgent"))
            await producer.send(session.create_text_message("x"), priority=7)
            await session.commit()
            consumer = await session.create_consumer(Queue("urgent"))
            assert await consumer.receive(20) is not None
            await session.rollback()
            dead = await session.create_consumer(Queue("ActiveMQ.DLQ"))
            message = await dead.receive(20)
            assert message is not None
            assert message.priority == 7
    assert not [record for record in caplog.records if record.name == LOGGER]
