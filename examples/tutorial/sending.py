"""Sends a text to the queue and one to the topic when the application starts."""

from __future__ import annotations

from typing import Annotated

from dependency_injector.wiring import Provide

from examples.tutorial.configuration import run
from pyjms import Queue, Topic, on_startup
from pyjms.aio import JmsMessagingTemplate


@on_startup
async def send(
    messaging: Annotated[JmsMessagingTemplate, Provide["messaging"]],
    queue: Annotated[Queue, Provide["queue"]],
    topic: Annotated[Topic, Provide["topic"]],
) -> None:
    """Spring: a @PostConstruct method."""
    await messaging.convert_and_send(queue, "queue-test")
    await messaging.convert_and_send(topic, "topic-test")


if __name__ == "__main__":
    run(__name__)
