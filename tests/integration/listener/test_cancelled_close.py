"""Closing in a cancelled task: Java's interrupt flag is a cancelled scope here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Queue
from pyjms.template.resources import close_quietly
from pyjms.template.template import JmsTemplate


@pytest.mark.fact("spring-jms 1.2.8")
async def test_a_consumer_is_closed_although_its_task_is_cancelled(
    factory: ConnectionFactory, left: Callable[[str], Any], template: JmsTemplate
) -> None:
    """It is closed as if the task were not, and the task is cancelled afterwards."""
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        consumer = await session.create_consumer(Queue("q"))
        reached: list[str] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            await close_quietly(consumer)
            reached.append("closed")
            await checkpoint()
            reached.append("not cancelled")
        assert scope.cancelled_caught
        assert reached == ["closed"]
        with pytest.raises(IllegalStateException):
            await consumer.receive(0)
        await template.convert_and_send("q", "x")  # no consumer has it
        assert [message.text for message in await left("q")] == ["x"]
