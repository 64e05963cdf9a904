"""Conversion of PUBLISH packets to messages, and of messages to PUBLISH packets.

    JMS                     MQTT
    text                    the text as UTF-8
    bytes                   the bytes
    map                     a JSON object
    stream, object          the body as it is stored
    others                  nothing

(mqtt-connector M60, M80, M112, M120 to M122)
"""

from __future__ import annotations

import base64
import json
from typing import Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.limits import inflate
from pyjms.wire.mqtt import Publish
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
)
from pyjms.wire.openwire.primitives import decode_map, encode_map
from pyjms_broker.connector.bodies import LATEST_BODY

logger = get_logger(__name__)

_QOS: Final = "ActiveMQ.MQTT.QoS"
_RETAIN: Final = "ActiveMQ.Retain"
_RETAINED: Final = "ActiveMQ.Retained"
_DEFAULT_PRIORITY: Final = 4
_MAXIMUM_PROPERTIES: Final = 1024 * 1024
_MAXIMUM_MAP: Final = 1024 * 1024
"""Bytes of a map's body, because its conversion blocks the loop."""
_MAXIMUM_VALUES: Final = 10_000


class Delivery(NamedTuple):
    """How a message is delivered."""

    qos: int
    is_retained: bool = False


_SENT: Final[dict[tuple[int, bool], bytes]] = {
    (qos, retain): encode_map({_QOS: qos, **({_RETAIN: True} if retain else {})})
    for qos in range(3)
    for retain in (False, True)
}
"""The properties of messages of MQTT clients."""
_FOUND: Final[dict[bytes, Delivery]] = {
    **{encode_map({_QOS: qos}): Delivery(qos) for qos in range(3)},
    **{encode_map({_QOS: qos, _RETAINED: True}): Delivery(qos, True) for qos in range(3)},
}
"""What the most frequent properties mean, so that they need not be decoded for each subscriber."""


def to_message(packet: Publish) -> ActiveMQMessage:
    """Return the message of a PUBLISH, without ids and destination."""
    message = ActiveMQBytesMessage(content=packet.payload)
    message.priority = _DEFAULT_PRIORITY
    message.timestamp = _clock.time_ms()
    message.persistent = packet.qos > 0
    message.marshalled_properties = _SENT[packet.qos, packet.retain]
    return message


def delivery_of(message: ActiveMQMessage) -> Delivery:
    """Return the QoS of a message, and whether the topic has kept it.

    A persistent message of a JMS client has QoS 1, any other one QoS 0. (mqtt-connector M80)
    """
    properties = message.marshalled_properties
    if not properties:
        return Delivery(int(message.persistent))
    found = _FOUND.get(properties)
    if found is not None:
        return found
    if len(properties) > _MAXIMUM_PROPERTIES:
        return Delivery(int(message.persistent))
    try:
        values = message.properties
    except JMSException as error:
        logger.warning("%s cannot be read for an MQTT client: %s", message.message_id, error)
        return Delivery(int(message.persistent))
    qos = values.get(_QOS)
    if not isinstance(qos, int) or not 0 <= qos <= max(_SENT)[0]:
        qos = int(message.persistent)
    return Delivery(qos, values.get(_RETAINED) is True)


def payload_of(message: ActiveMQMessage) -> bytes:
    """Return the body of a message; nothing, with a warning, if it cannot be read.

    One message must not end the connections of all subscribers that get it.
    """
    try:
        read = _READERS.get(message.TYPE)
        return LATEST_BODY.of(message) if read is None else read(message)
    except JMSException as error:
        logger.warning("%s cannot be read for an MQTT client: %s", message.message_id, error)
        return b""


def _content(message: ActiveMQMessage) -> bytes:
    content = message.content or b""
    return inflate(content, _MAXIMUM_MAP) if message.compressed else content


def _map_as_json(message: ActiveMQMessage) -> bytes:
    content = _content(message)
    if len(content) > _MAXIMUM_MAP:
        raise JMSException(f"The map has {len(content)} bytes; at most {_MAXIMUM_MAP} become JSON")
    values = decode_map(content, _MAXIMUM_VALUES) if content else {}
    return json.dumps(values, ensure_ascii=False, default=_as_text).encode("utf-8", "replace")


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


_READERS: Final = {
    ActiveMQMapMessage.TYPE: _map_as_json,
    ActiveMQStreamMessage.TYPE: _content,
    ActiveMQObjectMessage.TYPE: _content,
}
"""By the message's type; of others, the body is a text or bytes."""
