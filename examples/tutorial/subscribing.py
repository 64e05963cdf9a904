"""A durable subscription of the topic: the broker keeps its texts while the application is away."""

from __future__ import annotations

from examples.tutorial.configuration import TOPIC, run
from pyjms import jms_listener

received: list[str] = []


@jms_listener(TOPIC, id="durable", container_factory="durable_factory", subscription="model")
async def on_topic(text: str) -> None:
    print(f"received: {text}")
    received.append(text)


if __name__ == "__main__":
    run(__name__)
