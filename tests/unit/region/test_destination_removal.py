"""Destinations are removed while transactions have work on them: broker and store agree."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.filters.transactions import XATransaction
from pyjms_broker.region.transaction_work import recovered_work
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from tests.kit.brokers.region import Broker
from tests.kit.values import present

Q, R, T = Queue("Q"), Queue("R"), Topic("T")
XA = XATransactionId(7, b"g", b"b")


class Stage:
    """A broker with a journal."""

    def __init__(self, make_broker: type[Broker], directory: Any) -> None:
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

    def remove(self, destination: Destination, timeout: float = 0.0) -> None:
        self.broker.region.remove_destination(self.broker.region.context, destination, timeout)

    def xa(self) -> XATransaction:
        return XATransaction(XA, self.store.transaction_store(), lambda _: None, None)

    def recovered(self) -> XATransaction:
        transactions = self.store.transaction_store()
        (found,) = transactions.recovered_transactions()
        work = recovered_work(self.broker.region, found)
        return XATransaction.recover(found.xid, transactions, lambda _: None, work)

    def assert_agreement(self, destination: Destination, *texts: Any) -> None:
        """Assert that both have exactly these messages, or that neither has the destination."""
        exists = destination in self.broker.region.destinations()
        assert (destination in self.store.destinations()) is exists
        assert exists or not texts
        if exists:
            queue = self.broker.queue(destination)
            assert sorted(map(str, self.broker.texts(destination))) == sorted(texts)
            assert queue.statistics.messages == present(queue.store).message_count == len(texts)


@pytest.fixture
async def stage(make_broker: type[Broker], tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(make_broker, tmp_path)
    await stage.start()
    yield stage
    await stage.stop()


@pytest.mark.parametrize("again", [False, True])
async def test_open_sends_go_to_the_recreated_queue(stage: Stage, again: bool) -> None:
    client, tx = stage.client, stage.client.begin()
    for number in range(3):
        client.send(Q, f"q{number}", tx=tx, persistent=True)
    client.send(R, "r", tx=tx, persistent=True)
    stage.remove(Q)
    stage.assert_agreement(Q)
    if again:
        await wait_for(client.send(Q, "other", persistent=True))
    await wait_for(tx.commit(True))
    expected = [*(("other",) if again else ()), "q0", "q1", "q2"]
    stage.assert_agreement(Q, *expected)
    stage.assert_agreement(R, "r")
    consumer = client.consume(Q, prefetch=1)
    assert client.received(consumer) == expected[:1]
    for number in range(len(expected)):
        await wait_for(client.ack(consumer, number))
    assert client.received(consumer) == expected
    stage.assert_agreement(Q)
    await stage.restart()
    stage.assert_agreement(Q)
    stage.assert_agreement(R, "r")


async def test_a_rollback_leaves_no_message(stage: Stage) -> None:
    client, tx = stage.client, stage.client.begin()
    client.send(Q, "q", tx=tx, persistent=True)
    stage.remove(Q)
    await wait_for(tx.rollback())
    stage.assert_agreement(Q)
    assert stage.broker.region.system_usage.memory.used == 0
    await stage.restart()
    stage.assert_agreement(Q)


async def test_a_commit_is_rolled_back_if_the_destination_cannot_be_recreated(stage: Stage) -> None:
    client, tx = stage.client, stage.client.begin()
    client.send(Q, "q", tx=tx, persistent=True)
    client.send(R, "r", tx=tx, persistent=True)
    stage.remove(Q)

    def refuse(_destination: Any) -> None:
        raise JMSException("no")

    stage.broker.region.destination_interceptor = cast("Any", refuse)
    with pytest.raises(TransactionRolledBackException):
        tx.commit(True)
    stage.broker.region.destination_interceptor = None
    assert stage.broker.texts(R) == []
    stage.assert_agreement(R)


async def test_open_sends_go_to_the_recreated_topic(stage: Stage) -> None:
    client, tx = stage.client, stage.client.begin()
    client.send(T, "before", tx=tx, persistent=True)
    client.send(T, "non-persistent", tx=tx)
    stage.remove(T)
    consumer = client.consume(T)
    durable = client.consume(T, subscription_name="s")
    await wait_for(tx.commit(True))
    for each in (consumer, durable):
        assert client.received(each) == ["before", "non-persistent"]
    client.close(durable)
    await stage.restart()
    again = stage.broker.client(client.name)
    assert again.received(again.consume(T, subscription_name="s")) == ["before"]


async def test_sends_to_a_removed_temporary_queue_are_discarded(stage: Stage) -> None:
    client, tx = stage.client, stage.client.begin()
    temporary = TemporaryQueue("ID:host-1:1")
    stage.broker.region.add_destination(client.context, temporary, True)
    client.send(temporary, "t", tx=tx)
    client.send(R, "r", tx=tx, persistent=True)
    stage.remove(temporary)
    await wait_for(tx.commit(True))
    assert temporary not in stage.broker.region.destinations()
    stage.assert_agreement(R, "r")
    assert stage.broker.region.system_usage.memory.used == stage.broker.queue(R).memory.used


@pytest.mark.parametrize("committed", [True, False])
async def test_the_end_of_acknowledgements_restores_nothing(stage: Stage, committed: bool) -> None:
    client = stage.client
    await wait_for(client.send(Q, "q", persistent=True))
    consumer, tx = client.consume(Q), client.begin()
    client.ack(consumer, tx=tx)
    stage.remove(Q, timeout=1)
    await wait_for(tx.commit(True) if committed else tx.rollback())
    stage.assert_agreement(Q)
    await wait_for(client.send(Q, "new", persistent=True))
    stage.assert_agreement(Q, "new")
    await stage.restart()
    stage.assert_agreement(Q, "new")


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("committed", [True, False])
async def test_a_destination_of_a_prepared_transaction_cannot_be_removed(
    stage: Stage, committed: bool, restarted: bool
) -> None:
    tx = stage.xa()
    stage.client.send(Q, "q", tx=tx, persistent=True)
    await wait_for(cast("Completion", tx.prepare()))
    if restarted:
        await stage.restart()
        tx = stage.recovered()
    with pytest.raises(JMSException, match="still has messages of transactions"):
        stage.remove(Q)
    await wait_for(tx.commit(False) if committed else tx.rollback())
    stage.assert_agreement(Q, *(["q"] if committed else []))
    stage.remove(Q)
    stage.assert_agreement(Q)
    await stage.restart()
    stage.assert_agreement(Q)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("committed", [True, False])
async def test_the_broker_removes_a_destination_with_prepared_work(
    stage: Stage, committed: bool, restarted: bool
) -> None:
    client, tx = stage.client, stage.xa()
    await wait_for(client.send(R, "old", persistent=True))
    consumer = client.consume(R)
    client.ack(consumer, tx=tx)
    client.send(Q, "q", tx=tx, persistent=True)
    await wait_for(cast("Completion", tx.prepare()))
    if restarted:
        await stage.restart()
        tx = stage.recovered()
    stage.remove(Q, timeout=-1)
    stage.remove(R, timeout=-1)
    await wait_for(tx.commit(False) if committed else tx.rollback())
    for _ in range(2):
        stage.assert_agreement(Q)
        stage.assert_agreement(R)
        await stage.restart()


async def test_a_duplicate_of_a_recovered_transaction_is_published_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    client, tx = stage.client, stage.xa()
    message = client.message(Q, "dup", persistent=True)
    client.send(Q, "", tx=tx, message=message)
    client.send(Q, "new", tx=tx, persistent=True)
    await wait_for(cast("Completion", tx.prepare()))
    await stage.restart()
    tx, client = stage.recovered(), stage.client
    await wait_for(client.send(Q, "", message=message))
    with caplog.at_level(logging.WARNING):
        await wait_for(tx.commit(False))
    assert "of a recovered transaction is already stored" in caplog.text
    stage.assert_agreement(Q, "dup", "new")
    consumer = client.consume(Q)
    assert client.received(consumer) == ["dup", "new"]
