from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import IllegalStateException, JMSException, TransactionRolledBackException
from pyjms.wire.openwire.commands import (
    ConnectionId,
    DataArrayResponse,
    IntegerResponse,
    LocalTransactionId,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from tests.kit.clients.recording_broker import Client, Host

CONNECTION = ConnectionId("c1")
LOCAL = LocalTransactionId(1, CONNECTION)
XA = XATransactionId(7, b"g", b"b")


def step(kind: int, xid: object = LOCAL) -> TransactionInfo:
    return TransactionInfo(CONNECTION, xid, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "called", "rest"),
    [
        (TransactionType.BEGIN, "begin_transaction", ()),
        (TransactionType.COMMIT_ONE_PHASE, "commit_transaction", (True,)),
        (TransactionType.COMMIT_TWO_PHASE, "commit_transaction", (False,)),
        (TransactionType.ROLLBACK, "rollback_transaction", ()),
        (TransactionType.FORGET, "forget_transaction", ()),
    ],
)
async def test_each_step_is_the_brokers(
    client: Client, host: Host, kind: TransactionType, called: str, rest: Any
) -> None:
    await client.connect()
    await client.ask(step(kind))
    context, xid, *more = host.recording.args(called)
    assert (context, xid, tuple(more)) == (client.context(), LOCAL, rest)


async def test_end_is_only_answered(client: Client, host: Host) -> None:
    await client.connect(session=False)
    host.recording.calls.clear()
    await client.ask(step(TransactionType.END, XA))
    assert host.recording.calls == []


@pytest.mark.parametrize("answer", [0, 3])
async def test_prepare_answers_the_vote(client: Client, host: Host, answer: int) -> None:
    await client.connect()
    await client.ask(step(TransactionType.BEGIN, XA))
    host.recording.answers["prepare_transaction"] = answer
    vote = await client.ask(step(TransactionType.PREPARE, XA))
    assert isinstance(vote, IntegerResponse)
    assert vote.result == answer
    # a prepared branch gives its answer again; a read-only one is over
    if answer == 3:
        with pytest.raises(IllegalStateException, match="previously returned XA_RDONLY"):
            await client.ask(step(TransactionType.PREPARE, XA))
    else:
        again: Any = await client.ask(step(TransactionType.PREPARE, XA))
        assert again.result == answer
    assert host.recording.names.count("prepare_transaction") == 1


async def test_recover_answers_the_prepared_branches(client: Client, host: Host) -> None:
    await client.connect()
    host.recording.answers["prepared_transactions"] = [XA]
    answer = await client.ask(step(TransactionType.RECOVER, None))
    assert isinstance(answer, DataArrayResponse)
    assert answer.data == [XA]


async def test_a_commit_that_fails_is_answered_so(client: Client, host: Host) -> None:
    await client.connect()
    host.recording.answers["commit_transaction"] = TransactionRolledBackException("rolled back")
    with pytest.raises(TransactionRolledBackException, match=r"^rolled back$"):
        await client.ask(step(TransactionType.COMMIT_ONE_PHASE))


async def test_a_transaction_may_begin_again_once_it_is_over(client: Client, host: Host) -> None:
    await client.connect()
    for kind in (TransactionType.BEGIN, TransactionType.BEGIN, TransactionType.ROLLBACK,
                 TransactionType.BEGIN):  # fmt: skip
        await client.ask(step(kind))
    assert host.recording.names.count("begin_transaction") == 2


async def test_steps_that_make_no_sense(client: Client) -> None:
    with pytest.raises(IllegalStateException, match="had not been registered: c1"):
        await client.ask(step(TransactionType.BEGIN))
    await client.connect()
    with pytest.raises(JMSException, match="Unknown transaction info type: 99"):
        await client.ask(step(99))
    with pytest.raises(JMSException, match="without a transaction id"):
        await client.ask(step(TransactionType.BEGIN, None))
