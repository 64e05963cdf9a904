"""Commands that add and remove the resources of a connection."""

from __future__ import annotations

from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, DataStructure, Field
from pyjms.wire.openwire.commands.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    ProducerId,
)

__all__ = [
    "ConsumerInfo",
    "DestinationInfo",
    "NetworkBridgeFilter",
    "ProducerInfo",
    "RemoveInfo",
    "RemoveSubscriptionInfo",
]


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
