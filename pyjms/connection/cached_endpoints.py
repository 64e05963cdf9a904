"""Handles on the producers and consumers of a cached session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter, methodcaller
from typing import Final

from pyjms._forwarding import DelegatedAttribute
from pyjms.connection.producer_handle import Forget, ProducerHandle
from pyjms.errors import IllegalStateException
from pyjms.jms.api import (
    CompletionListener,
    MessageAvailableListener,
    MessageConsumer,
    MessageListener,
    MessageProducer,
)
from pyjms.jms.api.delegating import DelegatingConsumer
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message

__all__ = ["CachedConsumer", "CachedProducer"]


Touch = Callable[[], object]
"""Records that the session may have work to roll back."""


class CachedProducer(ProducerHandle):
    """A producer with separate quality of service; `close` restores the target's hints."""

    def __init__(self, target: MessageProducer, touch: Touch, forget: Forget) -> None:
        super().__init__(target, forget)
        self._touch = touch
        self._hints = (target.disable_message_id, target.disable_message_timestamp)
        self.delivery_delay: float = target.delivery_delay

    destination: Final = DelegatedAttribute[Destination | None](
        attrgetter("target"), read_only=True
    )
    disable_message_id = DelegatedAttribute[bool](attrgetter("target"), read_only=False)
    disable_message_timestamp = DelegatedAttribute[bool](attrgetter("target"), read_only=False)

    def _admit(
        self, destination: Destination | None, *_: float | CompletionListener | None
    ) -> Destination | None:
        self._touch()
        return destination

    async def _release(self) -> None:
        """Restore the hints; the target stays open."""
        self.target.disable_message_id, self.target.disable_message_timestamp = self._hints


class CachedConsumer(DelegatingConsumer):
    """A consumer that stays open; `close` removes a listener set through this handle."""

    def __init__(
        self,
        target: MessageConsumer,
        touch: Touch,
        forget: Forget,
        discard: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Receive from `target`; `discard` closes the target if a receive was interrupted."""
        super().__init__(target)
        self._touch = touch
        self._forget = forget
        self._discard = discard
        self._closed = False
        self._listening = False
        self._is_announcing = False
        self._receiving = False

    message_listener: Final = DelegatedAttribute[MessageListener | None](
        methodcaller("_consumer"), read_only=True
    )

    @property
    def is_closed(self) -> bool:
        """Whether this handle or its target is closed."""
        return self._closed or self._target.is_closed

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener, until this handle is closed."""
        await self._consumer().set_message_listener(listener)
        self._listening = listener is not None

    async def set_message_available_listener(
        self, listener: MessageAvailableListener | None
    ) -> None:
        """Set the listener, until this handle is closed."""
        await super().set_message_available_listener(listener)
        self._is_announcing = listener is not None

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""
        consumer = self._consumer()
        self._touch()
        return await self._received(consumer.receive(timeout))

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        """Receive like `receive`; a message for which `check` raises stays in the target."""
        consumer = self._consumer()
        self._touch()
        return await self._received(consumer.receive_checked(check, timeout))

    async def _received(self, receiving: Awaitable[Message | None]) -> Message | None:
        self._receiving = True
        message = await receiving
        self._receiving = False
        return message

    async def close(self) -> None:
        """Remove the listener; the target stays open and keeps its prefetched messages.

        A pull consumer is closed if a receive was interrupted: its message may still arrive.
        """
        if not self._closed:
            self._closed = True
            self._forget(self)
            if self._receiving and self._discard is not None:
                await self._discard()
                return
            if self._listening:
                await self._target.set_message_listener(None)
            if self._is_announcing:
                await self._target.set_message_available_listener(None)

    def _consumer(self) -> MessageConsumer:
        if self._closed:
            raise IllegalStateException("The consumer is closed")
        return self._target
