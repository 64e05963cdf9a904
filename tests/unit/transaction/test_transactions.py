"""Local and XA transactions: visibility and errors."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException, TransactionRolledBackException, XAException
from pyjms.wire.openwire.commands import (
    ConnectionId,
    LocalTransactionId,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.transaction import Synchronization, Transaction, TransactionState
from pyjms_broker.filters.transactions import XA_OK, XA_RDONLY, LocalTransaction, XATransaction
from pyjms_broker.store.memory import MemoryTransactionStore

LOCAL = LocalTransactionId(1, ConnectionId("c"))
XA = XATransactionId(4660, b"\x01", b"\x02")


class Recorded(Synchronization):
    def __init__(self, name: str, calls: list[str], refuse: bool = False) -> None:
        self.name = name
        self.calls = calls
        self.refuse = refuse

    def before_commit(self) -> None:
        self.calls.append(f"before {self.name}")
        if self.refuse:
            raise JMSException("not now")

    def after_commit(self) -> None:
        self.calls.append(f"commit {self.name}")

    def after_rollback(self) -> None:
        self.calls.append(f"rollback {self.name}")


class SlowStore(MemoryTransactionStore):
    """Answers commits when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = Completion()

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        return self.answer


class BrokenStore(MemoryTransactionStore):
    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        raise OSError("disk gone")


class Ends:
    """Who was told that a transaction is over."""

    def __init__(self) -> None:
        self.finished: list[TransactionId] = []

    def __call__(self, transaction: Transaction) -> None:
        self.finished.append(transaction.xid)


def local(store: MemoryTransactionStore | None = None) -> tuple[LocalTransaction, Ends, list[str]]:
    ends = Ends()
    transaction = LocalTransaction(LOCAL, store or MemoryTransactionStore(), ends)
    calls: list[str] = []
    transaction.add(Recorded("a", calls))
    transaction.add(Recorded("b", calls))
    return transaction, ends, calls


def test_a_commit_stores_the_work_and_then_makes_it_visible_in_order() -> None:
    store = MemoryTransactionStore()
    transaction, ends, calls = local(store)
    store.add(LOCAL, lambda: calls.append("stored"))
    assert transaction.commit(one_phase=True) is COMPLETED
    assert calls == ["before a", "before b", "stored", "commit a", "commit b"]
    assert ends.finished == [LOCAL]
    assert transaction.state is TransactionState.FINISHED


def test_rollback_undoes_once_and_stores_nothing() -> None:
    store = MemoryTransactionStore()
    transaction, ends, calls = local(store)
    store.add(LOCAL, lambda: calls.append("stored"))
    transaction.rollback()
    transaction.rollback()
    store.commit(LOCAL, prepared=False)
    assert calls == ["rollback a", "rollback b"]
    assert ends.finished == [LOCAL]


def test_a_deferred_commit_delays_the_work() -> None:
    store = SlowStore()
    transaction, ends, calls = local(store)
    answer = transaction.commit(one_phase=True)
    assert answer is not COMPLETED
    assert not answer.done
    assert calls == ["before a", "before b"]
    assert ends.finished == []
    store.answer.complete()
    assert answer.done
    assert answer.error is None  # type: ignore[unreachable]
    assert calls[2:] == ["commit a", "commit b"]
    assert ends.finished == [LOCAL]


def test_a_deferred_store_failure_is_a_rollback() -> None:
    store = SlowStore()
    transaction, ends, calls = local(store)
    answer = transaction.commit(one_phase=True)
    assert answer is not COMPLETED
    store.answer.complete(OSError("disk gone"))
    assert isinstance(answer.error, TransactionRolledBackException)
    assert isinstance(answer.error.__cause__, OSError)
    assert calls[2:] == ["rollback a", "rollback b"]
    assert ends.finished == [LOCAL]


def test_a_completed_result_counts_at_once() -> None:
    store = SlowStore()
    store.answer.complete(OSError("disk gone"))
    transaction, _, calls = local(store)
    with pytest.raises(TransactionRolledBackException):
        transaction.commit(one_phase=True)
    assert calls[2:] == ["rollback a", "rollback b"]
    store.answer = Completion()
    store.answer.complete()
    assert local(store)[0].commit(one_phase=True) is COMPLETED


