"""Sends six texts to the virtual topic, with a message creator."""

from __future__ import annotations

from functools import partial

import anyio

from pyjms import Queue, Topic
from pyjms.aio import JmsTemplate, Message, Session

__all__ = ["TEXTS", "SimpleProducer"]

TEXTS = tuple(f"消息: {number}" for number in range(6))


class SimpleProducer:
    def __init__(
        self, template: JmsTemplate, queue: Queue, topic: Topic, virtual_topic: Topic, wait: float
    ) -> None:
        self.template = template
        self.queue = queue
        self.topic = topic
        self.virtual_topic = virtual_topic
        self.wait = float(wait)  # from the environment it is a text

    async def produce(self) -> None:
        await anyio.sleep(self.wait)
        for text in TEXTS:
            await self.template.send(self.virtual_topic, partial(create, text=text))

    def __repr__(self) -> str:
        return f"SimpleProducer({self.queue}, {self.topic}, {self.virtual_topic})"


def create(session: Session, text: str) -> Message:
    return session.create_text_message(text)
