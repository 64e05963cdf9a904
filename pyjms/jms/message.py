"""Messages: headers, properties, bodies, and their life cycle. (jms-api 3 to 7)

Messages are plain objects with slots. A received message keeps its source and decodes properties
and body when they are first read, as most consumers read few of them. Both are read-only until they
are cleared; headers are always writable.

    state       properties and body            changed by
    new         writable                       send(): unchanged, the same object can be sent again
    received    read-only, maybe undecoded     clear_properties(), clear_body(): writable, empty

A message is not thread-safe and belongs to one task. `repr` never shows the body.

The properties are a mapping with JMS's typed getters and setters. The mapping is a view. Names such
as JMSXGroupID and JMSPriority refer to headers, for reading and, if JMS has a setter, for writing.
Iteration yields the names that JMS lists: the application's properties and the JMSX names that are
set. As in ActiveMQ, any name except None and "" is accepted. (jms-api 6; openwire-encoding 18)

Bodies are bytes, a stream of values, a text, a map of values, or a Java object. A body is writable
until the message is received; then it is read-only until `clear_body()`. The bodies of bytes and
stream messages are written in sequence and read from the start after `reset()`.

A bytes message records no types: what was written as an int may be read as four bytes. Numbers are
big-endian. A stream message does: each value is read as the type it was written as, or converted as
the table in `conversions` allows; a read that fails leaves the position unchanged.
(jms-api 7; java.io.DataOutput)
"""

from __future__ import annotations

import builtins
import struct
from abc import abstractmethod
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from contextlib import suppress
from typing import ClassVar, Final, Protocol, TypeVar, cast

from pyjms.enums import DeliveryMode
from pyjms.errors import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from pyjms.jms.conversions import (
    BODY_READS,
    MAP_NULLS,
    NULLS,
    PROPERTY_READS,
    convert,
    fit,
    fit_bytes,
    normalize,
    normalize_named,
    type_of,
)
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.mutf8 import decode_mutf8, encode_mutf8
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
    JMS_DELIVERY_TIME,
)


class TypedSetters:
    """Sets values by name with a given JMS type, in terms of `self[name] = value`."""

    __slots__ = ()

    @abstractmethod
    def __setitem__(self, name: str, value: object) -> None: ...

    def set_object(self, name: str, value: object) -> None:
        """Set a value of any type, as `self[name] = value` does."""
        self[name] = value

    def set_boolean(self, name: str, value: bool) -> None:
        """Set a boolean; all typed setters raise what `self[name] = value` raises."""
        self[name] = fit(value, "boolean")

    def set_byte(self, name: str, value: int) -> None:
        """Set an 8-bit integer."""
        self[name] = fit(value, "byte")

    def set_short(self, name: str, value: int) -> None:
        """Set a 16-bit integer."""
        self[name] = fit(value, "short")

    def set_int(self, name: str, value: int) -> None:
        """Set a 32-bit integer."""
        self[name] = fit(value, "int")

    def set_long(self, name: str, value: int) -> None:
        """Set a 64-bit integer."""
        self[name] = fit(value, "long")

    def set_float(self, name: str, value: float) -> None:
        """Set a 32-bit float; the value is rounded to it."""
        self[name] = fit(value, "float")

    def set_double(self, name: str, value: float) -> None:
        """Set a double."""
        self[name] = fit(value, "double")

    def set_string(self, name: str, value: str | None) -> None:
        """Set a string, or None."""
        self[name] = fit(value, "String")


class TypedGetters:
    """Gets values by name as a given JMS type.

    All raise MessageFormatException if JMS does not convert the value to the type, and ValueError
    if a text cannot be converted. The result for a missing value depends on the class.
    """

    __slots__ = ()

    @abstractmethod
    def _convert(self, name: str, target: str) -> object: ...

    def get_boolean(self, name: str) -> bool:
        """Return the value as a bool; False if it is missing."""
        return cast("bool", self._convert(name, "boolean"))

    def get_byte(self, name: str) -> int:
        """Return the value as an 8-bit integer."""
        return cast("int", self._convert(name, "byte"))

    def get_short(self, name: str) -> int:
        """Return the value as a 16-bit integer."""
        return cast("int", self._convert(name, "short"))

    def get_int(self, name: str) -> int:
        """Return the value as a 32-bit integer."""
        return cast("int", self._convert(name, "int"))

    def get_long(self, name: str) -> int:
        """Return the value as a 64-bit integer."""
        return cast("int", self._convert(name, "long"))

    def get_float(self, name: str) -> float:
        """Return the value as a 32-bit float."""
        return cast("float", self._convert(name, "float"))

    def get_double(self, name: str) -> float:
        """Return the value as a float."""
        return cast("float", self._convert(name, "double"))

    def get_string(self, name: str) -> str | None:
        """Return the value as text, with numbers in Java's format; None if it is missing."""
        return cast("str | None", self._convert(name, "String"))


