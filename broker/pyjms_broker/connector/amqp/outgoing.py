"""Conversion of the broker's messages to those of AMQP.

A message that was stored as it was encoded is sent so; any other is mapped, whatever the
transformer of the connector is. Most messages of a producer differ in the section of properties and
the body only: what they have in common is kept encoded, as a `_Shape`. (amqp-connector A150 to
A161)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.types import Byte
from pyjms.runtime import clock as _clock
from pyjms.wire.amqp.codec import I64, U32, U32_PAIR, encode_value
from pyjms.wire.amqp.message import (
    DATA,
    NO_BODY,
    SEQUENCE,
    VALUE,
    Message,
    decode_message,
    encode_message,
    with_header,
)
from pyjms.wire.amqp.performatives import Header, Properties
from pyjms.wire.amqp.values import Symbol, ULong
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    ConnectionId,
    ConnectionInfo,
    MessageDispatch,
    MessageId,
    RemoveInfo,
)
from pyjms.wire.openwire.primitives import decode_map, decode_text, decode_values
from pyjms_broker.connector.amqp.incoming import (
    BINARY_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    DEFAULT_PRIORITY,
    DELIVERY_ANNOTATION,
    ENCODING,
    FIRST_ACQUIRER,
    FOOTER,
    FORMAT,
    HEADER,
    ID_PREFIXES,
    LONGEST_LATEST,
    MESSAGE_ANNOTATION,
    MOST_LATEST,
    NATIVE_PROPERTY,
    OBJECT,
    PREFIX,
    PROPERTIES,
    REPLY_TO_GROUP,
    STRING_ID,
    ULONG_ID,
    UUID_ID,
    WAS_BINARY,
    WAS_DATA,
    WAS_NONE,
    WAS_SEQUENCE,
)
from pyjms_broker.connector.bodies import expand

MessageIdValue: TypeAlias = str | ULong | uuid.UUID | bytes | None
_MAXIMUM_PROPERTIES: Final = 1024 * 1024
_MAXIMUM_VALUES: Final = 50_000
"""The maximum number of values of a map or stream, because its conversion blocks the loop."""


# ids
_IDS: Final[dict[str, Callable[[str], MessageIdValue]]] = {
    STRING_ID: str,
    UUID_ID: uuid.UUID,
    ULONG_ID: lambda text: _to_ulong(int(text)),
    BINARY_ID: bytes.fromhex,
}


def _to_ulong(number: int) -> ULong:
    if not 0 <= number < 1 << 64:
        raise ValueError("it is no ulong")
    return ULong(number)


def id_value(text: str | None) -> MessageIdValue:
    """Return the id of AMQP for one of JMS; the text itself if it is none. (amqp-connector A154)"""
    if text is not None and text.startswith(ID_PREFIXES):
        prefix, _, rest = text.partition(":")
        try:
            return _IDS[f"{prefix}:"](rest)
        except ValueError:
            return text
    return text


class Outgoing(NamedTuple):
    """A message as a client gets it."""

    payload: bytes
    message_format: int = 0


_DESTINATION_TYPES: Final[dict[int, Byte]] = {
    kind.TYPE: Byte(number)
    for number, kind in enumerate((Queue, Topic, TemporaryQueue, TemporaryTopic))
}
_DESTINATION: Final = Symbol("x-opt-jms-dest")
_REPLY: Final = Symbol("x-opt-jms-reply-to")
_OWN: Final = frozenset(
    (
        *(NATIVE_PROPERTY, FORMAT, HEADER, PROPERTIES, FIRST_ACQUIRER, REPLY_TO_GROUP),
        *(CONTENT_TYPE, CONTENT_ENCODING, ENCODING),
    )
)
_SCHEDULED: Final = "AMQ_SCHEDULED_"
_NOTHING: Final[dict[str, Any]] = {}


class _Mapped(NamedTuple):
    """What the properties of a message become in AMQP."""

    is_native: bool = False
    """Whether the message was stored as it was encoded."""
    message_format: int = 0
    encoding: Any = None
    """The section of the body that it has come from."""
    has_header: bool = False
    is_first: bool = False
    content_type: Symbol | None = None
    content_encoding: Symbol | None = None
    reply_to_group: str | None = None
    annotations: dict[Any, Any] = _NOTHING
    deliveries: dict[Any, Any] = _NOTHING
    footer: dict[Any, Any] = _NOTHING
    own: dict[str, Any] = _NOTHING
    """The application's."""
    encoded: bytes | None = None
    """The same as AMQP encodes them; None if there are none."""


