"""Message groups are ordered lanes: through several consumers, redelivery and batches."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from pyjms import Batch, Message, PyjmsSettings, RetryPolicy, jms_listener
from pyjms.testing.app import JmsTestApp

GROUPS = ("a", "b", "c")
PER_GROUP = 15


async def send(jms_app: JmsTestApp) -> None:
    for number in range(PER_GROUP):
        for group in GROUPS:

            def mark(message: Any, group: str = group) -> Any:
                message.group_id = group
                return message

            text = f"{group}{number}"
            await jms_app.template.convert_and_send("orders", text, post_processor=mark)


def in_order(seen: dict[str, list[str]]) -> bool:
    return all(
        seen[group] == [f"{group}{number}" for number in range(PER_GROUP)] for group in GROUPS
    )


@pytest.mark.parametrize("failing", [(), ("a3", "b7"), ("a0", "a1", "c14")])
async def test_groups_keep_their_order_through_consumers_and_redelivery(
    failing: tuple[str, ...], jms_app: JmsTestApp
) -> None:
    seen: dict[str, list[str]] = defaultdict(list)
    left = dict.fromkeys(failing, 2)

    @jms_listener("orders", concurrency="3-3", prefetch=4, retry=RetryPolicy(maximum=5))
    async def handle(text: str, message: Message) -> None:
        if left.get(text, 0):
            left[text] -= 1
            raise RuntimeError(text)
        assert message.group_id is not None
        seen[message.group_id].append(text)

    await jms_app.start(handle)
    await send(jms_app)
    await jms_app.drained("orders", timeout=60.0)
    assert in_order(seen), dict(seen)


async def test_groups_keep_their_order_in_batches(jms_app: JmsTestApp) -> None:
    seen: dict[str, list[str]] = defaultdict(list)
    failures = 2

    @jms_listener("orders", id="orders", batch_size=4, concurrency="3-3")
    async def handle(batch: Batch[str]) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise RuntimeError("once more")
        for text in batch:
            seen[text[0]].append(text)

    await jms_app.start(handle, settings=PyjmsSettings())
    await send(jms_app)
    await jms_app.drained("orders", timeout=60.0)
    assert in_order(seen), dict(seen)
