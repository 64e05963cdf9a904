"""The seven message types, the commands that deliver them, and what consumers send back."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, DataStructure, Field, Throwable
from pyjms.wire.openwire.commands.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    MessageId,
    ProducerId,
    TransactionId,
)

__all__ = [
    "MESSAGE_OVERHEAD",
    "AckType",
    "ActiveMQBlobMessage",
    "ActiveMQBytesMessage",
    "ActiveMQMapMessage",
    "ActiveMQMessage",
    "ActiveMQObjectMessage",
    "ActiveMQStreamMessage",
    "ActiveMQTextMessage",
    "MessageAck",
    "MessageDispatch",
    "MessageDispatchNotification",
    "MessagePull",
    "TransactionInfo",
    "TransactionType",
    "message_size",
]

MESSAGE_OVERHEAD: Final = 1024
"""Bytes counted for a message in addition to properties and body. (openwire-encoding 8)"""


class ActiveMQMessage(BaseCommand):
    """A message without a body; the base of all message types.

    `raw` is not a field: the body as received (loose, uncached, version 12, without size and
    type), kept so that the broker stores and dispatches the same bytes. See `openwire.raw`.
    """

    # generated: ActiveMQMessage
    # fmt: off
    __slots__ = (
        "arrival", "broker_in_time", "broker_out_time", "broker_path", "cluster", "compressed",
        "content", "correlation_id", "data_structure", "destination", "droppable", "expiration",
        "group_id", "group_sequence", "jms_xgroup_first_for_consumer", "marshalled_properties",
        "message_id", "original_destination", "original_transaction_id", "persistent",
        "priority", "producer_id", "raw", "received_by_df_bridge", "redelivery_counter",
        "reply_to", "target_consumer_id", "timestamp", "transaction_id", "type", "user_id",
    )
    TYPE: ClassVar[int] = 23
    MARSHALL_AWARE: ClassVar[bool] = True
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("producer_id", kinds.CACHED, 1, "ProducerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("transaction_id", kinds.CACHED, 1, "TransactionId"),
        Field("original_destination", kinds.CACHED, 1, "Destination"),
        Field("message_id", kinds.NESTED, 1, "MessageId"),
        Field("original_transaction_id", kinds.CACHED, 1, "TransactionId"),
        Field("group_id", kinds.STRING, 1), Field("group_sequence", kinds.INT, 1),
        Field("correlation_id", kinds.STRING, 1), Field("persistent", kinds.BOOLEAN, 1),
        Field("expiration", kinds.LONG, 1), Field("priority", kinds.BYTE, 1),
        Field("reply_to", kinds.NESTED, 1, "Destination"), Field("timestamp", kinds.LONG, 1),
        Field("type", kinds.STRING, 1), Field("content", kinds.BYTES, 1),
        Field("marshalled_properties", kinds.BYTES, 1),
        Field("data_structure", kinds.NESTED, 1, "any"),
        Field("target_consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("compressed", kinds.BOOLEAN, 1), Field("redelivery_counter", kinds.INT, 1),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"), Field("arrival", kinds.LONG, 1),
        Field("user_id", kinds.STRING, 1), Field("received_by_df_bridge", kinds.BOOLEAN, 1),
        Field("droppable", kinds.BOOLEAN, 2), Field("cluster", kinds.ARRAY, 3, "BrokerId"),
        Field("broker_in_time", kinds.LONG, 3), Field("broker_out_time", kinds.LONG, 3),
        Field("jms_xgroup_first_for_consumer", kinds.BOOLEAN, 10),
    )
    raw: bytes | None

    def __init__(
        self, producer_id: ProducerId | None = None, destination: Destination | None = None,
        transaction_id: TransactionId | None = None,
        original_destination: Destination | None = None, message_id: MessageId | None = None,
        original_transaction_id: TransactionId | None = None, group_id: str | None = None,
        group_sequence: int = 0, correlation_id: str | None = None, persistent: bool = False,
        expiration: int = 0, priority: int = 0, reply_to: Destination | None = None,
        timestamp: int = 0, type: str | None = None,  # noqa: A002 - the wire's name
        content: bytes | None = None, marshalled_properties: bytes | None = None,
        data_structure: DataStructure | Destination | None = None,
        target_consumer_id: ConsumerId | None = None, compressed: bool = False,
        redelivery_counter: int = 0, broker_path: list[BrokerId | None] | None = None,
        arrival: int = 0, user_id: str | None = None, received_by_df_bridge: bool = False,
        droppable: bool = False, cluster: list[BrokerId | None] | None = None,
        broker_in_time: int = 0, broker_out_time: int = 0,
        jms_xgroup_first_for_consumer: bool = False, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.destination = destination
        self.transaction_id = transaction_id
        self.original_destination = original_destination
        self.message_id = message_id
        self.original_transaction_id = original_transaction_id
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.correlation_id = correlation_id
        self.persistent = persistent
        self.expiration = expiration
        self.priority = priority
        self.reply_to = reply_to
        self.timestamp = timestamp
        self.type = type
        self.content = content
        self.marshalled_properties = marshalled_properties
        self.data_structure = data_structure
        self.target_consumer_id = target_consumer_id
        self.compressed = compressed
        self.redelivery_counter = redelivery_counter
        self.broker_path = broker_path
        self.arrival = arrival
        self.user_id = user_id
        self.received_by_df_bridge = received_by_df_bridge
        self.droppable = droppable
        self.cluster = cluster
        self.broker_in_time = broker_in_time
        self.broker_out_time = broker_out_time
        self.jms_xgroup_first_for_consumer = jms_xgroup_first_for_consumer
        self.raw = None
    # fmt: on
    # end generated


class ActiveMQBytesMessage(ActiveMQMessage):
    """A message of raw bytes."""

    # generated: ActiveMQBytesMessage
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 24
    # fmt: on
    # end generated


class ActiveMQMapMessage(ActiveMQMessage):
    """A message of names and typed values."""

    # generated: ActiveMQMapMessage
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 25
    # fmt: on
    # end generated


class ActiveMQObjectMessage(ActiveMQMessage):
    """A message with a serialized Java object, opaque here."""

    # generated: ActiveMQObjectMessage
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 26
    # fmt: on
    # end generated


class ActiveMQStreamMessage(ActiveMQMessage):
    """A message of a sequence of typed values."""

    # generated: ActiveMQStreamMessage
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 27
    # fmt: on
    # end generated


class ActiveMQTextMessage(ActiveMQMessage):
    """A message of text."""

    # generated: ActiveMQTextMessage
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 28
    # fmt: on
    # end generated


class ActiveMQBlobMessage(ActiveMQMessage):
    """A message that refers to a large body stored elsewhere."""

    # generated: ActiveMQBlobMessage
    # fmt: off
    __slots__ = ("deleted_by_broker", "mime_type", "remote_blob_url")
    TYPE: ClassVar[int] = 29
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *ActiveMQMessage.LAYOUT, Field("remote_blob_url", kinds.STRING, 3),
        Field("mime_type", kinds.STRING, 3), Field("deleted_by_broker", kinds.BOOLEAN, 3),
    )

    def __init__(
        self, remote_blob_url: str | None = None,
        mime_type: str | None = "application/octet-stream", deleted_by_broker: bool = False,
    ) -> None:
        super().__init__()
        self.remote_blob_url = remote_blob_url
        self.mime_type = mime_type
        self.deleted_by_broker = deleted_by_broker
    # fmt: on
    # end generated


def message_size(message: ActiveMQMessage) -> int:
    """Return a message's size in bytes, as both ends count it in windows, limits and caches.

    (activemq-broker M6)
    """
    content, properties = message.content, message.marshalled_properties
    return MESSAGE_OVERHEAD + len(content or b"") + len(properties or b"")


class AckType(IntEnum):
    """MessageAck.ack_type. (openwire-encoding 12)"""

    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


class TransactionType(IntEnum):
    """TransactionInfo.type. (openwire-encoding 13)"""

    BEGIN = 0
    PREPARE = 1
    COMMIT_ONE_PHASE = 2
    COMMIT_TWO_PHASE = 3
    ROLLBACK = 4
    RECOVER = 5
    FORGET = 6
    END = 7


class MessagePull(BaseCommand):
    """Requests one message without prefetch; `timeout` in ms, 0 for ever, -1 do not wait."""

    # generated: MessagePull
    # fmt: off
    __slots__ = ("consumer_id", "correlation_id", "destination", "message_id", "timeout")
    TYPE: ClassVar[int] = 20
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 2, "ConsumerId"),
        Field("destination", kinds.CACHED, 2, "Destination"), Field("timeout", kinds.LONG, 2),
        Field("correlation_id", kinds.STRING, 3),
        Field("message_id", kinds.NESTED, 3, "MessageId"),
    )

    def __init__(
        self, consumer_id: ConsumerId | None = None, destination: Destination | None = None,
        timeout: int = 0, correlation_id: str | None = None,
        message_id: MessageId | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.timeout = timeout
        self.correlation_id = correlation_id
        self.message_id = message_id
    # fmt: on
    # end generated


class MessageDispatch(BaseCommand):
    """A message for a consumer; without a message, the end of a browse or of a pull.

    `rollback_cause` is the client's own and not sent: why its listener failed, as in ActiveMQ.
    """

    # generated: MessageDispatch
    # fmt: off
    __slots__ = (
        "consumer_id", "destination", "message", "redelivery_counter", "rollback_cause",
    )
    TYPE: ClassVar[int] = 21
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("message", kinds.NESTED, 1, "ActiveMQMessage"),
        Field("redelivery_counter", kinds.INT, 1),
    )
    rollback_cause: BaseException | None

    def __init__(
        self, consumer_id: ConsumerId | None = None, destination: Destination | None = None,
        message: ActiveMQMessage | None = None, redelivery_counter: int = 0,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.message = message
        self.redelivery_counter = redelivery_counter
        self.rollback_cause = None
    # fmt: on
    # end generated


class MessageAck(BaseCommand):
    """What happened to the messages from first to last, as AckType says."""

    # generated: MessageAck
    # fmt: off
    __slots__ = (
        "ack_type", "consumer_id", "destination", "first_message_id", "last_message_id",
        "message_count", "poison_cause", "transaction_id",
    )
    TYPE: ClassVar[int] = 22
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("destination", kinds.CACHED, 1, "Destination"),
        Field("transaction_id", kinds.CACHED, 1, "TransactionId"),
        Field("consumer_id", kinds.CACHED, 1, "ConsumerId"), Field("ack_type", kinds.BYTE, 1),
        Field("first_message_id", kinds.NESTED, 1, "MessageId"),
        Field("last_message_id", kinds.NESTED, 1, "MessageId"),
        Field("message_count", kinds.INT, 1), Field("poison_cause", kinds.THROWABLE, 7),
    )

    def __init__(
        self, destination: Destination | None = None,
        transaction_id: TransactionId | None = None, consumer_id: ConsumerId | None = None,
        ack_type: int = 0, first_message_id: MessageId | None = None,
        last_message_id: MessageId | None = None, message_count: int = 0,
        poison_cause: Throwable | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.destination = destination
        self.transaction_id = transaction_id
        self.consumer_id = consumer_id
        self.ack_type = ack_type
        self.first_message_id = first_message_id
        self.last_message_id = last_message_id
        self.message_count = message_count
        self.poison_cause = poison_cause
    # fmt: on
    # end generated


class MessageDispatchNotification(BaseCommand):
    """Tells a slave broker which consumer received a message."""

    # generated: MessageDispatchNotification
    # fmt: off
    __slots__ = ("consumer_id", "delivery_sequence_id", "destination", "message_id")
    TYPE: ClassVar[int] = 90
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("delivery_sequence_id", kinds.LONG, 1),
        Field("message_id", kinds.NESTED, 1, "MessageId"),
    )

    def __init__(
        self, consumer_id: ConsumerId | None = None, destination: Destination | None = None,
        delivery_sequence_id: int = 0, message_id: MessageId | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.delivery_sequence_id = delivery_sequence_id
        self.message_id = message_id
    # fmt: on
    # end generated


class TransactionInfo(BaseCommand):
    """A step of a transaction; see TransactionType."""

    # generated: TransactionInfo
    # fmt: off
    __slots__ = ("connection_id", "transaction_id", "type")
    TYPE: ClassVar[int] = 7
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("transaction_id", kinds.CACHED, 1, "TransactionId"), Field("type", kinds.BYTE, 1),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None,
        transaction_id: TransactionId | None = None, type: int = 0,  # noqa: A002 - the wire's name
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.transaction_id = transaction_id
        self.type = type
    # fmt: on
    # end generated