_LATEST: Final[dict[bytes, _Mapped]] = {b"": _Mapped()}
"""By marshalled properties: producers often repeat them, and subscribers of a topic share them."""


def _map_sections(message: ActiveMQMessage) -> _Mapped:
    """Return what the properties of a message become."""
    marshalled = message.marshalled_properties or b""
    mapped = _LATEST.get(marshalled)
    if mapped is None:
        if len(marshalled) > _MAXIMUM_PROPERTIES:
            raise MessageFormatException(
                f"The properties have {len(marshalled)} bytes; {_MAXIMUM_PROPERTIES} are converted"
            )
        mapped = _map_properties(message.properties)
        if len(marshalled) <= LONGEST_LATEST:
            if len(_LATEST) >= MOST_LATEST:
                _LATEST.clear()
            _LATEST[marshalled] = mapped
    return mapped


def _map_properties(properties: Mapping[str, Any]) -> _Mapped:
    """Convert properties. (amqp-connector A156, A157)"""
    annotations: dict[Any, Any] = {}
    deliveries: dict[Any, Any] = {}
    footer: dict[Any, Any] = {}
    own: dict[str, Any] = {}
    for name, value in properties.items():
        if name.startswith(PREFIX):
            if name in _OWN:
                continue
            section = next((s for p, s in _SECTIONS if name.startswith(p)), None)
            if section is not None:
                key = Symbol(name[len(MESSAGE_ANNOTATION) :].encode("ascii", "replace").decode())
                (annotations, deliveries, footer)[section][key] = value
                continue
        elif name.startswith(_SCHEDULED):
            continue
        own[name] = value
    number, group = properties.get(FORMAT), properties.get(REPLY_TO_GROUP)
    return _Mapped(
        properties.get(NATIVE_PROPERTY) is True,
        number if isinstance(number, int) and 0 <= number < 1 << 32 else 0,
        properties.get(ENCODING),
        properties.get(HEADER) is True,
        properties.get(FIRST_ACQUIRER) is True,
        _symbol(properties.get(CONTENT_TYPE)),
        _symbol(properties.get(CONTENT_ENCODING)),
        group if isinstance(group, str) else None,
        annotations,
        deliveries,
        footer,
        own,
        _encode(own) if own else None,
    )


def _encode(value: Any) -> bytes:
    buffer = bytearray()
    encode_value(buffer, value)
    return bytes(buffer)


def to_payload(dispatch: MessageDispatch, message: ActiveMQMessage) -> Outgoing:
    """Return a message as AMQP encodes it.

    Raises:
        JMSException: it cannot be converted.
    """
    shaped = usual_payload(dispatch, message)
    if shaped is not None:
        return Outgoing(shaped)
    properties = _map_sections(message)
    if properties.is_native:
        if message.TYPE != ActiveMQBytesMessage.TYPE:
            raise MessageFormatException(f"A message with {NATIVE_PROPERTY} is no bytes message")
        payload = expand(message)
        if dispatch.redelivery_counter > 0:
            payload = _with_count(payload, dispatch.redelivery_counter)
        return Outgoing(payload, properties.message_format)
    destination = dispatch.destination or message.destination
    mapped = Message()
    mapped.header = _header(message, dispatch.redelivery_counter, properties)
    mapped.properties = _headers(message, destination, properties)
    _annotate(mapped, message, properties.annotations)
    mapped.delivery_annotations = properties.deliveries or None
    mapped.footer = properties.footer or None
    mapped.encoded_properties = properties.encoded
    mapped.body_kind, mapped.body = _body_of(message, properties, mapped)
    if (
        destination is not None
        and message.content
        and message.TYPE in _SHAPED
        and _RARE(message) == _USUAL
        and len(message.marshalled_properties or b"") <= LONGEST_LATEST  # some are not shown
        and not (dispatch.redelivery_counter > 0 or properties.message_format)
    ):
        _keep_shape(_shape_key(message, destination), mapped, properties)
    return Outgoing(encode_message(mapped), properties.message_format)