@pytest.mark.fact("activemq-broker X4")
def test_a_failing_store_and_rollback_only_end_in_a_rollback_that_names_its_code() -> None:
    transaction, ends, calls = local(BrokenStore())
    with pytest.raises(TransactionRolledBackException, match="xaErrorCode:104") as store_failure:
        transaction.commit(one_phase=True)
    assert isinstance(store_failure.value.__cause__, OSError)
    assert calls[2:] == ["rollback a", "rollback b"]
    assert ends.finished == [LOCAL]

    transaction, _, calls = local()
    cause = JMSException("no such destination")
    transaction.set_rollback_only(cause)
    transaction.set_rollback_only(JMSException("a later one"))
    with pytest.raises(TransactionRolledBackException, match="xaErrorCode:100") as marked:
        transaction.commit(one_phase=True)
    assert marked.value.__cause__ is cause
    assert calls == ["rollback a", "rollback b"]


def test_a_failing_before_commit_turns_the_commit_into_a_rollback() -> None:
    transaction, _, calls = local()
    transaction.add(Recorded("c", calls, refuse=True))
    with pytest.raises(TransactionRolledBackException, match="COMMIT FAILED"):
        transaction.commit(one_phase=True)
    assert calls[3:] == ["rollback a", "rollback b", "rollback c"]


def test_a_synchronization_can_be_removed() -> None:
    transaction, _, calls = local()
    extra = Recorded("x", calls)
    transaction.add(extra)
    transaction.remove(extra)
    with pytest.raises(ValueError, match="not in list"):
        transaction.remove(extra)
    transaction.commit(one_phase=True)
    assert not any("x" in call for call in calls)


def test_local_transactions_have_no_phases() -> None:
    with pytest.raises(JMSException, match="one phase"):
        local()[0].prepare()


def xa(work: bool = True, refuse: bool = False) -> tuple[XATransaction, Ends, list[str]]:
    ends = Ends()
    transaction = XATransaction(XA, MemoryTransactionStore(), ends, ConnectionId("c"))
    calls: list[str] = []
    if work:
        transaction.add(Recorded("a", calls, refuse))
    return transaction, ends, calls


def test_prepare_without_work_ends_the_transaction() -> None:
    transaction, ends, _ = xa(work=False)
    assert transaction.prepare() == XA_RDONLY == 3
    assert ends.finished == [XA]


def test_prepare_with_work_checks_it_and_keeps_it() -> None:
    transaction, ends, calls = xa()
    assert transaction.prepare() == XA_OK == 0
    assert transaction.is_prepared
    assert ends.finished == []
    assert calls == ["before a"]
    with pytest.raises(XAException, match=r"Prepare cannot be called now xaErrorCode:-6$"):
        transaction.prepare()
    assert transaction.commit(one_phase=False) is COMPLETED
    assert calls == ["before a", "commit a"]
    assert ends.finished == [XA]


def test_two_phase_commit_needs_a_prepare_and_one_phase_does_not() -> None:
    transaction, ends, calls = xa()
    with pytest.raises(XAException, match=r"xaErrorCode:-6$") as refused:
        transaction.commit(one_phase=False)
    assert refused.value.xa_error_code == -6
    assert ends.finished == []
    assert transaction.commit(one_phase=True) is COMPLETED
    assert calls == ["before a", "commit a"]


def test_a_failed_prepare_is_a_rollback_with_an_xa_error() -> None:
    transaction, ends, calls = xa(refuse=True)
    with pytest.raises(XAException, match=r"xaErrorCode:104$"):
        transaction.prepare()
    assert calls == ["before a", "rollback a"]
    assert ends.finished == [XA]

    transaction, _, _ = xa(work=False)
    transaction.set_rollback_only(JMSException("x"))
    with pytest.raises(XAException, match=r"xaErrorCode:100$") as marked:
        transaction.prepare()
    assert marked.value.xa_error_code == 100


def test_a_prepared_branch_can_be_rolled_back() -> None:
    transaction, ends, calls = xa()
    transaction.prepare()
    transaction.rollback()
    assert calls == ["before a", "rollback a"]
    assert ends.finished == [XA]
