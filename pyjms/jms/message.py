"""The message without a body, and what all messages have: headers, properties, life cycle.

Plain slotted objects. A received message keeps its `_source` and decodes properties and
body when they are asked for; until cleared both are read-only, headers never are. A
message belongs to one task. It never shows its body in `repr`. (JMS 1.1 section 3)
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Generator
from typing import ClassVar, Protocol, TypeVar

from pyjms.enums import DeliveryMode
from pyjms.errors import MessageFormatException, MessageNotWriteableException
from pyjms.jms.destination import Destination
from pyjms.jms.properties import MessageProperties

__all__ = ["DEFAULT_PRIORITY", "Acknowledger", "Message", "MessageSource"]

DEFAULT_PRIORITY = 4

_T = TypeVar("_T")


class MessageSource(Protocol):
    """Where a received message comes from; it is asked for what was not decoded yet."""

    def decode_properties(self) -> dict[str, object]:
        """Return the application's properties.

        Raises:
            MessageFormatException: they are damaged.
        """
        ...

    def decode_body(self) -> object:
        """Return the body as its message class keeps it.

        Raises:
            MessageFormatException: it is damaged.
        """
        ...

    def provider_property(self, name: str) -> object:
        """Return a property that only the provider sets, such as JMSXProducerTXID."""
        ...


Acknowledger = Callable[["Message"], "Awaitable[None] | None"]
"""What a session installs: it acknowledges at once; what it returns need not be awaited."""


class _Done:
    """Can be awaited, and has happened already."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Done()


class Message:
    """A message that has headers and properties only.

    `timestamp` and `expiration` are milliseconds since 1970, 0 when not set; the sending
    overwrites them and `message_id`, `destination`, `delivery_mode`, `priority`.
    `delivery_count` is 1 for the first delivery (JMSXDeliveryCount). `original_destination`
    is ActiveMQ's: where the message was sent before it was rerouted (dead letters).
    """

    __slots__ = (
        "_body",
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

    _message_id: object  # its str() is the id
    _properties: dict[str, object] | None  # None: empty, or still with the source
    _body: object
    _pending: bool  # the body is still with the source
    _source: MessageSource | None
    acknowledger: Acknowledger | None  # set by the session that delivered the message
    provider_delivery: object  # that session's own record of the delivery

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
        """The id, beginning with "ID:"; None before the first send."""
        value = self._message_id
        if value is not None and not isinstance(value, str):
            value = self._message_id = str(value)
        return value

    @message_id.setter
    def message_id(self, value: str | None) -> None:
        self._message_id = value

    @property
    def properties(self) -> MessageProperties:
        """The properties, as a mapping with typed getters and setters."""
        return MessageProperties(self)

    @property
    def correlation_id_bytes(self) -> bytes | None:
        """The correlation id in UTF-8; setting it sets `correlation_id`.

        JMS: JMSCorrelationIDAsBytes, as ActiveMQ has it.
        """
        return None if self.correlation_id is None else self.correlation_id.encode()

    @correlation_id_bytes.setter
    def correlation_id_bytes(self, value: bytes | None) -> None:
        self.correlation_id = None if value is None else value.decode()

    def clear_properties(self) -> None:
        """Drop all properties and make them writable; headers and body stay."""
        self._properties = {}
        self.read_only_properties = False

    def clear_body(self) -> None:
        """Empty the body and make it writable; headers and properties stay."""
        self._pending = False
        self.read_only_body = False
        self._reset_body()

    def acknowledge(self) -> Awaitable[None]:
        """Acknowledge, as the session's mode has it: all it consumed so far, or this message.

        It has happened, or is on its way, when the call returns; awaiting the result is
        optional. Does nothing on messages that no session delivered, and in the modes AUTO,
        DUPS_OK and TRANSACTED.

        Raises:
            IllegalStateException: the session is closed.
        """
        if self.acknowledger is None:
            return _DONE
        return self.acknowledger(self) or _DONE

    def get_body(self, kind: builtins.type[_T]) -> _T | None:
        """Return the body as `kind`; None when there is none. (JMS 2.0)

        Raises:
            MessageFormatException: the body is no such thing.
        """
        if not self.is_body_assignable_to(kind):
            raise MessageFormatException(
                f"The body of a {type(self).__name__} is no {kind.__name__}",
                hint="is_body_assignable_to() tells",
            )
        body = self._whole_body()
        assert body is None or isinstance(body, kind)
        return body

    def is_body_assignable_to(self, kind: builtins.type) -> bool:
        """Whether `get_body(kind)` would succeed."""
        if self._whole_body() is None:
            return True
        return any(issubclass(body, kind) for body in self.BODY_TYPES)

    # --- for providers and listener containers

    def set_received(
        self,
        message_id: object,
        source: MessageSource,
        acknowledger: Acknowledger | None = None,
        delivery: object = None,
    ) -> None:
        """Make this a received message: `source` decodes properties and body on demand.

        Args:
            message_id: the id, or an object whose `str()` is the id.
            source: decodes what the application reads.
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

    def set_message_id(self, message_id: object) -> None:
        """Set the id to an object whose `str()` is the id; it is formatted when first read."""
        self._message_id = message_id

    @property
    def source(self) -> MessageSource | None:
        """What a received message decodes from; None: the message was created here."""
        return self._source

    @property
    def undecoded_body_source(self) -> MessageSource | None:
        """The source while the body is still encoded; None once it was read or replaced."""
        return self._source if self._pending else None

    @property
    def decoded_properties(self) -> dict[str, object] | None:
        """The properties if they were read or set; None: there are none, or still encoded ones."""
        return self._properties

    # --- for message classes

    def _whole_body(self) -> object:
        """Return the body as users see it, None if there is none or it is empty."""
        return None

    def _reset_body(self) -> None:
        """Make the body empty."""

    def _load(self) -> None:
        """Take the body from the source; only called while it is pending."""
        assert self._source is not None
        self._body = self._source.decode_body()
        self._pending = False

    def _check_body_writable(self) -> None:
        if self.read_only_body:
            raise MessageNotWriteableException(
                "The message body is read-only", hint="call clear_body() first"
            )

    def _property_values(self) -> dict[str, object]:
        values = self._properties
        if values is None:
            source = self._source
            values = self._properties = {} if source is None else source.decode_properties()
        return values

    def __repr__(self) -> str:
        shown = f"message_id={self.message_id!r}, destination={self.destination!s}"
        return f"{type(self).__name__}({shown})"
