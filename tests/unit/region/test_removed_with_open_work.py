"""Destinations removed while transactions have work for them: broker and store agree."""

from __future__ import annotations

import logging

import pytest

from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.api.completion import wait_for
from pyjms_broker.region.recovered_transactions import recovered_work
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.transaction.xa import XATransaction

Q, R, T = Queue("Q"), Queue("R"), Topic("T")
XA = XATransactionId(7, b"g", b"b")


class Stage:
    """A broker with a journal."""

    def __init__(self, make_broker, directory) -> None:
        self._make_broker = make_broker
        self._directory = directory

    async def start(self) -> None:
        self.store = KahaDBPersistenceAdapter(self._directory)
        await self.store.start()
        self.broker = self._make_broker(store=self.store)
        await self.broker.region.start()
        self.client = self.broker.client()

    async def stop(self) -> None:
        await self.broker.region.stop()
        await self.store.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def remove(self, destination, timeout=0.0) -> None:
        self.broker.region.remove_destination(self.broker.region.context, destination, timeout)

    def xa(self) -> XATransaction:
        return XATransaction(XA, self.store.transaction_store(), lambda _: None, None)

    def recovered(self) -> XATransaction:
        transactions = self.store.transaction_store()
        (found,) = transactions.recovered()
        work = recovered_work(self.broker.region, found)
        return XATransaction.recovered(found.xid, transactions, lambda _: None, work)

    def agree(self, destination, *texts) -> None:
        """Both have exactly these messages, or neither has the destination."""
        there = destination in self.broker.region.destinations()
        assert (destination in self.store.destinations()) is there
        assert there or not texts
        if there:
            queue = self.broker.queue(destination)
            assert sorted(self.broker.texts(destination)) == sorted(texts)
            assert queue.statistics.messages == queue.store.message_count == len(texts)


@pytest.fixture
async def stage(make_broker, tmp_path):
    stage = Stage(make_broker, tmp_path)
    await stage.start()
    yield stage
    await stage.stop()


@pytest.mark.parametrize("again", [False, True])
async def test_open_sends_go_to_the_queue_made_again(stage, again):
    client, tx = stage.client, stage.client.begin()
    for number in range(3):
        client.send(Q, f"q{number}", tx=tx, persistent=True)
    client.send(R, "r", tx=tx, persistent=True)
    stage.remove(Q)
    stage.agree(Q)
    if again:
        await wait_for(client.send(Q, "other", persistent=True))
    await wait_for(tx.commit(True))
    expected = [*(("other",) if again else ()), "q0", "q1", "q2"]
    stage.agree(Q, *expected)
    stage.agree(R, "r")
    consumer = client.consume(Q, prefetch=1)
    assert client.received(consumer) == expected[:1]
    for number in range(len(expected)):
        await wait_for(client.ack(consumer, number))
    assert client.received(consumer) == expected
    stage.agree(Q)
    await stage.restart()
    stage.agree(Q)
    stage.agree(R, "r")


async def test_a_rollback_leaves_nothing(stage):
    client, tx = stage.client, stage.client.begin()
    client.send(Q, "q", tx=tx, persistent=True)
    stage.remove(Q)
    await wait_for(tx.rollback())
    stage.agree(Q)
    assert stage.broker.region.system_usage.memory.used == 0
    await stage.restart()
    stage.agree(Q)


async def test_one_that_cannot_be_made_again_makes_it_a_rollback(stage):
    client, tx = stage.client, stage.client.begin()
    client.send(Q, "q", tx=tx, persistent=True)
    client.send(R, "r", tx=tx, persistent=True)
    stage.remove(Q)

    def refuse(_destination):
        raise JMSException("no")

    stage.broker.region.destination_interceptor = refuse
    with pytest.raises(TransactionRolledBackException):
        tx.commit(True)
    stage.broker.region.destination_interceptor = None
    assert stage.broker.texts(R) == []
    stage.agree(R)


