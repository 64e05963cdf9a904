"""Rows that cannot be read: they are quarantined, and nothing else waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire.commands import ActiveMQTextMessage, XATransactionId
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription

RUBBISH = b"\xff" * 40
WITHOUT_ID = encode_message(ActiveMQTextMessage(destination=Queue("Q")))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("frame", [RUBBISH, WITHOUT_ID, "text", None])
@pytest.mark.parametrize("limit", [2, 100])
async def test_a_message_that_cannot_be_read_is_quarantined_with_one_error(
    open_store: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    limit: int,
    frame: bytes | str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = await open_store()
    queue = store.queue()
    for number in range(1, 8):
        await store.send(queue, number)
    await store.adapter.checkpoint()
    (name,) = sql("SELECT MSGID_PROD || ':' || MSGID_SEQ FROM ACTIVEMQ_MSGS WHERE MSGID_SEQ = 3")[0]
    sql("UPDATE ACTIVEMQ_MSGS SET MSG = ? WHERE MSGID_SEQ = 3", frame)
    found: list[str] = []
    after = None
    while page := queue.next_messages(after, limit):
        found += [each.message.type for each in page]
        after = page[-1].position
    assert found == ["1", "2", "4", "5", "6", "7"]
    (error,) = errors(caplog)
    assert name in error
    assert queue.message_count == 7, "it is still stored"


async def test_a_prepared_transaction_that_cannot_be_read_does_not_stop_a_start(
    open_store: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = await open_store()
    queue = store.queue()
    for branch, number in ((b"one", 1), (b"two", 2)):
        xid = XATransactionId(7, b"global", branch)
        queue.add_message(OperationContext(xid), store.reference(number))
        await store.done(store.adapter.transaction_store().prepare(xid))
    sql("UPDATE ACTIVEMQ_MSGS SET MSG = ? WHERE MSGID_SEQ = 1", RUBBISH)
    await store.restart()
    (found,) = store.adapter.transaction_store().recovered_transactions()
    assert found.xid == XATransactionId(7, b"global", b"two")
    sql("UPDATE ACTIVEMQ_MSGS SET XID = 'rubbish'")
    await store.restart()
    assert store.adapter.transaction_store().recovered_transactions() == []
    assert len(errors(caplog)) == 3


async def test_a_subscription_to_no_destination_does_not_stop_a_start(
    open_store: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = await open_store()
    key = SubscriptionKey("c", "s")
    topic = Topic("T")
    made = store.adapter.topic_message_store(topic).add_subscription(
        StoredSubscription(key, topic), False
    )
    await store.done(made)
    sql("UPDATE ACTIVEMQ_ACKS SET SUB_DEST = 'topic://'")
    await store.restart()
    assert store.adapter.topic_message_store(topic).subscriptions() == []
    assert "'c'" in errors(caplog)[0]
