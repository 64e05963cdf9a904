"""Stores that complete later: only their result decides how a transaction ends."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException, TransactionRolledBackException, XAException
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    LocalTransactionId,
    MessageAck,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.transaction import Synchronization, TransactionState
from pyjms_broker.filters.transactions import XA_OK, TransactionBroker
from pyjms_broker.service.filter_chain import ErrorBroker
from pyjms_broker.store.api import RecoveredTransaction
from pyjms_broker.store.memory import MemoryTransactionStore

C1 = ConnectionId("c1")
LOCAL = LocalTransactionId(1, C1)
XA = XATransactionId(4660, b"\x01", b"\x02")
OLD = XATransactionId(4660, b"\x03", b"\x04")
DISK = OSError("disk gone")


class LateStore(MemoryTransactionStore):
    """Answers when told to, each step once."""

    def __init__(self, *prepared: XATransactionId) -> None:
        super().__init__()
        self.steps: list[tuple[str, TransactionId]] = []
        self.answers: list[Completion] = []
        self._prepared = prepared

    def _later(self, step: str, xid: TransactionId) -> Completion:
        self.steps.append((step, xid))
        self.answers.append(Completion())
        return self.answers[-1]

    def prepare(self, xid: TransactionId) -> Completion:
        return self._later("prepare", xid)

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        return self._later("commit prepared" if prepared else "commit", xid)

    def rollback(self, xid: TransactionId) -> Completion:
        return self._later("rollback", xid)

    def recovered_transactions(self) -> list[RecoveredTransaction]:
        return [RecoveredTransaction(xid, [], []) for xid in self._prepared]


class Region(ErrorBroker):
    """The rest of the chain: each send and acknowledgement is work of its transaction."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def start(self) -> None:
        self.log.append("start")

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:  # type: ignore[override]
        assert exchange.transaction is not None
        exchange.transaction.add(Work(self.log, "send"))
        return COMPLETED

    def remove_connection(  # type: ignore[override]
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self.log.append("gone")


class Work(Synchronization):
    def __init__(self, log: list[str], name: str) -> None:
        self.log = log
        self.name = name

    def after_commit(self) -> None:
        self.log.append(f"commit {self.name}")

    def after_rollback(self) -> None:
        self.log.append(f"rollback {self.name}")


class Case:
    """One connection with one transaction that has one send."""

    def __init__(self, xid: TransactionId) -> None:
        self.xid = xid
        self.store = LateStore()
        self.region = Region()
        self.broker = TransactionBroker(self.region, self.store)
        self.context = ConnectionContext()
        self.context.connection_id = C1
        self.broker.begin_transaction(self.context, xid)
        self.send()

    def send(self) -> None:
        self.broker.send(ProducerExchange(self.context), ActiveMQMessage(transaction_id=self.xid))

    def commit(self, one_phase: bool = True) -> Completion:
        answer = self.broker.commit_transaction(self.context, self.xid, one_phase)
        assert answer is not COMPLETED
        return answer

    def prepare(self) -> Completion:
        answer = self.broker.prepare_transaction(self.context, self.xid)
        assert isinstance(answer, Completion)
        return answer

    def rollback(self) -> Completion:
        return self.broker.rollback_transaction(self.context, self.xid)

    def disconnect(self) -> None:
        self.broker.remove_connection(self.context, ConnectionInfo(C1), None)

    def answer(self, error: Exception | None = None) -> None:
        self.store.answers[-1].complete(error)


@pytest.mark.parametrize("xid", [LOCAL, XA])
def test_a_repeated_commit_returns_the_same_result(xid: TransactionId) -> None:
    case = Case(xid)
    first = case.commit()
    assert case.commit() is first
    assert case.store.steps == [("commit", xid)]
    with pytest.raises(JMSException, match=r"Rollback cannot be called now: .* being committed"):
        case.rollback()
    with pytest.raises(JMSException, match=r"Work cannot be called now: .* being committed"):
        case.send()
    case.answer()
    assert first.done
    assert first.error is None
    assert case.region.log == ["commit send"]
    with pytest.raises(JMSException, match="has not been started"):
        case.rollback()


@pytest.mark.parametrize("xid", [LOCAL, XA])
@pytest.mark.parametrize("error", [None, DISK])
def test_a_closed_connection_does_not_stop_a_running_commit(
    xid: TransactionId, error: Exception | None
) -> None:
    case = Case(xid)
    answer = case.commit()
    case.disconnect()
    assert case.region.log == ["gone"]
    case.answer(error)
    case.answer()
    assert answer.done
    assert (answer.error is None) is (error is None)
    assert case.region.log == ["gone", "commit send" if error is None else "rollback send"]
    assert case.context.transactions == {}


def test_a_deferred_prepare() -> None:
    case = Case(XA)
    vote = case.prepare()
    assert case.prepare() is vote
    for step in (case.commit, lambda: case.commit(one_phase=False), case.rollback, case.send):
        with pytest.raises(XAException, match="being prepared xaErrorCode:-6") as refused:
            step()
        assert refused.value.xa_error_code == -6
    assert case.broker.prepared_transactions(case.context) == []
    case.disconnect()
    case.answer()
    assert vote.done
    assert vote.error is None
    assert case.region.log == ["gone"]
    assert case.broker.prepared_transactions(case.context) == [XA]
    answer = case.commit(one_phase=False)
    case.answer()
    assert answer.error is None
    assert case.store.steps == [("prepare", XA), ("commit prepared", XA)]
    assert case.region.log == ["gone", "commit send"]


def test_a_prepare_that_cannot_be_stored_is_a_rollback() -> None:
    case = Case(XA)
    vote = case.prepare()
    case.answer(DISK)
    assert isinstance(vote.error, XAException)
    assert vote.error.xa_error_code == 104
    assert "STORE PREPARE FAILED" in str(vote.error)
    assert vote.error.__cause__ is DISK
    assert case.region.log == ["rollback send"]
    with pytest.raises(XAException, match="has not been started"):
        case.commit()


def test_a_prepared_branch_that_cannot_be_committed_now_stays_prepared() -> None:
    case = Case(XA)
    case.prepare()
    case.answer()
    first = case.commit(one_phase=False)
    case.answer(DISK)
    assert isinstance(first.error, XAException)
    assert first.error.xa_error_code == -7
    assert case.region.log == []
    assert case.broker.prepared_transactions(case.context) == [XA]
    second = case.commit(one_phase=False)
    case.answer()
    assert second.error is None
    assert case.region.log == ["commit send"]


def test_a_deferred_failure_of_a_local_commit_is_a_rollback() -> None:
    case = Case(LOCAL)
    answer = case.commit()
    case.answer(DISK)
    assert isinstance(answer.error, TransactionRolledBackException)
    assert [step for step, _ in case.store.steps] == ["commit", "rollback"]
    assert case.region.log == ["rollback send"]


@pytest.mark.parametrize("xid", [LOCAL, XA])
def test_a_rollback_takes_effect_at_once_and_completes_with_the_store(xid: TransactionId) -> None:
    case = Case(xid)
    answer = case.rollback()
    assert answer is not COMPLETED
    assert not answer.done
    assert case.region.log == ["rollback send"]
    case.answer()
    assert answer.done


def test_work_is_undone_even_if_the_store_fails_to_roll_back() -> None:
    class Broken(LateStore):
        def rollback(self, xid: TransactionId) -> Completion:
            raise DISK

    case = Case(LOCAL)
    case.store = Broken()
    case.broker = TransactionBroker(case.region, case.store)
    case.context.transactions.clear()
    case.broker.begin_transaction(case.context, LOCAL)
    case.send()
    with pytest.raises(OSError, match="disk gone"):
        case.rollback()
    assert case.region.log == ["rollback send"]
    assert case.context.transactions == {}


def test_rollback_only_is_for_local_and_xa_transactions() -> None:
    cause = JMSException("no such queue")
    for xid in (LOCAL, XA):
        case = Case(xid)
        case.broker.set_rollback_only(case.context, xid, cause)
        with pytest.raises(JMSException, match="marked rollback only xaErrorCode:100") as spoiled:
            case.commit()
        assert spoiled.value.__cause__ is cause
        assert case.region.log == ["rollback send"]
        case.broker.set_rollback_only(case.context, xid, cause)  # it is gone: nothing to spoil


async def test_recovered_transactions_stay_prepared_until_they_are_ended() -> None:
    region, log = Region(), list[str]()
    store = LateStore(XA, OLD)
    asked: list[RecoveredTransaction] = []

    def work(transaction: RecoveredTransaction) -> list[Synchronization]:
        asked.append(transaction)
        return [Work(log, f"{transaction.xid.branch_qualifier!r}")]

    broker = TransactionBroker(region, store, work)
    await broker.start()
    assert region.log == ["start"]
    assert [transaction.xid for transaction in asked] == [XA, OLD]
    context = ConnectionContext()
    assert broker.prepared_transactions(context) == [XA, OLD]
    assert broker.transaction(context, XA).state is TransactionState.PREPARED
    with pytest.raises(XAException, match="is prepared xaErrorCode:-6"):
        broker.acknowledge(ConsumerExchange(context, None), MessageAck(transaction_id=XA))
    with pytest.raises(XAException, match="Prepare cannot be called now"):
        broker.prepare_transaction(context, XA)
    broker.remove_connection(context, ConnectionInfo(C1), None)
    assert broker.prepared_transactions(context) == [XA, OLD]
    answer = broker.commit_transaction(context, XA, one_phase=False)
    store.answers[-1].complete()
    assert answer is not COMPLETED
    assert answer.done
    broker.rollback_transaction(context, OLD)
    assert store.steps == [("commit prepared", XA), ("rollback", OLD)]
    assert log == [f"commit {XA.branch_qualifier!r}", f"rollback {OLD.branch_qualifier!r}"]
    assert broker.prepared_transactions(context) == []


async def test_a_memory_store_recovers_nothing() -> None:
    broker = TransactionBroker(Region(), MemoryTransactionStore())
    await broker.start()
    assert broker.prepared_transactions(ConnectionContext()) == []
    context = ConnectionContext()
    broker.begin_transaction(context, XA)
    broker.transaction(context, XA).add(Work([], "x"))
    assert broker.prepare_transaction(context, XA) == XA_OK
