"""Prepared transactions in the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.store.jdbc.schema import decode_xid, encode_xid

XID = XATransactionId(7, b"global", b"branch")
ROWS = "SELECT MSGID_SEQ, XID IS NULL FROM ACTIVEMQ_MSGS ORDER BY MSGID_SEQ"


def test_the_column_has_activemqs_text() -> None:
    added, removed = encode_xid(XID, added=True), encode_xid(XID, added=False)
    assert added == "KwAAAAAAAAAAAAAAAAcABmdsb2JhbGJyYW5jaA=="
    assert removed == "LQAAAAAAAAAAAAAAAAcABmdsb2JhbGJyYW5jaA=="
    assert decode_xid(added) == (XID, True)
    assert decode_xid(removed) == (XID, False)


@pytest.mark.parametrize("text", ["", "?", "KwAA", "KwAAAAAAAAA"])
def test_damaged_texts(text: str) -> None:
    with pytest.raises(JMSException, match="damaged"):
        decode_xid(text)


def test_ids_that_are_too_long() -> None:
    with pytest.raises(JMSException, match="too long"):
        encode_xid(XATransactionId(1, b"g" * 128, b"b" * 128), added=True)
    assert len(encode_xid(XATransactionId(1, b"g" * 64, b"b" * 64), added=True)) < 250


@pytest.mark.fact("activemq-persistence J8")
@pytest.mark.parametrize("commit", [True, False])
async def test_rows_of_a_prepared_transaction_carry_its_id(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], commit: bool
) -> None:
    store = await open_store()
    queue, transactions = store.queue(), store.adapter.transaction_store()
    (old,) = await store.send(queue, 1)
    xid = store.xa()
    new = store.reference(2)
    queue.add_message(store.within(xid), new)
    queue.remove_message(store.within(xid), old)
    await store.done(transactions.prepare(xid))
    assert sql(ROWS) == [(1, 0), (2, 0)]
    assert store.texts(queue) == []
    await store.send(queue, 3)
    if commit:
        await store.done(transactions.commit(xid, True))
        assert new.position.arrival == 3
        queue.mark_visible(new)
    else:
        await store.done(transactions.rollback(xid))
    assert sql(ROWS) == ([(2, 1), (3, 1)] if commit else [(1, 1), (3, 1)])
    assert store.texts(queue) == (["3", "2"] if commit else ["1", "3"])
    # what expires is a row like others: it comes with the next page
    await store.restart()
    assert store.texts(store.queue()) == (["3", "2"] if commit else ["1", "3"])


async def test_a_message_that_came_otherwise_meanwhile_is_left_out(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    queue, transactions = store.queue(), store.adapter.transaction_store()
    xid = store.xa()
    again = store.reference(1)
    queue.add_message(store.within(xid), again)
    await store.done(transactions.prepare(xid))
    await store.restart()
    queue, transactions = store.queue(), store.adapter.transaction_store()
    await store.send(queue, 1, text="first")
    await store.done(transactions.commit(xid, True))
    assert transactions.position_of(queue.destination, again.message_id) is None
    assert sql(ROWS) == [(1, 1)]
    assert (store.texts(queue), queue.message_count) == (["first"], 1)


async def test_local_transactions_have_one_phase(open_store: Callable[..., Any]) -> None:
    store = await open_store()
    store.queue().add_message(store.within(store.local()), store.reference(1))
    with pytest.raises(JMSException, match="local"):
        store.adapter.transaction_store().prepare(store.local())
