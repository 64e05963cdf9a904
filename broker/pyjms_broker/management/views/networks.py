"""Views of network connectors and their bridges.

(ActiveMQ NetworkConnectorView, NetworkBridgeView; activemq-edges 7, 9)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, TypeAlias

from pyjms_broker.management.host import Managed
from pyjms_broker.management.model import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    Attribute,
    Operation,
    ViewKind,
    view_kind,
)
from pyjms_broker.network import NetworkBridge, NetworkConnector

_Connector: TypeAlias = Managed[NetworkConnector]
_Bridge: TypeAlias = Managed[NetworkBridge]


def _option(name: str, key: str, kind: str, description: str) -> Attribute[_Connector]:
    read: Callable[[object], object] = attrgetter(key)
    return Attribute(name, kind, description, lambda c: read(c.it.attributes))


NETWORK_CONNECTOR: Final[ViewKind[Any]] = view_kind(
    "NetworkConnectorView",
    "A network connector.",
    [
        _option("Name", "name", STRING, "The connector's name."),
        _option(
            "MessageTTL", "messages_hops", INT, "Maximum number of brokers that a message may pass."
        ),
        _option(
            "ConsumerTTL",
            "consumers_hops",
            INT,
            "Maximum number of brokers to a consumer; -1: no limit.",
        ),
        _option(
            "PrefetchSize",
            "prefetch_size",
            INT,
            "Prefetch of the bridges' consumers.",
        ),
        _option(
            "AdvisoryPrefetchSize",
            "advisory_prefetch_size",
            INT,
            "Prefetch of the bridges' advisory consumers; 0: PrefetchSize.",
        ),
        _option(
            "ConduitSubscriptions",
            "conduit_subscriptions",
            BOOLEAN,
            "Whether the remote consumers of a destination share one subscription.",
        ),
        _option(
            "BridgeTempDestinations",
            "bridge_temp_destinations",
            BOOLEAN,
            "Whether messages to temporary destinations are forwarded.",
        ),
        _option(
            "DecreaseNetworkConsumerPriority",
            "decrease_network_consumer_priority",
            BOOLEAN,
            "Whether network consumers have lower priority than local ones.",
        ),
        _option(
            "DispatchAsync",
            "dispatch_async",
            BOOLEAN,
            "Whether messages are dispatched asynchronously.",
        ),
        _option(
            "DynamicOnly",
            "dynamic_only",
            BOOLEAN,
            "Whether durable subscriptions are forwarded only while they have a consumer.",
        ),
        _option("Duplex", "duplex", BOOLEAN, "Whether messages are forwarded in both directions."),
        _option(
            "SuppressDuplicateQueueSubscriptions",
            "suppress_duplicate_queue_subscriptions",
            BOOLEAN,
            "Whether only one path serves a consumer of a queue.",
        ),
        _option(
            "SuppressDuplicateTopicSubscriptions",
            "suppress_duplicate_topic_subscriptions",
            BOOLEAN,
            "Whether only one path serves a consumer of a topic.",
        ),
        _option("UserName", "user_name", STRING, "The user name of the bridges."),
        _option(
            "RemoteUserName",
            "remote_user_name",
            STRING,
            "The user name at the remote broker; null: UserName.",
        ),
    ],
    [
        Operation("start", "void", "Connect to the remote brokers.", lambda c: c.it.start()),
        Operation("stop", "void", "Close all bridges.", lambda c: c.it.stop()),
    ],
)


def _value(name: str, key: str, kind: str, description: str) -> Any:
    return Attribute(name, kind, description, lambda b: getattr(b.it, key))


def _of(name: str, kind: str, description: str, get: Callable[[_Bridge], object]) -> Any:
    return Attribute(name, kind, description, get)


NETWORK_BRIDGE: Final[ViewKind[Any]] = view_kind(
    "NetworkBridgeView",
    "A bridge to another broker.",
    [
        _value("LocalAddress", "local_address", STRING, "The address at this broker."),
        _value("RemoteAddress", "remote_address", STRING, "The address of the remote broker."),
        _of(
            "LocalBrokerName", STRING, "The name of this broker.", lambda b: b.tree.host.broker_name
        ),
        _value("RemoteBrokerName", "remote_name", STRING, "The name of the remote broker."),
        _of(
            "RemoteBrokerId", STRING, "The id of the remote broker.", lambda b: str(b.it.remote_id)
        ),
        _value("EnqueueCounter", "enqueue_count", LONG, "Messages received for forwarding."),
        _value("DequeueCounter", "dequeue_count", LONG, "Messages forwarded."),
        _value(
            "ReceivedCounter", "received_count", LONG, "Messages received from the remote broker."
        ),
        _value(
            "CreatedByDuplex",
            "created_by_duplex",
            BOOLEAN,
            "Whether the bridge belongs to a duplex connector of the remote broker.",
        ),
    ],
    [Operation("resetStats", "void", "Reset the counters.", lambda b: b.it.reset_counts())],
)
