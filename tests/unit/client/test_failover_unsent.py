"""What `failover:` does not send, it reports; and what ended or was cancelled is not sent later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.runtime import clock as _clock
from pyjms.transport.failover.brokers import FailoverOptions
from pyjms.transport.failover.state import ClientState, OpenTransactions
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ActiveMQTextMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    TransactionInfo,
    TransactionType,
)
from tests.kit.brokers.fake import FakeBrokers, FakeTransport, brokers
from tests.kit.clients.scripted_broker import clock

__all__ = ["brokers", "clock"]

CONNECTION = ConnectionId("c1")
PRODUCER = ProducerId("c1", 1, 1)
TRANSACTED = [False, True]


@asynccontextmanager
async def connected(query: str = "") -> AsyncIterator[Any]:
    url = f"failover:(fake://a)?jms.watchTopicAdvisories=false&{query}"
    async with await ConnectionFactory(url).create_connection() as connection:
        await connection.start()
        yield connection


@asynccontextmanager
async def connected_lazily() -> AsyncIterator[Any]:
    """A connection that the broker does not know yet."""
    url = "failover:(fake://a)?jms.watchTopicAdvisories=false"
    async with await ConnectionFactory(url).create_connection() as connection:
        yield connection


async def producer_of(connection: ActiveMQConnection, *, transacted: bool) -> tuple[Any, Any]:
    session = await connection.create_session(transacted)
    producer = await session.create_producer(session.create_queue("q"))
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    return session, producer


async def begin_outage(brokers: FakeBrokers) -> None:
    brokers.down = {"a"}
    brokers.lose()
    await _clock.sleep(0.001)


async def end_outage(brokers: FakeBrokers) -> list[object]:
    """Return the messages and transaction commands that the next broker is sent."""
    count = len(brokers.connections)
    brokers.down = set()
    await _clock.sleep(60)
    assert len(brokers.connections) == count + 1
    return [
        command
        for command in brokers.connections[-1].sent
        if isinstance(command, ActiveMQMessage | TransactionInfo)
    ]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("transacted", TRANSACTED)
async def test_a_send_that_waits_when_reconnecting_is_given_up_raises(
    brokers: FakeBrokers, transacted: bool
) -> None:
    async with connected("maxReconnectAttempts=3") as connection:
        session, producer = await producer_of(connection, transacted=transacted)
        await begin_outage(brokers)
        with pytest.raises(ConnectionFailedException):
            await producer.send(session.create_text_message("x"))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("transacted", TRANSACTED)
async def test_a_send_that_waits_when_the_connection_is_closed_raises(
    brokers: FakeBrokers, transacted: bool
) -> None:
    outcomes: list[object] = []
    async with connected() as connection:
        session, producer = await producer_of(connection, transacted=transacted)
        await begin_outage(brokers)

        async def send() -> None:
            try:
                await producer.send(session.create_text_message("x"))
                outcomes.append("sent")
            except JMSException as error:
                outcomes.append(type(error))

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await _clock.sleep(0.001)
            await connection.close()
    assert outcomes == [ConnectionFailedException]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("how", ["commit", "rollback"])
@pytest.mark.parametrize("in_outage", [False, True])
async def test_a_transaction_whose_end_was_cancelled_is_not_replayed(
    brokers: FakeBrokers, how: str, in_outage: bool
) -> None:
    async with connected() as connection:
        session, producer = await producer_of(connection, transacted=True)
        await producer.send(session.create_text_message("x"))
        if in_outage:
            await begin_outage(brokers)
        else:
            brokers.connections[-1].respond = lambda _: ()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await getattr(session, how)()
        if not in_outage:
            await begin_outage(brokers)
        assert await end_outage(brokers) == []


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("query", ["", "trackMessages=true", "jms.alwaysSyncSend=true"])
@pytest.mark.parametrize("transacted", TRANSACTED)
async def test_a_send_cancelled_in_an_outage_is_not_carried_out_later(
    brokers: FakeBrokers, query: str, transacted: bool
) -> None:
    async with connected(query) as connection:
        session, producer = await producer_of(connection, transacted=transacted)
        await begin_outage(brokers)
        with _clock.timeout(5):
            await producer.send(session.create_text_message("cancelled"))
        sent = await end_outage(brokers)
        assert [type(command) for command in sent] == [TransactionInfo] * transacted


@pytest.mark.usefixtures("clock")
async def test_a_cancelled_send_gives_its_part_of_the_window_back(brokers: FakeBrokers) -> None:
    async with connected("jms.producerWindowSize=1500") as connection:
        session, producer = await producer_of(connection, transacted=False)
        await begin_outage(brokers)
        for text in ("first", "second"):
            with _clock.timeout(5):
                await producer.send(session.create_text_message(text))
        assert await end_outage(brokers) == []
        with anyio.fail_after(5):
            await producer.send(session.create_text_message("third"))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("transacted", TRANSACTED)
async def test_a_send_to_a_broker_whose_loss_is_not_reported_yet_waits(
    brokers: FakeBrokers, transacted: bool
) -> None:
    outcomes: list[object] = []
    async with connected("maxReconnectAttempts=3") as connection:
        session, producer = await producer_of(connection, transacted=transacted)

        async def send() -> None:
            try:
                await producer.send(session.create_text_message("x"))
                outcomes.append("sent")
            except JMSException as error:
                outcomes.append(type(error))

        brokers.connections[-1].is_broken = True
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await _clock.sleep(0.001)
            assert outcomes == []
            await begin_outage(brokers)
    assert outcomes == [ConnectionFailedException]


@pytest.mark.usefixtures("clock")
async def test_a_send_to_a_broker_whose_loss_is_not_reported_yet_reaches_the_next_one(
    brokers: FakeBrokers,
) -> None:
    async with connected() as connection:
        session, producer = await producer_of(connection, transacted=False)
        brokers.connections[-1].is_broken = True
        async with anyio.create_task_group() as group:
            group.start_soon(producer.send, session.create_text_message("x"))
            await begin_outage(brokers)
            (sent,) = await end_outage(brokers)
        assert isinstance(sent, ActiveMQMessage)


@pytest.mark.usefixtures("clock")
@pytest.mark.fact("activemq-edges F4")
async def test_a_client_that_a_lost_broker_may_know_says_that_it_reconnects(
    brokers: FakeBrokers,
) -> None:
    async with connected_lazily() as connection:
        brokers.connections[-1].respond = lambda _: ()
        async with anyio.create_task_group() as group:
            group.start_soon(connection.create_session)
            await _clock.sleep(0.001)
            brokers.lose()
            await _clock.sleep(60)
        introductions = [
            command.failover_reconnect
            for each in brokers.connections
            for command in each.sent
            if isinstance(command, ConnectionInfo)
        ]
        assert introductions == [False, True]


class Outcomes:
    """A completion listener that records its calls."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_completion(self, _: object) -> None:
        self.heard.append("completed")

    def on_exception(self, _: object, error: JMSException) -> None:
        self.heard.append(type(error).__name__)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("query", ["maxReconnectAttempts=3", "timeout=100"])