class TypedReads:
    """Reads the next value of a body as a given JMS type.

    All raise MessageNotReadableException while the message is write-only and MessageEOFException
    at the end of the body. After an error the position is unchanged.
    """

    __slots__ = ()

    @abstractmethod
    def _read(self, target: str) -> object: ...

    @abstractmethod
    def read_bytes(self, length: int | None = None) -> bytes | None:
        """Read up to `length` bytes; None at the end."""

    def read_boolean(self) -> bool:
        """Read the next value as a boolean; of bytes, True if the byte is not zero."""
        return cast("bool", self._read("boolean"))

    def read_byte(self) -> int:
        """Read the next value as an 8-bit integer."""
        return cast("int", self._read("byte"))

    def read_short(self) -> int:
        """Read the next value as a 16-bit integer."""
        return cast("int", self._read("short"))

    def read_int(self) -> int:
        """Read the next value as a 32-bit integer."""
        return cast("int", self._read("int"))

    def read_long(self) -> int:
        """Read the next value as a 64-bit integer."""
        return cast("int", self._read("long"))

    def read_float(self) -> float:
        """Read the next value as a 32-bit float."""
        return cast("float", self._read("float"))

    def read_double(self) -> float:
        """Read the next value as a float."""
        return cast("float", self._read("double"))

    def read_bytes_into(self, buffer: bytearray | memoryview) -> int:
        """Read bytes into `buffer`; return the number of bytes, -1 at the end."""
        data = self.read_bytes(len(buffer))
        if data is None:
            return -1
        buffer[: len(data)] = data
        return len(data)


class TypedWrites:
    """Writes values of a given JMS type to the end of a body.

    All raise MessageNotWriteableException while the message is read-only and MessageFormatException
    if the value is not of the type.
    """

    __slots__ = ()

    @abstractmethod
    def _write(self, kind: str, value: object) -> None: ...

    def write_boolean(self, value: bool) -> None:
        """Write a boolean."""
        self._write("boolean", value)

    def write_byte(self, value: int) -> None:
        """Write a signed 8-bit integer."""
        self._write("byte", value)

    def write_short(self, value: int) -> None:
        """Write a signed 16-bit integer."""
        self._write("short", value)

    def write_int(self, value: int) -> None:
        """Write a signed 32-bit integer."""
        self._write("int", value)

    def write_long(self, value: int) -> None:
        """Write a signed 64-bit integer."""
        self._write("long", value)

    def write_float(self, value: float) -> None:
        """Write a 32-bit float; the value is rounded to it."""
        self._write("float", value)

    def write_double(self, value: float) -> None:
        """Write a double."""
        self._write("double", value)


