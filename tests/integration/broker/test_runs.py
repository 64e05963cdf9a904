"""Commands that arrive in one chunk over TCP: runs of messages and of acknowledgements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.runtime import clock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ActiveMQTextMessage,
    ConsumerInfo,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    ProducerId,
    Response,
    TransactionId,
    TransactionType,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms.wire.openwire.primitives import decode_text, encode_map
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient
from tests.kit.values import present

Q, R = Queue("q"), Queue("r")


@asynccontextmanager
async def connected(service: BrokerService) -> AsyncIterator[tuple[EmbeddedTestBroker, RawClient]]:
    async with EmbeddedTestBroker(service) as broker:
        client = RawClient(create_transport(await broker.tcp_url()))
        await client.open()
        yield broker, client
        await client.close()


@pytest.fixture
async def client() -> AsyncIterator[RawClient]:
    async with connected(BrokerService("runs", persistent=False)) as (_, client):
        yield client


def text(
    client: RawClient,
    producer: ProducerId,
    to: Destination,
    body: str,
    xid: TransactionId | None = None,
) -> ActiveMQTextMessage:
    message = client.text(producer, to, body, xid)
    message.persistent = False
    return message


async def known(client: RawClient, *destinations: Destination) -> ProducerId:
    """Return a producer whose messages to the last of these destinations may be taken together."""
    producer = await client.producer()
    for destination in destinations:
        await client.request(text(client, producer, destination, "first"))
    return producer


async def bodies(client: RawClient, count: int) -> list[str | None]:
    return [decode_text(present((await client.message()).content)) for _ in range(count)]


async def test_runs_to_several_destinations_and_of_several_producers_keep_their_order(
    client: RawClient,
) -> None:
    one, two = await known(client, Q), await known(client, R)
    for number in range(60):
        producer, to = ((one, Q), (one, R), (two, R))[number // 5 % 3]
        client.send_command(text(client, producer, to, f"{number:02}"))
    await client.consumer(Q, prefetch_size=100)
    assert await bodies(client, 21) == [
        "first",
        *(f"{n:02}" for n in range(60) if n // 5 % 3 == 0),
    ]
    await client.consumer(R, prefetch_size=100)
    assert await bodies(client, 41) == ["first", *(f"{n:02}" for n in range(60) if n // 5 % 3)]


async def test_each_message_of_a_run_that_asks_for_a_response_gets_one(client: RawClient) -> None:
    producer = await known(client, Q)
    await client.consumer(Q, prefetch_size=100)
    answered: list[int] = []

    async def send(number: int) -> None:
        message = text(client, producer, Q, str(number))
        if number % 3:
            client.send_command(message)
        else:
            assert not isinstance(await client.request(message), ExceptionResponse)
            answered.append(number)

    async with anyio.create_task_group() as tasks:  # they start in this order, in one turn
        for number in range(20):
            tasks.start_soon(send, number)
    assert await bodies(client, 21) == ["first", *map(str, range(20))]
    assert sorted(answered) == [0, 3, 6, 9, 12, 15, 18]


@pytest.mark.fact("activemq-broker C5")
async def test_a_bad_message_in_a_run_is_refused_and_the_others_arrive(client: RawClient) -> None:
    producer, stranger = await known(client, Q), ProducerId(client.name, 99, 1)
    for number in range(9):
        message = text(client, producer, Q, str(number))
        if number == 4:
            message.producer_id = stranger
        client.send_command(message)
    await client.consumer(Q, prefetch_size=100)
    assert await bodies(client, 9) == ["first", *"0123", *"5678"]
    error = await client.heard(ConnectionErrorCommand)
    assert isinstance(error, ConnectionErrorCommand)
    assert "invalid (null) producer state" in str(present(error.exception).message)


async def test_a_scheduled_message_in_a_run_waits_for_its_time() -> None:
    service = BrokerService("runs", persistent=False, scheduler_support=True)
    async with connected(service) as (_, client):
        producer = await known(client, Q)
        for number in range(6):
            message = text(client, producer, Q, str(number))
            if number == 3:
                message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": 3_600_000})
            client.send_command(message)
        await client.consumer(Q, prefetch_size=100)
        assert await bodies(client, 6) == ["first", *"01245"]
        await client.nothing_dispatched()


class Audit(BrokerFilter):
    """Counts what it sees, and refuses one message."""

    def __init__(self, next_broker: Broker) -> None:
        super().__init__(next_broker)
        self.sent: list[str | None] = []
        self.acknowledged = 0

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        self.sent.append(decode_text(present(message.content)))
        if self.sent[-1] == "3":
            raise PermissionError("not this one")
        return super().send(exchange, message)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        self.acknowledged += 1
        return super().acknowledge(exchange, ack)


class AuditPlugin:
    filter: Audit

    def install_plugin(self, broker: Broker) -> Broker:
        self.filter = Audit(broker)
        return self.filter


async def test_a_plugin_sees_each_message_and_acknowledgement_of_a_run() -> None:
    plugin = AuditPlugin()
    service = BrokerService("runs", persistent=False, plugins=[plugin])
    async with connected(service) as (broker, client):
        producer = await known(client, Q)
        for number in range(6):
            client.send_command(text(client, producer, Q, str(number)))
        await client.consumer(Q, prefetch_size=100)
        got = [await client.dispatched() for _ in range(6)]
        assert plugin.filter.sent == ["first", *"012345"]
        acknowledge(client, got)
        await broker.drained("q")
        assert plugin.filter.acknowledged == 6
        await client.heard(ConnectionErrorCommand)


def acknowledge(client: RawClient, dispatches: list[MessageDispatch]) -> None:
    """Acknowledge each of them, without waiting."""
    for dispatch in dispatches:
        last = present(dispatch.message).message_id
        own, kind = dispatch.consumer_id, AckType.STANDARD
        client.send_command(MessageAck(dispatch.destination, None, own, kind, last, last, 1))


async def test_a_policy_reports_each_message_of_a_run() -> None:
    advised = PolicyEntry(advisory_for_delivery=True, advisory_for_consumed=True)
    service = BrokerService("runs", persistent=False, policies=PolicyMap([advised]))
    async with connected(service) as (_, client):
        topics = [
            f"ActiveMQ.Advisory.{kind}.Queue.q" for kind in ("MessageDelivered", "MessageConsumed")
        ]
        consumers = [await client.consumer(Topic(name), prefetch_size=100) for name in topics]
        producer = await known(client, Q)
        for number in range(4):
            client.send_command(text(client, producer, Q, str(number)))
        own = await client.consumer(Q, prefetch_size=100)
        reports: list[MessageDispatch] = []
        got: list[MessageDispatch] = []
        while len(got) < 5 or len(reports) < 10:
            dispatch = await client.dispatched()
            (got if dispatch.consumer_id == own else reports).append(dispatch)
            if len(got) == 5 and len(reports) == 5:
                acknowledge(client, got)
        assert [d.consumer_id for d in reports].count(consumers[1]) == 5


async def test_a_consumer_that_closes_between_two_runs_of_a_chunk_gets_only_the_first(
    client: RawClient,
) -> None:
    producer = await known(client, Q)
    first = await client.consumer(Q, prefetch_size=100)
    client.send_command(text(client, producer, Q, "a"))
    client.send_command(text(client, producer, Q, "b"))
    removed = client.remove(first)
    assert await bodies(client, 1) == ["first"]
    await removed
    client.send_command(text(client, producer, Q, "c"))
    await client.consumer(Q, prefetch_size=100)
    await bodies(client, 2)  # which the first consumer got
    assert await bodies(client, 4) == ["first", *"abc"]


async def test_a_request_behind_a_run_is_answered_behind_its_messages(client: RawClient) -> None:
    producer = await known(client, Q)
    own = await client.consumer(Q, prefetch_size=100)
    assert await bodies(client, 1) == ["first"]
    for number in range(5):
        client.send_command(text(client, producer, Q, str(number)))
    response = await client.request(ConsumerInfo(own, destination=Q, prefetch_size=1))
    assert not isinstance(response, ExceptionResponse)
    assert await bodies(client, 5) == list("01234")


class Refusal(BrokerFilter):
    """Raises when it is told of one message: of its dispatch, or its consumption."""

    def message_dispatched(
        self, context: ConnectionContext, reference: MessageReference, subscription: Subscription
    ) -> None:
        if decode_text(present(reference.message.content)) == "3":
            raise PermissionError("not this one")

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        if decode_text(present(reference.message.content)) == "3":
            raise PermissionError("not this one")


class RefusalPlugin:
    def install_plugin(self, broker: Broker) -> Broker:
        return Refusal(broker)


@pytest.mark.fact("activemq-broker C5")
async def test_a_plugin_that_raises_for_one_message_of_a_run_does_not_stop_the_others() -> None:
    advised = PolicyEntry(advisory_for_dispatched=True)
    service = BrokerService(
        "runs", persistent=False, plugins=[RefusalPlugin()], policies=PolicyMap([advised])
    )
    async with connected(service) as (broker, client):
        producer = await known(client, Q)
        await client.consumer(Q, prefetch_size=100)
        for number in range(6):
            client.send_command(text(client, producer, Q, str(number)))
        assert await bodies(client, 7) == ["first", *"012345"]
        await client.heard(ConnectionErrorCommand)
        assert broker.queue_statistics("q").inflight == 7


# transactions
@pytest.fixture
async def stored(tmp_path: Path) -> AsyncIterator[RawClient]:
    """A client of a broker that keeps messages in a journal."""
    async with connected(BrokerService("runs", data_directory=tmp_path)) as (_, client):
        yield client


async def begun(client: RawClient, number: int) -> TransactionId:
    xid = client.local(number)
    await client.transaction(TransactionType.BEGIN, xid)
    return xid


async def committed(client: RawClient, xid: TransactionId) -> Response:
    return await client.transaction(TransactionType.COMMIT_ONE_PHASE, xid)


async def test_runs_of_a_transaction_arrive_at_its_commit_and_in_order(stored: RawClient) -> None:
    client = stored
    one, two = await known(client, Q), await known(client, R)
    await client.consumer(Q, prefetch_size=1000)
    await client.consumer(R, prefetch_size=1000)
    assert await bodies(client, 2) == ["first", "first"]
    for number in range(1, 4):
        xid = await begun(client, number)
        for at in range(60):
            producer, to = ((one, Q), (one, R), (two, R))[at // 7 % 3]
            message = text(client, producer, to, f"{number}.{at:02}", xid)
            message.persistent = at % 5 != 0
            client.send_command(message)
        await client.nothing_dispatched()
        if number == 2:
            await client.transaction(TransactionType.ROLLBACK, xid)
            await client.nothing_dispatched()
        else:
            assert not isinstance(await committed(client, xid), ExceptionResponse)
            assert await bodies(client, 60) == [f"{number}.{at:02}" for at in range(60)]


@pytest.mark.parametrize("persistent", [False, True])
async def test_what_expires_within_a_transaction_is_not_dispatched_with_the_others(
    stored: RawClient, persistent: bool
) -> None:
    client = stored
    producer = await known(client, Q)
    await client.consumer(Q, prefetch_size=100)
    xid = await begun(client, 1)
    for number in range(5):
        message = text(client, producer, Q, str(number), xid)
        message.persistent = persistent
        if number in {0, 3}:
            message.expiration = clock.time_ms() + 20
        client.send_command(message)
    await anyio.sleep(0.05)
    assert not isinstance(await committed(client, xid), ExceptionResponse)
    assert await bodies(client, 4) == ["first", "1", "2", "4"]


async def test_a_backlog_of_transacted_runs_is_read_once_and_in_order(stored: RawClient) -> None:
    """Messages that nobody waits for are in memory or in the store, and never in both."""
    client, producer = stored, await known(stored, Q)
    for number in range(1, 6):
        xid = await begun(client, number)
        for at in range(50):
            message = text(client, producer, Q, f"{number}.{at:02}", xid)
            message.persistent = at % 2 == 0
            client.send_command(message)
        await committed(client, xid)
        if number == 3:
            leaving = await client.consumer(Q, prefetch_size=20)
            assert len(await bodies(client, 20)) == 20
            await client.remove(leaving)
    await client.consumer(Q, prefetch_size=1000)
    expected = [f"{number}.{at:02}" for number in range(1, 6) for at in range(50)]
    assert await bodies(client, 251) == ["first", *expected]
    await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker C5")
async def test_a_bad_message_in_a_transacted_run_makes_the_commit_fail(stored: RawClient) -> None:
    client, producer = stored, await known(stored, Q)
    await client.consumer(Q, prefetch_size=100)
    assert await bodies(client, 1) == ["first"]
    xid = await begun(client, 1)
    for number in range(9):
        own = ProducerId(client.name, 99, 1) if number == 6 else producer
        client.send_command(text(client, own, Q, str(number), xid))
    with pytest.raises(JMSException, match="marked rollback only"):
        await committed(client, xid)
    await client.nothing_dispatched()


async def test_messages_behind_the_end_of_their_transaction_are_refused(stored: RawClient) -> None:
    client, producer = stored, await known(stored, Q)
    await client.consumer(Q, prefetch_size=100)
    assert await bodies(client, 1) == ["first"]
    xid = await begun(client, 1)
    for number in range(4):
        client.send_command(text(client, producer, Q, str(number), xid))
    await committed(client, xid)
    for number in range(4, 8):
        client.send_command(text(client, producer, Q, str(number), xid))
    assert await bodies(client, 4) == list("0123")
    await client.nothing_dispatched()
    error = await client.heard(ConnectionErrorCommand)
    assert isinstance(error, ConnectionErrorCommand)
    assert "has not been started" in str(present(error.exception).message)


# topics
async def test_runs_to_a_topic_reach_each_subscriber_in_order(client: RawClient) -> None:
    topic, other = Topic("t"), Queue("q")
    own = [await client.consumer(topic, prefetch_size=1000) for _ in range(3)]
    producer = await known(client, other, topic)
    for number in range(50):
        client.send_command(text(client, producer, topic, f"{number:02}"))
    got: list[MessageDispatch] = [await client.dispatched() for _ in range(51 * 3)]
    for consumer_id in own:
        texts = [
            decode_text(present(present(each.message).content))
            for each in got
            if each.consumer_id == consumer_id
        ]
        assert texts == ["first", *(f"{number:02}" for number in range(50))]
    acknowledge(client, got)
    await client.nothing_dispatched()


async def test_a_subscriber_that_does_not_read_gets_all_of_a_run_later() -> None:
    async with connected(BrokerService("runs", persistent=False)) as (broker, client):
        reader = RawClient(create_transport(await broker.tcp_url()))
        await reader.open()
        await reader.consumer(Topic("t"), prefetch_size=1000)
        reader.transport.pause_reading()
        producer = await known(client, Topic("t"))
        for number in range(300):
            client.send_command(text(client, producer, Topic("t"), f"{number:03}" + "x" * 50_000))
        await client.request(ConsumerInfo(await client.consumer(Q), destination=Q))
        reader.transport.resume_reading()
        got = await bodies(reader, 301)
        assert [(body or "")[:3] for body in got[1:]] == [f"{number:03}" for number in range(300)]
        await reader.close()


@pytest.mark.fact("activemq-broker C5")
async def test_a_plugin_that_raises_for_a_committed_message_does_not_stop_the_others() -> None:
    advised = PolicyEntry(advisory_for_dispatched=True)
    service = BrokerService(
        "runs", persistent=False, plugins=[RefusalPlugin()], policies=PolicyMap([advised])
    )
    async with connected(service) as (broker, client):
        producer = await known(client, Q)
        await client.consumer(Q, prefetch_size=100)
        xid = await begun(client, 1)
        for number in range(6):
            client.send_command(text(client, producer, Q, str(number), xid))
        assert not isinstance(await committed(client, xid), ExceptionResponse)
        assert await bodies(client, 7) == ["first", *"012345"]
        assert broker.queue_statistics("q").inflight == 7


@pytest.mark.fact("activemq-broker C5")
@pytest.mark.parametrize("how", ["single", "range", "transaction"])
async def test_a_plugin_that_raises_for_one_acknowledgement_keeps_none_of_the_others(
    how: str,
) -> None:
    advised = PolicyEntry(advisory_for_consumed=True)
    service = BrokerService(
        "runs", persistent=False, plugins=[RefusalPlugin()], policies=PolicyMap([advised])
    )
    async with connected(service) as (broker, client):
        producer = await known(client, Q)
        consumer = await client.consumer(Q, prefetch_size=7)
        for number in range(9):
            client.send_command(text(client, producer, Q, str(number)))
        ids = [present((await client.message()).message_id) for _ in range(7)]
        xid = await begun(client, 1) if how == "transaction" else None
        for each in ids if how == "single" else ids[-1:]:
            first, count = (each, 1) if how == "single" else (ids[0], 7)
            ack = MessageAck(Q, xid, consumer, AckType.STANDARD, first, each, count)
            client.send_command(ack)
        if xid is not None:
            await committed(client, xid)
        assert await bodies(client, 2) == ["6", "7"]
        statistics = broker.queue_statistics("q")
        assert (statistics.messages, statistics.inflight) == (3, 3)
