"""Commands that deliver messages, and what consumers send back."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, Field, Throwable
from pyjms.wire.openwire.commands.ids import (
    ConnectionId,
    ConsumerId,
    MessageId,
    TransactionId,
)
from pyjms.wire.openwire.commands.messages import ActiveMQMessage

__all__ = [
    "AckType",
    "MessageAck",
    "MessageDispatch",
    "MessageDispatchNotification",
    "MessagePull",
    "TransactionInfo",
    "TransactionType",
]


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
