"""Conversion of SEND frames to messages, and of messages to MESSAGE frames.

By the header `transformation`, bodies are XML or JSON: (activemq-edges ST5, ST6, ST14)

    header                             sent                   received
    jms-map-xml, jms-map-json          a map message          a map message
    jms-object-xml, jms-object-json    an object message      an object message
    jms-xml, jms-json                  -                      a map or an object message
    jms-advisory-xml, -json            -                      the command of an advisory message

Object messages may contain strings, numbers, booleans, lists and maps only, which are read from and
written in Java's serialization format: anything else is an error, and no code of a sender is ever
executed. (Java Object Serialization Specification, 6)
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException, MessageFormatException, RemoteProtocolError
from pyjms.jms.conversions import NULLS, PROPERTY_READS, convert
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.jms.mutf8 import decode_mutf8_lenient, encode_mutf8
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.transport.options import camel_case
from pyjms.wire.limits import inflate
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQTextMessage,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    MessageDispatch,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
)
from pyjms.wire.openwire.primitives import decode_map, encode_map, encode_text
from pyjms.wire.stomp import Frame, can_be_header
from pyjms_broker.connector.bodies import LATEST_BODY
from pyjms_broker.connector.stomp import elements
from pyjms_broker.connector.stomp.elements import Counter, Element, element_of, value_of
from pyjms_broker.connector.stomp.headers import MAXIMUM_INT, DestinationNames, boolean, integer

logger = get_logger(__name__)

_MAGIC: Final = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _END, _RESET = b"pqrstxy"
_BLOCK: Final = 0x77
_LONG_STRING: Final = 0x7C
_FIRST_HANDLE: Final = 0x7E0000
_MAXIMUM_SHORT: Final = 0xFFFF
_SERIALIZABLE, _WITH_ANNOTATION = 2, 3


class _Class(NamedTuple):
    name: str
    version: str
    flags: int = _SERIALIZABLE
    fields: tuple[tuple[str, str], ...] = ()
    parent: _Class | None = None


_NUMBER: Final = _Class("java.lang.Number", "86ac951d0b94e08b")
_BOXED: Final[dict[type, tuple[_Class, str]]] = {
    kind: (_Class(f"java.lang.{name}", version, _SERIALIZABLE, ((code, "value"),), parent), form)
    for kind, name, version, code, form, parent in (
        (bool, "Boolean", "cd207280d59cfaee", "Z", ">?", None),
        (Byte, "Byte", "9c4e6084ee50f51c", "B", ">b", _NUMBER),
        (Short, "Short", "684d37133460da52", "S", ">h", _NUMBER),
        (int, "Integer", "12e2a0a4f7818738", "I", ">i", _NUMBER),
        (Long, "Long", "3b8be490cc8f23df", "J", ">q", _NUMBER),
        (Float, "Float", "daedc9a2db3cf0ec", "F", ">f", _NUMBER),
        (float, "Double", "80b3c24a296bfb04", "D", ">d", _NUMBER),
        (Char, "Character", "348b47d96b1a2678", "C", ">H", None),
    )
}
_LIST: Final = _Class("java.util.ArrayList", "7881d21d99c7619d", _WITH_ANNOTATION, (("I", "size"),))
_MAP: Final = _Class(
    "java.util.HashMap",
    "0507dac1c31660d1",
    _WITH_ANNOTATION,
    (("F", "loadFactor"), ("I", "threshold")),
)
_LOAD_FACTOR: Final = 0.75
_SMALLEST_MAP: Final = 16


def dumps(value: object) -> bytes:
    """Serialize a value like ObjectOutputStream."""
    writer = _Writer()
    writer.write(value)
    return bytes(writer.out) + bytes([_RESET])


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray(_MAGIC)
        self._handles: dict[str, int] = {}
        self._next = _FIRST_HANDLE

    def write(self, value: object) -> None:
        boxed = _BOXED.get(type(value))
        if value is None:
            self.out.append(_NULL)
        elif boxed is not None:
            self._begin(boxed[0])
            raw: Any = ord(value) if isinstance(value, Char) else value
            self.out += struct.pack(boxed[1], raw)
        elif isinstance(value, str):
            self._string(value)
        elif isinstance(value, list):
            self._begin(_LIST)
            self.out += struct.pack(">iBBi", len(value), _BLOCK, 4, len(value))
            for item in value:
                self.write(item)
            self.out.append(_END)
        elif isinstance(value, dict):
            self._map(value)
        else:
            raise MessageFormatException(f"A {type(value).__name__} cannot be an object here")

    def _map(self, value: dict[str, object]) -> None:
        capacity = _SMALLEST_MAP
        while capacity * _LOAD_FACTOR < len(value):
            capacity *= 2
        self._begin(_MAP)
        threshold = int(capacity * _LOAD_FACTOR)
        self.out += struct.pack(">fiBBii", _LOAD_FACTOR, threshold, _BLOCK, 8, capacity, len(value))
        for key, item in value.items():
            self.write(key)
            self.write(item)
        self.out.append(_END)

    def _begin(self, kind: _Class) -> None:
        self.out.append(_OBJECT)
        self._describe(kind)
        self._next += 1  # the handle of the object

    def _describe(self, kind: _Class | None) -> None:
        if kind is None:
            self.out.append(_NULL)
            return
        known = self._handles.get(kind.name)
        if known is not None:
            self.out += struct.pack(">Bi", _REFERENCE, known)
            return
        self.out.append(_CLASS)
        self._text(kind.name)
        self._handles[kind.name] = self._next
        self._next += 1
        self.out += bytes.fromhex(kind.version)
        self.out += struct.pack(">BH", kind.flags, len(kind.fields))
        for code, name in kind.fields:
            self.out += code.encode()
            self._text(name)
        self.out.append(_END)
        self._describe(kind.parent)

    def _string(self, value: str) -> None:
        data = encode_mutf8(value)
        if len(data) <= _MAXIMUM_SHORT:
            self.out += struct.pack(">BH", _STRING, len(data))
        else:
            self.out += struct.pack(">BQ", _LONG_STRING, len(data))
        self.out += data
        self._next += 1

    def _text(self, name: str) -> None:
        self.out += struct.pack(">H", len(name)) + name.encode()


_PRIMITIVES: Final = {
    "B": ">b", "C": ">H", "D": ">d", "F": ">f", "I": ">i", "J": ">q", "S": ">h", "Z": ">?",
}  # fmt: skip
_EXTERNALIZABLE: Final = 4
_ANNOTATED: Final = 1
_END_OF_OBJECT: Final = object()


@dataclass
class _FoundClass:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    parent: _FoundClass | None = None


@dataclass
class _FoundObject:
    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    contents: list[Any] = field(default_factory=list)


def loads(data: bytes) -> object:
    """Deserialize a string, number, boolean, list or map."""
    try:
        return _Values().of(_Reader(data).read(0), 0)
    except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
        raise MessageFormatException(f"The serialized object is damaged: {error}") from error


_UNBOXED: Final[dict[str, Callable[[Any], object]]] = {
    kind.name: python for python, (kind, _) in _BOXED.items()
} | {"java.lang.Character": lambda code: Char(chr(code))}
_LISTS: Final = frozenset({"java.util.ArrayList", "java.util.LinkedList"})
_MAPS: Final = frozenset({"java.util.HashMap", "java.util.LinkedHashMap"})


class _Values:
    """Converts objects to values, counting them, because objects may be shared or recursive."""

    def __init__(self) -> None:
        self._counter = Counter()

    def of(self, found: object, depth: int) -> object:
        self._counter.add(depth)
        if not isinstance(found, _FoundObject):
            return found
        box = _UNBOXED.get(found.name)
        if box is not None and "value" in found.fields:
            return box(found.fields["value"])
        if found.name not in _LISTS | _MAPS:
            raise MessageFormatException(f"Objects of {found.name[:200]} are not converted")
        values = [self.of(item, depth + 1) for item in found.contents]
        if found.name in _LISTS:
            return values
        if not all(isinstance(key, str) for key in values[::2]):
            raise MessageFormatException("The keys of a map must be strings")
        return dict(zip(values[::2], values[1::2], strict=True))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_MAGIC)
        self._handles: list[Any] = []
        self._counter = Counter()
        self._kinds: dict[int, Callable[[int], Any]] = {
            0x70: lambda _: None,
            0x71: lambda _: self._handles[self._unpack(">i") - _FIRST_HANDLE],
            0x73: self._object,
            0x74: lambda _: self._string(">H"),
            0x77: lambda _: self._skip(self._unpack(">B")),
            0x78: lambda _: _END_OF_OBJECT,
            0x7C: lambda _: self._string(">Q"),
        }
        if not data.startswith(_MAGIC):
            raise ValueError("it does not begin as one")

    def read(self, depth: int) -> Any:
        self._counter.add(depth)
        return self._one(self._unpack(">B"), depth)

    def _one(self, code: int, depth: int) -> Any:
        read = self._kinds.get(code)
        if read is None:
            raise ValueError(f"element {code:#x} is not expected")
        return read(depth)

    def _unpack(self, form: str) -> Any:
        size = struct.calcsize(form)
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return value

    def _skip(self, size: int) -> Any:
        """Skip data that a class wrote in addition to its objects: sizes, which are not needed."""
        self._at += size
        return _FoundObject("")

    def _string(self, form: str) -> str:
        text = self._text(form)
        self._handles.append(text)
        return text

    def _text(self, form: str = ">H") -> str:
        size = self._unpack(form)
        if size > len(self._data) - self._at:
            raise ValueError("it ends too early")
        data = self._data[self._at : self._at + size]
        self._at += size
        return decode_mutf8_lenient(data)

    def _class(self, depth: int) -> _FoundClass | None:
        code = self._unpack(">B")
        if code != 0x72:
            found = self._one(code, depth) if code in {0x70, 0x71} else 0
            if found is not None and not isinstance(found, _FoundClass):
                raise ValueError("a class is missing")
            return found
        kind = _FoundClass(self._text())
        self._counter.add(depth)
        self._unpack(">q")
        self._handles.append(kind)
        kind.flags = self._unpack(">B")
        for _ in range(self._unpack(">H")):
            code = chr(self._unpack(">B"))
            kind.fields.append((code, self._text()))
            if code not in _PRIMITIVES:
                self.read(depth + 1)
        self._until_end(depth)
        kind.parent = self._class(depth + 1)
        return kind

    def _until_end(self, depth: int) -> list[Any]:
        found = []
        while (item := self.read(depth + 1)) is not _END_OF_OBJECT:
            if not (isinstance(item, _FoundObject) and not item.name):
                found.append(item)
        return found

    def _object(self, depth: int) -> _FoundObject:
        kind = self._class(depth)
        if kind is None:
            raise ValueError("an object has no class")
        found = _FoundObject(kind.name)
        self._handles.append(found)
        chain: list[_FoundClass] = []
        while kind is not None:
            if kind.flags & _EXTERNALIZABLE:
                raise ValueError("external data")
            self._counter.add(len(chain))  # a damaged class may be its own parent
            chain.insert(0, kind)
            kind = kind.parent
        for each in chain:
            for code, name in each.fields:
                form = _PRIMITIVES.get(code)
                found.fields[name] = self.read(depth + 1) if form is None else self._unpack(form)
            if each.flags & _ANNOTATED:
                found.contents += self._until_end(depth)
        return found


_MAXIMUM_SIZE: Final = 1024 * 1024
"""The maximum size of a converted body in bytes, because conversion blocks the loop."""
_SIZE_HINT: Final = f"at most {_MAXIMUM_SIZE} are converted"
_MAXIMUM_VALUES: Final = 10_000
"""The maximum number of values in a sent map; each takes about 10 microseconds."""
KNOWN: Final = frozenset(
    f"jms-{kind}{form}" for kind in ("", "map-", "object-", "advisory-") for form in ("xml", "json")
) | {"jms-byte"}
ADVISORY: Final = "jms-advisory-json"
"""The transformation of advisory messages if the subscription requests none."""
_DEFAULT_PRIORITY: Final = 4
_HIGHEST_PRIORITY: Final = 9
_PROPERTIES: Final = 1024 * 1024
"""The maximum size of properties, in bytes; they are converted for each subscriber."""

_STRIPPED: Final = frozenset(
    {
        "destination",
        "reply-to",
        "receipt",
        "transaction",
        "content-length",
        "message-id",
        "redelivered",
        "subscription",
        "ack",
        "JMSRedelivered",
        "JMSXDeliveryCount",
        "JMSXUserID",
    }
)
"""Headers of SEND, in addition to `_SEND_FIELDS`, that are not properties."""


def _priority(name: str, text: str) -> int:
    return min(max(integer(name, text, -MAXIMUM_INT, MAXIMUM_INT), 0), _HIGHEST_PRIORITY)


_HEADERS: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    "correlation-id": ("correlation_id", lambda _, text: text),
    "type": ("type", lambda _, text: text),
    "expires": ("expiration", integer),
    "timestamp": ("timestamp", integer),
    "priority": ("priority", _priority),
    "persistent": ("persistent", boolean),
    "JMSXGroupID": ("group_id", lambda _, text: text),
    "JMSXGroupSeq": (
        "group_sequence",
        lambda name, text: integer(name, text, -MAXIMUM_INT, MAXIMUM_INT),
    ),
}
"""Headers of SEND: the field of the message, and the parser of the value."""
_SEND_FIELDS: Final = {
    **_HEADERS,
    "JMSCorrelationID": _HEADERS["correlation-id"],
    "JMSExpiration": _HEADERS["expires"],
    "JMSPriority": _HEADERS["priority"],
    "JMSTimestamp": _HEADERS["timestamp"],
    "JMSType": _HEADERS["type"],
}
"""The same under their JMS names, which ActiveMQ also accepts."""
_JMS_HEADERS: Final = {
    "JMSDeliveryMode": "persistent",
    "JMSDestination": "destination",
    "JMSMessageID": "message-id",
    "JMSReplyTo": "reply-to",
}
"""JMS names that are not allowed as properties, and STOMP's names for them."""
_CONVERTING: Final = KNOWN - {"jms-byte"}
_KINDS: Final[dict[str, type[ActiveMQMessage]]] = {
    "text": ActiveMQTextMessage,
    "bytes": ActiveMQBytesMessage,
}


