"""Batch listeners at ActiveMQ and at our own broker."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms import Batch
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.template.template import JmsTemplate
from tests.kit.brokers.comparison import MakeFactory

pytestmark = pytest.mark.activemq


async def test_batches_commit_reject_and_roll_back(quick_factory: MakeFactory, name: str) -> None:
    template = JmsTemplate(quick_factory(), receive_timeout=5.0)
    seen: list[list[str]] = []
    finished = anyio.Event()

    async def listener(batch: Batch[Any]) -> None:
        seen.append([message.text for message in batch])
        batch.reject(batch[1], f"rejected of {name}")
        if len(seen) == 1:
            raise RuntimeError("once")
        finished.set()

    container = DefaultMessageListenerContainer(
        quick_factory(),
        destination_name=name,
        message_listener=listener,
        session_transacted=True,
        batch_size=3,
        batch_timeout=30.0,
    )
    for text in ("a", "b", "c"):
        await template.convert_and_send(name, text)
    await container.start()
    with anyio.fail_after(60):
        await finished.wait()
    await container.shutdown(30.0)
    assert seen == [["a", "b", "c"], ["a", "b", "c"]]
    assert await template.receive_selected(name, "TRUE", timeout=0.1) is None
    selector = f"pyjms_original_destination = 'queue://{name}'"
    dead: Any = await template.receive_selected("ActiveMQ.DLQ", selector)
    assert dead.text == "b"
    assert dead.properties["pyjms_failure_text"] == f"rejected of {name}"
