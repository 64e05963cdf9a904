"""Producers, consumers and browsers: what a session creates. (jms-api 4)"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message

__all__ = [
    "Closeable",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "QueueBrowser",
]

MessageListener = Callable[[Message], Awaitable[None] | None]
"""A function or coroutine function of one message. JMS: javax.jms.MessageListener."""


class Closeable(ABC):
    """A resource that is closed by `close()`, or at the end of `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Release all resources. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class MessageProducer(Closeable):
    """Sends messages. Its attributes are the defaults of `send`.

    JMS: javax.jms.MessageProducer (JMS 1.1 section 4.6).
    """

    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float
    """Seconds; 0 is for ever."""
    disable_message_id: bool
    disable_message_timestamp: bool

    @property
    @abstractmethod
    def destination(self) -> Destination | None:
        """The destination of every send; None: each `send` names its own."""

    @abstractmethod
    async def send(
        self,
        message: Message,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
    ) -> None:
        """Send `message` and set its headers.

        Waits for the broker if the message is persistent and the session is not transacted;
        otherwise only while the transport is congested or the producer window is full.
        Cancelling ends the wait; the message may have been sent.

        Args:
            message: what to send; it can be sent again.
            destination: where to; required if, and only if, the producer has none of its own.
            delivery_mode: instead of the producer's.
            priority: 0 to 9, instead of the producer's.
            time_to_live: seconds until the message expires, 0 for never, instead of the producer's.

        Raises:
            IllegalStateException: the producer is closed.
            InvalidDestinationException: the destination is missing or cannot be used.
            UnsupportedOperationException: both the producer and the call name a destination.
            MessageFormatException: the message cannot be encoded.
            JMSSecurityException: the user may not send there.
            ResourceAllocationException: the broker is out of space and configured to refuse.
            ConnectionFailedException: the connection failed before the broker's response.
        """


class MessageConsumer(Closeable):
    """Receives messages: by `receive`, by `async for`, or by a listener.

    JMS: javax.jms.MessageConsumer (JMS 1.1 section 4.5).
    """

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the consumer is closed, by whatever side."""

    @property
    @abstractmethod
    def destination(self) -> Destination:
        """The destination that the consumer receives from."""

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The selector of the consumer; None: it receives every message."""

    @property
    @abstractmethod
    def message_listener(self) -> MessageListener | None:
        """The listener that is called with each message, if any."""

    @abstractmethod
    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Have `listener` called with each message, one message at a time per session.

        None removes the listener.

        Raises:
            IllegalStateException: the consumer is closed.
        """

    @abstractmethod
    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message.

        Cancelling is safe: no message is lost.

        Args:
            timeout: seconds; None waits for ever, 0 does not wait.

        Returns:
            The message, or None if `timeout` passed or the consumer was closed meanwhile.

        Raises:
            IllegalStateException: the consumer is closed, or has a listener.
            ConnectionFailedException: the connection failed.
        """

    async def receive_no_wait(self) -> Message | None:
        """Return a message if one is available, else None. JMS: receiveNoWait."""
        return await self.receive(0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Wait for the next message; it is acknowledged as by `receive`.

        Raises:
            StopAsyncIteration: the consumer is closed, here or by another task.
            JMSException: as `receive`, for instance when the connection has failed.

        """
        try:
            message = await self.receive()
        except IllegalStateException:
            if not self.is_closed:
                raise
            message = None
        if message is None:
            raise StopAsyncIteration
        return message


class QueueBrowser(Closeable):
    """Reads the messages of a queue without consuming them: `async for m in browser`.

    JMS: javax.jms.QueueBrowser (JMS 1.1 section 5.9).
    """

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The queue that is browsed."""

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The selector; None: all messages are listed."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Message]:
        """Browse the queue from its start."""
