"""A connection whose sends wait for space, and its commits after them."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    Response,
    TransactionInfo,
    TransactionType,
)
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.transaction import TransactionState
from pyjms_broker.connector.vm.connector import VmConnector
from pyjms_broker.filters.transactions import LocalTransaction
from pyjms_broker.store.memory import MemoryTransactionStore
from tests.kit.clients.recording_broker import Client, Host

CONNECTION = ConnectionId("c1")
PRODUCER = ProducerId("c1", 1, 1)


def ending(state: TransactionState) -> LocalTransaction:
    """Return a transaction that was asked to end."""
    xid = LocalTransactionId(9, CONNECTION)
    transaction = LocalTransaction(xid, MemoryTransactionStore(), lambda _: None)
    transaction.state = state
    return transaction


def step(number: int, kind: int) -> TransactionInfo:
    return TransactionInfo(CONNECTION, LocalTransactionId(number, CONNECTION), kind)


async def test_a_stopping_connector_waits_for_no_commit_without_room(
    client: Client, connector: VmConnector, host: Host
) -> None:
    await client.connect()
    await client.ask(step(1, TransactionType.BEGIN))
    host.recording.answers["commit_transaction"] = commit = Completion()
    answers: list[Any] = []
    client.transport.request_soon(step(1, TransactionType.COMMIT_ONE_PHASE), answers.append)
    await anyio.wait_all_tasks_blocked()
    cast("Any", client.context()).waiting_ends[ending(TransactionState.COMMIT_WAITS)] = commit
    with anyio.fail_after(1):
        await connector.stop()
    assert not connector.connections


async def test_a_stopping_connector_waits_for_a_commit_that_has_space_by_now(
    client: Client, connector: VmConnector, host: Host
) -> None:
    await client.connect()
    await client.producer(window=5000)
    await client.ask(step(1, TransactionType.BEGIN))
    host.recording.answers["send"] = Completion()
    client.tell(
        ActiveMQTextMessage(
            producer_id=PRODUCER,
            destination=Queue("q"),
            message_id=MessageId(None, PRODUCER, 1),
            content=b"123456",
        )
    )
    host.recording.answers["commit_transaction"] = commit = Completion()
    answers: list[Any] = []
    client.transport.request_soon(step(1, TransactionType.COMMIT_ONE_PHASE), answers.append)
    await anyio.wait_all_tasks_blocked()
    context = client.context()
    cast("Any", context).blocked_sends["another's"] = (
        None  # no answer is due to a send with a window
    )
    cast("Any", context).waiting_ends[ending(TransactionState.COMMITTING)] = commit
    async with anyio.create_task_group() as group:
        group.start_soon(connector.stop)
        await anyio.wait_all_tasks_blocked()
        assert connector.connections
        commit.complete()
    assert [type(answer) for answer in answers] == [Response]


async def test_transactions_whose_end_is_pending_count_towards_the_limit(
    client: Client, connector: VmConnector, host: Host
) -> None:
    connector.maximum_transactions_per_connection = 2
    await client.connect()
    await client.ask(step(1, TransactionType.BEGIN))
    cast("Any", client.context()).waiting_ends["another"] = Completion()
    with pytest.raises(IllegalStateException, match="at maximum limit: 2"):
        await client.ask(step(2, TransactionType.BEGIN))
    client.context().waiting_ends.clear()
    await client.ask(step(2, TransactionType.BEGIN))