class MessageProperties(TypedGetters, TypedSetters, MutableMapping[str, object]):
    """The properties of one message.

    `properties[name]` raises KeyError if a property is missing. The typed getters follow JMS: for
    a missing number, those of integers raise ValueError, the others TypeError. Received properties
    are read-only until `message.clear_properties()`.
    """

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    def __getitem__(self, name: str) -> object:
        value = self.get_object(name)
        if value is None and name not in self._message.property_values():
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: object) -> None:
        """Set a property to a bool, int, float, str, None, one of `pyjms.jms.types`, list or dict.

        Raises:
            MessageFormatException: JMS has no type for the value, or the name is not a str.
            MessageNotWriteableException: the properties are read-only.
            ValueError: the name is None or empty.
        """
        if not name:
            raise ValueError("A property name cannot be None or empty")
        self._check_writable()
        value = normalize_named("a property", name, value, binary=False)
        header = _HEADER_SETTERS.get(name)
        if header is None:
            self._message.property_values()[name] = value
        else:
            header(self._message, name, value)

    def __delitem__(self, name: str) -> None:
        self._check_writable()
        del self._message.property_values()[name]

    def __iter__(self) -> Iterator[str]:
        values = self._message.property_values()
        yield from values
        for name, is_set in _LISTED.items():
            if name not in values and is_set(self._message):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Return whether the property exists, even with the value None. JMS: propertyExists."""
        if name in self._message.property_values():
            return True
        return isinstance(name, str) and self.get_object(name) is not None

    def __repr__(self) -> str:
        return f"MessageProperties({sorted(self)})"

    def __str__(self) -> str:
        """Return the values, for `print`; `repr`, which logs use, has only the names."""
        return str(dict(sorted(self.items())))

    def clear(self) -> None:
        """Remove the application's properties; names that refer to headers are kept.

        Raises:
            MessageNotWriteableException: the properties are read-only;
                `message.clear_properties()` always works.
        """
        self._check_writable()
        self._message.property_values().clear()

    def get_object(self, name: str) -> object:
        """Return the value with the type it was set with; None if it is missing."""
        header = _HEADERS.get(name)
        if header is None:
            return self._message.property_values().get(name)
        return header(self._message)

    def _convert(self, name: str, target: str) -> object:
        try:
            return convert(self.get_object(name), target, PROPERTY_READS, NULLS)
        except (MessageFormatException, ValueError, TypeError) as error:
            raise _about(error, name) from None

    def _check_writable(self) -> None:
        if self._message.read_only_properties:
            raise MessageNotWriteableException(
                "The message properties are read-only", hint="call clear_properties() first"
            )


def _about(error: Exception, name: str) -> Exception:
    if isinstance(error, MessageFormatException):
        return MessageFormatException(f"Property {name!r}: {error.reason}", hint=error.hint)
    return type(error)(f"Property {name!r}: {error}")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _provider(name: str) -> Callable[[Message], object]:
    def read(message: Message) -> object:
        source = message.source
        return None if source is None else source.provider_property(name)

    return read


_HEADERS: Final[dict[str, Callable[[Message], object]]] = {
    "JMSMessageID": lambda m: m.message_id,
    "JMSDestination": lambda m: _text(m.destination),
    "JMSReplyTo": lambda m: _text(m.reply_to),
    "JMSCorrelationID": lambda m: m.correlation_id,
    "JMSDeliveryMode": lambda m: m.delivery_mode.name,
    "JMSPriority": lambda m: m.priority,
    "JMSTimestamp": lambda m: m.timestamp,
    "JMSExpiration": lambda m: m.expiration,
    "JMSRedelivered": lambda m: m.redelivered,
    "JMSType": lambda m: m.type,
    "JMSXDeliveryCount": lambda m: m.delivery_count,
    "JMSXGroupID": lambda m: m.group_id,
    "JMSXGroupSeq": lambda m: m.group_sequence,
    "JMSXUserID": lambda m: m.user_id or m.property_values().get("JMSXUserID"),
    "JMSXMimeType": lambda m: m.MIME_TYPE,
    **{
        name: _provider(name)
        for name in (
            "JMSXProducerTXID",
            "JMSXGroupFirstForConsumer",
            "JMSActiveMQBrokerInTime",
            "JMSActiveMQBrokerOutTime",
            "JMSActiveMQBrokerPath",
        )
    },
}

_LISTED: Final[dict[str, Callable[[Message], bool]]] = {
    "JMSXGroupID": lambda m: m.group_id is not None,
    "JMSXGroupSeq": lambda m: m.group_id is not None,
    "JMSXUserID": lambda m: m.user_id is not None,
    "JMSXDeliveryCount": lambda m: m.redelivered,
}


def _setter(attribute: str, target: str) -> Callable[[Message, str, object], None]:
    def set_header(message: Message, name: str, value: object) -> None:
        try:
            converted = convert(value, target, PROPERTY_READS, NULLS)
        except (MessageFormatException, ValueError, TypeError) as error:
            raise MessageFormatException(
                f"Property {name} cannot be set from a {type(value).__name__}"
            ) from error
        setattr(message, attribute, converted)

    return set_header


def _set_delivery_mode(message: Message, name: str, value: object) -> None:
    modes: dict[object, DeliveryMode] = {
        **{str(int(mode)): mode for mode in DeliveryMode},
        **{mode.name: mode for mode in DeliveryMode},
    }
    mode = modes.get(str(value).upper())
    if mode is None:
        raise MessageFormatException(f"Property {name} cannot be set to {value!r}")
    message.delivery_mode = mode


def _set_reply_to(message: Message, name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise MessageFormatException(f"Property {name} cannot be set from a {type(value).__name__}")
    reply_to: Destination | None = None if value is None else parse_destination(value)
    message.reply_to = reply_to


def _schedule_setter(target: str) -> Callable[[Message, str, object], None]:
    """Return a setter that stores a number of a schedule with the type of ActiveMQ's clients.

    Artemis ignores a delay of another integer type. What is no integer is left to the broker.
    """

    def set_schedule(message: Message, name: str, value: object) -> None:
        with suppress(MessageFormatException, ValueError, TypeError):
            value = fit(convert(value, "long", PROPERTY_READS, NULLS), target)
        message.property_values()[name] = value

    return set_schedule


_HEADER_SETTERS: Final[dict[str, Callable[[Message, str, object], None]]] = {
    "JMSCorrelationID": _setter("correlation_id", "String"),
    "JMSDeliveryMode": _set_delivery_mode,
    "JMSExpiration": _setter("expiration", "long"),
    "JMSPriority": _setter("priority", "int"),
    "JMSRedelivered": _setter("redelivered", "boolean"),
    "JMSReplyTo": _set_reply_to,
    "JMSTimestamp": _setter("timestamp", "long"),
    "JMSType": _setter("type", "String"),
    "JMSXDeliveryCount": _setter("delivery_count", "int"),
    "JMSXGroupID": _setter("group_id", "String"),
    "JMSXGroupSeq": _setter("group_sequence", "int"),
    AMQ_SCHEDULED_DELAY: _schedule_setter("long"),
    AMQ_SCHEDULED_PERIOD: _schedule_setter("long"),
    AMQ_SCHEDULED_REPEAT: _schedule_setter("int"),
}
"""Setters of properties that are headers, or have a type of their own."""


DEFAULT_PRIORITY = 4

_T = TypeVar("_T")


class MessageSource(Protocol):
    """The source from which a received message decodes its properties and body."""

    def decode_properties(self) -> dict[str, object]:
        """Return the application's properties."""
        ...

    def decode_body(self) -> object:
        """Return the body in the form in which its message class stores it."""
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
        "acknowledger",
        "correlation_id",
        "decoded_properties",
        "delivery_count",
        "delivery_mode",
        "destination",
        "expiration",
        "group_id",
        "group_sequence",
        "is_body_encoded",
        "original_destination",
        "own_delivery_time",
        "priority",
        "provider_delivery",
        "provider_id",
        "raw_body",
        "read_only_body",
        "read_only_properties",
        "redelivered",
        "reply_to",
        "source",
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

    # For providers, which read and set them for every message:
    provider_id: object  # its str() is the id
    own_delivery_time: int | None  # of the last send here; None in a new or received message
    source: MessageSource | None  # of a received message
    decoded_properties: dict[str, object] | None  # None: empty, or not decoded yet
    is_body_encoded: bool  # `source` has the body, and `raw_body` does not
    raw_body: object  # as the message's class stores it
    acknowledger: Acknowledger | None  # implements acknowledge(); None: it does nothing
    provider_delivery: object  # the session's record of the delivery

    def __init__(self) -> None:
        self.provider_id = None
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
        self.decoded_properties = None
        self.raw_body = None
        self.is_body_encoded = False
        self.source = None
        self.own_delivery_time = None
        self.acknowledger = None
        self.provider_delivery = None

    @property
    def message_id(self) -> str | None:
        """The id, beginning with "ID:"; None before the first send. JMS: JMSMessageID."""
        value = self.provider_id
        if value is not None and not isinstance(value, str):
            value = self.provider_id = str(value)
        return value

    @message_id.setter
    def message_id(self, value: str | None) -> None:
        self.provider_id = value

    @property
    def delivery_time(self) -> int:
        """The time of the send plus its delivery delay, in milliseconds since 1970.

        The broker delivers the message then, or later. Without a delay it is `timestamp`.
        JMS 2.0: JMSDeliveryTime.

        Raises:
            MessageFormatException: the received properties, which contain it, are damaged.
        """
        if self.own_delivery_time is not None:
            return self.own_delivery_time
        source = self.source
        value = None if source is None else source.provider_property(JMS_DELIVERY_TIME)
        # a received message that is sent on still has the delivery time of the earlier send
        return max(value, self.timestamp) if isinstance(value, int) else self.timestamp

    @delivery_time.setter
    def delivery_time(self, value: int) -> None:
        self.own_delivery_time = value

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
        self.decoded_properties = {}
        self.read_only_properties = False

    def clear_body(self) -> None:
        """Empty the body and make it writable; headers and properties are kept.

        JMS: clearBody.
        """
        self.is_body_encoded = False
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

    def _whole_body(self) -> object:
        """Return the body in its public form, None if there is none or it is empty."""
        return None

    def _reset_body(self) -> None:
        """Make the body empty."""

    def load_body(self) -> None:
        """Decode the body; only called while it is encoded."""
        assert self.source is not None
        self.raw_body = self.source.decode_body()
        self.is_body_encoded = False

    def _check_body_writable(self) -> None:
        if self.read_only_body:
            raise MessageNotWriteableException(
                "The message body is read-only", hint="call clear_body() first"
            )

    def property_values(self) -> dict[str, object]:
        """Return the application's decoded properties; changes to the dict take effect."""
        values = self.decoded_properties
        if values is None:
            source = self.source
            values = self.decoded_properties = {} if source is None else source.decode_properties()
        return values

    def __repr__(self) -> str:
        headers = f"message_id={self.message_id!r}, destination={self.destination!s}"
        return f"{type(self).__name__}({headers})"


