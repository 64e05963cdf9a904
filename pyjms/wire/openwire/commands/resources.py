"""Commands that describe brokers, and that add and remove connections and what they open."""

from __future__ import annotations

from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, DataStructure, Field
from pyjms.wire.openwire.commands.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
)
from pyjms.wire.openwire.commands.messages import MessageAck

__all__ = [
    "BrokerInfo",
    "BrokerSubscriptionInfo",
    "ConnectionInfo",
    "ConsumerInfo",
    "DestinationInfo",
    "DiscoveryEvent",
    "JournalQueueAck",
    "JournalTopicAck",
    "JournalTrace",
    "JournalTransaction",
    "NetworkBridgeFilter",
    "ProducerInfo",
    "RemoveInfo",
    "RemoveSubscriptionInfo",
    "SessionInfo",
    "SubscriptionInfo",
]


class BrokerInfo(BaseCommand):
    """Describes a broker; a network bridge sends it to introduce itself."""

    # generated: BrokerInfo
    # fmt: off
    __slots__ = (
        "broker_id", "broker_name", "broker_upload_url", "broker_url", "connection_id",
        "duplex_connection", "fault_tolerant_configuration", "master_broker",
        "network_connection", "network_properties", "peer_broker_infos", "slave_broker",
    )
    TYPE: ClassVar[int] = 2
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("broker_id", kinds.CACHED, 1, "BrokerId"),
        Field("broker_url", kinds.STRING, 1),
        Field("peer_broker_infos", kinds.ARRAY, 1, "BrokerInfo"),
        Field("broker_name", kinds.STRING, 1), Field("slave_broker", kinds.BOOLEAN, 1),
        Field("master_broker", kinds.BOOLEAN, 1),
        Field("fault_tolerant_configuration", kinds.BOOLEAN, 1),
        Field("duplex_connection", kinds.BOOLEAN, 2),
        Field("network_connection", kinds.BOOLEAN, 2), Field("connection_id", kinds.LONG, 2),
        Field("broker_upload_url", kinds.STRING, 3),
        Field("network_properties", kinds.STRING, 3),
    )

    def __init__(
        self, broker_id: BrokerId | None = None, broker_url: str | None = None,
        peer_broker_infos: list[BrokerInfo | None] | None = None,
        broker_name: str | None = None, slave_broker: bool = False, master_broker: bool = False,
        fault_tolerant_configuration: bool = False, duplex_connection: bool = False,
        network_connection: bool = False, connection_id: int = 0,
        broker_upload_url: str | None = None, network_properties: str | None = None,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_url = broker_url
        self.peer_broker_infos = peer_broker_infos
        self.broker_name = broker_name
        self.slave_broker = slave_broker
        self.master_broker = master_broker
        self.fault_tolerant_configuration = fault_tolerant_configuration
        self.duplex_connection = duplex_connection
        self.network_connection = network_connection
        self.connection_id = connection_id
        self.broker_upload_url = broker_upload_url
        self.network_properties = network_properties
    # fmt: on
    # end generated


class ConnectionInfo(BaseCommand):
    """Opens a connection, with its ids and credentials."""

    # generated: ConnectionInfo
    # fmt: off
    __slots__ = (
        "broker_master_connector", "broker_path", "client_id", "client_ip", "client_master",
        "connection_id", "failover_reconnect", "fault_tolerant", "manageable", "password",
        "user_name",
    )
    TYPE: ClassVar[int] = 3
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("client_id", kinds.STRING, 1), Field("password", kinds.STRING, 1),
        Field("user_name", kinds.STRING, 1), Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
        Field("broker_master_connector", kinds.BOOLEAN, 1),
        Field("manageable", kinds.BOOLEAN, 1), Field("client_master", kinds.BOOLEAN, 2),
        Field("fault_tolerant", kinds.BOOLEAN, 6),
        Field("failover_reconnect", kinds.BOOLEAN, 6), Field("client_ip", kinds.STRING, 8),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None, client_id: str | None = None,
        password: str | None = None, user_name: str | None = None,
        broker_path: list[BrokerId | None] | None = None, broker_master_connector: bool = False,
        manageable: bool = False, client_master: bool = True, fault_tolerant: bool = False,
        failover_reconnect: bool = False, client_ip: str | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.client_id = client_id
        self.password = password
        self.user_name = user_name
        self.broker_path = broker_path
        self.broker_master_connector = broker_master_connector
        self.manageable = manageable
        self.client_master = client_master
        self.fault_tolerant = fault_tolerant
        self.failover_reconnect = failover_reconnect
        self.client_ip = client_ip
    # fmt: on
    # end generated


class SessionInfo(BaseCommand):
    """Opens a session."""

    # generated: SessionInfo
    # fmt: off
    __slots__ = ("session_id",)
    TYPE: ClassVar[int] = 4
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("session_id", kinds.CACHED, 1, "SessionId"),
    )

    def __init__(
        self, session_id: SessionId | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.session_id = session_id
    # fmt: on
    # end generated


class NetworkBridgeFilter(DataStructure):
    """Limits the messages and consumers that a network bridge forwards."""

    # generated: NetworkBridgeFilter
    # fmt: off
    __slots__ = ("consumer_ttl", "message_ttl", "network_broker_id")
    TYPE: ClassVar[int] = 91
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("network_broker_id", kinds.CACHED, 1, "BrokerId"),
        Field("message_ttl", kinds.INT, 10), Field("consumer_ttl", kinds.INT, 10),
    )
    OLDER_LAYOUTS: ClassVar[dict[int, tuple[Field, ...]]] = dict.fromkeys(
        range(1, 10),
        (
            Field("message_ttl", kinds.INT, 1),
            Field("network_broker_id", kinds.CACHED, 1, "BrokerId"),
        ),
    )

    def __init__(
        self, network_broker_id: BrokerId | None = None, message_ttl: int = 0,
        consumer_ttl: int = 0,
    ) -> None:
        self.network_broker_id = network_broker_id
        self.message_ttl = message_ttl
        self.consumer_ttl = consumer_ttl
    # fmt: on
    # end generated


