"""Sends three texts to the queue and to the topic when the application starts."""

from __future__ import annotations

from typing import Annotated

from dependency_injector.wiring import Provide

from examples.tutorial.configuration import QUEUE, TOPIC, run
from pyjms import Topic, on_startup
from pyjms.aio import JmsMessagingTemplate

TEXTS = ("one", "two", "three")


@on_startup
async def send(messaging: Annotated[JmsMessagingTemplate, Provide["messaging"]]) -> None:
    """Spring: a CommandLineRunner."""
    for text in TEXTS:
        await messaging.convert_and_send(QUEUE, f"{text} to the queue")
        await messaging.convert_and_send(Topic(TOPIC), f"{text} to the topic")


if __name__ == "__main__":
    run(__name__)
