"""Structures that clients do not use: of older journals and of stores, and between brokers."""

from __future__ import annotations

from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, DataStructure, Field
from pyjms.wire.openwire.commands.delivery import MessageAck
from pyjms.wire.openwire.commands.ids import BrokerId, MessageId, TransactionId
from pyjms.wire.openwire.commands.resources import ConsumerInfo

__all__ = [
    "BrokerSubscriptionInfo",
    "DiscoveryEvent",
    "JournalQueueAck",
    "JournalTopicAck",
    "JournalTrace",
    "JournalTransaction",
    "SubscriptionInfo",
]


class JournalTopicAck(DataStructure):
    """Journal: a topic acknowledgement."""

    # generated: JournalTopicAck
    # fmt: off
    __slots__ = (
        "client_id", "destination", "message_id", "message_sequence_id", "subscription_name",
        "transaction_id",
    )
    TYPE: ClassVar[int] = 50
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("destination", kinds.NESTED, 1, "Destination"),
        Field("message_id", kinds.NESTED, 1, "MessageId"),
        Field("message_sequence_id", kinds.LONG, 1),
        Field("subscription_name", kinds.STRING, 1), Field("client_id", kinds.STRING, 1),
        Field("transaction_id", kinds.NESTED, 1, "TransactionId"),
    )

    def __init__(
        self, destination: Destination | None = None, message_id: MessageId | None = None,
        message_sequence_id: int = 0, subscription_name: str | None = None,
        client_id: str | None = None, transaction_id: TransactionId | None = None,
    ) -> None:
        self.destination = destination
        self.message_id = message_id
        self.message_sequence_id = message_sequence_id
        self.subscription_name = subscription_name
        self.client_id = client_id
        self.transaction_id = transaction_id
    # fmt: on
    # end generated


class JournalQueueAck(DataStructure):
    """Journal: a queue acknowledgement."""

    # generated: JournalQueueAck
    # fmt: off
    __slots__ = ("destination", "message_ack")
    TYPE: ClassVar[int] = 52
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("destination", kinds.NESTED, 1, "Destination"),
        Field("message_ack", kinds.NESTED, 1, "MessageAck"),
    )

    def __init__(
        self, destination: Destination | None = None, message_ack: MessageAck | None = None,
    ) -> None:
        self.destination = destination
        self.message_ack = message_ack
    # fmt: on
    # end generated


class JournalTrace(DataStructure):
    """Journal: a line of text."""

    # generated: JournalTrace
    # fmt: off
    __slots__ = ("message",)
    TYPE: ClassVar[int] = 53
    LAYOUT: ClassVar[tuple[Field, ...]] = (Field("message", kinds.STRING, 1),)

    def __init__(self, message: str | None = None) -> None:
        self.message = message
    # fmt: on
    # end generated


class JournalTransaction(DataStructure):
    """Journal: a transaction's step."""

    # generated: JournalTransaction
    # fmt: off
    __slots__ = ("transaction_id", "type", "was_prepared")
    TYPE: ClassVar[int] = 54
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("transaction_id", kinds.NESTED, 1, "TransactionId"), Field("type", kinds.BYTE, 1),
        Field("was_prepared", kinds.BOOLEAN, 1),
    )

    def __init__(
        self, transaction_id: TransactionId | None = None, type: int = 0,  # noqa: A002 - the wire's name
        was_prepared: bool = False,
    ) -> None:
        self.transaction_id = transaction_id
        self.type = type
        self.was_prepared = was_prepared
    # fmt: on
    # end generated


class SubscriptionInfo(DataStructure):
    """A durable subscription."""

    # generated: SubscriptionInfo
    # fmt: off
    __slots__ = (
        "client_id", "destination", "no_local", "selector", "subscribed_destination",
        "subscription_name",
    )
    TYPE: ClassVar[int] = 55
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("client_id", kinds.STRING, 1),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("selector", kinds.STRING, 1), Field("subscription_name", kinds.STRING, 1),
        Field("subscribed_destination", kinds.NESTED, 3, "Destination"),
        Field("no_local", kinds.BOOLEAN, 11),
    )

    def __init__(
        self, client_id: str | None = None, destination: Destination | None = None,
        selector: str | None = None, subscription_name: str | None = None,
        subscribed_destination: Destination | None = None, no_local: bool = False,
    ) -> None:
        self.client_id = client_id
        self.destination = destination
        self.selector = selector
        self.subscription_name = subscription_name
        self.subscribed_destination = subscribed_destination
        self.no_local = no_local
    # fmt: on
    # end generated


class DiscoveryEvent(DataStructure):
    """A broker found by a discovery agent."""

    # generated: DiscoveryEvent
    # fmt: off
    __slots__ = ("broker_name", "service_name")
    TYPE: ClassVar[int] = 40
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("service_name", kinds.STRING, 1), Field("broker_name", kinds.STRING, 1),
    )

    def __init__(
        self, service_name: str | None = None, broker_name: str | None = None,
    ) -> None:
        self.service_name = service_name
        self.broker_name = broker_name
    # fmt: on
    # end generated


class BrokerSubscriptionInfo(BaseCommand):
    """The durable subscriptions of a broker, for its bridges."""

    # generated: BrokerSubscriptionInfo
    # fmt: off
    __slots__ = ("broker_id", "broker_name", "subscription_infos")
    TYPE: ClassVar[int] = 92
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("broker_id", kinds.NESTED, 12, "BrokerId"),
        Field("broker_name", kinds.STRING, 12),
        Field("subscription_infos", kinds.ARRAY, 12, "ConsumerInfo"),
    )

    def __init__(
        self, broker_id: BrokerId | None = None, broker_name: str | None = None,
        subscription_infos: list[ConsumerInfo | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_name = broker_name
        self.subscription_infos = subscription_infos
    # fmt: on
    # end generated
