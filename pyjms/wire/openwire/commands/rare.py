"""Commands: journal records, discovery and what brokers tell each other."""

from __future__ import annotations

from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands.base import (
    ARRAY,
    BOOLEAN,
    BYTE,
    CACHED,
    INT,
    LONG,
    NESTED,
    STRING,
    BaseCommand,
    DataStructure,
    Field,
)
from pyjms.wire.openwire.commands.delivery import MessageAck
from pyjms.wire.openwire.commands.ids import (
    BrokerId,
    MessageId,
    TransactionId,
)
from pyjms.wire.openwire.commands.members import ConsumerInfo

__all__ = [
    "BrokerSubscriptionInfo",
    "DiscoveryEvent",
    "JournalQueueAck",
    "JournalTopicAck",
    "JournalTrace",
    "JournalTransaction",
    "NetworkBridgeFilter",
    "SubscriptionInfo",
]


class DiscoveryEvent(DataStructure):
    """A broker seen by a discovery agent."""

    __slots__ = (
        "broker_name",
        "service_name",
    )
    TYPE: ClassVar[int] = 40
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("service_name", STRING, 1),
        Field("broker_name", STRING, 1),
    )

    def __init__(
        self,
        service_name: str | None = None,
        broker_name: str | None = None,
    ) -> None:
        self.service_name = service_name
        self.broker_name = broker_name


class JournalTopicAck(DataStructure):
    """Journal: a topic acknowledgement."""

    __slots__ = (
        "client_id",
        "destination",
        "message_id",
        "message_sequence_id",
        "subscription_name",
        "transaction_id",
    )
    TYPE: ClassVar[int] = 50
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("destination", NESTED, 1),
        Field("message_id", NESTED, 1),
        Field("message_sequence_id", LONG, 1),
        Field("subscription_name", STRING, 1),
        Field("client_id", STRING, 1),
        Field("transaction_id", NESTED, 1),
    )

    def __init__(
        self,
        destination: Destination | None = None,
        message_id: MessageId | None = None,
        message_sequence_id: int = 0,
        subscription_name: str | None = None,
        client_id: str | None = None,
        transaction_id: TransactionId | None = None,
    ) -> None:
        self.destination = destination
        self.message_id = message_id
        self.message_sequence_id = message_sequence_id
        self.subscription_name = subscription_name
        self.client_id = client_id
        self.transaction_id = transaction_id


class JournalQueueAck(DataStructure):
    """Journal: a queue acknowledgement."""

    __slots__ = (
        "destination",
        "message_ack",
    )
    TYPE: ClassVar[int] = 52
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("destination", NESTED, 1),
        Field("message_ack", NESTED, 1),
    )

    def __init__(
        self,
        destination: Destination | None = None,
        message_ack: MessageAck | None = None,
    ) -> None:
        self.destination = destination
        self.message_ack = message_ack


class JournalTrace(DataStructure):
    """Journal: a line of text."""

    __slots__ = ("message",)
    TYPE: ClassVar[int] = 53
    LAYOUT: ClassVar[tuple[Field, ...]] = (Field("message", STRING, 1),)

    def __init__(
        self,
        message: str | None = None,
    ) -> None:
        self.message = message


class JournalTransaction(DataStructure):
    """Journal: a transaction's step."""

    __slots__ = (
        "transaction_id",
        "type",
        "was_prepared",
    )
    TYPE: ClassVar[int] = 54
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("transaction_id", NESTED, 1),
        Field("type", BYTE, 1),
        Field("was_prepared", BOOLEAN, 1),
    )

    def __init__(
        self,
        transaction_id: TransactionId | None = None,
        type: int = 0,  # noqa: A002 - the wire's name
        was_prepared: bool = False,
    ) -> None:
        self.transaction_id = transaction_id
        self.type = type
        self.was_prepared = was_prepared


class SubscriptionInfo(DataStructure):
    """A durable subscription."""

    __slots__ = (
        "client_id",
        "destination",
        "no_local",
        "selector",
        "subscribed_destination",
        "subscription_name",
    )
    TYPE: ClassVar[int] = 55
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("client_id", STRING, 1),
        Field("destination", CACHED, 1),
        Field("selector", STRING, 1),
        Field("subscription_name", STRING, 1),
        Field("subscribed_destination", NESTED, 3),
        Field("no_local", BOOLEAN, 11),
    )

    def __init__(
        self,
        client_id: str | None = None,
        destination: Destination | None = None,
        selector: str | None = None,
        subscription_name: str | None = None,
        subscribed_destination: Destination | None = None,
        no_local: bool = False,
    ) -> None:
        self.client_id = client_id
        self.destination = destination
        self.selector = selector
        self.subscription_name = subscription_name
        self.subscribed_destination = subscribed_destination
        self.no_local = no_local


class NetworkBridgeFilter(DataStructure):
    """What a bridge lets pass."""

    __slots__ = (
        "consumer_ttl",
        "message_ttl",
        "network_broker_id",
    )
    TYPE: ClassVar[int] = 91
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("network_broker_id", CACHED, 1),
        Field("message_ttl", INT, 10),
        Field("consumer_ttl", INT, 10),
    )
    OLDER_LAYOUTS: ClassVar[dict[int, tuple[Field, ...]]] = dict.fromkeys(
        range(1, 10),
        (Field("message_ttl", INT, 1), Field("network_broker_id", CACHED, 1)),
    )

    def __init__(
        self,
        network_broker_id: BrokerId | None = None,
        message_ttl: int = 0,
        consumer_ttl: int = 0,
    ) -> None:
        self.network_broker_id = network_broker_id
        self.message_ttl = message_ttl
        self.consumer_ttl = consumer_ttl


class BrokerSubscriptionInfo(BaseCommand):
    """The durable subscriptions of a broker, for its bridges."""

    __slots__ = (
        "broker_id",
        "broker_name",
        "subscription_infos",
    )
    TYPE: ClassVar[int] = 92
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT,
        Field("broker_id", NESTED, 12),
        Field("broker_name", STRING, 12),
        Field("subscription_infos", ARRAY, 12),
    )

    def __init__(
        self,
        broker_id: BrokerId | None = None,
        broker_name: str | None = None,
        subscription_infos: list[ConsumerInfo | None] | None = None,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_name = broker_name
        self.subscription_infos = subscription_infos
