"""The base of all messages: headers, properties and life cycle. (jms-api 3 to 6)

Messages are plain objects with slots. A received message keeps its source and decodes properties
and body when they are first read, as most consumers read few of them. Both are read-only until they
are cleared; headers are always writable.

    state       properties and body            changed by
    new         writable                       send(): unchanged, the same object can be sent again
    received    read-only, maybe undecoded     clear_properties(), clear_body(): writable, empty

A message is not thread-safe and belongs to one task. `repr` never shows the body.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Generator
from typing import ClassVar, Final, Protocol, TypeVar

from pyjms.enums import DeliveryMode
from pyjms.errors import MessageFormatException, MessageNotWriteableException
from pyjms.jms.destination import Destination
from pyjms.jms.properties import MessageProperties

DEFAULT_PRIORITY = 4

JMS_DELIVERY_TIME: Final = "JMSDeliveryTime"

_T = TypeVar("_T")


class MessageSource(Protocol):
    """The source from which a received message decodes its properties and body."""

    def decode_properties(self) -> dict[str, object]:
        """Return the application's properties.

        Raises:
            MessageFormatException: they are damaged.
        """
        ...

    def decode_body(self) -> object:
        """Return the body in the form in which its message class stores it.

        Raises:
            MessageFormatException: it is damaged.
        """
        ...

    def provider_property(self, name: str) -> object:
        """Return a property that only the provider sets, such as JMSXProducerTXID."""
        ...


Acknowledger = Callable[["Message"], "Awaitable[None] | None"]
"""The function that a session sets: it acknowledges at once; its result need not be awaited."""


class _Done:
    """An awaitable that is complete."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Done()


