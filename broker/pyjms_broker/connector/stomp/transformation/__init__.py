"""Bodies as XML or JSON for STOMP clients, by the header `transformation`. (activemq-edges ST14)

    header                             sent                   received
    jms-map-xml, jms-map-json          a map message          a map message
    jms-object-xml, jms-object-json    an object message      an object message
    jms-xml, jms-json                  -                      a map or an object message
    jms-advisory-xml, -json            -                      the command of an advisory message

Object messages may contain strings, numbers, booleans, lists and maps only.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms.errors import JMSException, MessageFormatException
from pyjms.wire.limits import inflate
from pyjms.wire.openwire.commands import ActiveMQMapMessage, ActiveMQMessage, ActiveMQObjectMessage
from pyjms.wire.openwire.primitives import decode_map, encode_map
from pyjms_broker.connector.stomp.transformation import (
    java_objects,
    java_reader,
    mapped_json,
    xml_text,
)
from pyjms_broker.connector.stomp.transformation.advisories import advisory_element
from pyjms_broker.connector.stomp.transformation.elements import Element
from pyjms_broker.connector.stomp.transformation.values import element_of, value_of

__all__ = ["ADVISORY", "KNOWN", "Transformed", "received_body", "transformed_body"]

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
    element = _element(message, kind)
    if element is None:
        return None
    write = mapped_json.write if name.endswith("json") else xml_text.write
    return Transformed(name, write(element).encode("utf-8", "replace"))


def _kind(message: ActiveMQMessage) -> str | None:
    if message.TYPE == ActiveMQMapMessage.TYPE:
        return "map"
    if message.TYPE == ActiveMQObjectMessage.TYPE:
        return "object"
    if message.TYPE == ActiveMQMessage.TYPE and message.data_structure is not None:
        return "advisory"
    return None


def _element(message: ActiveMQMessage, kind: str) -> Element | None:
    if kind == "advisory":
        return advisory_element(message.data_structure)
    content = message.content or b""
    if message.compressed:
        content = inflate(content, _MAXIMUM_SIZE)
    if len(content) > _MAXIMUM_SIZE:
        raise MessageFormatException(f"The body has {len(content)} bytes; {_SIZE_HINT}")
    if kind == "map":
        return element_of(decode_map(content, _MAXIMUM_VALUES) if content else {})
    return element_of(java_reader.loads(content) if content else None)


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
    read = mapped_json.read if transformation.endswith("json") else xml_text.read
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise MessageFormatException("The body is not UTF-8") from error
    value = value_of(read(text))
    if transformation.startswith("jms-object"):
        return ActiveMQObjectMessage(content=java_objects.dumps(value))
    if not isinstance(value, dict):
        raise MessageFormatException("The body is not a map")
    return ActiveMQMapMessage(content=encode_map(value))
