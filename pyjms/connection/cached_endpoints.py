"""Handles on the producers and consumers of a cached session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, Final

from pyjms._forwarding import DelegatedAttribute
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import (
    Closeable,
    CompletionListener,
    MessageAvailableListener,
    MessageConsumer,
    MessageListener,
    MessageProducer,
)
from pyjms.jms.api.endpoints import destination_first, with_handle
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message

__all__ = ["CachedConsumer", "CachedProducer"]


class CachedProducer(MessageProducer):
    """A producer with its own quality of service; `close` restores the hints of the target."""

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
        self.delivery_delay: float = target.delivery_delay

    destination: Final = DelegatedAttribute[Destination | None](
        attrgetter("_target"), read_only=True
    )
    stats: DelegatedAttribute[Any] = DelegatedAttribute[Any](
        attrgetter("_target"), read_only=True
    )  # ActiveMQ's
    transformer: DelegatedAttribute[Any] = DelegatedAttribute[Any](
        attrgetter("_target"), read_only=True
    )
    send_timeout: DelegatedAttribute[float | None] = DelegatedAttribute[float | None](
        attrgetter("_target"), read_only=True
    )
    disable_message_id = DelegatedAttribute[bool](attrgetter("_target"), read_only=False)
    disable_message_timestamp = DelegatedAttribute[bool](attrgetter("_target"), read_only=False)

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
        completion_listener: CompletionListener | None = None,
    ) -> None:
        """Send through the target, by default with the settings of this handle."""
        if self._closed:
            raise IllegalStateException("The producer is closed")
        self._touch()
        if to_send is not None or not isinstance(message, Message):
            message, destination = destination_first(message, to_send, destination)
        await self._target.send(
            message,
            destination=destination,
            delivery_mode=self.delivery_mode if delivery_mode is None else delivery_mode,
            priority=self.priority if priority is None else priority,
            time_to_live=self.time_to_live if time_to_live is None else time_to_live,
            # a pool of JMS 1.1 refuses even 0
            delivery_delay=(self.delivery_delay if delivery_delay is None else delivery_delay)
            or None,
            completion_listener=completion_listener,
        )

    async def close(self) -> None:
        """Restore the hints; the target stays open."""
        if not self._closed:
            self._closed = True
            self._forget(self)
            self._target.disable_message_id, self._target.disable_message_timestamp = self._hints


def _open_target(self: CachedConsumer) -> MessageConsumer:
    return self._consumer()


class CachedConsumer(MessageConsumer):
    """A consumer that stays open; `close` removes a listener set through this handle."""

    def __init__(
        self,
        target: MessageConsumer,
        touch: Callable[[], None],
        forget: Callable[[Closeable], None],
        discard: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Receive from `target`; `discard`: how to end it if a receive was interrupted."""
        self._target = target
        self._touch = touch
        self._forget = forget
        self._discard = discard
        self._closed = False
        self._listening = False
        self._is_announcing = False
        self._receiving = False

    destination: Final = DelegatedAttribute[Destination](_open_target, read_only=True)
    stats: DelegatedAttribute[Any] = DelegatedAttribute[Any](
        _open_target, read_only=True
    )  # ActiveMQ's
    transformer: DelegatedAttribute[Any] = DelegatedAttribute[Any](_open_target, read_only=True)
    message_selector: Final = DelegatedAttribute[str | None](_open_target, read_only=True)
    message_listener: Final = DelegatedAttribute[MessageListener | None](
        _open_target, read_only=True
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
        await self._consumer().set_message_available_listener(with_handle(listener, self))
        self._is_announcing = listener is not None

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""
        consumer = self._consumer()
        self._touch()
        return await self._received(consumer.receive(timeout))

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        """Do as `receive`; a message for which `check` raises stays with the target."""
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

        A pull consumer is closed if a receive was interrupted: its message may still come.
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