def to_message(frame: Frame, names: DestinationNames) -> ActiveMQMessage:
    """Return the message of a SEND frame, without ids."""
    headers = frame.headers
    properties: dict[str, str] = {}
    message = _body(frame, properties)
    message.priority = _DEFAULT_PRIORITY
    message.timestamp = _clock.time_ms()
    for name, value in headers.items():
        field = _SEND_FIELDS.get(name)
        if field is not None:
            setattr(message, field[0], field[1](name, value))
        elif name in _JMS_HEADERS:
            raise RemoteProtocolError(
                f"The header {name} is not a property; write {_JMS_HEADERS[name]}"
            )
        elif name not in _STRIPPED or (name == "content-length" and "amq-msg-type" in headers):
            properties[name] = value
    reply_to = headers.get("reply-to")
    if reply_to is not None:
        message.reply_to = names.with_prefix(reply_to)
        if message.reply_to is None:
            properties["reply-to"] = reply_to
    message.destination = names.destination(headers["destination"])
    if properties:
        message.marshalled_properties = encode_map(properties)
    return message


def _body(frame: Frame, properties: dict[str, str]) -> ActiveMQMessage:
    transformation = frame.headers.get("transformation")
    if transformation in _CONVERTING and "content-length" not in frame.headers:
        try:
            return received_body(transformation, frame.body)
        except JMSException as error:
            properties["transformation-error"] = error.reason
    named = frame.headers.get(
        "amq-msg-type", "bytes" if "content-length" in frame.headers else "text"
    )
    kind = _KINDS.get(named.lower())
    if kind is None:
        raise RemoteProtocolError(f"Unsupported message type '{named[:100]}'")
    if kind is ActiveMQBytesMessage:
        return kind(content=frame.body)
    try:
        text = frame.body.decode()
    except UnicodeDecodeError as error:
        if "amq-msg-type" not in frame.headers:  # Latin-1 without content-length
            return ActiveMQBytesMessage(content=frame.body)
        raise RemoteProtocolError(
            "The text of a frame without content-length is not UTF-8"
        ) from error
    return kind(content=encode_text(text))