class ConsumerInfo(BaseCommand):
    """Opens a consumer."""

    # generated: ConsumerInfo
    # fmt: off
    __slots__ = (
        "additional_predicate", "broker_path", "browser", "client_id", "consumer_id",
        "destination", "dispatch_async", "exclusive", "maximum_pending_message_limit",
        "network_consumer_path", "network_subscription", "no_local", "no_range_acks",
        "optimized_acknowledge", "prefetch_size", "priority", "retroactive", "selector",
        "subscription_name",
    )
    TYPE: ClassVar[int] = 5
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("browser", kinds.BOOLEAN, 1),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("prefetch_size", kinds.INT, 1),
        Field("maximum_pending_message_limit", kinds.INT, 1),
        Field("dispatch_async", kinds.BOOLEAN, 1), Field("selector", kinds.STRING, 1),
        Field("client_id", kinds.STRING, 10), Field("subscription_name", kinds.STRING, 1),
        Field("no_local", kinds.BOOLEAN, 1), Field("exclusive", kinds.BOOLEAN, 1),
        Field("retroactive", kinds.BOOLEAN, 1), Field("priority", kinds.BYTE, 1),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
        Field("additional_predicate", kinds.NESTED, 1, "NetworkBridgeFilter"),
        Field("network_subscription", kinds.BOOLEAN, 1),
        Field("optimized_acknowledge", kinds.BOOLEAN, 1),
        Field("no_range_acks", kinds.BOOLEAN, 1),
        Field("network_consumer_path", kinds.ARRAY, 4, "ConsumerId"),
    )

    def __init__(
        self, consumer_id: ConsumerId | None = None, browser: bool = False,
        destination: Destination | None = None, prefetch_size: int = 0,
        maximum_pending_message_limit: int = 0, dispatch_async: bool = False,
        selector: str | None = None, client_id: str | None = None,
        subscription_name: str | None = None, no_local: bool = False, exclusive: bool = False,
        retroactive: bool = False, priority: int = 0,
        broker_path: list[BrokerId | None] | None = None,
        additional_predicate: NetworkBridgeFilter | None = None,
        network_subscription: bool = False, optimized_acknowledge: bool = False,
        no_range_acks: bool = False,
        network_consumer_path: list[ConsumerId | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.browser = browser
        self.destination = destination
        self.prefetch_size = prefetch_size
        self.maximum_pending_message_limit = maximum_pending_message_limit
        self.dispatch_async = dispatch_async
        self.selector = selector
        self.client_id = client_id
        self.subscription_name = subscription_name
        self.no_local = no_local
        self.exclusive = exclusive
        self.retroactive = retroactive
        self.priority = priority
        self.broker_path = broker_path
        self.additional_predicate = additional_predicate
        self.network_subscription = network_subscription
        self.optimized_acknowledge = optimized_acknowledge
        self.no_range_acks = no_range_acks
        self.network_consumer_path = network_consumer_path
    # fmt: on
    # end generated


class ProducerInfo(BaseCommand):
    """Opens a producer; without a destination it is anonymous."""

    # generated: ProducerInfo
    # fmt: off
    __slots__ = ("broker_path", "destination", "dispatch_async", "producer_id", "window_size")
    TYPE: ClassVar[int] = 6
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("producer_id", kinds.CACHED, 1, "ProducerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
        Field("dispatch_async", kinds.BOOLEAN, 2), Field("window_size", kinds.INT, 3),
    )

    def __init__(
        self, producer_id: ProducerId | None = None, destination: Destination | None = None,
        broker_path: list[BrokerId | None] | None = None, dispatch_async: bool = False,
        window_size: int = 0, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.destination = destination
        self.broker_path = broker_path
        self.dispatch_async = dispatch_async
        self.window_size = window_size
    # fmt: on
    # end generated


class DestinationInfo(BaseCommand):
    """Adds (operation_type 0) or removes (1) a destination."""

    # generated: DestinationInfo
    # fmt: off
    __slots__ = ("broker_path", "connection_id", "destination", "operation_type", "timeout")
    TYPE: ClassVar[int] = 8
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("operation_type", kinds.BYTE, 1), Field("timeout", kinds.LONG, 1),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None, destination: Destination | None = None,
        operation_type: int = 0, timeout: int = 0,
        broker_path: list[BrokerId | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.destination = destination
        self.operation_type = operation_type
        self.timeout = timeout
        self.broker_path = broker_path
    # fmt: on
    # end generated


class RemoveInfo(BaseCommand):
    """Removes the connection, session, consumer or producer `object_id`."""

    # generated: RemoveInfo
    # fmt: off
    __slots__ = ("last_delivered_sequence_id", "object_id")
    TYPE: ClassVar[int] = 12
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("object_id", kinds.CACHED, 1, "any"),
        Field("last_delivered_sequence_id", kinds.LONG, 5),
    )

    def __init__(
        self, object_id: DataStructure | Destination | None = None,
        last_delivered_sequence_id: int = -2, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.object_id = object_id
        self.last_delivered_sequence_id = last_delivered_sequence_id
    # fmt: on
    # end generated


class RemoveSubscriptionInfo(BaseCommand):
    """Deletes a durable subscription."""

    # generated: RemoveSubscriptionInfo
    # fmt: off
    __slots__ = ("client_id", "connection_id", "subscription_name")
    TYPE: ClassVar[int] = 9
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("subscription_name", kinds.STRING, 1), Field("client_id", kinds.STRING, 1),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None, subscription_name: str | None = None,
        client_id: str | None = None, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.subscription_name = subscription_name
        self.client_id = client_id
    # fmt: on
    # end generated


# Structures that clients do not use: of older journals and of stores, and between brokers.


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
