"""A listener of the queue, and one of the topic; each with the factory of its domain."""

from __future__ import annotations

from examples.tutorial.configuration import QUEUE, TOPIC, run
from pyjms import jms_listener

received: list[str] = []


@jms_listener(QUEUE, id="queue", container_factory="queue_factory")
async def on_queue(text: str) -> None:
    print(f"received: {text}")
    received.append(text)


@jms_listener(TOPIC, id="topic", container_factory="topic_factory")
async def on_topic(text: str) -> None:
    print(f"received: {text}")
    received.append(text)


if __name__ == "__main__":
    run(__name__)
