"""A handle: one use of a producer that is reused. The base of cached and pooled producers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from pyjms._forwarding import DelegatedAttribute
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import AsyncCallback, Closeable, CompletionListener, MessageProducer
from pyjms.jms.api.endpoints import destination_first
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message

__all__ = ["Forget", "ProducerHandle"]


Forget = Callable[[Closeable], None]
"""Called with a handle that is closed."""


class ProducerHandle(MessageProducer):
    """Sends through `target` with the handle's quality of service; `close` calls `forget`."""

    def __init__(self, target: MessageProducer, forget: Forget) -> None:
        self.target = target
        self._forget = forget
        self._closed = False
        self.delivery_mode: DeliveryMode = target.delivery_mode
        self.priority: int = target.priority
        self.time_to_live: float = target.time_to_live

    # extensions of ActiveMQ, if the target has them
    stats: DelegatedAttribute[Any] = DelegatedAttribute(attrgetter("target"), read_only=True)
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(attrgetter("target"), read_only=True)
    send_timeout: DelegatedAttribute[float | None] = DelegatedAttribute(
        attrgetter("target"), read_only=True
    )

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        callback: AsyncCallback | None = None,
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
        if to_send is not None or not isinstance(message, Message):
            message, destination = destination_first(message, to_send, destination)
        only_of_activemq: dict[str, Any] = {} if callback is None else {"callback": callback}
        await self.target.send(
            message,
            destination=self._admit(destination, delivery_delay, completion_listener),
            delivery_mode=self.delivery_mode if delivery_mode is None else delivery_mode,
            priority=self.priority if priority is None else priority,
            time_to_live=self.time_to_live if time_to_live is None else time_to_live,
            # a JMS 1.1 pool refuses even 0
            delivery_delay=(self.delivery_delay if delivery_delay is None else delivery_delay)
            or None,
            completion_listener=completion_listener,
            **only_of_activemq,
        )

    @abstractmethod
    def _admit(
        self,
        destination: Destination | None,
        delivery_delay: float | None,
        completion_listener: CompletionListener | None,
        /,
    ) -> Destination | None:
        """Check a send; return the destination to pass to the target.

        Raises:
            IllegalStateException: the handle, or its session, is closed.
            UnsupportedOperationException: this handle does not support the arguments.
        """

    async def close(self) -> None:
        """Close the handle, not the target. Idempotent."""
        if not self._closed:
            self._closed = True
            self._forget(self)
            await self._release()

    @abstractmethod
    async def _release(self) -> None:
        """Restore the target's settings."""
