"""What a JMS provider offers, as coroutines. The client implements it, factories wrap it.

Names are JMS's in snake_case. Everything here belongs to one loop. A connection is
shared freely; a session and what it made is used by one task at a time, but for close.
Time-outs are seconds: None waits for ever, 0 not at all. (JMS 2, 4.3 to 4.6)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.bodies import (
    BytesMessage,
    MapMessage,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message
from pyjms.jms.metadata import ConnectionMetaData

__all__ = [
    "Closeable",
    "Connection",
    "ConnectionFactory",
    "ExceptionListener",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "QueueBrowser",
    "Session",
]

MessageListener = Callable[[Message], Awaitable[None] | None]
"""What `set_message_listener` takes: a function or coroutine function of one message."""

ExceptionListener = Callable[[JMSException], None]
"""Hears of trouble that nobody else would see; called on the loop, must not block."""


class Closeable(ABC):
    """Something to close; `async with` does it."""

    @abstractmethod
    async def close(self) -> None:
        """Give everything back. Closing twice is fine."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class MessageProducer(Closeable):
    """Sends messages. The attributes are what `send` uses unless told otherwise."""

    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float
    """Seconds; 0 is for ever."""
    disable_message_id: bool
    disable_message_timestamp: bool

    @property
    @abstractmethod
    def destination(self) -> Destination | None:
        """Where this producer sends; None: wherever each send says."""

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

        Waits for the broker when the message is persistent and no transaction is open;
        otherwise only while the transport is congested or the producer window is full.
        """


class MessageConsumer(Closeable):
    """Receives messages: `async for m in consumer` until it is closed, or by `receive`."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether it brings nothing any more."""

    @property
    @abstractmethod
    def destination(self) -> Destination: ...

    @property
    @abstractmethod
    def message_selector(self) -> str | None: ...

    @property
    @abstractmethod
    def message_listener(self) -> MessageListener | None: ...

    @abstractmethod
    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Have `listener` called with each message, one at a time per session."""

    @abstractmethod
    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""

    async def receive_no_wait(self) -> Message | None:
        """Return a message that is there already, or None."""
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
    """Looks at the messages of a queue and leaves them there: `async for m in browser`."""

    @property
    @abstractmethod
    def queue(self) -> Queue: ...

    @property
    @abstractmethod
    def message_selector(self) -> str | None: ...

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Message]: ...


class Session(Closeable):
    """One unit of order, acknowledgement and transaction."""

    @property
    @abstractmethod
    def transacted(self) -> bool: ...

    @property
    @abstractmethod
    def acknowledge_mode(self) -> AcknowledgeMode: ...

    # handles: nothing is asked of the broker
    @abstractmethod
    def create_queue(self, name: str) -> Queue: ...
    @abstractmethod
    def create_topic(self, name: str) -> Topic: ...
    @abstractmethod
    def create_message(self) -> Message: ...
    @abstractmethod
    def create_text_message(self, text: str | None = None) -> TextMessage: ...
    @abstractmethod
    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage: ...
    @abstractmethod
    def create_map_message(self) -> MapMessage: ...
    @abstractmethod
    def create_stream_message(self) -> StreamMessage: ...
    @abstractmethod
    def create_object_message(self, data: bytes | None = None) -> ObjectMessage: ...

    @abstractmethod
    async def create_temporary_queue(self) -> TemporaryQueue: ...
    @abstractmethod
    async def create_temporary_topic(self) -> TemporaryTopic: ...
    @abstractmethod
    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None: ...
    @abstractmethod
    async def create_producer(self, destination: Destination | None = None) -> MessageProducer: ...
    @abstractmethod
    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer: ...
    @abstractmethod
    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer: ...
    @abstractmethod
    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser: ...
    @abstractmethod
    async def unsubscribe(self, name: str) -> None: ...
    @abstractmethod
    async def commit(self) -> None: ...
    @abstractmethod
    async def rollback(self) -> None: ...
    @abstractmethod
    async def recover(self) -> None: ...
    @property
    @abstractmethod
    def message_listener(self) -> MessageListener | None: ...
    @abstractmethod
    async def set_message_listener(self, listener: MessageListener | None) -> None: ...


class Connection(Closeable):
    """A client's line to the broker; stopped until `start`."""

    exception_listener: ExceptionListener | None

    @property
    @abstractmethod
    def client_id(self) -> str | None: ...
    @abstractmethod
    async def set_client_id(self, client_id: str) -> None: ...
    @property
    @abstractmethod
    def metadata(self) -> ConnectionMetaData: ...
    @abstractmethod
    async def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> Session: ...
    @abstractmethod
    async def start(self) -> None: ...
    @abstractmethod
    async def stop(self) -> None: ...


class ConnectionFactory(ABC):
    """Makes connections."""

    @abstractmethod
    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection: ...