class _Shape(NamedTuple):
    """What messages have in common whose other sections are the same, as AMQP encodes it."""

    head: bytes
    """The header and the annotations."""
    content_type: bytes
    content_encoding: bytes
    tail: bytes
    """The application properties, and the descriptor of the body."""
    is_text: bool
    """Whether the body is a string; else it is binary."""


_SHAPES: Final[dict[tuple[object, ...], _Shape]] = {}
"""By marshalled properties, delivery mode, priority, type of the destination and of the message."""
_SHAPED: Final = (ActiveMQBytesMessage.TYPE, ActiveMQTextMessage.TYPE)
_ADDRESSES: Final[dict[tuple[int, str], bytes]] = {}
"""The encoded addresses of destinations."""
_NULL: Final = b"\x40"
_RARE: Final = attrgetter(
    "expiration", "reply_to", "group_id", "group_sequence", "compressed", "user_id"
)
_USUAL: Final = (0, None, None, 0, False, None)
"""What `_RARE` returns for messages that have shapes."""


def _shape_key(message: ActiveMQMessage, destination: Destination) -> tuple[object, ...]:
    # its address is part of the properties, its type of the annotations
    kinds = destination.TYPE, message.TYPE
    return message.marshalled_properties, message.persistent, message.priority, *kinds


def _short(text: str | None) -> bytes:
    """Return a string of less than 256 bytes as it is encoded; ValueError: it is longer."""
    if text is None:
        return _NULL
    data = text.encode()
    return b"\xa1" + bytes((len(data),)) + data


def usual_payload(dispatch: MessageDispatch, message: ActiveMQMessage) -> bytes | None:
    """Return a message of format 0 of a known shape; None: `to_payload` has to convert it."""
    content, message_id, destination = message.content, message.message_id, dispatch.destination
    if (
        not content
        or message_id is None
        or destination is None
        or dispatch.redelivery_counter > 0
        or _RARE(message) != _USUAL
    ):
        return None
    shape = _SHAPES.get(_shape_key(message, destination))
    if shape is None:
        return None
    if message.TYPE == ActiveMQTextMessage.TYPE:
        length = int.from_bytes(content[:4], "big")
        content = content[4:]
        if not content.isascii() or len(content) != length:
            return None
    text, correlation_id = message_id.text_view, message.correlation_id
    if text is None:
        text = str(message_id)
    if text.startswith("AMQP_") or (correlation_id and correlation_id.startswith("AMQP_")):
        return None
    try:
        address = _ADDRESSES.get(destination.identity)
        if address is None:
            if len(_ADDRESSES) >= MOST_LATEST:
                _ADDRESSES.clear()
            address = _ADDRESSES[destination.identity] = _short(destination.qualified_name)
        fields = [_short(text), _NULL, address]
        if message.type is not None or correlation_id is not None:
            fields += (_short(message.type), _NULL, _short(correlation_id))
        else:
            fields += _NULLS
    except ValueError:
        return None
    fields += (shape.content_type, shape.content_encoding)
    if message.timestamp:
        fields += (_NULL, b"\x83" + I64.pack(message.timestamp))
    else:
        while fields[-1] is _NULL:
            fields.pop()
    properties = b"".join(fields)
    size = len(properties)
    if size >= _LONGEST_SHORT:
        start = b"\0\x53\x73\xd0" + U32_PAIR.pack(size + 4, len(fields))
    else:
        start = b"\0\x53\x73\xc0" + bytes((size + 1, len(fields)))
    size = len(content)
    if size > _LONGEST_SHORT:
        body = (b"\xb1" if shape.is_text else b"\xb0") + U32.pack(size)
    else:
        body = bytes((0xA1 if shape.is_text else 0xA0, size))
    return b"".join((shape.head, start, properties, shape.tail, body, content))


