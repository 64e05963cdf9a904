"""A listener of the queue, and one of the topic; each with the factory of its domain."""

from __future__ import annotations

from examples.tutorial.configuration import run
from pyjms import jms_listener

received: list[str] = []


@jms_listener("${app.queue_name}", id="queue", container_factory="queue_listener")
async def get_queue(text: str) -> None:
    print(f"接受queue:{text}", flush=True)
    received.append(text)


@jms_listener("${app.topic_name}", id="topic", container_factory="topic_listener")
async def get_topic(text: str) -> None:
    print(f"接受topic:{text}", flush=True)
    received.append(text)


if __name__ == "__main__":
    run(__name__)
