"""The producers, consumers and browsers of sessions. (jms-api 4)"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, Self, TypedDict, Unpack, overload

from pyjms.enums import DeliveryMode
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message


class CompletionListener(Protocol):
    """Called with the outcome of an asynchronous send. JMS 2.0: javax.jms.CompletionListener.

    One of the two methods, functions or coroutine functions, is called once for each send: in the
    order of the sends, one at a time in a session, and never while a listener of that session runs.
    With `pyjms.aio` they are called on the loop and must not block; with `pyjms` in a thread.
    Exceptions that they raise are logged.
    """

    def on_completion(self, message: Message, /) -> Awaitable[None] | None:
        """Handle a message that the broker has accepted, when a synchronous send would return."""

    def on_exception(self, message: Message, error: JMSException, /) -> Awaitable[None] | None:
        """Handle a failed send, when a synchronous send would raise `error`."""


class AsyncCallback(Protocol):
    """Called with the outcome of an asynchronous send. ActiveMQ: AsyncCallback.

    The rules are those of `CompletionListener`.
    """

    def on_success(self) -> Awaitable[None] | None:
        """Handle a message that the broker has accepted."""

    def on_exception(self, error: JMSException, /) -> Awaitable[None] | None:
        """Handle a failed send."""


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


class SendSettings(TypedDict, total=False):
    """The settings of one `send`; None or absent: the producer's attribute of that name."""

    delivery_mode: DeliveryMode | None
    priority: int | None
    """0 to 9."""
    time_to_live: float | None
    """Seconds until the message expires, 0 for never."""
    delivery_delay: float | None
    """Seconds before the message is delivered."""
    completion_listener: CompletionListener | None
    """Called with the outcome, for which `send` then does not wait; None: it waits."""


class MessageProducer(Closeable):
    """Sends messages. Its attributes are the defaults of `send`.

    JMS: javax.jms.MessageProducer (JMS 1.1 section 4.6).
    """

    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float
    """Seconds; 0: messages never expire."""
    delivery_delay: float
    """Seconds before the broker delivers a message; 0: at once. JMS 2.0: deliveryDelay.

    It requires the broker's scheduler (`scheduler_support`, ActiveMQ: `schedulerSupport`). A broker
    without a scheduler delivers at once, and clients cannot detect this; the bundled broker logs a
    warning.
    """
    disable_message_id: bool
    disable_message_timestamp: bool

    @property
    @abstractmethod
    def destination(self) -> Destination | None:
        """The destination of all sends; None: each `send` specifies it."""

    @overload
    @abstractmethod
    async def send(
        self,
        message: Message,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
        completion_listener: CompletionListener | None = None,
        callback: AsyncCallback | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    async def send(
        self,
        destination: Destination,
        message: Message,
        callback: AsyncCallback | None = None,
        /,
        **options: Unpack[SendSettings],
    ) -> None: ...

    @abstractmethod
    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        callback: AsyncCallback | None = None,
        *,
        destination: Destination | None = None,
        **options: Unpack[SendSettings],
    ) -> None:
        """Send a message and set its headers: `send(message)`, or `send(destination, message)`.

        Waits for the broker if the message is persistent and the session is not transacted;
        otherwise only while the transport is congested or the producer window is full.
        Cancelling ends the wait; the message may have been sent.

        Args:
            message: the message, which can be sent again later; or the destination, followed by the
                message.
            to_send: the message, after a destination.
            destination: required if, and only if, the producer has none.
            options: instead of the producer's attributes of the same names: `delivery_mode`;
                `priority`, 0 to 9; `time_to_live`, seconds until the message expires, 0 for never;
                `delivery_delay`, seconds before the message is delivered. `completion_listener` is
                called with the outcome, for which `send` then does not wait. Until then, the
                message cannot be changed or sent asynchronously again. JMS 2.0: `send(message,
                completionListener)`.
            callback: instead of a listener, ActiveMQ's `send(destination, message, callback)`.

        Raises:
            IllegalStateException: the producer is closed.
            InvalidDestinationException: the destination is missing or cannot be used.
            UnsupportedOperationException: neither the producer nor the call has a destination, or
                they have different ones.
            MessageFormatException: the message cannot be encoded.
            JMSSecurityException: the user may not send there.
            ResourceAllocationException: the broker is out of space and configured to reject
                messages.
            ConnectionFailedException: the connection failed before the broker's response.
        """


