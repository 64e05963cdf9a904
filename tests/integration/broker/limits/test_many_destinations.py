"""One command may need a thousand new destinations: other clients are served meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    MessageDispatch,
    ProducerId,
    ProducerInfo,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.filters.composite_queues import CompositeQueue
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

MEMBERS = [Queue(f"q{n}") for n in range(400)]
ALL = Queue(",".join(member.physical_name for member in MEMBERS))
FORWARDED = Queue("forwarded")
LAST = MEMBERS[-1]
XA = XATransactionId(1, b"global", b"branch")

Connect = Callable[[], Awaitable[RawClient]]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[EmbeddedTestBroker]:
    composite = CompositeQueue(FORWARDED.physical_name, tuple(MEMBERS))
    service = BrokerService("many", data_directory=tmp_path, virtual_destinations=[composite])
    async with EmbeddedTestBroker(service) as broker:
        yield broker


@pytest.fixture
def service(broker: EmbeddedTestBroker) -> BrokerService:
    return broker.service


@pytest.fixture(params=["vm", "tcp"])
async def connect(
    request: pytest.FixtureRequest, broker: EmbeddedTestBroker
) -> AsyncIterator[Connect]:
    clients: list[RawClient] = []
    url = broker.url if request.param == "vm" else await broker.tcp_url()

    async def connect() -> RawClient:
        client = RawClient(create_transport(url))
        await client.open()
        clients.append(client)
        return client

    yield connect
    for client in clients:
        await client.close()


def existing(service: BrokerService) -> int:
    return sum(member in service.region_broker.destinations() for member in MEMBERS)


async def text_from(client: RawClient) -> str | None:
    content = (await client.message()).content
    assert content is not None
    return decode_text(content)


class Canary:
    """A client that keeps sending requests and counts the responses."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.responses = 0

    async def sing(self, counts: Callable[[], bool]) -> None:
        while True:
            await self.client.request(ProducerInfo(ProducerId(self.client.name, 9, 1)))
            self.responses += counts()


async def responses_meanwhile(
    service: BrokerService, connect: Connect, work: Awaitable[Any]
) -> int:
    """Await `work`; return the number of another client's requests answered meanwhile."""
    canary = Canary(await connect())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(canary.sing, lambda: 0 < existing(service) < len(MEMBERS))
        await work
        tasks.cancel_scope.cancel()
    return canary.responses


@pytest.mark.parametrize("destination", [ALL, FORWARDED], ids=["composite", "virtual"])
async def test_other_clients_are_served_while_a_send_creates_destinations(
    service: BrokerService, connect: Connect, destination: Queue
) -> None:
    client = await connect()
    assert await responses_meanwhile(service, connect, client.send(destination, "x")) >= 3
    assert existing(service) == len(MEMBERS)
    for member in (MEMBERS[0], LAST):
        await client.consumer(member)
        assert (await client.message()).destination == member


async def test_other_clients_are_served_while_a_producer_creates_destinations(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    assert await responses_meanwhile(service, connect, client.producer(ALL)) >= 3
    assert existing(service) == len(MEMBERS)


async def test_what_follows_does_not_overtake_a_send_that_waits(connect: Connect) -> None:
    client = await connect()
    producer = await client.producer()
    for destination, body in ((ALL, "first"), (LAST, "second"), (MEMBERS[0], "third")):
        client.send_command(client.text(producer, destination, body))
    await client.request(client.text(producer, LAST, "fourth"))
    await client.consumer(LAST)
    bodies = [await text_from(client) for _ in range(3)]
    assert bodies == ["first", "second", "fourth"]


async def test_nothing_is_sent_before_all_destinations_exist(
    service: BrokerService, connect: Connect
) -> None:
    listener, client = await connect(), await connect()
    await listener.consumer(MEMBERS[0])
    producer = await client.producer()
    client.send_command(client.text(producer, ALL, "x"))
    dispatch: MessageDispatch = await listener.dispatched()
    assert dispatch.message is not None
    assert existing(service) == len(MEMBERS)


async def test_nothing_is_sent_if_one_destination_cannot_be_created(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.consumer(MEMBERS[0])
    refused = Queue(f"{ALL.physical_name[:-5]},{'x' * 9000}")
    with pytest.raises(JMSException, match="9000 characters"):
        await client.send(refused, "x")
    await client.nothing_dispatched()


async def test_a_commit_waits_for_a_send_that_waits(connect: Connect) -> None:
    client = await connect()
    xid = client.local(1)
    await client.transaction(TransactionType.BEGIN, xid)
    producer = await client.producer()
    client.send_command(client.text(producer, ALL, "x", xid))
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, xid)
    await client.consumer(LAST)
    assert await text_from(client) == "x"


async def test_an_end_over_another_connection_waits_for_a_send_that_waits(
    service: BrokerService, connect: Connect
) -> None:
    client, other = await connect(), await connect()
    await client.transaction(TransactionType.BEGIN, XA)
    producer = await client.producer()
    client.send_command(client.text(producer, ALL, "x", XA))
    await until(lambda: existing(service) > 0)
    assert existing(service) < len(MEMBERS)
    await other.transaction(TransactionType.COMMIT_ONE_PHASE, XA)
    await other.consumer(LAST)
    assert await text_from(other) == "x"


async def test_a_send_that_waits_ends_with_its_transaction(
    service: BrokerService, connect: Connect
) -> None:
    client, other = await connect(), await connect()
    await client.transaction(TransactionType.BEGIN, XA)
    producer = await client.producer()
    message = client.text(producer, ALL, "x", XA)
    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            with pytest.raises(JMSException, match="rolled back while destinations were created"):
                await client.request(message)

        tasks.start_soon(send)
        await until(lambda: existing(service) > 0)
        assert existing(service) < len(MEMBERS)
        await other.transaction(TransactionType.ROLLBACK, XA)
    await client.consumer(MEMBERS[0])
    await client.nothing_dispatched()


async def test_a_client_that_leaves_takes_its_waiting_send_with_it(
    service: BrokerService, connect: Connect
) -> None:
    client, other = await connect(), await connect()
    xid = client.local(1)
    await client.transaction(TransactionType.BEGIN, xid)
    producer = await client.producer()
    client.send_command(client.text(producer, ALL, "x", xid))
    client.send_command(
        TransactionInfo(client.connection_id, xid, TransactionType.COMMIT_ONE_PHASE)
    )
    await other.request(ProducerInfo(ProducerId(other.name, 9, 1)))
    await client.cut()
    consumed = MEMBERS[:3]
    for member in consumed:
        await other.consumer(member)
    for member in consumed:
        await other.send(member, "after")
    received: list[str | None] = []
    while received.count("after") < len(consumed):
        received.append(await text_from(other))
    assert received.count("x") in {0, len(consumed)}
    assert existing(service) > 0