_NULLS: Final = (_NULL, _NULL, _NULL)
_LONGEST_SHORT: Final = 255


def _keep_shape(key: tuple[object, ...], mapped: Message, properties: _Mapped) -> None:
    """Keep what follows from the sections of a message, unless they are long."""
    if mapped.delivery_annotations or mapped.footer or properties.reply_to_group is not None:
        return
    head, given = Message(), mapped.properties
    head.header, head.encoded_annotations = mapped.header, mapped.encoded_annotations
    head.message_annotations = mapped.message_annotations
    tail = b"" if mapped.encoded_properties is None else b"\0\x53\x74" + mapped.encoded_properties
    assert given is not None
    kinds = (given.content_type, given.content_encoding)
    encoded = [_NULL if kind is None else _encode(Symbol(kind)) for kind in kinds]
    shape = _Shape(
        encode_message(head), encoded[0], encoded[1], tail + bytes((0, 0x53, mapped.body_kind)),
        key[-1] == ActiveMQTextMessage.TYPE and mapped.body_kind == VALUE,
    )  # fmt: skip
    if sum(map(len, shape[:4])) <= LONGEST_LATEST:
        if len(_SHAPES) >= MOST_LATEST:
            _SHAPES.clear()
        _SHAPES[key] = shape


def _annotate(mapped: Message, message: ActiveMQMessage, others: dict[Any, Any]) -> None:
    """Set the message annotations. (amqp-connector A155)"""
    destination, reply_to = message.destination, message.reply_to
    if others or destination is None or reply_to is not None:
        annotations = dict(others)
        if destination is not None:
            annotations[_DESTINATION] = _DESTINATION_TYPES[destination.TYPE]
        if reply_to is not None:
            annotations[_REPLY] = _DESTINATION_TYPES[reply_to.TYPE]
        mapped.message_annotations = annotations
    else:
        mapped.encoded_annotations = _ANNOTATIONS[destination.TYPE]


_ANNOTATIONS: Final[dict[int, bytes]] = {
    kind: _encode({_DESTINATION: number}) for kind, number in _DESTINATION_TYPES.items()
}
"""By the type of the destination: the annotations of most messages."""


def _with_count(payload: bytes, count: int) -> bytes:
    """Return an encoded message whose header has this delivery-count."""
    try:
        header = decode_message(payload, body=False).header or Header()
        header.delivery_count = count
        return with_header(payload, header)
    except JMSException:
        return payload  # what was stored raw is not always a message


def _header(message: ActiveMQMessage, count: int, properties: _Mapped) -> Header | None:
    """Return the header; None if it would say nothing. (amqp-connector A152)"""
    is_usual = message.priority == DEFAULT_PRIORITY and not message.persistent
    says_nothing = is_usual and not message.expiration and count <= 0 and not properties.is_first
    if says_nothing and not properties.has_header:
        return None
    header = Header()
    header.durable = message.persistent
    header.priority = message.priority
    if message.expiration:
        header.ttl = min(max(message.expiration - _clock.time_ms(), 1), 2**32 - 1)
    header.first_acquirer = properties.is_first
    header.delivery_count = max(count, 0)
    return header


