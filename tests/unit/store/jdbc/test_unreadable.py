"""Rows that cannot be read: they are quarantined, and nothing else waits for them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

RUBBISH = b"\xff" * 40


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("limit", [2, 100])
async def test_a_message_that_cannot_be_read_is_quarantined_with_one_error(
    open_store: Any, sql: Any, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store()
    queue = store.queue()
    for number in range(1, 8):
        await store.send(queue, number)
    await store.adapter.checkpoint()
    (name,) = sql("SELECT MSGID_PROD || ':' || MSGID_SEQ FROM ACTIVEMQ_MSGS WHERE MSGID_SEQ = 3")[0]
    sql("UPDATE ACTIVEMQ_MSGS SET MSG = ? WHERE MSGID_SEQ = 3", RUBBISH)
    found: list[str] = []
    after = None
    while page := queue.next_messages(after, limit):
        found += [each.message.type for each in page]
        after = page[-1].position
    assert found == ["1", "2", "4", "5", "6", "7"]
    (error,) = errors(caplog)
    assert name in error
    assert queue.message_count == 7, "it is still stored"
