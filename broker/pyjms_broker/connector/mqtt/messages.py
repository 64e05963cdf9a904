"""Conversion of PUBLISH packets to messages, and of messages to PUBLISH packets.

    JMS                     MQTT
    text                    the text as UTF-8
    bytes                   the bytes
    map                     a JSON object
    stream, object          the body as it is stored
    others                  nothing

Properties of 5.0 become headers and properties, and the other way round.
(mqtt-connector M60, M80, M112, M120 to M122, M143)
"""

from __future__ import annotations

import base64
import json
import re
from typing import Final, NamedTuple

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.conversions import NULLS, PROPERTY_READS, convert
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.limits import inflate
from pyjms.wire.mqtt import Properties, Publish, check_topic
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    MessageId,
)
from pyjms.wire.openwire.primitives import decode_map, encode_map, encode_text
from pyjms_broker.connector.bodies import LATEST_BODY
from pyjms_broker.connector.mqtt.topics import DefaultSubscriptions, unusable

logger = get_logger(__name__)

_QOS: Final = "ActiveMQ.MQTT.QoS"
_RETAIN: Final = "ActiveMQ.Retain"
_RETAINED: Final = "ActiveMQ.Retained"
_WAS_RETAIN: Final = "ActiveMQ.MQTT.Retain"
"""The flag RETAIN of PUBLISH, as the topic removes `_RETAIN`."""
_CONTENT_TYPE: Final = "ActiveMQ.MQTT.ContentType"
_CORRELATION: Final = "ActiveMQ.MQTT.CorrelationData"
"""The correlation data in hexadecimal digits, if it is not UTF-8."""
_OWN: Final = ("ActiveMQ.", "JMS")
"""Prefixes of the properties that have a meaning of their own, and are no user properties."""
_HEX: Final = re.compile("(?:[0-9a-f]{2})*")
_LONGEST_EXPIRY: Final = 2**32 - 1
_DEFAULT_PRIORITY: Final = 4
_MAXIMUM_PROPERTIES: Final = 1024 * 1024
_MAXIMUM_MAP: Final = 1024 * 1024
"""Bytes of a map's body, because its conversion blocks the loop."""
_MAXIMUM_VALUES: Final = 10_000


class Delivery(NamedTuple):
    """How a message is delivered."""

    qos: int
    is_retained: bool = False


_SENT: Final = tuple(
    (encode_map({_QOS: qos}), encode_map({_QOS: qos, _RETAIN: True, _WAS_RETAIN: True}))
    for qos in range(3)
)
"""The properties of messages of MQTT clients, by QoS and RETAIN."""
FREQUENT_DELIVERIES: Final[dict[bytes | None, Delivery]] = {
    **{encode_map({_QOS: qos}): Delivery(qos) for qos in range(3)},
    **{
        encode_map({_QOS: qos, _WAS_RETAIN: True, _RETAINED: True}): Delivery(qos, True)
        for qos in range(3)
    },
}
"""What the most frequent properties mean, so that they need not be decoded for each subscriber."""


def to_message(
    packet: Publish,
    destination: Destination,
    strategy: DefaultSubscriptions,
    message_id: MessageId,
    now: int,
) -> ActiveMQMessage:
    """Return the message of a PUBLISH, sent at `now` (ms) by the producer of its id.

    Raises:
        MessageFormatException: the payload is not the text that it says it is, or the response
            topic is wrong.
    """
    qos = packet.qos
    message = ActiveMQBytesMessage(
        message_id.producer_id, destination, None, None, message_id, persistent=qos > 0,
        priority=_DEFAULT_PRIORITY, timestamp=now, content=packet.payload,
        marshalled_properties=_SENT[qos][packet.retain],
    )  # fmt: skip
    return _with_properties(message, packet, strategy) if packet.properties else message


