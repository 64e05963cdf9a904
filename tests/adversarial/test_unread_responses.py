"""Clients that send and do not read: they are read further, so that they can go on, with a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    AckType,
    MessageAck,
    MessageDispatch,
    Response,
    SessionId,
    SessionInfo,
)
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect
from tests.kit.waiting import until

MIB = 1 << 20
SHORT, LONG = bytes(100), bytes(24 * MIB)
"""The latter is more than the sockets of a client that does not read take."""
REQUESTS = 40_000
ORDERS = Queue("orders")


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    service = BrokerService("attacked", persistent=False, memory_limit=64 * MIB)
    service.add_connector("tcp://127.0.0.1:0")
    await service.start()
    yield service
    await service.stop()


def congested(service: BrokerService) -> Any:
    """Return the connection of a client that has more to read than it should, if there is one."""
    connections: Any = service.connectors[0].connections
    return next((each for each in connections if each.congested), None)


def left(service: BrokerService) -> int:
    """Return the number of messages that are not acknowledged."""
    return service.region_broker.destinations()[ORDERS].statistics.messages


def requests(count: int) -> list[SessionInfo]:
    """Return requests that change nothing."""
    session = SessionId("lazy", 1)
    return [SessionInfo(session, command_id=n, response_required=True) for n in range(count)]


async def test_a_client_can_acknowledge_before_it_reads(
    service: BrokerService, peer: Connect, serves: Callable[[], Any]
) -> None:
    """Java's does if a listener is called by the thread that reads (alwaysSessionAsync=false)."""
    lazy, sender = await peer("lazy"), await peer("sender")
    await lazy.connect()
    consumer_id = await lazy.consume(ORDERS)
    await sender.connect()
    messages = [sender.message(ORDERS, body) for body in (SHORT, SHORT, LONG)]
    for message in messages:
        await sender.ask(message)
    await until(lambda: congested(service))
    connection = congested(service)
    await lazy.tell(*requests(10))
    for message in messages[:2]:
        ack = MessageAck(
            ORDERS,
            consumer_id=consumer_id,
            ack_type=int(AckType.STANDARD),
            first_message_id=message.message_id,
            last_message_id=message.message_id,
            message_count=1,
        )
        await lazy.tell(ack)
    await until(lambda: left(service) == 1)
    # there is a limit, and others are served
    transport = connection._transport
    queued = transport.queued_bytes
    async with anyio.create_task_group() as group:
        group.start_soon(lazy.tell, *requests(REQUESTS))
        await until(lambda: "responses" in connection.read_pauses)
        assert transport.queued_bytes < queued + MIB
        await serves()
        # it reads at last
        await lazy.heard_of(MessageDispatch, len(messages))
        while sum(isinstance(each, Response) for each in lazy.heard) < REQUESTS + 10:
            await lazy.read()
