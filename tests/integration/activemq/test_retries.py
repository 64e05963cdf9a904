"""Retry policies and redriving at ActiveMQ and at our own broker."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms import Reject, Retry, RetryPolicy
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.template.redrive import redrive
from pyjms.template.template import JmsTemplate
from tests.kit.brokers.comparison import MakeFactory

pytestmark = pytest.mark.activemq


@pytest.mark.parametrize("own", [True, False])
async def test_messages_are_retried_become_dead_letters_and_are_redriven(
    own: bool, quick_factory: MakeFactory, name: str
) -> None:
    template = JmsTemplate(quick_factory(), receive_timeout=30.0)
    dead = f"{name}.failed" if own else "ActiveMQ.DLQ"
    seen: list[str] = []
    mended = anyio.Event()

    async def listener(message: Any) -> None:
        seen.append(message.text)
        if message.text == "last":
            mended.set()
        elif message.text == "retry" and seen.count("retry") == 1:
            raise Retry(delay=0.05)
        elif message.text == "reject" and seen.count("reject") == 1:
            raise Reject(f"rejected of {name}")
        elif message.text == "fail" and seen.count("fail") <= 3:
            raise RuntimeError(f"failed of {name}")

    container = DefaultMessageListenerContainer(
        quick_factory(),
        destination_name=name,
        message_listener=listener,
        session_transacted=True,
        retry=RetryPolicy(maximum=2, initial_delay=0.01, dead_letter=dead if own else None),
    )
    await container.start()
    try:
        for text in ("retry", "reject", "fail", "last"):
            await template.convert_and_send(name, text)
        with anyio.fail_after(60):
            await mended.wait()
        assert seen == ["retry"] * 2 + ["reject"] + ["fail"] * 3 + ["last"]
        mended = anyio.Event()
        text = "pyjms_failure_text" if own else "dlqDeliveryFailureCause"
        done = await redrive(template, dead, selector=f"{text} LIKE '%of {name}%'", timeout=3.0)
        assert (done.by_destination, done.left) == ({f"queue://{name}": 2}, [])
        await template.convert_and_send(name, "last")
        with anyio.fail_after(60):
            await mended.wait()
        assert seen[7:] == ["reject", "fail", "last"]
    finally:
        await container.shutdown(30.0)