class Message:
    """A message with only headers and properties.

    Sending overwrites `message_id`, `destination`, `delivery_mode`, `priority`, `timestamp`,
    `expiration` and `delivery_time`. `timestamp` and `expiration` are milliseconds since
    1970, 0 if not set. `delivery_count` is 1 for the first delivery (JMSXDeliveryCount).
    `original_destination` is ActiveMQ's: the first destination of a rerouted message, such as a
    dead letter.

    JMS: javax.jms.Message (JMS 1.1 section 3).
    """

    __slots__ = (
        "_body",
        "_delivery_time",
        "_message_id",
        "_pending",
        "_properties",
        "_source",
        "acknowledger",
        "correlation_id",
        "delivery_count",
        "delivery_mode",
        "destination",
        "expiration",
        "group_id",
        "group_sequence",
        "original_destination",
        "priority",
        "provider_delivery",
        "read_only_body",
        "read_only_properties",
        "redelivered",
        "reply_to",
        "timestamp",
        "type",
        "user_id",
    )

    MIME_TYPE: ClassVar[str] = "jms/message"
    BODY_TYPES: ClassVar[tuple[builtins.type, ...]] = ()

    timestamp: int
    correlation_id: str | None
    reply_to: Destination | None
    destination: Destination | None
    original_destination: Destination | None
    delivery_mode: DeliveryMode
    redelivered: bool
    delivery_count: int
    type: str | None
    expiration: int
    priority: int
    group_id: str | None
    group_sequence: int
    user_id: str | None
    read_only_body: bool
    read_only_properties: bool

    _delivery_time: int  # not set before the first send, nor in a received message
    _message_id: object  # its str() is the id
    _properties: dict[str, object] | None  # None: empty, or not decoded yet
    _body: object
    _pending: bool  # the body is not decoded yet
    _source: MessageSource | None
    acknowledger: Acknowledger | None  # set by the session that delivered the message
    provider_delivery: object  # the session's record of the delivery

    def __init__(self) -> None:
        self._message_id = None
        self.timestamp = 0
        self.correlation_id = None
        self.reply_to = None
        self.destination = None
        self.original_destination = None
        self.delivery_mode = DeliveryMode.PERSISTENT
        self.redelivered = False
        self.delivery_count = 1
        self.type = None
        self.expiration = 0
        self.priority = DEFAULT_PRIORITY
        self.group_id = None
        self.group_sequence = 0
        self.user_id = None
        self.read_only_body = False
        self.read_only_properties = False
        self._properties = None
        self._body = None
        self._pending = False
        self._source = None
        self.acknowledger = None
        self.provider_delivery = None

    @property
    def message_id(self) -> str | None:
        """The id, beginning with "ID:"; None before the first send. JMS: JMSMessageID."""
        value = self._message_id
        if value is not None and not isinstance(value, str):
            value = self._message_id = str(value)
        return value

    @message_id.setter
    def message_id(self, value: str | None) -> None:
        self._message_id = value

    @property
    def delivery_time(self) -> int:
        """The time of the send plus its delivery delay, in milliseconds since 1970.

        The broker delivers the message then, or later. Without a delay it is `timestamp`.
        JMS 2.0: JMSDeliveryTime.

        Raises:
            MessageFormatException: the received properties, which contain it, are damaged.
        """
        try:
            return self._delivery_time
        except AttributeError:  # received, or never sent
            source = self._source
        value = None if source is None else source.provider_property(JMS_DELIVERY_TIME)
        # a received message that is sent on still has the delivery time of the earlier send
        return max(value, self.timestamp) if isinstance(value, int) else self.timestamp

    @delivery_time.setter
    def delivery_time(self, value: int) -> None:
        self._delivery_time = value

    @property
    def properties(self) -> MessageProperties:
        """The properties, as a mapping with typed getters and setters."""
        return MessageProperties(self)

    @property
    def correlation_id_bytes(self) -> bytes | None:
        """The correlation id in UTF-8; setting it sets `correlation_id`.

        JMS: JMSCorrelationIDAsBytes, with ActiveMQ's encoding.
        """
        return None if self.correlation_id is None else self.correlation_id.encode()

    @correlation_id_bytes.setter
    def correlation_id_bytes(self, value: bytes | None) -> None:
        self.correlation_id = None if value is None else value.decode()

    def clear_properties(self) -> None:
        """Remove all properties and make them writable; headers and body are kept.

        JMS: clearProperties.
        """
        self._properties = {}
        self.read_only_properties = False

    def clear_body(self) -> None:
        """Empty the body and make it writable; headers and properties are kept.

        JMS: clearBody.
        """
        self._pending = False
        self.read_only_body = False
        self._reset_body()

    def acknowledge(self) -> Awaitable[None]:
        """Acknowledge all messages consumed by the session so far (CLIENT), or this one
        (INDIVIDUAL).

        Does not block: the acknowledgement is sent, or queued for sending, when the call
        returns, and awaiting the result is optional. Does nothing for a message that no session
        delivered, and in the modes AUTO, DUPS_OK and TRANSACTED.

        JMS: Message.acknowledge (JMS 1.1 section 3.6, 4.4.11).

        Raises:
            IllegalStateException: the session is closed.
        """
        if self.acknowledger is None:
            return _DONE
        return self.acknowledger(self) or _DONE

    def get_body(self, kind: builtins.type[_T]) -> _T | None:
        """Return the body as `kind`; None if there is none. JMS 2.0: Message.getBody.

        Raises:
            MessageFormatException: the body is not of that type.
        """
        if not self.is_body_assignable_to(kind):
            raise MessageFormatException(
                f"The body of a {type(self).__name__} is not a {kind.__name__}",
                hint="check is_body_assignable_to() first",
            )
        body = self._whole_body()
        assert body is None or isinstance(body, kind)
        return body

    def is_body_assignable_to(self, kind: builtins.type) -> bool:
        """Return whether `get_body(kind)` would succeed. JMS 2.0: isBodyAssignableTo."""
        if self._whole_body() is None:
            return True
        return any(issubclass(body, kind) for body in self.BODY_TYPES)

    # For providers and listener containers.

    def set_received(
        self,
        message_id: object,
        source: MessageSource,
        acknowledger: Acknowledger | None = None,
        delivery: object = None,
    ) -> None:
        """Make this a received message, whose properties and body `source` decodes on demand.

        Args:
            message_id: the id, or an object whose `str()` is the id.
            source: decodes properties and body on demand.
            acknowledger: implements `acknowledge()`; None: it does nothing.
            delivery: the session's record of this delivery.
        """
        self._message_id = message_id
        self._properties = None
        self._body = None
        self._pending = True
        self._source = source
        self.acknowledger = acknowledger
        self.provider_delivery = delivery

    def prepare_send(
        self, message_id: object
    ) -> tuple[MessageSource | None, bool, dict[str, object] | None]:
        """Set the id; return the source, whether the body is still encoded, and the properties.

        This is one call, because it is made for every message. The properties are those that were
        read or set; None: none were.
        """
        self._message_id = message_id
        return self._source, self._pending, self._properties

    @property
    def source(self) -> MessageSource | None:
        """The source of a received message; None: the message was created here."""
        return self._source

    # For message classes.

    def _whole_body(self) -> object:
        """Return the body in its public form, None if there is none or it is empty."""
        return None

    def _reset_body(self) -> None:
        """Make the body empty."""

    def _load(self) -> None:
        """Decode the body; only called while it is pending."""
        assert self._source is not None
        self._body = self._source.decode_body()
        self._pending = False

    def _check_body_writable(self) -> None:
        if self.read_only_body:
            raise MessageNotWriteableException(
                "The message body is read-only", hint="call clear_body() first"
            )

    def property_values(self) -> dict[str, object]:
        """Return the application's decoded properties; changes to the dict take effect."""
        values = self._properties
        if values is None:
            source = self._source
            values = self._properties = {} if source is None else source.decode_properties()
        return values

    def __repr__(self) -> str:
        headers = f"message_id={self.message_id!r}, destination={self.destination!s}"
        return f"{type(self).__name__}({headers})"
