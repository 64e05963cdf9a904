"""Transactions by a link to the coordinator."""

from __future__ import annotations

import pytest

from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    RELEASED,
    Begin,
    Close,
    Declare,
    Detach,
    Discharge,
    Disposition,
    Header,
    Modified,
    Outcome,
    Rejected,
    TransactionalState,
)
from tests.kit.amqp.client import AmqpBroker, left, text


def within(txn_id: bytes, outcome: Outcome = ACCEPTED) -> TransactionalState:
    return TransactionalState(txn_id, outcome)


@pytest.mark.fact("amqp-connector A110", "amqp-connector A111")
async def test_ids_count_from_1(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    coordinator = await client.coordinator()
    assert coordinator.link.credit == 1000
    assert await coordinator.declare() == bytes(7) + b"\1"
    assert await coordinator.declare() == bytes(7) + b"\2"


@pytest.mark.fact("amqp-connector A111")
@pytest.mark.parametrize("body", [Declare(b"x"), "text"])
async def test_other_requests_end_the_connection(amqp: AmqpBroker, body: object) -> None:
    client = await amqp.client()
    coordinator = await client.coordinator()
    await coordinator.link.transfer(text(body))
    close = await client.receive(Close)
    assert close.error is not None
    assert (close.error.condition, close.error.description) == (
        "amqp:decode-error", "Could not process AMQP commands",
    )  # fmt: skip


@pytest.mark.fact(
    "amqp-connector A112",
    "amqp-connector A115",
    "amqp-connector A116",
    "activemq-edges AM6",
)
@pytest.mark.parametrize("fail", [False, True])
async def test_sends_take_effect_at_the_commit(amqp: AmqpBroker, fail: bool) -> None:
    client = await amqp.client()
    coordinator = await client.coordinator()
    sender = await client.sender("queue://a")
    txn_id = await coordinator.declare()
    assert await sender.send(text("1"), state=within(txn_id)) == within(txn_id)
    await sender.transfer(text("2"), settled=True, state=TransactionalState(txn_id))
    assert await left(amqp, "queue://a") == []
    assert await coordinator.discharge(txn_id, fail=fail) == ACCEPTED
    expected = [] if fail else [("1", 0), ("2", 0)]
    assert await left(amqp, "queue://a") == expected


@pytest.mark.fact("amqp-connector A113", "amqp-connector A115")
@pytest.mark.parametrize("settled", [False, True])
async def test_acknowledgements_take_effect_at_the_commit(amqp: AmqpBroker, settled: bool) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1", "2")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=2)
    first, _ = await receiver.messages(2)
    txn_id = await coordinator.declare()
    await client.settle(first, state=within(txn_id), settled=settled)
    if not settled:
        answer = await client.receive(Disposition)
        assert (answer.state, answer.settled) == (within(txn_id), False)
    number = await coordinator.link.transfer(text(Discharge(txn_id, False)))
    if not settled:
        answer = await client.receive(Disposition)
        assert (answer.role, answer.first, answer.settled) == (False, first.id, True)
    answer = await client.receive(Disposition)
    assert (answer.role, answer.first, answer.state) == (True, number, ACCEPTED)
    await receiver.detach()
    assert await left(amqp, "queue://a") == [("2", 0)]


@pytest.mark.fact("amqp-connector A116")
async def test_a_rollback_redelivers_what_was_settled(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1", "2", "3")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=2)
    found = await receiver.messages(2)
    txn_id = await coordinator.declare()
    await client.settle(*found, state=within(txn_id))
    assert await coordinator.discharge(txn_id, fail=True) == ACCEPTED
    await receiver.flow(5)
    again = await receiver.messages(3)
    assert [(each.body, each.count) for each in again] == [("1", 1), ("2", 1), ("3", 0)]


@pytest.mark.fact("amqp-connector A116")
async def test_a_rollback_leaves_what_was_not_settled(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=5)
    message = await receiver.next()
    txn_id = await coordinator.declare()
    await client.settle(message, state=within(txn_id), settled=False)
    await client.receive(Disposition)
    assert await coordinator.discharge(txn_id, fail=True) == ACCEPTED
    await client.nothing_comes()
    await client.settle(message)
    await receiver.detach()
    assert await left(amqp, "queue://a") == []


@pytest.mark.fact("amqp-connector A114")
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(Rejected(), []), (RELEASED, [("1", 0)]), (Modified(delivery_failed=True), [("1", 1)])],
)
async def test_other_outcomes_take_effect_at_the_commit(
    amqp: AmqpBroker, outcome: Outcome, expected: list[tuple[str, int]]
) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=1)
    message = await receiver.next()
    txn_id = await coordinator.declare()
    await client.settle(message, state=within(txn_id, outcome))
    await client.nothing_comes()
    assert await left(amqp, "queue://a") == []
    assert await coordinator.discharge(txn_id) == ACCEPTED
    await receiver.detach()
    assert await left(amqp, "queue://a") == expected


