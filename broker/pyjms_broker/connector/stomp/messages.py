"""Conversion of SEND frames to messages, and of messages to MESSAGE frames.

By the header `transformation`, bodies are XML or JSON: (activemq-edges ST5, ST6, ST14)

    header                             sent                   received
    jms-map-xml, jms-map-json          a map message          a map message
    jms-object-xml, jms-object-json    an object message      an object message
    jms-xml, jms-json                  -                      a map or an object message
    jms-advisory-xml, -json            -                      the command of an advisory message

Object messages may contain strings, numbers, booleans, lists and maps only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException, MessageFormatException, RemoteProtocolError
from pyjms.jms.conversions import NULLS, PROPERTY_READS, convert
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.limits import LARGE_FRAME, MAX_PROPERTY_VALUES, inflate, inflate_sized
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
from pyjms.wire.openwire.primitives import decode_map, decode_text, encode_map, encode_text
from pyjms.wire.stomp import Frame, can_be_header
from pyjms_broker.connector.stomp import elements, java_serialization
from pyjms_broker.connector.stomp.elements import Element, element_of, value_of
from pyjms_broker.connector.stomp.headers import MAXIMUM_INT, DestinationNames, boolean, integer

logger = get_logger(__name__)

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
_INFLATED: Final = 4 * 1024 * 1024
_INFLATED_RATIO: Final = 32
"""A compressed body is inflated to at most `_INFLATED` bytes or `_INFLATED_RATIO` times its size,
because its inflated size is not accounted before it is queued for a client."""
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


class _LatestBody:
    """The most recently converted long body, which the subscribers of a topic share."""

    def __init__(self) -> None:
        self._latest: tuple[bytes | None, bytes] = (None, b"")

    def of(self, message: ActiveMQMessage) -> bytes:
        """Return the body of a message, converting it unless it was the last one.

        Raises:
            JMSException: it cannot be read.
        """
        content, body = self._latest
        if message.content is None or message.content is not content:
            body = _content(message)
            if len(body) > LARGE_FRAME:
                self._latest = (message.content, body)
        return body

    def forget(self) -> None:
        """Drop the body, because all subscribers have the message."""
        self._latest = (None, b"")


LATEST_BODY: Final = _LatestBody()


def to_message(frame: Frame, names: DestinationNames) -> ActiveMQMessage:
    """Return the message of a SEND frame, without ids.

    Raises:
        JMSException: a header is missing or wrong, or a temporary destination cannot be created.
    """
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
    return decode_map(marshalled, MAX_PROPERTY_VALUES)


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


def _content(message: ActiveMQMessage) -> bytes:
    """Return the body; only text and bytes messages have one. (activemq-edges ST6)"""
    content = message.content
    if not content:
        return b""
    limit = max(_INFLATED, _INFLATED_RATIO * len(content))
    if message.TYPE == ActiveMQBytesMessage.TYPE:
        return inflate_sized(content, limit) if message.compressed else content
    if message.TYPE == ActiveMQTextMessage.TYPE:
        text = decode_text(inflate(content, limit) if message.compressed else content)
        return (text or "").encode("utf-8", "replace")
    return b""


# bodies as XML or JSON
class Transformed(NamedTuple):
    """A body, and the transformation that produced it."""

    name: str
    body: bytes


def transformed_body(message: ActiveMQMessage, transformation: str) -> Transformed | None:
    """Return the body for a client that requested a transformation; None: unchanged.

    Raises:
        JMSException: the body cannot be converted.
    """
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
    return element_of(java_serialization.loads(content) if content else None)


def received_body(transformation: str, body: bytes) -> ActiveMQMessage:
    """Return the message that a client sent as XML or JSON.

    Raises:
        JMSException: it cannot be converted, or there is no such transformation.
    """
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
        return ActiveMQObjectMessage(content=java_serialization.dumps(value))
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
    element.children[:0] = [Element(_camel(n), _text(getattr(command, n))) for n in common]
    return element


def _element(name: str, value: Any) -> Element:
    element = Element(name)
    for attribute in _COMMAND_FIELDS[type(value)]:
        content = "" if attribute == "password" else getattr(value, attribute)  # never shown
        if content is not None:
            element.children.append(_child(_camel(attribute), content))
    return element


def _camel(attribute: str) -> str:
    """Return Java's name of a field."""
    first, *rest = attribute.split("_")
    return first + "".join(each.capitalize() for each in rest)


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
