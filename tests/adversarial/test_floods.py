"""More of everything than the broker wants to hold: it stays small, and small again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.runtime import clock as _clock
from pyjms.transport.tcp import HIGH_WATER
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ExceptionResponse,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    ProducerId,
    ProducerInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionInfo,
    TransactionType,
)
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect
from tests.kit.waiting import until

KIB = 1024
Q, T = Queue("q"), Topic("t")


def connection_of(service: BrokerService, name: str) -> Any:
    return service.connections.by_id[ConnectionId(name)]


def waiting_bytes(connection: Any) -> int:
    """What is queued in the broker for a client that does not read."""
    transport = connection._transport
    while hasattr(transport, "next"):
        transport = transport.next
    writer = transport._writer
    return int(writer.queued)


class SlowMachine(_clock.SystemClock):
    """A clock on which each thing that is timed takes 30 ms."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        self.passed += 0.03
        return super().now() + self.passed


@pytest.fixture
def slow_machine() -> Iterator[None]:
    former = _clock.install(SlowMachine())
    yield
    _clock.install(former)


@pytest.mark.usefixtures("slow_machine")
async def test_a_chunk_of_messages_that_take_long_lets_others_come_first(
    peer: Connect, service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    await attacker.ask(attacker.message(T))
    (topic,) = service.region_broker.destinations_matching(T)
    seen = []

    async def watch() -> None:
        while True:
            seen.append(topic.statistics.enqueues)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await attacker.tell(*(attacker.message(T) for _ in range(60)))
        await attacker.ask(attacker.message(T))
        group.cancel_scope.cancel()
    assert seen[-1] <= 62
    steps = [later - former for former, later in pairwise(seen) if later > former]
    assert max(steps) < 10  # all of them were in one chunk
    assert sum(steps) > 50


async def settled() -> None:
    """Wait until both ends are idle: both sockets' buffers are full or empty."""
    for _ in range(3):
        await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("destination", [Q, T], ids=["queue", "topic"])
async def test_a_consumer_that_never_reads_costs_one_buffer(
    peer: Connect,
    gone: Callable[[], Any],
    serves: Callable[[], Any],
    service: BrokerService,
    destination: Any,
) -> None:
    lazy, sender = await peer("lazy"), await peer("sender")
    await lazy.connect()
    await sender.connect()
    await lazy.consume(destination, prefetch=2**31 - 1)
    size, count = 64 * KIB, 112  # 7 MiB: less than the broker's memory limit of 8
    for _ in range(count):
        await sender.ask(sender.message(destination, bytes(size)))
    connection = connection_of(service, "lazy")
    assert connection.congested
    assert waiting_bytes(connection) <= HIGH_WATER + 2 * size
    await serves()
    dispatches = await lazy.heard_of(MessageDispatch, count)  # it reads at last: nothing is lost
    assert len(dispatches) == count
    await lazy.leave()
    await sender.leave()
    await gone()
    (held,) = service.region_broker.destinations_matching(destination)
    assert held.statistics.inflight == 0


async def test_requests_whose_responses_nobody_reads(
    peer: Connect, gone: Callable[[], Any], serves: Callable[[], Any], service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    connection = connection_of(service, "attacker")
    name = "x" * 4000  # each refusal repeats it
    asked = 0

    async def ask_for_ever() -> None:
        nonlocal asked
        while True:
            batch = []
            for _ in range(200):
                asked += 1
                stray = attacker.message(TemporaryQueue(name))
                stray.command_id, stray.response_required = asked, True
                batch.append(stray)
            await attacker.tell(*batch)

    async with anyio.create_task_group() as group:
        group.start_soon(ask_for_ever)
        with anyio.fail_after(60):
            await until(lambda: connection.congested)
        await settled()
        assert waiting_bytes(connection) <= HIGH_WATER + 256 * KIB
        await serves()
        answers = await attacker.heard_of(ExceptionResponse, 2000)  # it reads: both go on
        assert len(answers) >= 2000
        group.cancel_scope.cancel()
    await attacker.leave()
    await gone()
    assert service.connections.by_id == {}


async def test_sends_that_wait_for_memory_are_bounded_and_go_with_their_client(
    peer: Connect, gone: Callable[[], Any], service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    await attacker.ask(ProducerInfo(ProducerId("attacker", 7, 1), window_size=2**31 - 1))
    connection = connection_of(service, "attacker")
    (state,) = connection.resources.connections.values()

    async def flood() -> None:
        number = 100_000
        while True:
            batch = []
            for _ in range(100):
                number += 1
                message = attacker.message(Q, bytes(100 * KIB if number < 100_090 else 10))
                if number % 2:
                    message.producer_id = ProducerId("attacker", 7, 1)
                else:
                    message.command_id, message.response_required = number, True
                batch.append(message)
            await attacker.tell(*batch)

    async with anyio.create_task_group() as group:
        group.start_soon(flood)
        with anyio.fail_after(60):
            await until(lambda: len(state.context.blocked_sends) > 1000)
        await settled()
        assert 1000 < len(state.context.blocked_sends) < 2000
        group.cancel_scope.cancel()
    connection.stop_soon()  # a keep-alive finds a peer that left while we did not read it
    await gone()
    assert not state.context.blocked_sends
    (queue,) = service.region_broker.destinations_matching(Q)
    assert not queue.memory.has_waiting
    before = queue.statistics.messages
    cast("Any", queue).purge(service.region_broker.context)
    assert before < 100
    assert queue.memory.used == 0


@pytest.mark.parametrize("destination", [Q, T], ids=["queue", "topic"])
async def test_a_transaction_that_never_ends_is_within_the_memory_limit(
    peer: Connect,
    gone: Callable[[], Any],
    serves: Callable[[], Any],
    service: BrokerService,
    destination: Any,
) -> None:
    attacker = await peer()
    await attacker.connect()
    xid = LocalTransactionId(1, ConnectionId("attacker"))
    begin = TransactionInfo(ConnectionId("attacker"), xid, TransactionType.BEGIN)
    assert type(await attacker.ask(begin)) is Response
    connection = connection_of(service, "attacker")
    (state,) = connection.resources.connections.values()

    async def flood() -> None:
        while True:
            message = attacker.message(destination, bytes(256 * KIB))
            message.transaction_id = xid
            await attacker.tell(message)

    async with anyio.create_task_group() as group:
        group.start_soon(flood)
        with anyio.fail_after(60):
            await until(lambda: state.context.blocked_sends)
        await settled()
        assert len(state.context.blocked_sends) == 1  # no window: the connection is read no further
        used = service.system_usage.memory.used
        assert used <= service.system_usage.memory.limit + 257 * KIB
        group.cancel_scope.cancel()
    connection.stop_soon()  # a keep-alive finds a peer that left while we did not read it
    await gone()
    assert service.system_usage.memory.used == 0
    await serves()


async def test_topic_acknowledgements_in_a_transaction_use_no_store(
    peer: Connect, service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    consumer_id = await attacker.consume(T)
    xid = LocalTransactionId(1, ConnectionId("attacker"))
    await attacker.ask(TransactionInfo(ConnectionId("attacker"), xid, TransactionType.BEGIN))
    (state,) = connection_of(service, "attacker").resources.connections.values()
    await attacker.ask(attacker.message(T))
    acks = []
    for _ in range(1000):
        ack = MessageAck()
        ack.consumer_id, ack.destination, ack.transaction_id = consumer_id, T, xid
        ack.ack_type, ack.message_count = 2, 1
        acks.append(ack)
    await attacker.tell(*acks)
    await attacker.ask(SessionInfo(SessionId("attacker", 5)))
    assert len(state.context.transactions[xid]._synchronizations) == 1
    rollback = TransactionInfo(ConnectionId("attacker"), xid, TransactionType.ROLLBACK)
    assert type(await attacker.ask(rollback)) is Response


LIMIT = 50


@pytest.mark.parametrize(
    ("attribute", "what", "make"),
    [
        ("sessions", "session", lambda n: SessionInfo(SessionId("attacker", n + 10))),
        ("producers", "producer", lambda n: ProducerInfo(ProducerId("attacker", n + 10, 1))),
        (
            "consumers",
            "consumer",
            lambda n: ConsumerInfo(
                ConsumerId("attacker", 1, n + 10), destination=Q, prefetch_size=1
            ),
        ),
        (
            "consumers",
            "consumer",
            lambda n: ConsumerInfo(
                ConsumerId("attacker", 1, n + 10),
                destination=Topic("ActiveMQ.Advisory.Connection"),
                prefetch_size=1,
            ),
        ),
        (
            "temporary_destinations",
            "temporary destination",
            lambda n: DestinationInfo(ConnectionId("attacker"), TemporaryQueue(f"ID:a:{n}"), 0),
        ),
        (
            "transactions",
            "transaction",
            lambda n: TransactionInfo(
                ConnectionId("attacker"), LocalTransactionId(n, ConnectionId("attacker")), 0
            ),
        ),
    ],
    ids=["sessions", "producers", "consumers", "advisories", "temporaries", "transactions"],
)
async def test_one_connection_has_so_many_and_no_more(
    peer: Connect,
    gone: Callable[[], Any],
    serves: Callable[[], Any],
    service: BrokerService,
    attribute: str,
    what: str,
    make: Callable[..., object],
) -> None:
    connector = service.connectors[0]
    setattr(connector, f"maximum_{attribute}_per_connection", LIMIT)
    attacker = await peer()
    await attacker.connect()
    region = service.region_broker
    before = set(region.destinations())
    await attacker.tell(*(make(n) for n in range(LIMIT + 10)))
    text = await attacker.refused(make(1000))
    assert what in text
    assert f"at maximum limit: {LIMIT}" in text
    await attacker.leave()
    await gone()
    assert {d for d in region.destinations() if d.is_temporary} == set()
    assert len(set(region.destinations()) - before) <= 2
    assert all(d.statistics.consumers == 0 for d in region.destinations().values())
    await serves()


async def test_temporary_destinations_and_their_advisories_leave_no_trace(
    peer: Connect, gone: Callable[[], Any], service: BrokerService
) -> None:
    watcher, attacker = await peer("watcher"), await peer()
    await watcher.connect()
    await watcher.consume(Topic("ActiveMQ.Advisory.>"), prefetch=10)
    await attacker.connect()
    region = service.region_broker
    before = set(region.destinations())
    for n in range(300):
        temporary = TemporaryQueue(f"ID:attacker:{n}")
        await attacker.tell(
            DestinationInfo(ConnectionId("attacker"), temporary, 0),
            ConsumerInfo(ConsumerId("attacker", 1, n), destination=temporary, prefetch_size=1),
            attacker.message(temporary, b"x"),
        )
    await attacker.ask(SessionInfo(SessionId("attacker", 7)))
    await attacker.leave()
    with anyio.fail_after(60):
        while "attacker" in {c.value for c in service.connections.by_id}:
            await anyio.wait_all_tasks_blocked()
    left = set(region.destinations()) - before
    assert not [d for d in left if "ID:attacker" in d.physical_name]
    await watcher.leave()
    await gone()
    assert service.system_usage.memory.used == 0
