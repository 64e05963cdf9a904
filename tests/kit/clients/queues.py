"""What is in a queue, read without consuming it."""

from __future__ import annotations

from typing import Any

from pyjms.aio import JmsTemplate
from pyjms.jms.message import Message, TextMessage
from pyjms.support.embedded_broker import EmbeddedBroker
from pyjms.testing.remote import RemoteBroker
from pyjms_broker.testing import EmbeddedTestBroker

__all__ = ["messages_in", "texts_in"]


async def messages_in(template: JmsTemplate, queue: str) -> list[Message]:
    """Return the messages of `queue`, oldest first."""

    async def read(_session: Any, browser: Any) -> list[Message]:
        return [message async for message in browser]

    return await template.browse(queue, read)


async def texts_in(template: JmsTemplate, queue: str) -> list[str | None]:
    """Return the texts of the text messages of `queue`, oldest first."""
    found = await messages_in(template, queue)
    return [message.text for message in found if isinstance(message, TextMessage)]


def embedded(broker: EmbeddedBroker | RemoteBroker) -> EmbeddedTestBroker:
    """Return a test's broker, which runs in this process and has statistics."""
    assert isinstance(broker, EmbeddedTestBroker)
    return broker
