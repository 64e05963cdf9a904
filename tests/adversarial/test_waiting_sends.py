"""Senders whose messages wait for space in the broker: together they have a limited memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import MessageAck, MessageDispatch
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect
from tests.kit.waiting import until

MIB = 1 << 20
SIZE = 2 * MIB
LIMIT = 5 * MIB
Q = Queue("full")


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    service = BrokerService(
        "attacked", persistent=False, memory_limit=MIB, unfinished_frames_limit=LIMIT
    )
    service.add_connector("tcp://127.0.0.1:0")
    await service.start()
    yield service
    await service.stop()


def received(service: BrokerService) -> int:
    """How many bytes the broker has read from its clients that are connected."""
    total = 0
    for connection in service.connectors[0].connections:
        transport: Any = connection._transport  # type: ignore[attr-defined]
        while hasattr(transport, "next"):
            transport = transport.next
        total += transport.received_bytes
    return total


async def settled() -> None:
    for _ in range(5):
        await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("answered", [True, False], ids=["requests", "oneway"])
async def test_long_messages_that_wait_are_not_read_beyond_the_limit(
    service: BrokerService, peer: Connect, answered: bool
) -> None:
    bodies = [bytes([number]) * SIZE for number in range(8)]
    consumer = await peer("consumer")
    await consumer.connect()
    senders = [await peer(f"sender{number}") for number in range(len(bodies))]
    for sender in senders:
        await sender.connect()
    async with anyio.create_task_group() as group:
        budget = service.frame_budget
        # the first one fills the memory, and two wait; there is no room for others
        for sender, body in zip(senders, bodies, strict=True):
            message, before = sender.message(Q, body), received(service)
            group.start_soon(sender.ask if answered else sender.tell, message)
            await until(lambda: received(service) > before + 60_000 and not budget.used)  # noqa: B023
        await settled()
        assert budget.held > 2 * SIZE
        assert budget.held < 2 * SIZE + 8192
        assert received(service) < 3 * SIZE + 8 * 200_000
        consumer_id = await consumer.consume(Q, prefetch=1)
        for number in range(len(bodies)):
            dispatch = (await consumer.heard_of(MessageDispatch, number + 1))[-1]
            identity = dispatch.message.message_id
            ack = MessageAck(Q, None, consumer_id, 2, identity, identity, 1)
            await consumer.tell(ack)
    got = [each.message.content for each in await consumer.heard_of(MessageDispatch)]
    assert sorted(got) == bodies
    await until(lambda: budget.held == budget.used == 0)


async def test_a_client_that_leaves_while_its_message_waits_for_space(
    service: BrokerService, peer: Connect
) -> None:
    senders = [await peer(f"sender{number}") for number in range(6)]
    budget = service.frame_budget
    async with anyio.create_task_group() as group:
        for sender in senders:
            await sender.connect()
            before = received(service)
            group.start_soon(sender.ask, sender.message(Q, bytes(SIZE)))
            await until(lambda: received(service) > before + 60_000 and not budget.used)  # noqa: B023
        assert budget.held > 2 * SIZE
        group.cancel_scope.cancel()
    for sender in senders:
        await sender.leave()
    await until(lambda: budget.held == budget.used == 0)
    last = await peer("last")
    await last.connect()
    with anyio.move_on_after(0.1):
        await last.tell(last.message(Q, bytes(SIZE)))
    await until(lambda: budget.held > 0)


async def test_short_messages_that_wait_have_a_share(service: BrokerService, peer: Connect) -> None:
    """Once the limit is exceeded, each client has 1 MiB instead of 64."""
    senders = [await peer(f"sender{number}") for number in range(6)]
    for sender in senders:
        await sender.connect()
    async with anyio.create_task_group() as group:
        for sender in senders:
            messages = [sender.message(Q, bytes(20_000)) for _ in range(500)]
            for message in messages:
                message.command_id, message.response_required = 1, True
            group.start_soon(sender.tell, *messages)
        budget = service.frame_budget
        await until(lambda: budget.exceeded)
        await settled()
        assert budget.held < LIMIT + len(senders) * 2 * MIB
        group.cancel_scope.cancel()
