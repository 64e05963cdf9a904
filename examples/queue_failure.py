"""A queue listener that fails on one text, which is moved to the dead-letter queue."""

from __future__ import annotations

import logging
import sys

import anyio

from pyjms.aio import JmsApplication, PyjmsSettings, TextMessage, jms_listener

logging.basicConfig(level=logging.CRITICAL)  # the failures are expected here
URL = (
    "vm://queue-failure?broker.persistent=false&jms.redeliveryPolicy.initialRedeliveryDelay=10"
    "&jms.redeliveryPolicy.redeliveryDelay=10"
)
attempts: list[str] = []


@jms_listener("test_queue", id="test-queue")
async def on_text(text: str) -> None:
    attempts.append(text)
    if text == "bad":
        raise ValueError("this one cannot be handled")
    print(f"handled {text}")


async def main() -> None:
    settings = PyjmsSettings().with_broker_url(URL)
    async with JmsApplication(sys.modules[__name__], settings=settings) as app:
        app.template.receive_timeout = 30
        for text in ("good", "bad", "better"):
            await app.template.convert_and_send("test_queue", text)
        dead = await app.template.receive("ActiveMQ.DLQ")
        while "better" not in attempts:
            await anyio.sleep(0.01)
    assert isinstance(dead, TextMessage)
    print(f"dead after {attempts.count('bad')} attempts: {dead.text}")
    print(f"because: {str(dead.properties['dlqDeliveryFailureCause'])[:75]}...")


if __name__ == "__main__":
    anyio.run(main)
