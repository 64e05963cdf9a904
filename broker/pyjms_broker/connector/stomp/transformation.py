"""Bodies as XML or JSON for STOMP clients, by the header `transformation`. (activemq-edges ST14)

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

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.destination import Destination
from pyjms.wire.limits import inflate
from pyjms.wire.openwire.commands import (
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
)
from pyjms.wire.openwire.primitives import decode_map, encode_map
from pyjms_broker.connector.stomp import elements, java_serialization
from pyjms_broker.connector.stomp.elements import Element, element_of, value_of

__all__ = ["ADVISORY", "KNOWN", "received_body", "transformed_body"]

_FIELDS: Final[dict[type, tuple[str, ...]]] = {
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
    if type(command) not in _FIELDS:
        return None
    element = _element(type(command).__name__, command)
    common = ("command_id", "response_required")
    element.children[:0] = [Element(_camel(n), _text(getattr(command, n))) for n in common]
    return element


def _element(name: str, value: Any) -> Element:
    element = Element(name)
    for attribute in _FIELDS[type(value)]:
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
    if type(value) not in _FIELDS:
        return Element(name, _text(value))
    element = _element(name, value)
    if name == "objectId":
        element.attributes["class"] = type(value).__name__
    return element


def _text(value: Any) -> str:
    return _TEXTS.get(type(value), str)(value)


_MAXIMUM_SIZE: Final = 1024 * 1024
"""The maximum size of a converted body in bytes, because conversion blocks the loop."""
_MAXIMUM_VALUES: Final = 10_000
"""The maximum number of values in a sent map; each takes about 10 microseconds."""
KNOWN: Final = frozenset(
    f"jms-{kind}{form}" for kind in ("", "map-", "object-", "advisory-") for form in ("xml", "json")
) | {"jms-byte"}
ADVISORY: Final = "jms-advisory-json"
"""The transformation of advisory messages if the subscription requests none."""


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


_SIZE_HINT: Final = f"at most {_MAXIMUM_SIZE} are converted"


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
