"""The producer of JMS 2.0: chained settings, and a send that accepts bodies. (jms-api 11)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol, Self

from pyjms._forwarding import Computed
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException, MessageFormatException
from pyjms.jms.api.completion import CompletionListener
from pyjms.jms.api.endpoints import MessageProducer
from pyjms.jms.api.session import Session
from pyjms.jms.bodies import BytesMessage, MapMessage, TextMessage
from pyjms.jms.destination import Destination
from pyjms.jms.message import DEFAULT_PRIORITY, Message
from pyjms.jms.properties import MessageProperties

__all__ = ["BodyConverter", "JMSProducer"]


class BodyConverter(Protocol):
    """Converts objects for which JMS has no message type; a message converter is one."""

    def to_message(self, payload: object, session: Session) -> Message:
        """Return a message of `session` for `payload`."""

    def from_message(self, message: Message, target: Any = None) -> Any:
        """Return the body of `message` as `target`."""


class JMSProducer:
    """Sends messages with the settings made here. JMS 2.0: javax.jms.JMSProducer.

    Every setter returns the producer, so that calls can be chained:

        await context.create_producer().set_priority(7).set_property("n", 1).send(queue, "text")

    Settings apply to every message that is sent, and properties and headers override those of the
    message. It need not be closed, and belongs to the task of its context. JMS's getters are
    attributes without `get`; headers have the same names as on messages.
    """

    def __init__(
        self,
        session: Callable[[], Awaitable[Session]],
        producer: Callable[[], Awaitable[MessageProducer]],
        converter: BodyConverter | None = None,
    ) -> None:
        """Send through the result of `producer`; `converter` converts bodies unknown to JMS."""
        self._session = session
        self._producer = producer
        self._converter = converter
        self._given = Message()  # the headers and properties that were set
        self.delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT
        self.priority: int = DEFAULT_PRIORITY
        self.time_to_live: float = 0.0
        """Seconds; 0: messages never expire."""
        self.delivery_delay: float = 0.0
        """Seconds before the broker's scheduler delivers; 0: at once."""
        self.disable_message_id: bool = False
        self.disable_message_timestamp: bool = False
        self.async_: CompletionListener | None = None
        """Called with the outcome of each send, which then does not wait. JMS: getAsync."""

    # --- quality of service

    def set_delivery_mode(self, mode: DeliveryMode | int) -> Self:
        """Send PERSISTENT (2) or NON_PERSISTENT (1) messages.

        Raises:
            IllegalStateException: the mode is neither of them.
        """
        if mode not in tuple(DeliveryMode):
            raise IllegalStateException(f"Unknown delivery mode: {mode!r}")
        self.delivery_mode = DeliveryMode(mode)
        return self

    def set_priority(self, priority: int) -> Self:
        """Send with this priority, 0 to 9.

        Raises:
            IllegalStateException: it is out of range.
        """
        if not 0 <= priority <= 9:
            raise IllegalStateException(f"A priority is a value between 0 and 9: {priority}")
        self.priority = priority
        return self

    def set_time_to_live(self, seconds: float) -> Self:
        """Set the time after which messages expire, in seconds; 0: never.

        Raises:
            IllegalStateException: it is negative.
        """
        self.time_to_live = _not_negative("timeToLive", seconds)
        return self

    def set_delivery_delay(self, seconds: float) -> Self:
        """Set the seconds before the broker delivers; see `MessageProducer.delivery_delay`.

        Raises:
            IllegalStateException: it is negative.
        """
        self.delivery_delay = _not_negative("deliveryDelay", seconds)
        return self

    def set_disable_message_id(self, disabled: bool) -> Self:
        """Hint that message ids are not needed."""
        self.disable_message_id = disabled
        return self

    def set_disable_message_timestamp(self, disabled: bool) -> Self:
        """Send without a timestamp."""
        self.disable_message_timestamp = disabled
        return self

    def set_async(self, listener: CompletionListener | None) -> Self:
        """Send asynchronously, with `listener` called for each outcome; None: synchronously."""
        self.async_ = listener
        return self

    # --- properties and headers

    @property
    def properties(self) -> MessageProperties:
        """The properties that are set on every message, with typed getters and setters."""
        return self._given.properties

    def set_property(self, name: str, value: object) -> Self:
        """Set a property on every message, replacing the message's own.

        Raises:
            MessageFormatException: JMS has no type for the value.
            ValueError: the name is None or empty.
        """
        self._given.properties[name] = value
        return self

    def property_exists(self, name: str) -> bool:
        """Return whether a property of this name is set here."""
        return name in self._given.property_values()

    def clear_properties(self) -> Self:
        """Remove the properties that were set; headers are kept."""
        self._given.clear_properties()
        self._given.group_id, self._given.group_sequence = None, 0
        return self

    correlation_id: Final = Computed[str | None](
        attrgetter("_given.correlation_id"),
        "The correlation id of every message; None: the message's own.",
    )
    reply_to: Final = Computed[Destination | None](
        attrgetter("_given.reply_to"),
        "The destination for replies to every message; None: the message's own.",
    )
    type: Final = Computed[str | None](
        attrgetter("_given.type"), "The type of every message; None: the message's own."
    )

    def set_correlation_id(self, correlation_id: str | None) -> Self:
        """Set the correlation id of every message; None: keep the message's own."""
        self._given.correlation_id = correlation_id
        return self

    def set_reply_to(self, destination: Destination | None) -> Self:
        """Set the destination for replies; None: keep the message's own."""
        self._given.reply_to = destination
        return self

    def set_type(self, name: str | None) -> Self:
        """Set the type of every message; None: keep the message's own."""
        self._given.type = name
        return self

    # --- sending

    async def send(self, destination: Destination, body: object) -> Self:
        """Send a message, or a message with this body; waits like `MessageProducer.send`.

        Args:
            destination: the destination.
            body: a message; or a str (text message), bytes (bytes message), mapping (map message)
                or None (message without a body); anything else needs the `message_converter` of
                the context.

        Raises:
            MessageFormatException: there is no type of message for the body.
            MessageNotWriteableException: properties are set here, but the message was received.
            JMSException: as for `MessageProducer.send`.
        """
        message = body if isinstance(body, Message) else await self._message_of(body)
        producer = await self._producer()
        self._prepare(message)
        if producer.disable_message_id != self.disable_message_id:
            producer.disable_message_id = self.disable_message_id
        if producer.disable_message_timestamp != self.disable_message_timestamp:
            producer.disable_message_timestamp = self.disable_message_timestamp
        await producer.send(
            destination,
            message,
            delivery_mode=self.delivery_mode,
            priority=self.priority,
            time_to_live=self.time_to_live,
            delivery_delay=self.delivery_delay or None,  # a JMS 1.1 pool does not support it
            completion_listener=self.async_,
        )
        return self

    def _prepare(self, message: Message) -> None:
        given = self._given
        for name in given.properties:
            message.properties[name] = given.properties[name]
        if given.correlation_id is not None:
            message.correlation_id = given.correlation_id
        if given.reply_to is not None:
            message.reply_to = given.reply_to
        if given.type is not None:
            message.type = given.type

    async def _message_of(self, body: object) -> Message:
        if body is None:
            return Message()
        if isinstance(body, str):
            return TextMessage(body)
        if isinstance(body, bytes | bytearray | memoryview):
            return BytesMessage(bytes(body))
        if isinstance(body, Mapping):
            return MapMessage(body)
        if self._converter is None:
            raise MessageFormatException(
                f"JMS has no kind of message for a {type(body).__name__}",
                hint="create_context(message_converter=DefaultMessageConverter()) sends it as JSON",
            )
        return self._converter.to_message(body, await self._session())


def _not_negative(name: str, seconds: float) -> float:
    if not seconds >= 0:
        raise IllegalStateException(f"cannot set a negative {name}: {seconds}")
    return seconds
