"""Transactions with blocked sends: they end with all of them, or with none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyjms.errors import (
    JMSException,
    ResourceAllocationException,
    TransactionRolledBackException,
    XAException,
)
from pyjms.jms.destination import Destination, Queue
from pyjms.wire.openwire.commands import ConnectionInfo, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.transaction import TransactionState
from pyjms_broker.filters.transactions import XATransaction
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.store.api import StoreState
from tests.kit.brokers.region import Broker, ManualClock, PagedAdapter
from tests.kit.values import present

Q, ROOMY = Queue("Q"), Queue("roomy")


class Case:
    """A queue that two messages fill; a transaction with one send elsewhere and two that wait."""

    def __init__(self, broker: Broker, xa: bool = False) -> None:
        self.broker = broker
        self.client = broker.client()
        for text in "ab":
            self.client.send(Q, text, persistent=True)
        self.transaction = self.xa() if xa else self.client.begin()
        self.send(ROOMY, "1")
        self.parked = [self.send(Q, text) for text in "23"]
        assert not any(parked.done for parked in self.parked)

    def xa(self) -> XATransaction:
        xid = XATransactionId(1, b"a", b"b")
        return XATransaction(xid, self.broker.store.transaction_store(), lambda _: None, None)

    def send(self, destination: Destination, text: Any, **options: Any) -> Completion:
        options = {"persistent": True, **options}
        return self.client.send(destination, text, tx=self.transaction, **options)

    def make_room(self) -> Iterator[None]:
        """Consume what was there before the transaction, one by one."""
        reader = self.broker.client()
        consumer = reader.consume(Q)
        reader.ack(consumer, 0)
        yield
        reader.ack(consumer, 1)
        yield
        reader.close(consumer)

    def sees(self, in_q: Any, elsewhere: Any) -> bool:
        """Whether that is what the queues hold."""
        return (self.broker.texts(Q), self.broker.texts(ROOMY)) == (in_q, elsewhere)


@pytest.fixture
def tight(make_broker: type[Broker]) -> Broker:
    return make_broker(PolicyEntry(destination=Q, memory_limit=2000))


def test_a_commit_waits_for_blocked_sends(tight: Broker, caplog: pytest.LogCaptureFixture) -> None:
    case = Case(tight)
    answer = case.transaction.commit(one_phase=True)
    assert not answer.done
    assert case.transaction.commit(one_phase=True) is answer
    assert "is waiting for space, to be committed: 2 sends are not admitted yet" in caplog.text
    room = case.make_room()
    next(room)
    assert [parked.done for parked in case.parked] == [True, False]
    assert (answer.done, case.sees(["b"], [])) == (False, True)
    next(room)
    assert [(p.done, p.error) for p in (*case.parked, answer)] == [(True, None)] * 3
    assert case.sees(["2", "3"], ["1"])
    assert case.transaction.state is TransactionState.FINISHED


def test_sends_admitted_before_the_commit_are_part_of_it(tight: Broker) -> None:
    case = Case(tight)
    list(case.make_room())
    assert case.sees([], [])
    assert case.transaction.commit(one_phase=True) is COMPLETED
    assert case.sees(["2", "3"], ["1"])


@pytest.mark.parametrize("one_phase", [True, False])
def test_an_xa_prepare_waits_for_blocked_sends(tight: Broker, one_phase: bool) -> None:
    case = Case(tight, xa=True)
    transaction: Any = case.transaction
    ask: Callable[[], Any] = (
        (lambda: transaction.commit(one_phase=True)) if one_phase else transaction.prepare
    )
    answer = ask()
    assert ask() is answer
    assert not transaction.is_prepared
    if not one_phase:
        with pytest.raises(XAException, match="waiting for space, to be prepared xaErrorCode:-6"):
            transaction.commit(one_phase=False)
    list(case.make_room())
    assert (answer.done, answer.error) == (True, None)
    assert transaction.is_prepared is not one_phase
    if not one_phase:
        assert case.sees([], [])
        assert transaction.commit(one_phase=False) is COMPLETED
    assert case.sees(["2", "3"], ["1"])


async def test_a_timed_out_send_fails_the_commit(
    clock: ManualClock, make_broker: type[Broker]
) -> None:
    policy = PolicyEntry(destination=Q, memory_limit=2000, send_fail_if_no_space_after_timeout=5)
    case = Case(make_broker(policy))
    answer = case.transaction.commit(one_phase=True)
    await clock.advance(6)
    assert isinstance(answer.error, TransactionRolledBackException)
    assert isinstance(answer.error.__cause__, ResourceAllocationException)
    causes = {str(parked.error) for parked in case.parked}
    assert causes == {
        str(answer.error.__cause__),
        "Send transaction completed while waiting for space",
    }
    assert case.sees(["a", "b"], [])
    assert case.broker.queue(ROOMY).memory.used == 0
    list(case.make_room())
    assert case.sees([], [])


async def test_a_send_that_timed_out_before_the_commit_does_not_fail_it(
    clock: ManualClock, make_broker: type[Broker]
) -> None:
    policy = PolicyEntry(destination=Q, memory_limit=2000, send_fail_if_no_space_after_timeout=5)
    case = Case(make_broker(policy))
    await clock.advance(6)
    assert all(isinstance(p.error, ResourceAllocationException) for p in case.parked)
    assert case.transaction.commit(one_phase=True) is COMPLETED
    assert case.sees(["a", "b"], ["1"])


@pytest.mark.parametrize("xa", [False, True])
def test_a_rollback_ends_the_wait(tight: Broker, xa: bool) -> None:
    case = Case(tight, xa)
    silent = case.send(Q, "4", persistent=False)
    answer = case.transaction.commit(one_phase=True)
    assert case.transaction.rollback() is COMPLETED
    assert isinstance(answer.error, XAException if xa else TransactionRolledBackException)
    assert answer.error.reason == (
        "COMMIT FAILED: Transaction rolled back while waiting for space xaErrorCode:100"
    )
    assert all(isinstance(parked.error, JMSException) for parked in case.parked)
    assert (silent.done, silent.error) == (True, None)  # nobody asked
    assert case.client.context.blocked_sends == {}
    assert not case.broker.queue(Q).memory.has_waiting
    list(case.make_room())
    assert case.sees([], [])


def test_a_rollback_only_transaction_does_not_wait(tight: Broker) -> None:
    spoiled = JMSException("no such destination")
    case = Case(tight)
    answer = case.transaction.commit(one_phase=True)
    case.transaction.set_rollback_only(spoiled)
    assert present(answer.error).__cause__ is spoiled
    assert case.client.context.blocked_sends == {}
    tight.region.remove_destination(case.client.context, Q, 1)
    case = Case(tight)
    case.transaction.set_rollback_only(spoiled)
    with pytest.raises(TransactionRolledBackException, match="marked rollback only"):
        case.transaction.commit(one_phase=True)
    assert case.client.context.blocked_sends == {}


def test_a_queue_that_is_removed_fails_the_commit(tight: Broker) -> None:
    case = Case(tight)
    answer = case.transaction.commit(one_phase=True)
    tight.region.remove_destination(case.client.context, Q, 1)
    assert "was removed while a send waited for space" in str(present(answer.error).__cause__)
    assert case.sees([], [])
    assert tight.region.system_usage.memory.used == 0


async def test_a_commit_does_not_wait_for_an_expired_send(
    clock: ManualClock, tight: Broker
) -> None:
    case = Case(tight)
    expires = case.send(Q, "late", expiration=clock.time_ms() + 1000)
    answer = case.transaction.commit(one_phase=True)
    await clock.advance(2)
    room = case.make_room()
    next(room)
    next(room)
    assert not answer.done
    tight.queue(Q).memory.limit = 10_000
    tight.queue(Q).memory.decrease(0)
    assert (expires.done, answer.done, answer.error) == (True, True, None)
    assert case.sees(["2", "3"], ["1"])
    assert [m.type for m in tight.dead_letters] == ["late"]


def test_a_closed_connection_fails_its_sends_in_anothers_transaction(tight: Broker) -> None:
    case = Case(tight, xa=True)
    answer: Any = case.transaction.prepare()
    tight.region.remove_connection(case.client.context, ConnectionInfo(), None)
    assert str(present(answer.error).__cause__) == "Connection closed, send aborted."
    assert case.sees(["a", "b"], [])
    early = tight.client()
    case.client, case.transaction = early, case.xa()
    case.send(ROOMY, "1")
    case.send(Q, "2")
    tight.region.remove_connection(early.context, ConnectionInfo(), None)
    with pytest.raises(XAException, match="marked rollback only"):
        case.transaction.prepare()
    assert case.sees(["a", "b"], [])


@pytest.mark.parametrize("state", [StoreState.CONGESTED, StoreState.SUSPENDED])
async def test_a_suspended_store_delays_the_commit(
    make_broker: type[Broker], paged: PagedAdapter, state: StoreState
) -> None:
    broker = make_broker(usage=SystemUsage(), store=paged)
    client = broker.client()
    transaction = client.begin()
    client.send(Q, "1", tx=transaction, persistent=True)
    paged.change(state)
    parked = client.send(Q, "2", tx=transaction, persistent=True)
    answer = transaction.commit(one_phase=True)
    assert (parked.done, answer.done) == (False, False)
    paged.change(StoreState.RUNNING)
    assert (answer.done, answer.error) == (True, None)
    assert broker.texts(Q) == ["1", "2"]
    await broker.region.stop()


async def test_a_store_that_refuses_an_admitted_send_fails_the_commit(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    policy = PolicyEntry(destination=Q, memory_limit=2000, pending_queue_policy="vmQueueCursor")
    case = Case(make_broker(policy, store=paged))
    answer = case.transaction.commit(one_phase=True)
    paged.broken.add("add_message")
    list(case.make_room())
    assert str(present(answer.error).__cause__) == "add_message failed"
    assert case.sees([], [])
    await case.broker.region.stop()


def test_a_failing_commit_frees_its_space_for_others(make_broker: type[Broker]) -> None:
    broker = make_broker(usage=SystemUsage(memory_limit=2000))
    client = broker.client()
    transaction = client.begin()
    for text in "12":
        client.send(ROOMY, text, tx=transaction, persistent=True)
    client.send(Q, "3", tx=transaction, persistent=True)
    other = broker.client().send(Q, "other", persistent=True)
    answer = transaction.commit(one_phase=True)
    assert (answer.done, other.done) == (False, False)  # it holds what it waits for
    transaction.rollback()
    assert (answer.done, other.done, other.error) == (True, True, None)
    assert (broker.texts(Q), broker.texts(ROOMY)) == (["other"], [])