def to_frame(
    dispatch: MessageDispatch,
    message: ActiveMQMessage,
    names: DestinationNames,
    version: str,
    transformation: str | None = None,
) -> Frame:
    """Return the MESSAGE frame of a message, without `subscription` and `ack`.

    `transformation` is the one that the subscription requests.

    Unreadable parts of the message are left out, with a warning: one message must not end the
    connections of all consumers that get it. So are properties that the protocol version cannot
    express.
    """
    headers = {"message-id": str(message.message_id), "priority": str(message.priority)}
    if dispatch.destination is not None:
        headers["destination"] = names.text(dispatch.destination)
    _add_fields(headers, message, names)
    if dispatch.redelivery_counter > 0:
        headers["redelivered"] = "true"
    body: bytes | None = None
    try:
        for name, value in _properties(message).items():
            headers.setdefault(name, _property_text(value))
        body = _transform_body(message, headers, transformation)
        if body is None:
            body = LATEST_BODY.of(message)
    except JMSException as error:
        logger.warning("%s cannot be read for a STOMP client: %s", message.message_id, error)
        headers["transformation-error"] = error.reason
    body = body or b""
    if message.TYPE == ActiveMQBytesMessage.TYPE or "content-length" in headers:
        headers["content-length"] = str(len(body))  # overrides a property of the same name
    expressible = {n: v for n, v in headers.items() if can_be_header(n, v, version)}
    if len(expressible) < len(headers):
        logger.debug(
            "%s: STOMP %s cannot express %d of its headers",
            message.message_id,
            version,
            len(headers) - len(expressible),
        )
    return Frame("MESSAGE", expressible, body)


