"""A broker short of memory: transactions stay atomic, and unaccepted messages are redelivered."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.aio import ConnectionFactory
from pyjms.errors import (
    ConnectionFailedException,
    ResourceAllocationException,
    TransactionRolledBackException,
)
from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    Command,
    ConnectionId,
    ConnectionInfo,
    IntegerResponse,
    MessageId,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionId,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient

Q, ROOMY = Queue("q"), Queue("roomy")
LIMIT = 10_000
BEFORE = [f"before {number}" for number in range(10)]  # they fill it
TEXTS = [f"text {number}" for number in range(8)]
XA = XATransactionId(4660, b"\x01", b"\x02")
Connect = Callable[[], Awaitable[Any]]
_numbers = itertools.count(1)


class Asked:
    """A request whose answer may take its time."""

    def __init__(self, client: Any, command: Command) -> None:
        self.answers: list[Response | Exception] = []
        self._came = anyio.Event()
        client.transport.request_soon(command, self._take)

    def _take(self, answer: Response | Exception) -> None:
        self.answers.append(answer)
        self._came.set()

    async def answer(self) -> Response | Exception:
        with anyio.fail_after(10):
            await self._came.wait()
        return self.answers[0]


def commit_of(client: RawClient, xid: TransactionId) -> Asked:
    return Asked(
        client, TransactionInfo(client.connection_id, xid, TransactionType.COMMIT_ONE_PHASE)
    )


def short(**fields: Any) -> BrokerService:
    policy = PolicyEntry(destination=Q, memory_limit=LIMIT, **fields.pop("policy", {}))
    return BrokerService(f"short-{next(_numbers)}", policies=PolicyMap([policy]), **fields)


@pytest.fixture(params=["memory", "kahadb"])
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[EmbeddedTestBroker]:
    keeps = {"persistent": False} if request.param == "memory" else {"data_directory": tmp_path}
    async with EmbeddedTestBroker(short(**keeps)) as broker:
        yield broker


@pytest.fixture(params=["vm", "tcp"])
async def connect(
    request: pytest.FixtureRequest, broker: EmbeddedTestBroker, raw_client: type[RawClient]
) -> AsyncIterator[Connect]:
    url = broker.url if request.param == "vm" else await broker.tcp_url()
    clients = []

    async def connect() -> RawClient:
        client = raw_client(create_transport(url))
        clients.append(client)
        await client.open()
        return client

    yield connect
    for client in clients:
        await client.close()


async def send_in(client: RawClient, xid: TransactionId) -> None:
    """Send one message to a queue with space, and the others to a full one."""
    await client.send(Q, *BEFORE)
    await client.transaction(TransactionType.BEGIN, xid)
    producer_id = ProducerId(client.name, 77, 1)
    await client.request(ProducerInfo(producer_id, None, window_size=1_000_000))
    for text in TEXTS:
        queue = ROOMY if text is TEXTS[0] else Q
        client.send_command(client.text(producer_id, queue, text, xid))


async def drain(client: Any, queue: Queue, count: int) -> list[str | None]:
    """Consume this number of messages, and check that there are no others."""
    consumer = await client.consumer(queue)
    texts = []
    for _ in range(count):
        dispatch = await client.dispatched()
        texts.append(decode_text(dispatch.message.content))
        await client.ack(dispatch)
    await client.nothing_dispatched()
    await client.remove(consumer)
    return texts


async def test_a_commit_is_answered_when_all_its_sends_are_in(
    connect: Connect, broker: EmbeddedTestBroker
) -> None:
    sender, reader = await connect(), await connect()
    xid = sender.local(1)
    await send_in(sender, xid)
    commit = commit_of(sender, xid)
    await sender.nothing_dispatched()  # the broker has the commit by now
    assert commit.answers == []
    assert broker.queue_statistics("roomy").messages == 0
    assert await drain(reader, Q, 17) == BEFORE + TEXTS[1:]
    assert isinstance(await commit.answer(), Response)
    assert await drain(reader, ROOMY, 1) == TEXTS[:1]
    acked = [command for command in sender.commands if isinstance(command, ProducerAck)]
    assert len(acked) == len(TEXTS)


async def test_a_branch_votes_when_all_its_sends_are_in(
    connect: Connect, broker: EmbeddedTestBroker
) -> None:
    sender, reader = await connect(), await connect()
    await send_in(sender, XA)
    await sender.transaction(TransactionType.END, XA)
    vote = Asked(sender, TransactionInfo(sender.connection_id, XA, TransactionType.PREPARE))
    await sender.nothing_dispatched()
    assert vote.answers == []
    assert await drain(reader, Q, 10) == BEFORE
    answer = await vote.answer()
    assert isinstance(answer, IntegerResponse)
    assert answer.result == 0
    await sender.cut()
    await reader.transaction(TransactionType.COMMIT_TWO_PHASE, XA)
    assert await drain(reader, Q, 7) == TEXTS[1:]
    assert broker.queue_statistics("roomy").messages == 1


async def test_a_rollback_behind_a_commit_that_waits_is_heard(
    connect: Connect, broker: EmbeddedTestBroker
) -> None:
    sender, reader = await connect(), await connect()
    xid = sender.local(1)
    await send_in(sender, xid)
    commit = commit_of(sender, xid)
    await sender.transaction(TransactionType.ROLLBACK, xid)
    answer = await commit.answer()
    assert isinstance(answer, TransactionRolledBackException)
    assert "while waiting for space" in answer.reason
    assert await drain(reader, Q, 10) == BEFORE
    assert broker.queue_statistics("roomy").messages == 0
    assert not any(type(c).__name__ == "ConnectionError" for c in sender.commands)


async def test_a_client_that_goes_takes_its_waiting_commit_with_it(
    connect: Connect, broker: EmbeddedTestBroker
) -> None:
    sender, reader = await connect(), await connect()
    xid = sender.local(1)
    await send_in(sender, xid)
    commit_of(sender, xid)
    await sender.nothing_dispatched()
    connection: Any = broker.service.connections.by_id[sender.connection_id]
    await sender.cut()
    await connection.wait_stopped()
    assert await drain(reader, Q, 10) == BEFORE
    assert broker.queue_statistics("roomy").messages == 0
    assert broker.service.system_usage.memory.used == 0


async def test_a_client_gets_the_reason_of_a_failed_commit() -> None:
    policy = {"send_fail_if_no_space_after_timeout": 0.05}
    async with EmbeddedTestBroker(short(persistent=False, policy=policy)) as broker:
        url = await broker.tcp_url() + "?jms.producerWindowSize=1000000"
        async with await ConnectionFactory(url).create_connection() as connection:
            session = await connection.create_session(transacted=True)
            producer = await session.create_producer(Q)
            for text in BEFORE * 2:
                await producer.send(session.create_text_message(text))
            with pytest.raises(TransactionRolledBackException) as failed:
                await session.commit()
            assert "xaErrorCode:100" in failed.value.reason
            assert isinstance(failed.value.linked_exception, ResourceAllocationException)
            assert broker.queue_statistics("q").messages == 0


async def test_a_broker_that_stops_does_not_wait_with_a_commit(raw_client: type[RawClient]) -> None:
    async with EmbeddedTestBroker(short(persistent=False)) as broker:
        sender = raw_client(create_transport(broker.url))
        await sender.open()
        xid = sender.local(1)
        await send_in(sender, xid)
        commit = commit_of(sender, xid)
        await sender.nothing_dispatched()
    assert isinstance(await commit.answer(), ConnectionFailedException)
    await sender.transport.stop()


class Returning:
    """A client that fails over: the same connection and producer over each transport."""

    def __init__(self, url: str, raw_client: Any) -> None:
        self._url = url
        self._raw_client = raw_client
        self.producer_id = ProducerId("ID:returning:1", 1, 1)

    async def come(self, *, again: bool) -> Any:
        client = self._raw_client(create_transport(self._url))
        client.name, client.connection_id = "ID:returning:1", ConnectionId("ID:returning:1")
        await client.transport.start()
        info = ConnectionInfo(client.connection_id, "returning", fault_tolerant=True)
        info.failover_reconnect = again
        await client.request(info)
        client.send_command(SessionInfo(SessionId(client.name, 1)))
        await client.request(ProducerInfo(self.producer_id))
        return client

    def send(self, client: Any, queue: Queue, number: int) -> Asked:
        message = client.text(self.producer_id, queue, f"number {number}")
        message.message_id = MessageId(None, self.producer_id, number)
        return Asked(client, message)


async def test_a_send_that_never_came_in_is_let_in_when_its_client_comes_back(
    connect: Connect, broker: EmbeddedTestBroker, raw_client: type[RawClient]
) -> None:
    reader = await connect()
    xid = reader.local(1)
    await reader.transaction(TransactionType.BEGIN, xid)
    await reader.send(Q, *BEFORE, transaction_id=xid)  # in memory, whatever the store
    returning = Returning(broker.url, raw_client)
    for again in (False, True, True):  # the connection is lost twice
        client = await returning.come(again=again)
        first, second = returning.send(client, Q, 1), returning.send(client, ROOMY, 2)
        assert isinstance(await second.answer(), Response)
        assert first.answers == []
        connection: Any = broker.service.connections.by_id[client.connection_id]
        await client.cut()
        await connection.wait_stopped()
    client = await returning.come(again=True)
    first = returning.send(client, Q, 1)
    await reader.transaction(TransactionType.COMMIT_ONE_PHASE, xid)
    assert await drain(reader, Q, 11) == [*BEFORE, "number 1"]
    assert isinstance(await first.answer(), Response)
    assert isinstance(await returning.send(client, Q, 1).answer(), Response)
    assert await drain(reader, ROOMY, 1) == ["number 2"]
    assert await drain(reader, Q, 0) == []
    await client.close()