@pytest.mark.parametrize("reported", [True, False])
async def test_an_asynchronous_send_that_is_given_up_is_reported_to_its_listener_only(
    brokers: FakeBrokers, query: str, reported: bool
) -> None:
    listener = Outcomes()
    async with connected(query) as connection:
        session, producer = await producer_of(connection, transacted=False)
        if reported:
            await begin_outage(brokers)
        else:
            brokers.connections[-1].is_broken = True
        async with anyio.create_task_group() as group:

            async def send() -> None:
                message = session.create_text_message("x")
                await producer.send(message, completion_listener=listener)

            group.start_soon(send)
            await _clock.sleep(0.001)
            if not reported:
                await begin_outage(brokers)
            await _clock.sleep(60)
        assert listener.heard == ["ConnectionFailedException"]


@pytest.mark.usefixtures("clock")
async def test_a_message_whose_broker_is_lost_while_it_takes_the_client_over_goes_to_the_next_one(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected() as connection:
        session, producer = await producer_of(connection, transacted=False)
        await begin_outage(brokers)
        send = FakeTransport.oneway

        def lose_the_first(self: FakeTransport, command: Command) -> None:
            send(self, command)
            if isinstance(command, ActiveMQMessage) and len(brokers.connections) == 2:
                self.listener.on_exception(ConnectionFailedException("lost"))

        monkeypatch.setattr(FakeTransport, "oneway", lose_the_first)
        async with anyio.create_task_group() as group:
            group.start_soon(producer.send, session.create_text_message("x"))
            await _clock.sleep(0.001)
            brokers.down = set()
            await _clock.sleep(60)
        assert len(brokers.connections) == 3
        sent = [c for c in brokers.connections[-1].sent if isinstance(c, ActiveMQMessage)]
        assert len(sent) == 1


@pytest.mark.usefixtures("clock")
@pytest.mark.fact("activemq-broker T13")
@pytest.mark.parametrize(
    "mode", [AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED]
)
async def test_a_consumer_that_the_broker_aborted_does_not_come_back(
    brokers: FakeBrokers, mode: AcknowledgeMode
) -> None:
    async with connected() as connection:
        transacted = mode == AcknowledgeMode.TRANSACTED
        session = await connection.create_session(transacted, mode)
        queue = session.create_queue("q")
        aborted = await session.create_consumer(queue)
        kept = await session.create_consumer(queue)
        first = brokers.connections[-1]
        dispatched = ActiveMQTextMessage(
            producer_id=PRODUCER, message_id=MessageId(None, PRODUCER, 1), destination=queue
        )
        first.deliver(MessageDispatch(aborted.consumer_id, queue, dispatched))
        received = await aborted.receive()
        first.deliver(ConsumerControl(queue, close=True, consumer_id=aborted.consumer_id))
        await _clock.sleep(0.001)
        await begin_outage(brokers)
        await end_outage(brokers)
        again = brokers.connections[-1]
        assert [c.consumer_id for c in again.sent if isinstance(c, ConsumerInfo)] == [
            kept.consumer_id
        ]
        await received.acknowledge()
        await (session.rollback() if transacted else session.recover())
        assert aborted.is_closed
        assert not [c for c in again.sent if isinstance(c, RemoveInfo)]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("in_outage", [False, True])
async def test_messages_of_a_cancelled_commit_are_received_again_if_it_was_not_executed(
    brokers: FakeBrokers, in_outage: bool
) -> None:
    async with connected() as connection:
        session = await connection.create_session(True)
        queue = session.create_queue("q")
        consumer = await session.create_consumer(queue)

        def dispatch(count: int) -> None:
            sent = ActiveMQTextMessage(
                producer_id=PRODUCER, message_id=MessageId(None, PRODUCER, 1), destination=queue
            )
            broker = brokers.connections[-1]
            broker.deliver(MessageDispatch(consumer.consumer_id, queue, sent, count))

        dispatch(0)
        assert await consumer.receive() is not None
        if in_outage:
            await begin_outage(brokers)
        else:
            brokers.connections[-1].respond = lambda _: ()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await session.commit()
        if in_outage:
            await session.rollback()  # it had not begun to commit
        else:
            await begin_outage(brokers)
        await end_outage(brokers)
        dispatch(1)
        again = await consumer.receive(5)
        assert again is not None
        assert again.redelivered
        await session.commit()
        acks = [c for c in brokers.connections[-1].sent if isinstance(c, MessageAck)]
        assert [ack.ack_type for ack in acks] == [AckType.STANDARD]


def message(
    number: int, transaction_id: LocalTransactionId | None = None, content: bytes | None = None
) -> ActiveMQMessage:
    return ActiveMQMessage(
        producer_id=PRODUCER,
        message_id=MessageId(None, PRODUCER, number),
        transaction_id=transaction_id,
        content=content,
    )


def test_messages_without_content_count_with_their_overhead() -> None:
    state = ClientState(FailoverOptions(track_messages=True, max_cache_size=10 * 1024))
    for number in range(1, 101):
        assert state.track_message(message(number), is_request=False)
    assert [m.producer_sequence_id for m in state.cached if m] == list(range(91, 101))


def test_a_message_that_is_sent_again_counts_once() -> None:
    state = ClientState(FailoverOptions(track_messages=True, max_cache_size=8 * 1024))
    content = bytes(2 * 1024)
    state.track_message(message(1, content=content), is_request=False)
    for _ in range(5):
        assert state.track_message(message(2, content=content), is_request=False)
    assert [m.producer_sequence_id for m in state.cached if m] == [1, 2]


def test_a_closed_producer_is_kept_without_reading_the_messages() -> None:
    transaction_id = LocalTransactionId(1, CONNECTION)
    transactions = OpenTransactions()
    begin = TransactionInfo(CONNECTION, transaction_id, int(TransactionType.BEGIN))
    transactions.begin(begin)
    compared: list[object] = []

    class Counted(ProducerId):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return super().__eq__(other)

        def __hash__(self) -> int:
            return super().__hash__()

    used, unused = Counted("c1", 1, 1), Counted("c1", 1, 2)
    for number in range(100):
        sent = message(number, transaction_id)
        sent.producer_id = used
        transactions.add(sent)
    for producer_id in (Counted("c1", 1, 1), unused):
        transactions.producer_closed(ProducerInfo(producer_id, None))
    assert len(compared) < 5
    replayed = list(transactions.replay(frozenset()))
    assert [r.producer_id for r in replayed if isinstance(r, ProducerInfo)] == [used]
    assert [r.object_id for r in replayed if isinstance(r, RemoveInfo)] == [used]
