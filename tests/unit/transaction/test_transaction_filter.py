"""The transaction filter: a command's transaction, and lost connections."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.errors import JMSException, XAException
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    LocalTransactionId,
    MessageAck,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.transaction import Synchronization, Transaction
from pyjms_broker.filters.transactions import TransactionBroker
from pyjms_broker.service.filter_chain import ErrorBroker
from pyjms_broker.store.memory import MemoryTransactionStore

C1, C2 = ConnectionId("c1"), ConnectionId("c2")
LOCAL = LocalTransactionId(1, C1)
XA = XATransactionId(4660, bytes([1, 2, 3, 9]), b"\x09")


class Work(Synchronization):
    def __init__(self, log: list[str], name: str) -> None:
        self.log = log
        self.name = name

    def after_commit(self) -> None:
        self.log.append(f"commit {self.name}")

    def after_rollback(self) -> None:
        self.log.append(f"rollback {self.name}")


class Region(ErrorBroker):
    """The rest of the chain: adds work to the transaction of the command in hand."""

    def __init__(self) -> None:
        self.seen: list[Transaction | None] = []
        self.log: list[str] = []
        self.gone: list[ConnectionId | None] = []
        self.nested: Callable[[], None] | None = None
        """Called once, within the next command."""

    def _work(self, exchange: ProducerExchange | ConsumerExchange, name: str) -> None:
        nested, self.nested = self.nested, None
        if nested is not None:
            nested()
        self.seen.append(exchange.transaction)
        if exchange.transaction is not None:
            exchange.transaction.add(Work(self.log, name))

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:  # type: ignore[override]
        if message.type == "bad":
            raise JMSException("refused")
        self._work(exchange, "send")
        return COMPLETED

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:  # type: ignore[override]
        self._work(exchange, "ack")
        return COMPLETED

    def remove_connection(  # type: ignore[override]
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self.gone.append(info.connection_id)


def context(connection_id: ConnectionId = C1) -> ConnectionContext:
    made = ConnectionContext()
    made.connection_id = connection_id
    return made


def chain() -> tuple[TransactionBroker, Region]:
    region = Region()
    return TransactionBroker(region, MemoryTransactionStore()), region


@pytest.mark.fact("activemq-broker B3")
def test_ids_are_resolved_for_sends_and_acks_and_a_lost_connection_rolls_back() -> None:
    broker, region = chain()
    ctx = context()
    producer, consumer = ProducerExchange(ctx), ConsumerExchange(ctx, None)
    broker.begin_transaction(ctx, LOCAL)
    broker.send(producer, ActiveMQMessage(transaction_id=LOCAL))
    broker.acknowledge(consumer, MessageAck(transaction_id=LOCAL))
    broker.send(producer, ActiveMQMessage())
    broker.acknowledge(consumer, MessageAck())
    assert [t.xid if t else None for t in region.seen] == [LOCAL, LOCAL, None, None]
    assert producer.transaction is None
    unknown = LocalTransactionId(9, C1)
    with pytest.raises(JMSException, match=f"^Transaction '{unknown}' has not been started.$"):
        broker.send(producer, ActiveMQMessage(transaction_id=unknown))
    with pytest.raises(JMSException, match="has not been started"):
        broker.acknowledge(consumer, MessageAck(transaction_id=unknown))
    broker.remove_connection(ctx, ConnectionInfo(C1), None)
    assert region.log == ["rollback send", "rollback ack"]
    assert ctx.transactions == {}
    assert region.gone == [C1]


def test_a_nested_send_is_not_part_of_the_outer_transaction() -> None:
    broker, region = chain()
    ctx = context()
    producer = ProducerExchange(ctx)
    broker.begin_transaction(ctx, LOCAL)
    outer = broker.transaction(ctx, LOCAL)

    def send_nested() -> None:
        broker.send(producer, ActiveMQMessage())
        with pytest.raises(JMSException, match="refused"):
            broker.send(producer, ActiveMQMessage(type="bad"))
        broker.acknowledge(ConsumerExchange(ctx, None), MessageAck())

    region.nested = send_nested
    broker.send(producer, ActiveMQMessage(transaction_id=LOCAL))
    broker.send(producer, ActiveMQMessage(transaction_id=LOCAL))
    assert region.seen == [None, None, outer, outer]


@pytest.mark.fact("activemq-broker X1")
def test_a_local_transaction_begins_once_and_ends_once() -> None:
    broker, region = chain()
    ctx = context()
    broker.begin_transaction(ctx, LOCAL)
    with pytest.raises(JMSException, match=f"Transaction '{LOCAL}' has already been started."):
        broker.begin_transaction(ctx, LOCAL)
    broker.send(ProducerExchange(ctx), ActiveMQMessage(transaction_id=LOCAL))
    assert broker.commit_transaction(ctx, LOCAL, one_phase=True) is COMPLETED
    assert region.log == ["commit send"]
    ends: tuple[Callable[[], object], ...] = (
        lambda: broker.commit_transaction(ctx, LOCAL, one_phase=True),
        lambda: broker.rollback_transaction(ctx, LOCAL),
    )
    for end in ends:
        with pytest.raises(JMSException, match=f"^Transaction '{LOCAL}' has not been started.$"):
            end()
    broker.begin_transaction(ctx, LOCAL)
    broker.send(ProducerExchange(ctx), ActiveMQMessage(transaction_id=LOCAL))
    broker.rollback_transaction(ctx, LOCAL)
    assert region.log == ["commit send", "rollback send"]


def test_xa_branches_are_global_and_fail_with_xa_codes() -> None:
    broker, region = chain()
    mine, other = context(), context(C2)
    producer = ProducerExchange(mine)

    broker.begin_transaction(mine, XA)
    broker.begin_transaction(other, XA)
    broker.begin_transaction(mine, XATransactionId(1, b"b", b"2"))
    assert broker.prepare_transaction(mine, XATransactionId(1, b"b", b"2")) == 3
    broker.send(producer, ActiveMQMessage(transaction_id=XA))
    with pytest.raises(XAException) as not_prepared:
        broker.commit_transaction(other, XA, one_phase=False)
    assert not_prepared.value.xa_error_code == -6
    assert broker.prepared_transactions(mine) == []
    assert broker.prepare_transaction(mine, XA) == 0
    assert broker.prepared_transactions(other) == [XA]
    assert broker.commit_transaction(other, XA, one_phase=False) is COMPLETED
    assert region.log == ["commit send"]
    assert broker.prepared_transactions(mine) == []

    broker.begin_transaction(mine, XA)
    broker.send(producer, ActiveMQMessage(transaction_id=XA))
    broker.commit_transaction(mine, XA, one_phase=True)
    broker.begin_transaction(mine, XA)
    broker.send(producer, ActiveMQMessage(transaction_id=XA))
    broker.forget_transaction(mine, XA)
    assert region.log == ["commit send", "commit send", "rollback send"]

    text = "Transaction 'XID:[4660,globalId=1239,branchId=9]' has not been started. xaErrorCode:-4"
    ends: tuple[Callable[[], object], ...] = (
        lambda: broker.commit_transaction(mine, XA, one_phase=False),
        lambda: broker.rollback_transaction(mine, XA),
        lambda: broker.forget_transaction(mine, XA),
        lambda: broker.prepare_transaction(mine, XA),
    )
    for end in ends:
        with pytest.raises(XAException) as unknown:
            end()
        assert unknown.value.reason == text
        assert unknown.value.xa_error_code == -4


def test_a_lost_connection_rolls_its_xa_branches_back_unless_prepared() -> None:
    broker, region = chain()
    mine, other = context(), context(C2)
    prepared, begun, others = (XATransactionId(1, bytes([n]), b"") for n in range(3))
    for ctx, xid in ((mine, prepared), (mine, begun), (other, others)):
        broker.begin_transaction(ctx, xid)
        broker.send(ProducerExchange(ctx), ActiveMQMessage(transaction_id=xid))
    broker.prepare_transaction(mine, prepared)
    broker.remove_connection(mine, ConnectionInfo(C1), None)
    assert region.log == ["rollback send"]
    assert broker.prepared_transactions(other) == [prepared]
    broker.transaction(other, others)
    with pytest.raises(XAException):
        broker.transaction(other, begun)


def test_a_failed_rollback_does_not_keep_the_connection_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Synchronization):
        def after_rollback(self) -> None:
            raise JMSException("no")

    broker, region = chain()
    ctx = context()
    broker.begin_transaction(ctx, LOCAL)
    broker.transaction(ctx, LOCAL).add(Broken())
    broker.remove_connection(ctx, ConnectionInfo(C1), None)
    assert region.gone == [C1]
    assert "one of its synchronizations failed" in caplog.text
