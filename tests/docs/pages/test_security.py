"""The message policy of docs/security.md, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.brokers.security import SecuredBroker

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "security.md"


async def test_the_message_policy_withholds_what_is_secret() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "policy"}
    exec(compile(block, "policy.py", "exec"), names)
    async with EmbeddedTestBroker(names["broker"]) as embedded:
        broker = SecuredBroker(embedded)
        shop, boss = await broker.client("shop", "..."), await broker.client("boss", "...")
        producer = await boss.producer()
        for level in ("secret", "open"):
            message = boss.text(producer, Queue("q"), level)
            message.marshalled_properties = encode_map({"level": level})
            await boss.request(message)
        await shop.consumer(Queue("q"))
        dispatch = await shop.dispatched()
        assert dispatch.message is not None
        assert dispatch.message.properties == {"level": "open"}
        await shop.ack(dispatch)
        await shop.nothing_dispatched()
        await boss.consumer(Queue("q"))
        assert (await boss.message()).properties == {"level": "secret"}
        await shop.close()
        await boss.close()