def _properties(message: ActiveMQMessage) -> dict[str, Any]:
    marshalled = message.marshalled_properties
    if not marshalled:
        return {}
    if len(marshalled) > _PROPERTIES:
        raise JMSException(
            f"The properties have {len(marshalled)} bytes; {_PROPERTIES} can become headers"
        )
    return message.properties


def _transform_body(
    message: ActiveMQMessage, headers: dict[str, str], asked: str | None
) -> bytes | None:
    """Return the transformed body; None if there is no transformation. (activemq-edges ST14)"""
    if asked is not None and message.TYPE != ActiveMQBytesMessage.TYPE:
        headers["transformation"] = asked
    elif "transformation" not in headers and _is_advisory(message):
        asked = ADVISORY
    else:
        return None
    if asked not in KNOWN:
        return None
    try:
        found = transformed_body(message, asked)
    except JMSException as error:
        headers["transformation-error"] = error.reason
        return b""
    if found is None:
        return None
    headers["transformation"] = found.name
    return found.body


def _is_advisory(message: ActiveMQMessage) -> bool:
    destination = message.destination
    return destination is not None and destination.physical_name.startswith(ADVISORY_PREFIX)


def _add_fields(headers: dict[str, str], message: ActiveMQMessage, names: DestinationNames) -> None:
    if message.correlation_id is not None:
        headers["correlation-id"] = message.correlation_id
    headers["expires"] = str(message.expiration)
    headers["timestamp"] = str(message.timestamp)
    if message.persistent:
        headers["persistent"] = "true"
    if message.reply_to is not None:
        headers["reply-to"] = names.text(message.reply_to)
    if message.type is not None:
        headers["type"] = message.type
    if message.user_id is not None:
        headers["JMSXUserID"] = message.user_id
    if message.original_destination is not None:
        headers["original-destination"] = names.text(message.original_destination)
    if message.group_id is not None:
        headers["JMSXGroupID"] = message.group_id
        headers["JMSXGroupSeq"] = str(message.group_sequence)