@pytest.mark.fact("amqp-connector A114", "amqp-connector A116")
async def test_what_was_rejected_before_a_rollback_can_be_accepted(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1", header=Header(durable=True))
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=1)
    message = await receiver.next()
    txn_id = await coordinator.declare()
    await client.settle(message, state=within(txn_id, Rejected()), settled=False)
    await client.receive(Disposition)
    assert await coordinator.discharge(txn_id, fail=True) == ACCEPTED
    await client.settle(message)
    await receiver.detach()
    assert await left(amqp, "queue://a") == await left(amqp, "queue://ActiveMQ.DLQ") == []


@pytest.mark.fact("amqp-connector A114")
@pytest.mark.parametrize("outcome", [Rejected(), Modified(undeliverable_here=True)])
@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_rejection_waits_for_the_commit(
    amqp: AmqpBroker, outcome: Outcome, fail: bool, leaves: bool
) -> None:
    client = await amqp.client()
    durable = Header(durable=True)  # others are no dead letters
    await (await client.sender("queue://a")).texts("1", "2", header=durable)
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=1)
    message = await receiver.next()
    txn_id = await coordinator.declare()
    await client.settle(message, state=within(txn_id, outcome))
    if leaves:
        await receiver.detach()
    assert await left(amqp, "queue://ActiveMQ.DLQ") == []
    assert await coordinator.discharge(txn_id, fail=fail) == ACCEPTED
    if not leaves:
        await receiver.detach()
    dead = [body for body, _count in await left(amqp, "queue://ActiveMQ.DLQ")]
    waiting = [body for body, _count in await left(amqp, "queue://a")]
    assert (dead, waiting) == (([], ["1", "2"]) if fail else (["1"], ["2"]))