def _headers(
    message: ActiveMQMessage, destination: Destination | None, properties: _Mapped
) -> Properties:
    """Return the section of properties. (amqp-connector A153)"""
    given = Properties()
    given.message_id = _message_id(message.message_id)
    if destination is not None:
        given.to = destination.qualified_name
    if message.reply_to is not None:
        given.reply_to = message.reply_to.qualified_name
    given.subject = message.type
    given.correlation_id = id_value(message.correlation_id)
    if message.expiration:
        given.absolute_expiry_time = message.expiration
    if message.timestamp:
        given.creation_time = message.timestamp
    if message.user_id is not None:
        given.user_id = message.user_id.encode("utf-8", "replace")
    given.group_id = message.group_id
    if message.group_sequence > 0:
        given.group_sequence = message.group_sequence
    given.content_type = properties.content_type
    given.content_encoding = properties.content_encoding
    given.reply_to_group_id = properties.reply_to_group
    return given


def _symbol(value: object) -> Symbol | None:
    return Symbol(value) if isinstance(value, str) and value.isascii() else None


def _message_id(message_id: MessageId | None) -> MessageIdValue:
    if message_id is None:
        return None
    return id_value(str(message_id) if message_id.text_view is None else message_id.text_view)


_SECTIONS: Final = ((MESSAGE_ANNOTATION, 0), (DELIVERY_ANNOTATION, 1), (FOOTER, 2))
"""Prefixes, all of the same length, and the sections that they stand for."""


def _body_of(message: ActiveMQMessage, properties: _Mapped, mapped: Message) -> tuple[Any, Any]:
    """Return the kind of the section, and the body. (amqp-connector A158 to A160)"""
    kind, encoding = message.TYPE, properties.encoding
    was_none = encoding == WAS_NONE
    if kind == ActiveMQMessage.TYPE:
        return _advisory(message, properties.own, mapped)
    if was_none and not message.content and kind != ActiveMQObjectMessage.TYPE:
        return NO_BODY, None
    content = expand(message)
    if kind == ActiveMQTextMessage.TYPE:
        text = decode_text(content) if content else None
        if encoding == WAS_DATA:
            return DATA, [(text or "").encode("utf-8", "replace")]
        return VALUE, text
    if kind == ActiveMQMapMessage.TYPE:
        return VALUE, decode_map(content, _MAXIMUM_VALUES) if content else {}
    if kind == ActiveMQStreamMessage.TYPE:
        values = decode_values(content, _MAXIMUM_VALUES) if content else []
        return (SEQUENCE, [values]) if encoding == WAS_SEQUENCE else (VALUE, values)
    if kind == ActiveMQObjectMessage.TYPE and mapped.properties is not None:
        mapped.properties.content_type = Symbol(OBJECT)
    if encoding == WAS_BINARY:
        return VALUE, content
    return DATA, [content]


_ADVISORY_KIND: Final = "ActiveMqDataStructureType"


def _advisory(message: ActiveMQMessage, own: dict[str, Any], mapped: Message) -> tuple[Any, Any]:
    command = message.data_structure
    values: dict[str, object] = {}
    if isinstance(command, ConnectionInfo):
        values = {
            "ConnectionId": str(command.connection_id),
            "ClientId": command.client_id,
            "ClientIp": command.client_ip,
            "UserName": command.user_name,
            "BrokerMasterConnector": command.broker_master_connector,
            "Manageable": command.manageable,
            "ClientMaster": command.client_master,
            "FaultTolerant": command.fault_tolerant,
            "FailoverReconnect": command.failover_reconnect,
        }
    elif isinstance(command, RemoveInfo) and isinstance(command.object_id, ConnectionId):
        values = {"RemoveId": str(command.object_id)}
    else:
        return NO_BODY, None
    name = type(command).__name__
    mapped.encoded_properties = _encode({**own, _ADVISORY_KIND: name})
    return VALUE, values
