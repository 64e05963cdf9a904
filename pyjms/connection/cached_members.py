"""Handles on producers and consumers that stay open: closing one closes the handle only."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import Closeable, MessageConsumer, MessageListener, MessageProducer
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message

__all__ = ["CachedConsumer", "CachedProducer"]


class CachedProducer(MessageProducer):
    """A producer whose quality of service lives in the handle; the hints are undone on close."""

    def __init__(
        self,
        target: MessageProducer,
        touch: Callable[[], None],
        forget: Callable[[Closeable], None],
    ) -> None:
        self._target = target
        self._touch = touch
        self._forget = forget
        self._closed = False
        self._hints = (target.disable_message_id, target.disable_message_timestamp)
        self.delivery_mode: DeliveryMode = target.delivery_mode
        self.priority: int = target.priority
        self.time_to_live: float = target.time_to_live

    @property
    def destination(self) -> Destination | None:
        """Where the producer sends."""
        return self._target.destination

    @property
    def disable_message_id(self) -> bool:
        """The target's hint."""
        return self._target.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, disable: bool) -> None:
        self._target.disable_message_id = disable

    @property
    def disable_message_timestamp(self) -> bool:
        """The target's hint."""
        return self._target.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, disable: bool) -> None:
        self._target.disable_message_timestamp = disable

    async def send(
        self,
        message: Message,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
    ) -> None:
        """Send through the target, with the handle's settings where none are given."""
        if self._closed:
            raise IllegalStateException("The producer is closed")
        self._touch()
        await self._target.send(
            message,
            destination=destination,
            delivery_mode=self.delivery_mode if delivery_mode is None else delivery_mode,
            priority=self.priority if priority is None else priority,
            time_to_live=self.time_to_live if time_to_live is None else time_to_live,
        )

    async def close(self) -> None:
        """Undo the hints; the target stays open."""
        if not self._closed:
            self._closed = True
            self._forget(self)
            self._target.disable_message_id, self._target.disable_message_timestamp = self._hints


class CachedConsumer(MessageConsumer):
    """A consumer that stays open; a listener set through the handle goes with it."""

    def __init__(
        self,
        target: MessageConsumer,
        touch: Callable[[], None],
        forget: Callable[[Closeable], None],
    ) -> None:
        self._target = target
        self._touch = touch
        self._forget = forget
        self._closed = False
        self._listening = False

    @property
    def is_closed(self) -> bool:
        """Whether the handle is closed, or what it stands for."""
        return self._closed or self._target.is_closed

    @property
    def destination(self) -> Destination:
        """Where the messages come from."""
        return self._consumer().destination

    @property
    def message_selector(self) -> str | None:
        """The selector, None for all messages."""
        return self._consumer().message_selector

    @property
    def message_listener(self) -> MessageListener | None:
        """The listener."""
        return self._consumer().message_listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener, until the handle closes."""
        await self._consumer().set_message_listener(listener)
        self._listening = listener is not None

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""
        consumer = self._consumer()
        self._touch()
        return await consumer.receive(timeout)

    async def close(self) -> None:
        """Take the listener away; the target stays open and keeps what it fetched."""
        if not self._closed:
            self._closed = True
            self._forget(self)
            if self._listening:
                await self._target.set_message_listener(None)

    def _consumer(self) -> MessageConsumer:
        if self._closed:
            raise IllegalStateException("The consumer is closed")
        return self._target
