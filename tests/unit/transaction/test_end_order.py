"""The order in which the transactions of a session end while sends are blocked."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    LocalTransactionId,
    ProducerId,
    ProducerInfo,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.transaction import Synchronization
from pyjms_broker.filters.transactions import XA_RDONLY, TransactionBroker
from pyjms_broker.service.filter_chain import ErrorBroker
from pyjms_broker.store.memory import MemoryTransactionStore

C1 = ConnectionId("c1")
ONE, TWO, THREE = (LocalTransactionId(number, C1) for number in (1, 2, 3))
XA = XATransactionId(1, b"a", b"b")


class Parked:
    """A send without space."""

    def __init__(self) -> None:
        self.was_dropped = False

    def transaction_rolled_back(self) -> None:
        self.was_dropped = True


class Done(Synchronization):
    def __init__(self, log: list[str], xid: TransactionId) -> None:
        self.log = log
        self.xid = xid

    def after_commit(self) -> None:
        self.log.append(f"commit {self.xid}")

    def after_rollback(self) -> None:
        self.log.append(f"rollback {self.xid}")


class Region(ErrorBroker):
    """Takes a send into its transaction at once, or lets it wait."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:  # type: ignore[override]
        transaction = exchange.transaction
        assert transaction is not None
        transaction.add(Done(self.log, transaction.xid))
        return COMPLETED

    def remove_connection(  # type: ignore[override]
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self.log.append("gone")


class Case:
    def __init__(self) -> None:
        self.region = Region()
        self.broker = TransactionBroker(self.region, MemoryTransactionStore())
        self.context = self.connection("c1")

    def connection(self, name: str) -> ConnectionContext:
        context = ConnectionContext()
        context.connection_id = ConnectionId(name)
        return context

    def begin(self, xid: TransactionId, session: int, *, waits: bool = False) -> Parked:
        """Begin with one send of that session, which may lack space."""
        self.broker.begin_transaction(self.context, xid)
        exchange = ProducerExchange(self.context, ProducerInfo(ProducerId("c1", 1, session)))
        self.broker.send(exchange, ActiveMQMessage(transaction_id=xid))
        parked = Parked()
        if waits:
            self.broker.transaction(self.context, xid).add_pending(parked)
        return parked

    def commit(self, xid: TransactionId) -> Completion:
        return self.broker.commit_transaction(self.context, xid, True)

    def come_in(self, xid: TransactionId, parked: Parked) -> None:
        self.broker.transaction(self.context, xid).pending_finished(parked)


@pytest.fixture
def case() -> Case:
    return Case()


def test_the_transactions_of_one_session_end_in_order(case: Case) -> None:
    parked = case.begin(ONE, 1, waits=True)
    case.begin(TWO, 1)
    case.begin(THREE, 1)
    answers = [case.commit(xid) for xid in (ONE, TWO, THREE)]
    assert not any(answer.done for answer in answers)
    assert list(case.context.waiting_ends.values()) == answers
    assert case.commit(TWO) is answers[1]
    case.come_in(ONE, parked)
    assert all(answer.done and not answer.error for answer in answers)
    assert case.region.log == [f"commit {xid}" for xid in (ONE, TWO, THREE)]
    assert case.context.waiting_ends == {}
    assert case.context.transactions == {}


def test_other_sessions_may_overtake(case: Case) -> None:
    parked = case.begin(ONE, 1, waits=True)
    case.begin(TWO, 2)
    case.broker.begin_transaction(case.context, THREE)  # acknowledges only: of no session
    assert case.commit(ONE) is not None
    assert case.commit(TWO) is COMPLETED
    assert case.commit(THREE) is COMPLETED
    case.come_in(ONE, parked)
    assert case.region.log == [f"commit {TWO}", f"commit {ONE}"]


def test_a_failed_end_lets_the_next_one_continue(case: Case) -> None:
    parked = case.begin(ONE, 1, waits=True)
    case.begin(TWO, 1)
    first, second = case.commit(ONE), case.commit(TWO)
    assert first is not None
    assert second is not None
    cause = JMSException("no room")
    case.broker.transaction(case.context, ONE).pending_failed(parked, cause)
    assert first.error is not None
    assert first.error.__cause__ is cause
    assert (second.done, second.error) == (True, None)
    assert case.region.log == [f"rollback {ONE}", f"commit {TWO}"]


def test_a_transaction_rolled_back_while_it_waits_is_skipped(case: Case) -> None:
    parked = case.begin(ONE, 1, waits=True)
    case.begin(TWO, 1)
    first, second = case.commit(ONE), case.commit(TWO)
    case.broker.rollback_transaction(case.context, TWO)
    assert second is not None
    assert "while waiting for space" in str(second.error)
    case.come_in(ONE, parked)
    assert first is not None
    assert (first.done, first.error) == (True, None)
    assert case.region.log == [f"rollback {TWO}", f"commit {ONE}"]


def test_a_closed_connection_rolls_back_all_waiting_transactions(case: Case) -> None:
    parked = case.begin(ONE, 1, waits=True)
    case.begin(TWO, 1)
    answers = [case.commit(ONE), case.commit(TWO)]
    lost = OSError("connection reset")
    case.broker.remove_connection(case.context, ConnectionInfo(C1), lost)
    for answer in answers:
        assert answer is not COMPLETED
        assert answer.error is not None
        assert answer.error.__cause__ is lost
    assert parked.was_dropped
    assert case.region.log == [f"rollback {TWO}", f"rollback {ONE}", "gone"]
    assert case.context.waiting_ends == {}


@pytest.mark.parametrize("goes", ["who began it", "who asked for its end"])
def test_an_xa_branch_waits_for_neither_of_its_connections(case: Case, goes: str) -> None:
    parked = case.begin(XA, 1, waits=True)
    manager = case.connection("manager")
    vote = case.broker.prepare_transaction(manager, XA)
    assert isinstance(vote, Completion)
    assert list(manager.waiting_ends.values()) == [vote]
    leaving = case.context if goes == "who began it" else manager
    case.broker.remove_connection(leaving, ConnectionInfo(leaving.connection_id), None)
    assert parked.was_dropped
    assert "xaErrorCode:100" in str(vote.error)
    assert case.region.log == [f"rollback {XA}", "gone"]
    assert manager.waiting_ends == {}


def test_an_xa_branch_is_prepared_once_all_sends_are_admitted(case: Case) -> None:
    parked = case.begin(XA, 1, waits=True)
    vote = case.broker.prepare_transaction(case.context, XA)
    assert isinstance(vote, Completion)
    for step in (
        lambda: case.broker.commit_transaction(case.context, XA, False),
        lambda: case.broker.commit_transaction(case.context, XA, True),
        lambda: case.begin(XA, 1),
    ):
        with pytest.raises(JMSException, match="is waiting for space, to be prepared"):
            step()
    assert case.broker.prepared_transactions(case.context) == []
    case.come_in(XA, parked)
    assert (vote.done, vote.error) == (True, None)
    assert case.broker.prepared_transactions(case.context) == [XA]
    assert case.commit(XA) is COMPLETED


def test_a_branch_whose_only_send_fails_can_still_be_prepared(case: Case) -> None:
    case.broker.begin_transaction(case.context, XA)
    expired = Parked()
    case.broker.transaction(case.context, XA).add_pending(expired)
    vote = case.broker.prepare_transaction(case.context, XA)
    assert vote != XA_RDONLY
    case.come_in(XA, expired)
    assert isinstance(vote, Completion)
    assert vote.error is None
    assert case.broker.commit_transaction(case.context, XA, False) is COMPLETED
    assert case.region.log == []