def _with_properties(
    message: ActiveMQMessage, packet: Publish, strategy: DefaultSubscriptions
) -> ActiveMQMessage:
    """Return the message with the properties of 5.0."""
    properties = packet.properties
    if properties.get("payload_format_indicator"):
        message = _as_text_message(message)
    kept: dict[str, object] = {
        name: value
        for name, value in properties.get("user_property", ())
        if name and not name.startswith(_OWN)
    }
    kept[_QOS] = packet.qos
    if packet.retain:
        kept[_RETAIN] = kept[_WAS_RETAIN] = True
    if "content_type" in properties:
        kept[_CONTENT_TYPE] = properties["content_type"]
    if "correlation_data" in properties:
        data = properties["correlation_data"]
        try:
            message.correlation_id = data.decode()
        except UnicodeDecodeError:
            message.correlation_id = kept[_CORRELATION] = data.hex()
    if "response_topic" in properties:
        text = properties["response_topic"]
        problem = check_topic(text) or unusable(text)
        if problem is not None:
            raise MessageFormatException(f"The response topic is wrong: {problem}")
        message.reply_to = strategy.topic(text)
    if "message_expiry_interval" in properties:
        lifetime = 1000 * properties["message_expiry_interval"]
        message.expiration = message.timestamp + max(lifetime, 1)
    message.marshalled_properties = encode_map(kept)
    return message


def _as_text_message(message: ActiveMQMessage) -> ActiveMQMessage:
    try:
        content = encode_text((message.content or b"").decode())
    except UnicodeDecodeError as error:
        raise MessageFormatException("The payload is not UTF-8") from error
    return ActiveMQTextMessage(
        message.producer_id, message.destination, None, None, message.message_id, content=content,
        priority=message.priority, timestamp=message.timestamp, persistent=message.persistent,
    )  # fmt: skip


def properties_of(message: ActiveMQMessage, strategy: DefaultSubscriptions) -> Properties:
    """Return the properties of 5.0 for a message. (mqtt-connector M143)"""
    found: Properties = {}
    if message.TYPE == ActiveMQTextMessage.TYPE:
        found["payload_format_indicator"] = True
    if message.expiration:
        left = message.expiration - _clock.time_ms()
        found["message_expiry_interval"] = min(max(left // 1000, 0), _LONGEST_EXPIRY)
    if message.reply_to is not None and message.reply_to.is_topic:
        found["response_topic"] = strategy.text(message.reply_to)
    if message.correlation_id is not None:
        found["correlation_data"] = message.correlation_id.encode("utf-8", "replace")
    marshalled = message.marshalled_properties
    if not marshalled or marshalled in FREQUENT_DELIVERIES or len(marshalled) > _MAXIMUM_PROPERTIES:
        return found
    try:
        values = message.properties
    except JMSException as error:
        logger.warning("%s cannot be read for an MQTT client: %s", message.message_id, error)
        return found
    content_type, correlation = values.get(_CONTENT_TYPE), values.get(_CORRELATION)
    if isinstance(content_type, str):
        found["content_type"] = content_type
    if isinstance(correlation, str) and _HEX.fullmatch(correlation):
        found["correlation_data"] = bytes.fromhex(correlation)
    pairs = [
        (name, _text(value))
        for name, value in values.items()
        if value is not None and not name.startswith(_OWN)
    ]
    if pairs:
        found["user_property"] = pairs
    return found


def _text(value: object) -> str:
    if isinstance(value, dict | list | bytes):
        return str(value)
    return str(convert(value, "String", PROPERTY_READS, NULLS))


def was_retained(message: ActiveMQMessage) -> bool:
    """Return whether an MQTT client has sent a message with the flag RETAIN."""
    marshalled = message.marshalled_properties
    if not marshalled or _WAS_RETAIN.encode() not in marshalled:
        return False
    try:
        return message.properties.get(_WAS_RETAIN) is True
    except JMSException:  # `delivery_of` logs it
        return False


def delivery_of(message: ActiveMQMessage) -> Delivery:
    """Return the QoS of a message, and whether the topic has kept it.

    A persistent message of a JMS client has QoS 1, any other one QoS 0. (mqtt-connector M80)
    """
    properties = message.marshalled_properties
    found = FREQUENT_DELIVERIES.get(properties)
    if found is not None:
        return found
    if not properties or len(properties) > _MAXIMUM_PROPERTIES:
        return Delivery(int(message.persistent))
    try:
        values = message.properties
    except JMSException as error:
        logger.warning("%s cannot be read for an MQTT client: %s", message.message_id, error)
        return Delivery(int(message.persistent))
    qos = values.get(_QOS)
    if not isinstance(qos, int) or not 0 <= qos < len(_SENT):
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
