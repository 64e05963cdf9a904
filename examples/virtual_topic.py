"""Six texts to a virtual topic whose listener always fails: 42 calls, 6 dead letters.

Beside it a queue listener that works. Each failing text is delivered once and redelivered
six times, ActiveMQ's default, before it ends in the dead-letter queue.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from pathlib import Path

import anyio

from pyjms.aio import JmsApplication, JmsTemplate, QueueBrowser, Session, Topic, jms_listener

logging.basicConfig(level=logging.CRITICAL)  # the failures are expected here
TEXTS = 6
calls: Counter[str] = Counter()


@jms_listener("Consumer.A.VirtualTopic.test_topic", id="virtual-topic")
def on_topic(text: str) -> None:
    calls["topic"] += 1
    raise RuntimeError(f"cannot handle {text}")


@jms_listener("test_queue", id="queue")
def on_queue(text: str) -> None:
    calls["queue"] += 1
    print(f"queue: {text}\n", end="")  # one write: several threads print


async def main() -> int:
    config = Path(__file__).with_name("virtual_topic.yaml")
    async with JmsApplication(sys.modules[__name__], config=config) as app:
        for number in range(1, TEXTS + 1):
            await app.template.convert_and_send(Topic("VirtualTopic.test_topic"), f"text {number}")
            await app.template.convert_and_send("test_queue", f"text {number}")
        with anyio.fail_after(60):
            while (dead := await dead_letters(app.template)) < TEXTS or calls["queue"] < TEXTS:
                await anyio.sleep(0.05)
    print(f"{TEXTS} texts, {calls['topic']} calls, {dead} dead letters")
    return 0 if (calls["topic"], dead) == (42, 6) else 1


async def dead_letters(template: JmsTemplate) -> int:
    return await template.browse("ActiveMQ.DLQ", count)


async def count(_session: Session, browser: QueueBrowser) -> int:
    return sum([1 async for _ in browser])


if __name__ == "__main__":
    sys.exit(anyio.run(main))