@pytest.mark.fact("amqp-connector A115")
async def test_an_unknown_transaction_is_not_discharged(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    coordinator = await client.coordinator()
    state = await coordinator.discharge(bytes(7) + b"\7")
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == "failed"
    assert (state.error.description or "").endswith(":7' has not been started.")


@pytest.mark.fact("amqp-connector A117")
async def test_an_unknown_transaction_ends_the_link(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a")
    await sender.transfer(text("1"), state=within(b"nothing"))
    detach = await client.receive(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:transaction:unknown-id"
    await (await client.sender("queue://a")).texts("2")
    receiver = await client.receiver("queue://a", credit=5)
    await client.settle(await receiver.next(), state=within(b"nothing"))
    detach = await client.receive(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:transaction:unknown-id"


@pytest.mark.fact("amqp-connector A118")
async def test_transactions_of_a_session_are_kept_apart(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a")
    await sender.texts("1", "2")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=2)
    first, second = await receiver.messages(2)
    one, two = await coordinator.declare(), await coordinator.declare()
    await client.settle(first, state=within(one))
    await client.settle(second, state=within(two))
    await sender.send(text("of one"), state=within(one))
    await sender.send(text("of two"), state=within(two))
    assert await coordinator.discharge(one) == ACCEPTED
    assert await coordinator.discharge(two, fail=True) == ACCEPTED
    await receiver.detach()
    assert await left(amqp, "queue://a") == [("2", 1), ("of one", 0)]


@pytest.mark.fact("amqp-connector A119")
async def test_transactions_span_sessions_and_coordinators(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    coordinator = await client.coordinator()
    txn_id = await coordinator.declare()
    await coordinator.link.detach()
    client._channel = 1
    await client.send(Begin(None, 0, 10, 10))
    await client.receive(Begin)
    sender = await client.sender("queue://a")
    await sender.send(text("1"), state=within(txn_id))
    other = await client.coordinator()
    assert await other.discharge(txn_id) == ACCEPTED
    assert await left(amqp, "queue://a") == [("1", 0)]


@pytest.mark.fact("amqp-connector A119")
@pytest.mark.parametrize("lost", [False, True])
async def test_the_end_of_the_connection_rolls_back(amqp: AmqpBroker, lost: bool) -> None:
    client = await amqp.client()
    coordinator = await client.coordinator()
    sender = await client.sender("queue://a")
    await sender.texts("0")
    receiver = await client.receiver("queue://a", credit=1)
    message = await receiver.next()
    txn_id = await coordinator.declare()
    await client.settle(message, state=within(txn_id))
    await sender.send(text("1"), state=within(txn_id))
    await (client.lose() if lost else client.close())
    other = await (await amqp.client("other")).receiver("queue://a", credit=5)
    assert (await other.next()).body == "0"
    await other.client.nothing_comes()


@pytest.mark.fact("amqp-connector A115")
async def test_an_unknown_id_of_any_length_is_refused(amqp: AmqpBroker) -> None:
    coordinator = await (await amqp.client()).coordinator()
    state = await coordinator.discharge(b"\xff" * 3000)
    assert isinstance(state, Rejected), state
    assert await coordinator.declare() == bytes(7) + b"\1"


@pytest.mark.fact("amqp-connector A116")
async def test_what_was_rolled_back_may_be_settled_without_outcome(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=1)
    delivery = await receiver.next()
    txn_id = await coordinator.declare()
    await client.settle(delivery, state=within(txn_id), settled=False)
    await client.receive(Disposition)
    assert await coordinator.discharge(txn_id, fail=True) == ACCEPTED
    await client.settle(delivery, state=None)
    await receiver.flow(1)
    assert (await receiver.next()).body == "1"


@pytest.mark.fact("amqp-connector A118")
async def test_a_delivery_is_part_of_one_transaction(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=1)
    delivery = await receiver.next()
    first, second = await coordinator.declare(), await coordinator.declare()
    await client.settle(delivery, state=within(first, RELEASED), settled=False)
    await client.receive(Disposition)
    await client.settle(delivery, state=within(second, RELEASED), settled=False)
    detach = await client.receive(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:illegal-state"
    assert await coordinator.discharge(first) == ACCEPTED
    assert await left(amqp, "queue://a") == [("1", 0)]


@pytest.mark.fact("amqp-connector A118")
@pytest.mark.parametrize("fail", [False, True])
async def test_an_outcome_outside_of_the_transaction_only_settles(
    amqp: AmqpBroker, fail: bool
) -> None:
    client = await amqp.client()
    await (await client.sender("queue://a")).texts("1", "2")
    coordinator = await client.coordinator()
    receiver = await client.receiver("queue://a", credit=2)
    first, last = await receiver.messages(2)
    txn_id = await coordinator.declare()
    await client.send(Disposition(RECEIVER, first.id, last.id, False, within(txn_id)))
    assert [(await client.receive(Disposition)).settled for _ in range(2)] == [False, False]
    await client.send(Disposition(RECEIVER, first.id, last.id, True, ACCEPTED))
    assert await coordinator.discharge(txn_id, fail=fail) == ACCEPTED
    assert await left(amqp, "queue://a") == ([("1", 1), ("2", 1)] if fail else [])
