"""A durable subscription of the topic: the broker keeps its texts while the application is away."""

from __future__ import annotations

from examples.tutorial.configuration import run
from pyjms import jms_listener

received: list[str] = []


@jms_listener(
    "${app.topic_name}", id="durable", container_factory="durable_listener", subscription="model"
)
async def get_topic(text: str) -> None:
    print(f"接受topic:{text}", flush=True)
    received.append(text)


if __name__ == "__main__":
    run(__name__)
