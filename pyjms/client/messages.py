"""Conversion between JMS messages and OpenWire commands.

A send encodes a new command, so the sender may change its message at once. A delivery creates a
message that decodes properties and body when they are first read; if the message is sent on, parts
that were not decoded keep their received bytes. (openwire-encoding 7, 8, 11 and 18)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from pyjms.enums import DeliveryMode
from pyjms.errors import MessageFormatException, ProtocolViolation
from pyjms.jms.api import MessageTransformer
from pyjms.jms.blob import BlobBody, BlobMessage
from pyjms.jms.failure_reason import ORIGINAL_EXPIRATION
from pyjms.jms.message import (
    Acknowledger,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.scheduled import AMQ_SCHEDULED_DELAY, AMQ_SCHEDULED_ID, JMS_DELIVERY_TIME
from pyjms.jms.types import Long
from pyjms.wire.limits import MAX_INFLATED_SIZE, inflate, inflate_sized
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.primitives import (
    decode_map,
    decode_text,
    decode_values,
    encode_map,
    encode_text,
    encode_values,
)

if TYPE_CHECKING:
    from pyjms.client.consumer import ActiveMQMessageConsumer
    from pyjms.client.producer import ActiveMQMessageProducer

_PERSISTENT: Final = DeliveryMode.PERSISTENT
_NON_PERSISTENT: Final = DeliveryMode.NON_PERSISTENT


class CommandSource:
    """The command of a received message; decodes properties and body on demand."""

    __slots__ = ("_max_inflated_size", "command")

    def __init__(
        self, command: commands.ActiveMQMessage, max_inflated_size: int = MAX_INFLATED_SIZE
    ) -> None:
        """Decode `command`, whose body inflates to at most `max_inflated_size` bytes."""
        self.command: commands.ActiveMQMessage = command
        self._max_inflated_size = max_inflated_size

    def decode_properties(self) -> dict[str, object]:
        """Return the application's properties.

        Raises:
            MessageFormatException: they cannot be decoded.
        """
        data = self.command.marshalled_properties
        if not data:
            return {}
        try:
            values = decode_map(data)
        except ProtocolViolation as error:
            raise MessageFormatException(f"Damaged message properties: {error}") from error
        values.pop(JMS_DELIVERY_TIME, None)
        return values

    def decode_body(self) -> object:
        """Return the body, decompressed if it was compressed.

        Raises:
            MessageFormatException: it cannot be decoded, or inflates beyond the limit.
        """
        command = self.command
        decode, empty = _DECODERS.get(command.TYPE, _NO_BODY)
        content = command.content
        if not content:
            return empty()
        try:
            if command.compressed:
                is_sized = command.TYPE == commands.ActiveMQBytesMessage.TYPE
                inflated = inflate_sized if is_sized else inflate
                content = inflated(content, self._max_inflated_size)
            return decode(content)
        except ProtocolViolation as error:
            raise MessageFormatException(f"Damaged message body: {error}") from error

    def provider_property(self, name: str) -> object:
        """Return a property that only the provider sets, such as JMSXProducerTXID."""
        return _PROVIDER_PROPERTIES[name](self.command)


class ReroutedSource(CommandSource):
    """The command of a message that the broker rerouted: a dead letter, a virtual topic's copy.

    Hides the broker's internal property, which no JMS client shows. (jms-api 10.6)
    """

    __slots__ = ()

    def decode_properties(self) -> dict[str, object]:
        values = super().decode_properties()
        values.pop(ORIGINAL_EXPIRATION, None)
        return values


def from_command(
    command: commands.ActiveMQMessage,
    redelivery_counter: int | None = None,
    source: CommandSource | None = None,
    acknowledger: Acknowledger | None = None,
    delivery: object = None,
) -> Message:
    """Return the JMS message for a received `command`.

    Args:
        command: the message as received from the wire.
        redelivery_counter: the dispatch's counter, which takes precedence; None: the command's.
        source: decodes `command`; None: a plain CommandSource.
        acknowledger: called by `message.acknowledge()`.
        delivery: the dispatch, for the session.
    """
    counter = command.redelivery_counter if redelivery_counter is None else redelivery_counter
    kind = _MESSAGES.get(command.TYPE, Message)
    message = kind.__new__(kind)
    message.provider_id = command.message_id
    message.source = source or CommandSource(command)
    message.own_delivery_time = message.decoded_properties = message.raw_body = None
    message.is_body_encoded = True
    message.acknowledger = acknowledger
    message.provider_delivery = delivery
    message.timestamp = command.timestamp
    message.correlation_id = command.correlation_id
    message.reply_to = command.reply_to
    message.destination = command.destination
    message.original_destination = command.original_destination
    message.delivery_mode = _PERSISTENT if command.persistent else _NON_PERSISTENT
    message.redelivered = counter > 0
    message.delivery_count = counter + 1
    message.type = command.type
    message.expiration = command.expiration
    message.priority = command.priority
    message.group_id = command.group_id
    message.group_sequence = command.group_sequence
    message.user_id = command.user_id
    message.read_only_body = True
    message.read_only_properties = True
    return message


def command_of(message: Message) -> commands.ActiveMQMessage:
    """Return the command of a received message. Do not change it.

    Raises:
        MessageFormatException: the message was not received.
    """
    source = message.source
    if not isinstance(source, CommandSource):
        raise MessageFormatException(
            f"This {type(message).__name__} was not received from a broker",
            hint="only a received message has a command",
        )
    return source.command


def to_command(
    message: Message,
    message_id: commands.MessageId,
    producer_id: commands.ProducerId,
    transaction_id: commands.TransactionId | None = None,
    *,
    use_compression: bool = False,
    nested_map_and_list_enabled: bool = True,
) -> commands.ActiveMQMessage:
    """Return a new command with the headers, properties and body that `message` has now.

    The producer has set destination, delivery mode, priority, timestamp and expiration on the
    message; this sets its `message_id`.

    Raises:
        MessageFormatException: a value cannot be written, or is a list or dict while
            `nested_map_and_list_enabled` is off.
    """
    message.provider_id = message_id
    source, values = message.source, message.decoded_properties
    received = source.command if isinstance(source, CommandSource) else None
    kind, encode = _ENCODINGS.get(type(message)) or _encoding_of(message)
    compressed = False
    try:
        if received is not None and message.is_body_encoded:
            content, compressed = received.content, received.compressed
        else:
            if message.is_body_encoded:
                message.load_body()
            content = None if message.raw_body is None else encode(message.raw_body)
            if use_compression and content:
                content, compressed = _compress(message, content), True
        if values:
            properties: bytes | None = encode_map(values)
        elif values is None and received is not None:
            properties = received.marshalled_properties
        else:
            properties = None
    except ProtocolViolation as error:
        raise MessageFormatException(f"The message cannot be written: {error.reason}") from error
    if not nested_map_and_list_enabled:
        _refuse_containers(message)
    return kind(
        producer_id,
        message.destination,
        transaction_id,
        None,
        message_id,
        None,
        message.group_id,
        message.group_sequence,
        message.correlation_id,
        message.delivery_mode == _PERSISTENT,
        message.expiration,
        message.priority,
        message.reply_to,
        message.timestamp,
        message.type,
        content,
        properties,
        None,
        None,
        compressed,
    )


def delay_delivery(
    command: commands.ActiveMQMessage, milliseconds: int, delivery_time: int
) -> None:
    """Set the broker's scheduler to deliver `command` later; receivers see `delivery_time`.

    OpenWire has no field for the delivery time: the property has the name of the JMS header, as
    proposed for ActiveMQ (AMQ-8320). The mark of a message that the scheduler has delivered before
    is removed: otherwise it would be delivered at once. (activemq-broker S1)
    """
    data = command.marshalled_properties
    values = decode_map(data) if data else {}
    values.pop(AMQ_SCHEDULED_ID, None)
    values[AMQ_SCHEDULED_DELAY] = Long(milliseconds)
    values[JMS_DELIVERY_TIME] = Long(delivery_time)
    command.marshalled_properties = encode_map(values)


def parse_message_id(text: str) -> commands.MessageId:
    """Parse an id (`ID:host-port-millis-n:1:1:1:5`); keep an id of another form as text."""
    parts = text.rsplit(":", 3)
    if len(parts) == 4 and parts[0]:
        numbers = parts[1:]
        if all(number.lstrip("-").isdecimal() for number in numbers):
            session, producer, sequence = map(int, numbers)
            return commands.MessageId(
                None, commands.ProducerId(parts[0], producer, session), sequence
            )
    return commands.MessageId(text)


def _compress(message: Message, content: bytes) -> bytes:
    packed = zlib.compress(content)
    if isinstance(message, BytesMessage):
        packed = len(content).to_bytes(4, "big") + packed
    return packed


def _refuse_containers(message: Message) -> None:
    values = [(f"Property {name!r:.100}", value) for name, value in message.properties.items()]
    if isinstance(message, MapMessage):
        values += [(f"Value {name!r:.100}", value) for name, value in message.items()]
    for where, value in values:
        if isinstance(value, dict | list):
            raise MessageFormatException(
                f"{where}: a value of class {type(value).__name__} has no JMS type",
                hint="set the option jms.nestedMapAndListEnabled=true",
            )


def _encoding_of(
    message: Message,
) -> tuple[Callable[..., commands.ActiveMQMessage], Callable[[Any], bytes | None]]:
    """Return the encoding of a message class that the application derived, or of a blob message."""
    if isinstance(message, BlobMessage):
        return partial(_blob_command, message.body), _nothing
    return next(_ENCODINGS[kind] for kind in type(message).__mro__ if kind in _ENCODINGS)


def _blob_command(body: BlobBody, *fields: object) -> commands.ActiveMQBlobMessage:
    command = commands.ActiveMQBlobMessage(body.url, body.mime_type, body.deleted_by_broker)
    plain = commands.ActiveMQMessage(*cast("Any", fields))
    for field in commands.ActiveMQMessage.LAYOUT:
        setattr(command, field.name, getattr(plain, field.name))
    return command


def _nothing(_: object = None) -> None:
    return None


# The command of a message, and the encoder of its body; empty bodies are sent as none.
_ENCODINGS: Final[
    dict[type[Message], tuple[type[commands.ActiveMQMessage], Callable[[Any], bytes | None]]]
] = {
    Message: (commands.ActiveMQMessage, _nothing),
    TextMessage: (commands.ActiveMQTextMessage, encode_text),
    BytesMessage: (commands.ActiveMQBytesMessage, lambda data: bytes(data) or None),
    MapMessage: (
        commands.ActiveMQMapMessage,
        lambda values: encode_map(values) if values else None,
    ),
    StreamMessage: (
        commands.ActiveMQStreamMessage,
        lambda values: encode_values(values) if values else None,
    ),
    ObjectMessage: (commands.ActiveMQObjectMessage, bytes),
}

_MESSAGES: Final[dict[int, type[Message]]] = {
    commands.ActiveMQBlobMessage.TYPE: BlobMessage,
    **{command.TYPE: message for message, (command, _) in _ENCODINGS.items()},
}

_NO_BODY: Final[tuple[Callable[[bytes], object], Callable[[], object]]] = (_nothing, _nothing)

# The decoder of a body, and the value of a missing body.
_DECODERS: Final[dict[int, tuple[Callable[[bytes], object], Callable[[], object]]]] = {
    commands.ActiveMQTextMessage.TYPE: (decode_text, _nothing),
    commands.ActiveMQBytesMessage.TYPE: (bytes, bytes),
    commands.ActiveMQMapMessage.TYPE: (decode_map, dict),
    commands.ActiveMQStreamMessage.TYPE: (decode_values, list),
    commands.ActiveMQObjectMessage.TYPE: (bytes, _nothing),
}


def _producer_transaction(command: commands.ActiveMQMessage) -> str | None:
    transaction = command.original_transaction_id or command.transaction_id
    return None if transaction is None else str(transaction)


def _delivery_time(command: commands.ActiveMQMessage) -> object:
    data = command.marshalled_properties
    return decode_map(data).get(JMS_DELIVERY_TIME) if data else None


_PROVIDER_PROPERTIES: Final[dict[str, Callable[[commands.ActiveMQMessage], object]]] = {
    "JMSXProducerTXID": _producer_transaction,
    JMS_DELIVERY_TIME: _delivery_time,
    "JMSXGroupFirstForConsumer": lambda c: c.jms_xgroup_first_for_consumer,
    "JMSActiveMQBrokerInTime": lambda c: Long(c.broker_in_time),
    "JMSActiveMQBrokerOutTime": lambda c: Long(c.broker_out_time),
    "JMSActiveMQBrokerPath": lambda c: (
        None if c.broker_path is None else ",".join(str(broker) for broker in c.broker_path)
    ),
}


def transform_sent(
    transformer: MessageTransformer, producer: ActiveMQMessageProducer, message: Message
) -> Message:
    """Return the message to send: `message` itself if the transformer returns None.

    Raises:
        TypeError: the transformer returned anything else than a message.
    """
    result = transformer.producer_transform(producer.session, producer, message)
    return message if result is None else _check(transformer, "producer_transform", result)


def transform_received(
    transformer: MessageTransformer, consumer: ActiveMQMessageConsumer, message: Message
) -> Message:
    """Return the message to deliver: `message` itself if the transformer returns None.

    A message that is delivered instead is acknowledged like the original.

    Raises:
        TypeError: the transformer returned anything else than a message.
    """
    result = transformer.consumer_transform(consumer.session, consumer, message)
    if result is None or result is message:
        return message
    replacement = _check(transformer, "consumer_transform", result)
    replacement.acknowledger = message.acknowledger
    replacement.provider_delivery = message.provider_delivery
    return replacement


def _check(transformer: MessageTransformer, method: str, result: object) -> Message:
    if isinstance(result, Message):
        return result
    close = getattr(result, "close", None)  # a coroutine that is never awaited warns otherwise
    if close is not None:
        close()
    raise TypeError(
        f"{method} of {type(transformer).__name__} returned a {type(result).__name__}: it must be"
        " a plain function that returns a Message, or None for no change"
    )
