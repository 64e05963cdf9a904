"""Conversion of AMQP messages to those of the broker.

By the option `transport.transformer`, a message has

    transformer    body                                              headers and properties
    raw            the encoded message, in a bytes message           none
    native         the same                                          of the message
    jms            of the kind that the sections and the             of the message
                   content type tell

A message that one transformer cannot convert is left to the next above it. What JMS has no place
for is in properties JMS_AMQP_*, so that AMQP clients get it back.

The messages of a producer mostly differ in the section of properties and the body only. What
follows from the others is kept as a `_Shape`, and these two are read in place.
(amqp-connector A120 to A142)
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.destination import parse_destination
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_CRON,
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
)
from pyjms.jms.types import Byte, Float, Long, Short
from pyjms.wire.amqp.codec import LIST_0, READ_ERRORS, U32, decode_value
from pyjms.wire.amqp.message import (
    DATA,
    NO_BODY,
    SEQUENCE,
    VALUE,
    Message,
    decode_message,
    read_properties,
)
from pyjms.wire.amqp.message import PROPERTIES as PROPERTIES_SECTION
from pyjms.wire.amqp.performatives import Properties
from pyjms.wire.amqp.values import (
    Array,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from pyjms.wire.openwire.primitives import encode_map, encode_text, encode_values

PREFIX: Final = "JMS_AMQP_"
NATIVE_PROPERTY: Final = f"{PREFIX}NATIVE"
FORMAT: Final = f"{PREFIX}MESSAGE_FORMAT"
HEADER: Final = f"{PREFIX}HEADER"
PROPERTIES: Final = f"{PREFIX}PROPERTIES"
FIRST_ACQUIRER: Final = f"{PREFIX}FirstAcquirer"
REPLY_TO_GROUP: Final = f"{PREFIX}ReplyToGroupID"
CONTENT_TYPE: Final = f"{PREFIX}ContentType"
CONTENT_ENCODING: Final = f"{PREFIX}ContentEncoding"
ENCODING: Final = f"{PREFIX}ORIGINAL_ENCODING"
MESSAGE_ANNOTATION: Final = f"{PREFIX}MA_"
DELIVERY_ANNOTATION: Final = f"{PREFIX}DA_"
FOOTER: Final = f"{PREFIX}FT_"

WAS_NONE, WAS_DATA, WAS_SEQUENCE, WAS_NULL, WAS_STRING, WAS_BINARY, WAS_MAP, WAS_LIST = [
    Short(number) for number in range(1, 9)
]
"""The section of the body, in the property `ENCODING`. (amqp-connector A138)"""

RAW: Final = "raw"
NATIVE: Final = "native"
JMS: Final = "jms"

DEFAULT_PRIORITY: Final = 4
_HIGHEST_PRIORITY: Final = 9
_HIGHEST_INT: Final = 2**31 - 1
_HIGHEST_LONG: Final = 2**63 - 1
OBJECT: Final = "application/x-java-serialized-object"
_OCTETS: Final = "application/octet-stream"


Incoming: TypeAlias = tuple[ActiveMQMessage, str | None, str | None]
"""A message from a client, without destination and producer; the address in it; its message id."""


# ids
STRING_ID, UUID_ID, ULONG_ID, BINARY_ID = ID_PREFIXES = (
    "AMQP_STRING:",
    "AMQP_UUID:",
    "AMQP_ULONG:",
    "AMQP_BINARY:",
)


def id_text(value: object) -> str | None:
    """Return a message or correlation id as JMS has it. (amqp-connector A137)"""
    if value is None:
        return None
    if isinstance(value, uuid.UUID):
        return f"{UUID_ID}{value}"
    if isinstance(value, bytes):
        return f"{BINARY_ID}{value.hex().upper()}"
    if isinstance(value, int):
        return f"{ULONG_ID}{int(value)}"
    text = str(value)
    return f"{STRING_ID}{text}" if text.startswith(ID_PREFIXES) else text


# values of properties, maps and streams
def _smallest(*kinds: tuple[type, int]) -> Callable[[int], object]:
    def convert(number: int) -> object:
        return next(kind(number) for kind, bits in kinds if number < 1 << (bits - 1))

    return convert


def _wrap(number: int) -> Long:
    return Long(number - (1 << 64) if number >= 1 << 63 else number)


def _convert(value: object) -> object:
    convert = _VALUES.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, Described | uuid.UUID | Timestamp):
        raise MessageFormatException(f"JMS has no {type(value).__name__}")
    return value


def _map(values: Mapping[Any, Any]) -> dict[str, object]:
    if not all(isinstance(key, str) for key in values):
        raise MessageFormatException("The keys of a map must be strings")
    return {str(key): _convert(value) for key, value in values.items()}


_VALUES: Final[dict[type, Callable[[Any], object]]] = {
    UByte: _smallest((Byte, 8), (Short, 16)),
    UShort: _smallest((Short, 16), (int, 32)),
    UInt: _smallest((int, 32), (Long, 64)),
    ULong: _wrap,
    Decimal32: lambda number: Float(float(number.to_decimal())),
    Decimal64: lambda number: float(number.to_decimal()),
    Decimal128: lambda number: float(number.to_decimal()),
    Symbol: str,
    list: lambda values: [_convert(value) for value in values],
    Array: lambda values: [_convert(value) for value in values],
    dict: _map,
}
"""Conversions by type; values of other types are the same in JMS. (amqp-connector A131)"""


_PRINTABLE: Final = re.compile(rb"[^\x20-\x5b\x5d-\x7e]")


def _escape(data: bytes) -> str:
    return _PRINTABLE.sub(lambda match: b"\\x%02x" % match[0][0], data).decode("ascii")


_PROPERTY_VALUES: Final[dict[type, Callable[[Any], object]]] = {
    **_VALUES,
    bytes: _escape,
    uuid.UUID: str,
    Timestamp: Long,
}
"""For properties, which can be neither bytes nor uuids. (amqp-connector A132, A133)"""


def _property(value: object) -> object:
    convert = _PROPERTY_VALUES.get(type(value))
    return _convert(value) if convert is None else convert(value)


# from a client
def to_message(payload: bytes, message_format: int, transformer: str, now: int) -> Incoming:
    """Return the message that a client has sent at `now` (ms); it never fails.

    (amqp-connector A120)
    """
    key, body_at = None, 0
    try:
        begin, end, body_at = _split(payload)
        given = read_properties(payload, begin) if end else _NO_PROPERTIES
        others = given.content_type, given.content_encoding, given.reply_to_group_id
        outside = payload[:begin] + payload[end : body_at + 1]
        key = outside, others, begin, message_format, transformer
        shape = _SHAPES.get(key)
        if shape is not None:
            return _message_of_shape(shape, payload, body_at, given, now)
    except _UNUSUAL:
        pass
    for convert, with_body in _CONVERSIONS[transformer]:
        try:
            found = decode_message(payload, body=with_body, properties=False)
            incoming = convert(payload, message_format, found, now)
        except (JMSException, OverflowError, ValueError):
            continue
        if key is not None and (convert is _jms) is (transformer == JMS):
            _keep_shape(key, incoming[0], found, payload[body_at - 1])
        return incoming
    return _raw(payload, message_format, now)


_UNUSUAL: Final = (*READ_ERRORS, JMSException, LookupError, OverflowError, ValueError)
_NO_PROPERTIES: Final = Properties()
_SECTION: Final = 3
"""Bytes of the descriptor of a section, in its usual form."""
_PLAIN_BODIES: Final = {DATA: (0xA0, 0xB0), VALUE: (0xA1, 0xB1)}
"""By section: the constructors of bytes, and of texts."""


class _Shape(NamedTuple):
    """What messages have in common whose other sections are the same."""

    kind: type[ActiveMQMessage]
    is_native: bool
    """Whether the body is the whole encoded message."""
    persistent: bool
    priority: int
    redelivery_counter: int
    ttl: int
    marshalled: bytes | None


_SHAPES: Final[dict[tuple[object, ...], _Shape]] = {}
"""By the bytes of the other sections, those properties that are kept as such, and the format."""


def _split(payload: bytes) -> tuple[int, int, int]:
    """Return where the section of properties begins and ends, and the constructor of the body.

    The section of properties has its usual place behind annotations; end 0: there is none.

    Raises:
        LookupError, struct.error: the message has another form.
    """
    at = begin = end = 0
    while True:
        if not payload.startswith(b"\0\x53", at):
            raise LookupError
        section, code = payload[at + 2], payload[at + 3]
        at += _SECTION
        if section >= DATA:
            if code not in _PLAIN_BODIES.get(section, ()):
                raise LookupError
            return begin, end, at
        if section == PROPERTIES_SECTION:
            begin = at
        if code & 0xF0 == 0xC0:
            at += 2 + payload[at + 1]
        elif code & 0xF0 == 0xD0:
            at += 5 + U32.unpack_from(payload, at + 1)[0]
        elif code == LIST_0:
            at += 1
        else:
            raise LookupError
        if section == PROPERTIES_SECTION:
            end = at


def _message_of_shape(
    shape: _Shape, payload: bytes, body_at: int, given: Properties, now: int
) -> Incoming:
    """Return a message of a known shape.

    Raises:
        LookupError, struct.error, ValueError, JMSException: it is not of the usual form.
    """
    if payload[body_at] < 0xB0:
        start = body_at + 2
        size = payload[body_at + 1]
    else:
        start = body_at + 5
        (size,) = U32.unpack_from(payload, body_at + 1)
    if start + size != len(payload):
        raise LookupError
    kind, is_native, persistent, priority, redelivery_counter, ttl, marshalled = shape
    content = payload if is_native else payload[start:]
    if kind is ActiveMQTextMessage:
        if content.isascii() and 0 not in content:
            content = U32.pack(size) + content
        else:
            content = encode_text(content.decode())
    message = kind(
        persistent=persistent, expiration=now + ttl if ttl else 0, priority=priority,
        timestamp=now if is_native else 0, content=content, marshalled_properties=marshalled,
        redelivery_counter=redelivery_counter,
    )  # fmt: skip
    _set_headers(message, given)
    message_id = given.message_id
    if type(message_id) is not str or message_id.startswith("AMQP_"):
        return message, given.to, id_text(message_id)
    return message, given.to, message_id


def _keep_shape(
    key: tuple[object, ...], message: ActiveMQMessage, found: Message, section: int
) -> None:
    """Keep what follows from the sections of a message, but not long ones, nor times."""
    outside, marshalled = key[0], message.marshalled_properties
    assert isinstance(outside, bytes)
    if (
        len(outside) + len(marshalled or b"") > LONGEST_LATEST
        or found.footer
        or not _SCHEDULES.keys().isdisjoint(found.message_annotations or ())
    ):
        return
    is_native = found.body is None
    is_text = type(message) is ActiveMQTextMessage
    kind = None if found.properties is None else found.properties.content_type
    if is_text is not (section == VALUE or _is_text(kind)) and not is_native:
        return  # a text that is no UTF-8
    if len(_SHAPES) >= MOST_LATEST:
        _SHAPES.clear()
    header = found.header
    _SHAPES[key] = _Shape(
        type(message), is_native, message.persistent, message.priority,
        message.redelivery_counter, 0 if header is None else header.ttl or 0, marshalled,
    )  # fmt: skip


def _properties_of(message_format: int) -> dict[str, object]:
    properties: dict[str, object] = {}
    if message_format:
        properties[FORMAT] = Long(message_format)
    return properties


def _raw(payload: bytes, message_format: int, now: int) -> Incoming:
    properties = {NATIVE_PROPERTY: True, **_properties_of(message_format)}
    message = ActiveMQBytesMessage(content=payload, persistent=True, priority=DEFAULT_PRIORITY)
    message.timestamp = now
    message.marshalled_properties = encode_map(properties)
    return message, address_of(payload), None


def address_of(payload: bytes) -> str | None:
    """Return the address in an encoded message, if it can be read."""
    try:
        properties = decode_message(payload, body=False).properties
    except JMSException:
        return None
    return None if properties is None else properties.to


def _native(payload: bytes, message_format: int, found: Message, now: int) -> Incoming:
    message = ActiveMQBytesMessage(content=payload, timestamp=now)
    return _with_headers(
        message, found, {NATIVE_PROPERTY: True, **_properties_of(message_format)}, now
    )


def _jms(_payload: bytes, message_format: int, found: Message, now: int) -> Incoming:
    kind = None if found.properties is None else found.properties.content_type
    message, encoding = _BODIES[found.body_kind](found.body, str(kind) if kind else None)
    return _with_headers(
        message, found, {**_properties_of(message_format), ENCODING: encoding}, now
    )


_Conversion: TypeAlias = Callable[[bytes, int, Message, int], Incoming]
_CONVERSIONS: Final[dict[str, tuple[tuple[_Conversion, bool], ...]]] = {
    RAW: (),
    NATIVE: ((_native, False),),
    JMS: ((_jms, True), (_native, False)),
}
"""By transformer: the conversions, and whether they need the body."""
TRANSFORMERS: Final = tuple(_CONVERSIONS)


def _with_headers(
    message: ActiveMQMessage, found: Message, properties: dict[str, object], now: int
) -> Incoming:
    """Set headers and properties. (amqp-connector A124 to A130)"""
    message.priority = DEFAULT_PRIORITY
    header = found.header
    if header is not None:
        properties[HEADER] = True
        message.persistent = bool(header.durable)
        message.priority = min(header.priority, _HIGHEST_PRIORITY)
        if header.first_acquirer:
            properties[FIRST_ACQUIRER] = True
        message.redelivery_counter = min(header.delivery_count or 0, _HIGHEST_INT)
        if header.ttl:
            message.expiration = now + header.ttl
    has_others = bool(found.message_annotations or found.footer)
    if found.message_annotations:
        _add_annotations(found.message_annotations, properties, now)
    text_id = to = None
    if found.properties is not None:
        properties[PROPERTIES] = True
        _set_headers(message, found.properties)
        _keep_others(found.properties, properties)
        text_id, to = id_text(found.properties.message_id), found.properties.to
    for key, value in (found.footer or {}).items():
        properties[f"{FOOTER}{key}"] = _property(value)
    encoded = found.encoded_properties
    if has_others or (encoded is not None and len(encoded) > LONGEST_LATEST):
        message.marshalled_properties = _marshal(encoded, properties)
    else:
        latest = encoded, *properties.items()
        marshalled = _LATEST.get(latest)
        if marshalled is None:
            marshalled = _marshal(encoded, properties)
            if len(marshalled) <= LONGEST_LATEST:  # the content type, for example, may be longer
                if len(_LATEST) >= MOST_LATEST:
                    _LATEST.clear()
                _LATEST[latest] = marshalled
        message.marshalled_properties = marshalled
    return message, to, text_id


_LATEST: Final[dict[tuple[object, ...], bytes]] = {}
"""By application properties and our own: the marshalled ones, which producers often repeat."""
MOST_LATEST: Final = 256
LONGEST_LATEST: Final = 1024
"""The maximum number of properties that are kept, and of their bytes."""


def _marshal(encoded: bytes | None, properties: dict[str, object]) -> bytes:
    """Return application properties of AMQP, and our own, as the broker has them."""
    if encoded is not None:
        values, _ = decode_value(encoded)
        if not isinstance(values, dict):
            raise MessageFormatException("The application properties are no map")
        for key, value in values.items():
            properties[str(key)] = _property(value)
    return encode_map(properties)


def _set_headers(message: ActiveMQMessage, given: Properties) -> None:
    if given.user_id is not None:
        message.user_id = given.user_id.decode("utf-8", "replace")
    message.type = given.subject
    if given.correlation_id is not None:
        message.correlation_id = id_text(given.correlation_id)
    if given.reply_to:
        message.reply_to = parse_destination(given.reply_to)
    if given.absolute_expiry_time:
        message.expiration = given.absolute_expiry_time
    if given.creation_time:
        message.timestamp = given.creation_time
    if given.group_id is not None:
        message.group_id = given.group_id
    if given.group_sequence is not None:
        message.group_sequence = min(given.group_sequence, _HIGHEST_INT)


def _keep_others(given: Properties, properties: dict[str, object]) -> None:
    for name, value in (
        (REPLY_TO_GROUP, given.reply_to_group_id),
        (CONTENT_TYPE, given.content_type),
        (CONTENT_ENCODING, given.content_encoding),
    ):
        if value is not None:
            properties[name] = str(value)


def _add_annotations(
    annotations: Mapping[Any, Any], properties: dict[str, object], now: int
) -> None:
    for key, value in annotations.items():
        properties[f"{MESSAGE_ANNOTATION}{key}"] = _property(value)
        schedule = _SCHEDULES.get(key)
        if schedule is None:
            continue
        name, convert = schedule
        converted = convert(value, now)
        if converted is not None:
            properties[name] = converted


def _positive(kind: Callable[[int], object], highest: int) -> Callable[[Any, int], object]:
    """Return a conversion of positive numbers; the scheduler refuses those that are too large."""

    def convert(value: Any, _now: int) -> object:
        return kind(min(value, highest)) if isinstance(value, int) and value > 0 else None

    return convert


def _delay_until(value: Any, now: int) -> Long | None:
    is_later = isinstance(value, int) and value > now
    return Long(min(value - now, _HIGHEST_LONG)) if is_later else None


_SCHEDULES: Final[dict[str, tuple[str, Callable[[Any, int], object]]]] = {
    "x-opt-delivery-delay": (AMQ_SCHEDULED_DELAY, _positive(Long, _HIGHEST_LONG)),
    "x-opt-delivery-time": (AMQ_SCHEDULED_DELAY, _delay_until),
    "x-opt-delivery-period": (AMQ_SCHEDULED_PERIOD, _positive(Long, _HIGHEST_LONG)),
    "x-opt-delivery-repeat": (AMQ_SCHEDULED_REPEAT, _positive(int, _HIGHEST_INT)),
    "x-opt-delivery-cron": (AMQ_SCHEDULED_CRON, lambda value, _now: str(value) or None),
}
"""(amqp-connector A129)"""


# bodies (amqp-connector 11.1)
_TEXTUAL: Final = re.compile(
    r"text/[^\s;]+|application/(?:xml|json|javascript|ecmascript|xml-dtd|[^\s;/]+\+(?:xml|json))"
)
_UTF8: Final = frozenset(("utf-8", "utf8", ""))


def _is_text(content_type: str | None) -> bool:
    """Return whether a body of this type is text in UTF-8. (amqp-connector A140)"""
    if content_type is None:
        return False
    kind, *parameters = [part.strip() for part in content_type.lower().split(";")]
    if _TEXTUAL.fullmatch(kind) is None:
        return False
    charset = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            charset = value.strip().strip("\"'")
    return charset in _UTF8


def _bare(content_type: str | None) -> str | None:
    return None if content_type is None else content_type.partition(";")[0].strip().lower()


_Body: TypeAlias = tuple[ActiveMQMessage, Short]


def _no_body(_body: None, content_type: str | None) -> _Body:
    bare = _bare(content_type)
    if bare == OBJECT:
        return ActiveMQObjectMessage(), WAS_NONE
    if bare in (None, _OCTETS):
        return ActiveMQBytesMessage(), WAS_NONE
    kind = ActiveMQTextMessage if _TEXTUAL.fullmatch(bare or "") else ActiveMQMessage
    return kind(), WAS_NONE


def _data(body: list[bytes], content_type: str | None) -> _Body:
    data = body[0] if len(body) == 1 else b"".join(body)
    if _bare(content_type) == OBJECT:
        return ActiveMQObjectMessage(content=data), WAS_DATA
    if _is_text(content_type):
        try:
            return ActiveMQTextMessage(content=encode_text(data.decode())), WAS_DATA
        except UnicodeDecodeError:
            pass  # as ActiveMQ does, it remains bytes
    return ActiveMQBytesMessage(content=data), WAS_DATA


def _sequence(body: list[list[Any]], _content_type: str | None) -> _Body:
    return _stream([value for values in body for value in values]), WAS_SEQUENCE


def _stream(values: list[Any]) -> ActiveMQMessage:
    if any(isinstance(value, list | dict) for value in values):
        raise MessageFormatException("A stream holds no lists and maps")
    return ActiveMQStreamMessage(content=encode_values([_convert(value) for value in values]))


def _value(body: Any, content_type: str | None) -> _Body:
    if body is None:
        return ActiveMQTextMessage(), WAS_NULL
    if type(body) is str:
        return ActiveMQTextMessage(content=encode_text(body)), WAS_STRING
    if isinstance(body, bytes):
        is_object = _bare(content_type) == OBJECT
        kind = ActiveMQObjectMessage if is_object else ActiveMQBytesMessage
        return kind(content=body), WAS_BINARY
    if isinstance(body, dict):
        return ActiveMQMapMessage(content=encode_map(_map(body))), WAS_MAP
    if isinstance(body, list):
        return _stream(body), WAS_LIST
    raise MessageFormatException(f"JMS has no message with a {type(body).__name__}")


_BODIES: Final[dict[Any, Callable[[Any, str | None], _Body]]] = {
    NO_BODY: _no_body,
    DATA: _data,
    SEQUENCE: _sequence,
    VALUE: _value,
}
