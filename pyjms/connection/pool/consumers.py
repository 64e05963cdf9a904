"""Handles on the consumers and browsers of pooled sessions. (spring-jms 9.7 and 9.8)"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from operator import attrgetter
from typing import Any, Final

from pyjms._forwarding import DelegatedAttribute
from pyjms.connection.producer_handle import Forget
from pyjms.jms.api import MessageConsumer, MessageListener, QueueBrowser
from pyjms.jms.api.delegating import DelegatingConsumer
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message

__all__ = ["PooledBrowser", "PooledConsumer"]


class PooledConsumer(DelegatingConsumer):
    """A consumer that is removed from its session when it is closed."""

    def __init__(self, target: MessageConsumer, forget: Forget) -> None:
        super().__init__(target)
        self._forget = forget

    # an extension of ActiveMQ, if the target has it; listener containers set the policy
    redelivery_policy: DelegatedAttribute[Any] = DelegatedAttribute(
        attrgetter("_target"), read_only=False
    )
    is_closed: Final = DelegatedAttribute[bool](attrgetter("_target"), read_only=True)
    message_listener: Final = DelegatedAttribute[MessageListener | None](
        attrgetter("_target"), read_only=True
    )

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        await self._target.set_message_listener(listener)

    async def receive(self, timeout: float | None = None) -> Message | None:
        return await self._target.receive(timeout)

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        return await self._target.receive_checked(check, timeout)

    async def close(self) -> None:
        self._forget(self)
        await self._target.close()


class PooledBrowser(QueueBrowser):
    """A browser that is removed from its session when it is closed."""

    def __init__(self, target: QueueBrowser, forget: Forget) -> None:
        self._target = target
        self._forget = forget

    queue: Final = DelegatedAttribute[Queue](attrgetter("_target"), read_only=True)
    message_selector: Final = DelegatedAttribute[str | None](attrgetter("_target"), read_only=True)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._target.__aiter__()

    async def close(self) -> None:
        self._forget(self)
        await self._target.close()