_LONGEST_UTF: Final = 0xFFFF

_LAYOUTS: Final[dict[str, struct.Struct]] = {
    "boolean": struct.Struct(">?"),
    "byte": struct.Struct(">b"),
    "unsigned byte": struct.Struct(">B"),
    "short": struct.Struct(">h"),
    "unsigned short": struct.Struct(">H"),
    "int": struct.Struct(">i"),
    "long": struct.Struct(">q"),
    "float": struct.Struct(">f"),
    "double": struct.Struct(">d"),
}


class BytesMessage(TypedReads, TypedWrites, Message):
    """A message of bytes.

    `data` is the whole body, readable in either mode; the `write_` and `read_` methods process it
    in pieces. A new message is write-only until `reset()`; a received message is read-only until
    `clear_body()`. JMS: javax.jms.BytesMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ("_position",)
    MIME_TYPE: ClassVar[str] = "jms/bytes-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (bytes,)
    raw_body: bytes | bytearray
    _position: int

    def __init__(self, data: bytes | None = None) -> None:
        super().__init__()
        self._reset_body()
        if data:
            self.write_bytes(data)

    @property
    def data(self) -> bytes:
        """The whole body, independent of the read position; setting it replaces the body.

        Raises:
            MessageNotWriteableException: it is set while read-only.
        """
        if self.is_body_encoded:
            self.load_body()
        return bytes(self.raw_body)

    @data.setter
    def data(self, data: bytes) -> None:
        fresh = bytearray(cast("bytes", fit(data, "bytes") or b""))
        self._writable()
        self.raw_body = fresh

    @property
    def body_length(self) -> int:
        """The number of bytes; only while readable.

        Raises:
            MessageNotReadableException: the message is write-only.
        """
        return len(self._readable())

    def reset(self) -> None:
        """Make the body read-only and move to its start. JMS: reset."""
        if self.is_body_encoded:
            self.load_body()
        self.raw_body = bytes(self.raw_body)
        self.read_only_body = True
        self._position = 0

    def get_body(self, kind: type[_T]) -> _T | None:
        """Reset the message and return the whole body; None if it is empty."""
        self.reset()
        return super().get_body(kind)

    def read_unsigned_byte(self) -> int:
        """Read a byte from 0 to 255."""
        return cast("int", self._read("unsigned byte"))

    def read_unsigned_short(self) -> int:
        """Read 16 bits, unsigned."""
        return cast("int", self._read("unsigned short"))

    def read_char(self) -> str:
        """Read one UTF-16 unit."""
        return chr(cast("int", self._read("unsigned short")))

    def read_utf(self) -> str:
        """Read a string written by `write_utf`.

        Raises:
            MessageFormatException: the bytes are not modified UTF-8.
        """
        start = self._position
        count = cast("int", self._read("unsigned short"))
        body = self._readable()
        end = self._position + count
        if end > len(body):
            self._position = start
            raise self._end(count)
        try:
            text = decode_mutf8(bytes(body[self._position : end]))
        except ValueError as error:
            self._position = start
            raise MessageFormatException(
                f"Invalid modified UTF-8 at offset {start}: {error}"
            ) from error
        self._position = end
        return text

    def read_bytes(self, length: int | None = None) -> bytes | None:
        """Read up to `length` bytes, by default all remaining ones; None at the end.

        JMS: readBytes(byte[]), which returns -1 instead of None.
        """
        body = self._readable()
        if self._position >= len(body):
            return None
        end = len(body) if length is None else self._position + length
        data = bytes(body[self._position : end])
        self._position += len(data)
        return data

    def write_char(self, value: str) -> None:
        """Write one UTF-16 unit."""
        unit = ord(cast("str", fit(value, "char")))
        body = self._writable()
        body += unit.to_bytes(2, "big")

    def write_utf(self, value: str) -> None:
        """Write a 2-byte count and the string in modified UTF-8.

        Raises:
            MessageFormatException: it is not a str, or longer than 65535 bytes.
        """
        text = fit(value, "String")
        if not isinstance(text, str):
            raise TypeError("write_utf needs a string, not None")
        data = encode_mutf8(text)
        if len(data) > _LONGEST_UTF:
            raise MessageFormatException(
                f"A string of {len(data)} bytes is too long for write_utf",
                hint="the limit is 65535; write_bytes has none",
            )
        body = self._writable()
        body += len(data).to_bytes(2, "big")
        body += data

    def write_bytes(self, value: bytes, offset: int = 0, length: int | None = None) -> None:
        """Write `value`, or `length` bytes of it from `offset`."""
        data = fit_bytes(value, offset, length)
        if not isinstance(data, bytes):
            raise TypeError("write_bytes needs bytes, not None")
        body = self._writable()
        body += data

    def write_object(self, value: object) -> None:
        """Write a number, bool, str or bytes, as the method for its type does.

        Raises:
            TypeError: it is None.
            MessageFormatException: no method writes such a value.
        """
        if value is None:
            raise TypeError("write_object needs a value, not None")
        value = normalize(value, binary=True, containers=False)
        kind = type_of(value)
        write = _WRITERS.get(kind)
        if write is None:
            self._write(kind, value)
        else:
            write(self, value)

    def _read(self, kind: str) -> object:
        layout = _LAYOUTS[kind]
        body = self._readable()
        if self._position + layout.size > len(body):
            raise self._end(layout.size)
        value: object = layout.unpack_from(body, self._position)[0]
        self._position += layout.size
        return value

    def _write(self, kind: str, value: object) -> None:
        data = _LAYOUTS[kind].pack(fit(value, kind))
        body = self._writable()
        body += data

    def _readable(self) -> bytes | bytearray:
        if not self.read_only_body:
            raise MessageNotReadableException(
                "The message is write-only", hint="call reset() first, or use .data"
            )
        if self.is_body_encoded:
            self.load_body()
        return self.raw_body

    def _writable(self) -> bytearray:
        self._check_body_writable()
        body = self.raw_body
        if not isinstance(body, bytearray):  # it was read-only until clear_body()
            body = self.raw_body = bytearray(body)
        return body

    def _end(self, count: int) -> MessageEOFException:
        left = len(self.raw_body) - self._position
        return MessageEOFException(f"Cannot read {count} bytes: {left} are left")

    def load_body(self) -> None:
        super().load_body()
        self._position = 0

    def _whole_body(self) -> object:
        return self.data or None

    def _reset_body(self) -> None:
        self.raw_body = bytearray()
        self._position = 0


_WRITERS: Final[dict[str, Callable[[BytesMessage, object], None]]] = {
    "char": lambda message, value: message.write_char(cast("str", value)),
    "String": lambda message, value: message.write_utf(cast("str", value)),
    "bytes": lambda message, value: message.write_bytes(cast("bytes", value)),
}


class StreamMessage(TypedReads, TypedWrites, Message):
    """A message of typed values; write-only until `reset()`, read-only once received.

    Reads also raise MessageFormatException if the conversion table has no entry or bytes are only
    partly read, ValueError if a text cannot be converted or an integer is None, and TypeError if a
    float or character is None. JMS: javax.jms.StreamMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ("_bytes_ended", "_offset", "_position")
    MIME_TYPE: ClassVar[str] = "jms/stream-message"
    raw_body: list[object]
    _position: int
    _offset: int | None  # within a bytes value that is read in pieces
    _bytes_ended: bool  # the last read returned the last piece of a bytes value

    def __init__(self, values: Iterable[object] = ()) -> None:
        super().__init__()
        self._reset_body()
        for value in values:
            self.write_object(value)

    @property
    def values(self) -> list[object]:
        """All values with the types they were written with, independent of the read position."""
        if self.is_body_encoded:
            self.load_body()
        return list(self.raw_body)

    def reset(self) -> None:
        """Make the body read-only and move to its start. JMS: reset."""
        if self.is_body_encoded:
            self.load_body()
        self.read_only_body = True
        self._position = 0
        self._offset = None
        self._bytes_ended = False

    def read_char(self) -> str:
        """Read the next value as one character."""
        return cast("str", self._read("char"))

    def read_string(self) -> str | None:
        """Read the next value as text; None if it is None."""
        return cast("str | None", self._read("String"))

    def read_object(self) -> object:
        """Read the next value with the type it was written with."""
        value = self._next()
        self._position += 1
        return value

    def read_bytes(self, length: int | None = None) -> bytes | None:
        """Read up to `length` bytes of the next value, all of it by default.

        With a length, the calls read the same value until one of them returns fewer bytes than
        requested, or None; until then every other read fails. The result is also None if the value
        is None, and once after the last piece of the last value.
        JMS: readBytes(byte[]), which returns -1 instead of None.
        """
        if self._bytes_ended and self._position >= len(self.raw_body):
            self._bytes_ended = False
            return None
        value = self._current_bytes()
        if value is None:
            self._position += 1
            return None
        if length is None:
            data = value[self._offset or 0 :]
            self._finish_bytes()
            self._bytes_ended = False
            return data
        start = self._offset or 0
        if self._offset is not None and start >= len(value):
            self._finish_bytes()
            self._bytes_ended = False
            return None
        data = value[start : start + length]
        self._offset = start + len(data)
        if len(data) < length or not value:
            self._finish_bytes()
        return data

    def write_char(self, value: str) -> None:
        """Write one character, a UTF-16 unit."""
        self._write("char", value)

    def write_string(self, value: str | None) -> None:
        """Write a string, or None."""
        self._write("String", value)

    def write_bytes(self, value: bytes | None, offset: int = 0, length: int | None = None) -> None:
        """Write a copy of `value` as one value, or of `length` bytes of it from `offset`."""
        self._append(fit_bytes(value, offset, length))

    def write_object(self, value: object) -> None:
        """Write a bool, int, float, str, bytes, None or one of `pyjms.jms.types`.

        Raises:
            MessageFormatException: JMS has no type for the value.
        """
        self._append(normalize(value, binary=True, containers=False))

    def _write(self, kind: str, value: object) -> None:
        fitted = fit(value, kind)
        self._check_body_writable()
        self.raw_body.append(fitted)

    def _append(self, value: object) -> None:
        self._check_body_writable()
        self.raw_body.append(value)

    def _read(self, target: str) -> object:
        value = convert(self._next(), target, BODY_READS, NULLS)
        self._position += 1
        return value

    def _next(self) -> object:
        if not self.read_only_body:
            raise MessageNotReadableException(
                "The message is write-only", hint="call reset() first"
            )
        if self.is_body_encoded:
            self.load_body()
        if self._offset is not None:
            raise MessageFormatException(
                "A bytes value is only partly read",
                hint="call read_bytes() until it returns fewer bytes than requested, or None",
            )
        self._bytes_ended = False
        if self._position >= len(self.raw_body):
            raise MessageEOFException(
                f"All {len(self.raw_body)} values of the stream have been read"
            )
        return self.raw_body[self._position]

    def _current_bytes(self) -> bytes | None:
        value = self._next() if self._offset_free() else self.raw_body[self._position]
        return cast("bytes | None", convert(value, "bytes", BODY_READS, NULLS))

    def _offset_free(self) -> bool:
        return self.is_body_encoded or not self.read_only_body or self._offset is None

    def _finish_bytes(self) -> None:
        self._offset = None
        self._bytes_ended = True
        self._position += 1

    def load_body(self) -> None:
        super().load_body()
        self._position = 0
        self._offset = None
        self._bytes_ended = False

    def _reset_body(self) -> None:
        self.raw_body = []
        self._position = 0
        self._offset = None
        self._bytes_ended = False

    def is_body_assignable_to(self, kind: type) -> bool:
        """Return False: a stream is read value by value. JMS 2.0: isBodyAssignableTo."""
        del kind
        return False