class _Selective(Closeable):
    """Reads the messages of a destination that match a selector."""

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The condition of the messages that are read; None: all messages."""


class MessageConsumer(_Selective):
    """Receives messages: by `receive`, by `async for`, or by a listener.

    JMS: javax.jms.MessageConsumer (JMS 1.1 section 4.5).
    """

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the consumer is closed, by the client or by the broker."""

    @property
    @abstractmethod
    def destination(self) -> Destination:
        """The destination from which the consumer receives."""

    @property
    @abstractmethod
    def message_listener(self) -> MessageListener | None:
        """The listener that is called with each message; None: there is none."""

    @abstractmethod
    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener, which is called with each message, one call at a time per session.

        None removes the listener.

        Raises:
            IllegalStateException: the consumer is closed.
        """

    async def set_message_available_listener(
        self, listener: MessageAvailableListener | None
    ) -> None:
        """Set a function that is called with this consumer when a message can be received at once.

        It is called once for each message that arrives, unless the message was already received;
        one call at a time per session, and never concurrently with a listener of the session. It
        may call `receive(0)`, which may still return None, for example if the message has expired.
        Its exceptions are logged. None removes it. ActiveMQ: MessageAvailableConsumer.

        Raises:
            IllegalStateException: the consumer is closed, or its session has a message listener.
            JMSException: the consumer has no prefetch, so messages arrive only on request.
            UnsupportedOperationException: the provider has no such listeners.
        """
        raise UnsupportedOperationException(
            f"{type(self).__name__} does not announce messages",
            hint="use set_message_listener(), or receive(0) from time to time",
        )

    @abstractmethod
    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message.

        Cancelling is safe: no message is lost.

        Args:
            timeout: seconds; None: no limit; 0: do not wait.

        Returns:
            The message; None: `timeout` has passed, or the consumer was closed meanwhile.

        Raises:
            IllegalStateException: the consumer is closed, or has a listener.
            ConnectionFailedException: the connection failed.
        """

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        """Like `receive`, but a message for which `check` raises is not consumed.

        It is neither acknowledged nor redelivered: the next receive returns it. A provider that
        acknowledges before it returns a message cannot do this; in that case, and by default, the
        message counts as received.

        Raises:
            Exception: raised by `check`.
            JMSException: as for `receive`.
        """
        message = await self.receive(timeout)
        if message is not None:
            check(message)
        return message

    async def receive_no_wait(self) -> Message | None:
        """Return a message if one is available, else None. JMS: receiveNoWait."""
        return await self.receive(0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Wait for the next message; it is acknowledged as by `receive`.

        Raises:
            StopAsyncIteration: the consumer is closed, here or by another task.
            JMSException: as for `receive`, for example when the connection has failed.

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


MessageAvailableListener = Callable[[MessageConsumer], Awaitable[None] | None]
"""A function or coroutine function, called with a consumer that has a message to receive.

ActiveMQ: org.apache.activemq.MessageAvailableListener.
"""


def with_handle(
    listener: MessageAvailableListener | None, handle: MessageConsumer
) -> MessageAvailableListener | None:
    """Return a wrapper that calls `listener` with `handle` instead of the wrapped consumer."""
    return None if listener is None else lambda _: listener(handle)


class QueueBrowser(_Selective):
    """Reads the messages of a queue without consuming them: `async for m in browser`.

    JMS: javax.jms.QueueBrowser (JMS 1.1 section 5.9).
    """

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The browsed queue."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Message]:
        """Browse the queue from its start."""


def destination_first(
    first: Message | Destination | None, message: object, destination: Destination | None
) -> tuple[Message, Destination | None]:
    """Return the message and destination of a send, also of `send(destination, message)`.

    `first` and `message` are the positional arguments, `destination` is the keyword argument.

    Raises:
        InvalidDestinationException: the destination before a message is None.
        TypeError: there is no message, or there are two destinations.
    """
    if message is None:
        if isinstance(first, Message):
            return first, destination
        raise _not_a_message(first)
    if isinstance(first, Message):
        raise TypeError("The destination comes first: send(destination, message)")
    if not isinstance(message, Message):
        raise _not_a_message(message)
    if destination is not None:
        raise TypeError("Two destinations: write send(destination, message) or destination=")
    if first is None:
        raise InvalidDestinationException(
            "Don't understand null destinations", hint="send(Queue(name), message)"
        )
    return message, first


def _not_a_message(value: object) -> TypeError:
    return TypeError(
        f"A producer sends messages, not a {type(value).__name__}: make one with "
        "session.create_text_message(text); a template's convert_and_send takes a payload"
    )
