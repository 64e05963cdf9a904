"""The way of a message through the whole broker, in bare commands, over vm:// and TCP."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import AckType, Command, Throwable, TransactionType
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms.wire.openwire.primitives import decode_map, decode_text
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import Connect


def body(message: object) -> str | None:
    content = message.content  # type: ignore[attr-defined]
    return decode_text(content)


async def test_sent_received_acknowledged(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    await client.send(Queue("q"), "one", "two")
    assert test_broker.queue_statistics("q").messages == 2
    await client.consumer(Queue("q"))
    for text in ("one", "two"):
        dispatch = await client.dispatched()
        assert body(dispatch.message) == text
        assert dispatch.redelivery_counter == 0
        await client.ack(dispatch)
    await test_broker.drained("q", timeout=0)
    statistics = test_broker.queue_statistics("q")
    assert (statistics.enqueues, statistics.dequeues, statistics.messages) == (2, 2, 0)


async def test_a_committed_transaction_shows_its_messages_and_a_rolled_back_one_does_not(
    connect: Connect,
) -> None:
    client = await connect()
    await client.consumer(Queue("q"))
    first, second = client.local(1), client.local(2)
    await client.transaction(TransactionType.BEGIN, first)
    await client.send(Queue("q"), "a", "b", transaction_id=first)
    await client.nothing_dispatched()
    await client.send(Queue("q"), "plain")
    assert body(await client.message()) == "plain"
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, first)
    assert [body(await client.message()) for _ in "ab"] == ["a", "b"]

    await client.transaction(TransactionType.BEGIN, second)
    await client.send(Queue("q"), "never", transaction_id=second)
    await client.transaction(TransactionType.ROLLBACK, second)
    await client.nothing_dispatched()


async def test_acknowledgements_count_at_the_commit(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    await client.send(Queue("q"), "x")
    await client.consumer(Queue("q"))
    dispatch = await client.dispatched()
    first, second = client.local(1), client.local(2)
    await client.transaction(TransactionType.BEGIN, first)
    await client.ack(dispatch, transaction_id=first)
    assert test_broker.queue_statistics("q").messages == 1
    await client.transaction(TransactionType.ROLLBACK, first)
    await client.nothing_dispatched()
    assert test_broker.queue_statistics("q").inflight == 1
    await client.transaction(TransactionType.BEGIN, second)
    await client.ack(dispatch, transaction_id=second)
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, second)
    assert test_broker.queue_statistics("q").messages == 0


@pytest.mark.fact("activemq-broker X3")
async def test_after_a_rollback_messages_stay_with_their_consumer_until_it_goes(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    first, second = await connect(), await connect()
    await first.send(Queue("q"), "x", "y")
    consumer = await first.consumer(Queue("q"))
    x, y = await first.dispatched(), await first.dispatched()
    await second.consumer(Queue("q"))
    xid = first.local(1)
    await first.transaction(TransactionType.BEGIN, xid)
    await first.ack(x, transaction_id=xid)
    await first.send(Queue("q"), "in the transaction", transaction_id=xid)
    await first.transaction(TransactionType.ROLLBACK, xid)
    await second.nothing_dispatched()
    await first.nothing_dispatched()
    await first.remove(consumer)
    again = [await second.dispatched(), await second.dispatched()]
    assert [body(d.message) for d in again] == ["x", "y"] == [body(x.message), body(y.message)]
    await second.nothing_dispatched()


async def test_the_end_of_a_connection_rolls_its_transaction_back(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    first, second = await connect(), await connect()
    await first.send(Queue("q"), "x")
    await first.consumer(Queue("q"))
    dispatch = await first.dispatched()
    xid = first.local(1)
    await first.transaction(TransactionType.BEGIN, xid)
    await first.ack(dispatch, transaction_id=xid)
    await first.send(Queue("q"), "lost", transaction_id=xid)
    await second.consumer(Queue("q"))
    await first.close()
    again = await second.dispatched()
    assert body(again.message) == "x"
    assert again.redelivery_counter == 1
    await second.nothing_dispatched()
    assert test_broker.queue_statistics("q").messages == 1


@pytest.mark.fact("activemq-broker X1")
async def test_local_transactions_over_the_wire(connect: Connect) -> None:
    client = await connect()
    await client.consumer(Queue("q"))
    xid = client.local(1)
    unknown = client.local(9)
    client.send_command(_info(client, TransactionType.BEGIN, xid))
    await client.transaction(TransactionType.BEGIN, xid)
    producer = await client.producer()
    client.send_command(client.text(producer, Queue("q"), "x", xid))
    await client.nothing_dispatched()
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, xid)
    dispatch = await client.dispatched()
    assert body(dispatch.message) == "x"
    assert dispatch.message is not None
    assert dispatch.message.transaction_id == xid
    for kind in (TransactionType.COMMIT_ONE_PHASE, TransactionType.ROLLBACK):
        with pytest.raises(JMSException, match=f"Transaction '{unknown}' has not been started."):
            await client.transaction(kind, unknown)
    client.send_command(client.text(producer, Queue("q"), "y", unknown))
    refused = await client.heard(ConnectionErrorCommand)
    assert isinstance(refused, ConnectionErrorCommand)
    assert refused.exception is not None
    assert "has not been started." in (refused.exception.message or "")


def _info(client: Any, kind: int, xid: Any) -> Command:
    from pyjms.wire.openwire.commands import TransactionInfo

    return TransactionInfo(client.connection_id, xid, kind)


@pytest.mark.fact("activemq-broker X2")
async def test_messages_appear_in_the_order_of_commits(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    xid = client.local(1)
    await client.transaction(TransactionType.BEGIN, xid)
    await client.send(Queue("in"), "read in the transaction")
    await client.consumer(Queue("in"))
    read = await client.dispatched()
    await client.send(Queue("q"), "tx 1", "tx 2", transaction_id=xid)
    await client.send(Queue("q"), "plain")
    await client.ack(read, transaction_id=xid)
    assert test_broker.queue_statistics("in").messages == 1
    assert test_broker.queue_statistics("q").messages == 1
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, xid)
    assert test_broker.queue_statistics("in").messages == 0
    await client.consumer(Queue("q"))
    assert [body(await client.message()) for _ in range(3)] == ["plain", "tx 1", "tx 2"]


async def test_a_poison_ack_leads_to_the_dead_letter_queue(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    await client.send(Queue("q"), "bad", "good")
    await client.consumer(Queue("q"))
    bad, good = await client.dispatched(), await client.dispatched()
    cause = Throwable("java.lang.Throwable", "Delivery[7] exceeds redelivery policy limit")
    await client.ack(bad, AckType.POISON, poison_cause=cause)
    await client.ack(good)
    await test_broker.drained("q", timeout=0)
    [letter] = await test_broker.dead_letters()
    assert await test_broker.dead_letters("q") == [letter]
    assert await test_broker.dead_letters("other") == []
    assert body(letter) == "bad"
    assert letter.destination == Queue("ActiveMQ.DLQ")
    assert letter.original_destination == Queue("q")
    assert letter.marshalled_properties is not None
    reason = decode_map(letter.marshalled_properties)["dlqDeliveryFailureCause"]
    assert reason == "java.lang.Throwable: Delivery[7] exceeds redelivery policy limit"
    await client.consumer(Queue("ActiveMQ.DLQ"))
    dispatch = await client.dispatched()
    assert body(dispatch.message) == "bad"
    assert dispatch.redelivery_counter == 0


async def test_topics_reach_every_consumer_that_is_there(connect: Connect) -> None:
    first, second = await connect(), await connect()
    await first.send(Topic("t"), "nobody")
    await first.consumer(Topic("t"))
    await second.consumer(Topic("t"))
    await first.send(Topic("t"), "x")
    assert body(await first.message()) == body(await second.message()) == "x"
    await first.nothing_dispatched()


@pytest.mark.fact("activemq-broker B4")
async def test_a_composite_send_reaches_its_members_with_one_message_id(connect: Connect) -> None:
    client = await connect()
    for destination in (Queue("a"), Queue("b"), Topic("c")):
        await client.consumer(destination)
    await client.send(Queue("a,b,topic://c"), "x")
    got = [await client.message() for _ in range(3)]
    assert {m.destination for m in got} == {Queue("a"), Queue("b"), Topic("c")}
    assert {m.original_destination for m in got} == {Queue("a,b,topic://c")}
    assert len({m.message_id for m in got}) == 1
    assert len({m.message_id.broker_sequence_id for m in got if m.message_id}) == 3
    consumer = await client.consumer(Queue("d,e"))
    for destination in (Queue("d"), Queue("e")):
        await client.send(destination, "y")
        dispatch = await client.dispatched()
        assert (dispatch.consumer_id, dispatch.destination) == (consumer, destination)


async def test_a_failing_oneway_send_dooms_its_transaction(connect: Connect) -> None:
    from pyjms.errors import TransactionRolledBackException
    from pyjms.jms.destination import TemporaryQueue

    client = await connect()
    xid = client.local(1)
    await client.transaction(TransactionType.BEGIN, xid)
    producer = await client.producer()
    gone = TemporaryQueue("ID:nobody:1:1")
    client.send_command(client.text(producer, gone, "x", xid))
    await client.heard(ConnectionErrorCommand)
    with pytest.raises(TransactionRolledBackException, match="rollback only"):
        await client.transaction(TransactionType.COMMIT_ONE_PHASE, xid)