def _property_text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list | bytes):
        return str(value)
    return str(convert(value, "String", PROPERTY_READS, NULLS))


# bodies as XML or JSON
class Transformed(NamedTuple):
    """A body, and the transformation that produced it."""

    name: str
    body: bytes


def transformed_body(message: ActiveMQMessage, transformation: str) -> Transformed | None:
    """Return the body for a client that requested a transformation; None: unchanged."""
    kind = _kind(message)
    if kind is None:
        return None
    name = transformation
    if name in {"jms-xml", "jms-json"}:
        name = f"jms-{kind}-{name.removeprefix('jms-')}"
    element = _transformation_element(message, kind)
    if element is None:
        return None
    write = elements.write_json if name.endswith("json") else elements.write_xml
    return Transformed(name, write(element).encode("utf-8", "replace"))


def _kind(message: ActiveMQMessage) -> str | None:
    if message.TYPE == ActiveMQMapMessage.TYPE:
        return "map"
    if message.TYPE == ActiveMQObjectMessage.TYPE:
        return "object"
    if message.TYPE == ActiveMQMessage.TYPE and message.data_structure is not None:
        return "advisory"
    return None


def _transformation_element(message: ActiveMQMessage, kind: str) -> Element | None:
    if kind == "advisory":
        return advisory_element(message.data_structure)
    content = message.content or b""
    if message.compressed:
        content = inflate(content, _MAXIMUM_SIZE)
    if len(content) > _MAXIMUM_SIZE:
        raise MessageFormatException(f"The body has {len(content)} bytes; {_SIZE_HINT}")
    if kind == "map":
        return element_of(decode_map(content, _MAXIMUM_VALUES) if content else {})
    return element_of(loads(content) if content else None)