class TextMessage(Message):
    """A message with or without a text: "" and None are different.

    JMS: javax.jms.TextMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ()
    MIME_TYPE: ClassVar[str] = "jms/text-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (str,)
    raw_body: str | None

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self.text = text

    @property
    def text(self) -> str | None:
        """The text, which can be set.

        Raises:
            MessageFormatException: the received text is damaged, or the value set is not a str.
            MessageNotWriteableException: it is set while the body is read-only.
        """
        if self.is_body_encoded:
            self.load_body()
        return self.raw_body

    @text.setter
    def text(self, text: str | None) -> None:
        if self.read_only_body:
            self._check_body_writable()
        if text is not None and not isinstance(text, str):
            raise MessageFormatException(f"The text of a message cannot be a {type(text).__name__}")
        self.is_body_encoded = False
        self.raw_body = text

    def _whole_body(self) -> object:
        return self.text

    def _reset_body(self) -> None:
        self.raw_body = None


class ObjectMessage(Message):
    """A message with a serialized Java object, carried as opaque bytes.

    `data` is the Java serialization stream (`aced0005...`) or None. It is never converted to a
    Python object: deserialising data from a network can run the sender's code.
    JMS: javax.jms.ObjectMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ()
    MIME_TYPE: ClassVar[str] = "jms/object-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (bytes,)
    raw_body: bytes | None

    def __init__(self, data: bytes | None = None) -> None:
        super().__init__()
        self.data = data

    @property
    def data(self) -> bytes | None:
        """The serialized form, which can be set."""
        if self.is_body_encoded:
            self.load_body()
        return self.raw_body

    @data.setter
    def data(self, data: bytes | None) -> None:
        self._check_body_writable()
        self.is_body_encoded = False
        self.raw_body = cast("bytes | None", fit(data, "bytes"))

    def _whole_body(self) -> object:
        return self.data

    def _reset_body(self) -> None:
        self.raw_body = None