async def test_open_sends_go_to_the_topic_made_again(stage):
    client, tx = stage.client, stage.client.begin()
    client.send(T, "before", tx=tx, persistent=True)
    client.send(T, "light", tx=tx)
    stage.remove(T)
    consumer = client.consume(T)
    durable = client.consume(T, subscription_name="s")
    await wait_for(tx.commit(True))
    for each in (consumer, durable):
        assert client.received(each) == ["before", "light"]
    client.close(durable)
    await stage.restart()
    again = stage.broker.client(client.name)
    assert again.received(again.consume(T, subscription_name="s")) == ["before"]


async def test_a_temporary_queue_takes_its_messages_with_it(stage):
    client, tx = stage.client, stage.client.begin()
    temporary = TemporaryQueue("ID:host-1:1")
    stage.broker.region.add_destination(client.context, temporary, True)
    client.send(temporary, "t", tx=tx)
    client.send(R, "r", tx=tx, persistent=True)
    stage.remove(temporary)
    await wait_for(tx.commit(True))
    assert temporary not in stage.broker.region.destinations()
    stage.agree(R, "r")
    assert stage.broker.region.system_usage.memory.used == stage.broker.queue(R).memory.used


@pytest.mark.parametrize("committed", [True, False])
async def test_acknowledgements_bring_nothing_back(stage, committed):
    client = stage.client
    await wait_for(client.send(Q, "q", persistent=True))
    consumer, tx = client.consume(Q), client.begin()
    client.ack(consumer, tx=tx)
    stage.remove(Q, timeout=1)
    await wait_for(tx.commit(True) if committed else tx.rollback())
    stage.agree(Q)
    await wait_for(client.send(Q, "new", persistent=True))
    stage.agree(Q, "new")
    await stage.restart()
    stage.agree(Q, "new")


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("committed", [True, False])
async def test_what_is_prepared_keeps_its_destination(stage, committed, restarted):
    tx = stage.xa()
    stage.client.send(Q, "q", tx=tx, persistent=True)
    await wait_for(tx.prepare())
    if restarted:
        await stage.restart()
        tx = stage.recovered()
    with pytest.raises(JMSException, match="still has messages of transactions"):
        stage.remove(Q)
    await wait_for(tx.commit(False) if committed else tx.rollback())
    stage.agree(Q, *(["q"] if committed else []))
    stage.remove(Q)
    stage.agree(Q)
    await stage.restart()
    stage.agree(Q)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("committed", [True, False])
async def test_what_is_prepared_goes_when_the_broker_itself_removes_it(stage, committed, restarted):
    client, tx = stage.client, stage.xa()
    await wait_for(client.send(R, "old", persistent=True))
    consumer = client.consume(R)
    client.ack(consumer, tx=tx)
    client.send(Q, "q", tx=tx, persistent=True)
    await wait_for(tx.prepare())
    if restarted:
        await stage.restart()
        tx = stage.recovered()
    stage.remove(Q, timeout=-1)
    stage.remove(R, timeout=-1)
    await wait_for(tx.commit(False) if committed else tx.rollback())
    for _ in range(2):
        stage.agree(Q)
        stage.agree(R)
        await stage.restart()


async def test_a_duplicate_of_a_recovered_transaction_is_published_once(stage, caplog):
    client, tx = stage.client, stage.xa()
    message = client.message(Q, "dup", persistent=True)
    client.send(Q, "", tx=tx, message=message)
    client.send(Q, "new", tx=tx, persistent=True)
    await wait_for(tx.prepare())
    await stage.restart()
    tx, client = stage.recovered(), stage.client
    await wait_for(client.send(Q, "", message=message))
    with caplog.at_level(logging.WARNING):
        await wait_for(tx.commit(False))
    assert "already; dropped" in caplog.text
    stage.agree(Q, "dup", "new")
    consumer = client.consume(Q)
    assert client.received(consumer) == ["dup", "new"]