def received_body(transformation: str, body: bytes) -> ActiveMQMessage:
    """Return the message that a client sent as XML or JSON."""
    if transformation not in {f"jms-{k}-{f}" for k in ("map", "object") for f in ("xml", "json")}:
        raise JMSException(f"Unknown transformation: {transformation[:100]}")
    if len(body) > _MAXIMUM_SIZE:
        raise MessageFormatException(f"The body has {len(body)} bytes; {_SIZE_HINT}")
    read = elements.read_json if transformation.endswith("json") else elements.read_xml
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise MessageFormatException("The body is not UTF-8") from error
    value = value_of(read(text))
    if transformation.startswith("jms-object"):
        return ActiveMQObjectMessage(content=dumps(value))
    if not isinstance(value, dict):
        raise MessageFormatException("The body is not a map")
    return ActiveMQMapMessage(content=encode_map(value))


_COMMAND_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    kind: tuple(fields.split())
    for kind, fields in (
        (ConnectionId, "value"),
        (SessionId, "connection_id value"),
        (ConsumerId, "connection_id session_id value"),
        (ProducerId, "connection_id session_id value"),
        (
            ConnectionInfo,
            """connection_id client_id client_ip user_name password broker_master_connector
            manageable client_master fault_tolerant failover_reconnect""",
        ),
        (
            ConsumerInfo,
            """consumer_id destination prefetch_size maximum_pending_message_limit browser
            dispatch_async selector client_id subscription_name no_local exclusive retroactive
            priority optimized_acknowledge no_range_acks""",
        ),
        (ProducerInfo, "producer_id destination dispatch_async window_size"),
        (DestinationInfo, "connection_id destination operation_type timeout"),
        (RemoveInfo, "object_id last_delivered_sequence_id"),
    )
}
"""The fields, in Java's order."""
_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    str: str,
}


def advisory_element(command: object) -> Element | None:
    """Return the element of a command; None for commands that are not converted."""
    if type(command) not in _COMMAND_FIELDS:
        return None
    element = _element(type(command).__name__, command)
    common = ("command_id", "response_required")
    element.children[:0] = [Element(camel_case(n), _text(getattr(command, n))) for n in common]
    return element


def _element(name: str, value: Any) -> Element:
    element = Element(name)
    for attribute in _COMMAND_FIELDS[type(value)]:
        content = "" if attribute == "password" else getattr(value, attribute)  # never shown
        if content is not None:
            element.children.append(_child(camel_case(attribute), content))
    return element


def _child(name: str, value: Any) -> Element:
    if isinstance(value, Destination):
        kind = f"ActiveMQ{type(value).__name__.replace('Temporary', 'Temp')}"
        children = [Element("string", value.physical_name), Element("null")]
        return Element(name, None, children, {"class": kind})
    if type(value) not in _COMMAND_FIELDS:
        return Element(name, _text(value))
    element = _element(name, value)
    if name == "objectId":
        element.attributes["class"] = type(value).__name__
    return element


def _text(value: Any) -> str:
    return _TEXTS.get(type(value), str)(value)