class MapMessage(TypedGetters, TypedSetters, Message):
    """A message of named values: a mapping that also has JMS's typed getters and setters.

    It is true even if it is empty, and compares by identity, as all messages do. The typed getters
    return 0, False or None if a value is missing; `get_char` raises TypeError.
    JMS: javax.jms.MapMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ()
    MIME_TYPE: ClassVar[str] = "jms/map-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (dict,)
    raw_body: dict[str, object]

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.raw_body = {}
        for name, value in (values or {}).items():
            self[name] = value

    def __getitem__(self, name: str) -> object:
        return self._values()[name]

    def __setitem__(self, name: str, value: object) -> None:
        """Set a bool, int, float, str, bytes, None, one of `pyjms.jms.types`, list or dict.

        Raises:
            MessageFormatException: JMS has no type for the value.
            MessageNotWriteableException: the body is read-only.
            ValueError: the name is None or empty.
        """
        self._check_body_writable()
        value = normalize_named("a value", _check_name(name), value, binary=True)
        self._values()[name] = value

    def __delitem__(self, name: str) -> None:
        self._check_body_writable()
        del self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in self._values()

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._values())

    def items(self) -> list[tuple[str, object]]:
        """Return names and values, with the types they were set with."""
        return list(self._values().items())

    @property
    def map_names(self) -> list[str]:
        """The names, in no particular order. JMS: getMapNames."""
        return list(self._values())

    def item_exists(self, name: str) -> bool:
        """Return whether there is a value of this name, even None. JMS: itemExists."""
        return name in self._values()

    def get_object(self, name: str) -> object:
        """Return the value with the type it was set with; None if it is missing."""
        return self._values().get(_check_name(name))

    def get_char(self, name: str) -> str:
        """Return the value as one character.

        Raises:
            TypeError: it is missing.
        """
        return cast("str", self._convert(name, "char"))

    def get_bytes(self, name: str) -> bytes | None:
        """Return the value, which must be bytes; None if it is missing."""
        return cast("bytes | None", self._convert(name, "bytes"))

    def set_char(self, name: str, value: str) -> None:
        """Set one character, a UTF-16 unit."""
        self[name] = fit(value, "char")

    def set_bytes(
        self, name: str, value: bytes | None, offset: int = 0, length: int | None = None
    ) -> None:
        """Set a copy of `value`, or of `length` bytes of it from `offset`."""
        self[name] = fit_bytes(value, offset, length)

    def _values(self) -> dict[str, object]:
        if self.is_body_encoded:
            self.load_body()
        return self.raw_body

    def _convert(self, name: str, target: str) -> object:
        value = self._values().get(_check_name(name))
        try:
            return convert(value, target, BODY_READS, MAP_NULLS)
        except MessageFormatException as error:
            raise MessageFormatException(f"{name!r}: {error.reason}", hint=error.hint) from None

    def _whole_body(self) -> object:
        return dict(self._values()) or None

    def _reset_body(self) -> None:
        self.raw_body = {}


def _check_name(name: str) -> str:
    if not name:
        raise ValueError("The name of a value in a map cannot be None or empty")
    return name
