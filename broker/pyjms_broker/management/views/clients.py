"""Views of connectors, connections with their sessions, and producers.

A session has no view in ActiveMQ, and no counters: its numbers are the sums over its current
producers and consumers. (ActiveMQ ConnectorView, ConnectionView, ProducerView; activemq-edges 7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.openwire.client_resources import ConnectionState, SessionState
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.management.host import Managed, ManagementContext
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
from pyjms_broker.management.object_name import ObjectName

_Connection: TypeAlias = Managed[Any]


def _sessions(c: _Connection) -> Iterator[tuple[int, SessionState]]:
    """Iterate over the sessions created by the client, in order."""
    for session_id, session in c.it.state.sessions.items():
        if session_id.value >= 0:  # the negative one has the connection's advisory consumers
            yield session_id.value, session


def _items(c: _Connection) -> list[dict[str, object]]:
    state, transport = c.it.state, c.it.transport
    subscriptions = {
        each.consumer_id: each
        for each in c.tree.region.subscriptions.all()
        if each.context is state.context
    }
    return [
        _item(
            number,
            [subscriptions[each] for each in session.consumers if each in subscriptions],
            [
                transport.producers[each]
                for each in session.producers
                if each in transport.producers
            ],
        )
        for number, session in _sessions(c)
    ]


def _item(
    number: int, consumers: list[Subscription], producers: list[ProducerExchange]
) -> dict[str, object]:
    return {
        "SessionId": number,
        "ConsumerCount": len(consumers),
        "ProducerCount": len(producers),
        "SentCount": sum(each.sent_count for each in producers),
        "BlockedSends": sum(each.blocked_sends for each in producers),
        "DispatchedCounter": sum(each.dispatched_count for each in consumers),
        "DequeueCounter": sum(each.dequeue_count for each in consumers),
        "DispatchedQueueSize": sum(each.in_flight for each in consumers),
    }


SESSION_ATTRIBUTE: Final[Attribute[Any]] = Attribute(
    "SessionCount", INT, "Number of sessions.", lambda c: sum(1 for _ in _sessions(c))
)
SESSION_OPERATION: Final[Operation[Any]] = Operation(
    "sessions",
    "[Ljavax.management.openmbean.CompositeData;",
    "Return the sessions, with their producers, consumers, and the sums of their counters.",
    _items,
)


@dataclass(frozen=True, slots=True)
class Client:
    """A JMS connection and its transport connection."""

    transport: BrokerConnection
    state: ConnectionState


_ClientsConnection: TypeAlias = Managed[Client]


def clients(tree: ManagementContext) -> Iterator[Client]:
    """Iterate over the JMS connections of all connectors."""
    for connection_id, transport in tree.host.connections.by_id.items():
        if isinstance(transport, BrokerConnection):
            state = transport.resources.connections.get(connection_id)
            if state is not None:
                yield Client(transport, state)


def producers(client: Client) -> Iterator[ProducerExchange]:
    """Iterate over the producers of a JMS connection."""
    for exchange in client.transport.producers.values():
        if exchange.context is client.state.context and exchange.info is not None:
            yield exchange


def producer_name(tree: ManagementContext, exchange: ProducerExchange) -> ObjectName:
    """Return the name of a producer's view."""
    info = exchange.info
    assert info is not None, "only the broker's own exchanges have no info"
    client_id = exchange.context.client_id or "NOTSET"
    return tree.names.producer(info.destination, client_id, str(info.producer_id))


def _producer_names(c: _ClientsConnection) -> list[str]:
    return [str(producer_name(c.tree, each)) for each in producers(c.it)]


def _consumer_names(c: _ClientsConnection) -> list[str]:
    return [
        str(c.tree.names.consumer(each))
        for each in c.tree.region.subscriptions.all()
        if each.context is c.it.state.context
    ]


_NAMES: Final = "[Ljavax.management.ObjectName;"


def _kind(
    name: str, what: str, is_one: Callable[[Destination], bool]
) -> Attribute[Managed[ProducerExchange]]:
    def get(p: Managed[ProducerExchange]) -> bool:
        destination = None if p.it.info is None else p.it.info.destination
        return destination is not None and is_one(destination)

    return Attribute(name, BOOLEAN, f"Whether it sends to {what}.", get)


def _is_blocked(p: Managed[ProducerExchange]) -> bool:
    own = None if p.it.info is None else p.it.info.producer_id
    return any(each.message.producer_id == own for each in p.it.context.blocked_sends)


def _reset_blocked(p: Managed[ProducerExchange]) -> None:
    p.it.blocked_sends = 0
    p.it.blocked_time = 0.0


def _reset_producer(p: Managed[ProducerExchange]) -> None:
    p.it.sent_count = 0
    _reset_blocked(p)


def _oldest_transaction(c: _ClientsConnection) -> int | None:
    began = [each.began for each in c.it.state.context.transactions.values()]
    return int((_clock.now() - min(began)) * 1000) if began else None


CONNECTOR: Final[ViewKind[Any]] = view_kind(
    "ConnectorView",
    "A connector.",
    [
        Attribute(
            "Started",
            BOOLEAN,
            "Whether the connector accepts clients.",
            lambda c: not c.it.stopping,
        ),
        Attribute("StatisticsEnabled", BOOLEAN, "Always true.", lambda _: True),
        Attribute(
            "RebalanceClusterClients",
            BOOLEAN,
            "Whether failover clients are rebalanced across the brokers of the network.",
            lambda c: c.it.cluster.attributes.rebalance_cluster_clients,
        ),
        Attribute(
            "UpdateClusterClients",
            BOOLEAN,
            "Whether failover clients are notified of brokers that join the network.",
            lambda c: c.it.cluster.attributes.update_cluster_clients,
        ),
        Attribute(
            "UpdateClusterClientsOnRemove",
            BOOLEAN,
            "Whether failover clients are notified of brokers that leave the network.",
            lambda c: c.it.cluster.attributes.update_cluster_clients_on_remove,
        ),
        Attribute(
            "UpdateClusterFilter",
            STRING,
            "Filter of the broker names announced to failover clients.",
            lambda c: c.it.cluster.attributes.update_cluster_filter,
        ),
        Attribute(
            "AllowLinkStealingEnabled",
            BOOLEAN,
            "Whether a new connection may take over a client id in use.",
            lambda c: c.it.allow_link_stealing,
        ),
    ],
    [
        Operation("start", "void", "Accept connections.", lambda c: c.it.start()),
        Operation("stop", "void", "Close all connections.", lambda c: c.it.stop()),
        Operation(
            "connectionCount", INT, "Number of connections.", lambda c: len(c.it.connections)
        ),
    ],
)

CONNECTION: Final[ViewKind[Any]] = view_kind(
    "ConnectionView",
    "A JMS connection.",
    [
        Attribute(
            "RemoteAddress",
            STRING,
            "The client's address.",
            lambda c: c.it.transport.remote_address,
        ),
        Attribute("ClientId", STRING, "The client id.", lambda c: c.it.state.context.client_id),
        Attribute("UserName", STRING, "The login name.", lambda c: c.it.state.context.user_name),
        Attribute("Active", BOOLEAN, "Always true.", lambda _: True),
        Attribute("Connected", BOOLEAN, "Always true.", lambda _: True),
        Attribute(
            "Slow",
            BOOLEAN,
            "Whether the client reads more slowly than the broker sends.",
            lambda c: c.it.transport.congested,
        ),
        Attribute(
            "Blocked",
            BOOLEAN,
            "Whether a send waits for space.",
            lambda c: bool(c.it.state.context.blocked_sends),
        ),
        Attribute(
            "NetworkConnection",
            BOOLEAN,
            "Whether the connection is a network bridge.",
            lambda c: c.it.state.context.network_connection,
        ),
        Attribute(
            "FaultTolerantConnection",
            BOOLEAN,
            "Whether the client uses failover.",
            lambda c: c.it.state.context.fault_tolerant,
        ),
        Attribute(
            "ActiveTransactionCount",
            INT,
            "Open local transactions.",
            lambda c: len(c.it.state.context.transactions),
        ),
        Attribute(
            "OldestActiveTransactionDuration",
            "java.lang.Long",
            "Age of the oldest open transaction, in ms; null: none.",
            _oldest_transaction,
        ),
        SESSION_ATTRIBUTE,
        Attribute("Consumers", _NAMES, "Object names of the consumers.", _consumer_names),
        Attribute("Producers", _NAMES, "Object names of the producers.", _producer_names),
    ],
    [
        Operation("stop", "void", "Close the connection.", lambda c: c.it.transport.stop_soon()),
        SESSION_OPERATION,
    ],
)

PRODUCER: Final[ViewKind[Any]] = view_kind(
    "ProducerView",
    "A producer.",
    [
        Attribute("ProducerId", STRING, "The producer's id.", lambda p: str(p.it.info.producer_id)),
        Attribute("ClientId", STRING, "The client id.", lambda p: p.it.context.client_id),
        Attribute(
            "ConnectionId",
            STRING,
            "The connection's id.",
            lambda p: p.it.info.producer_id.connection_id,
        ),
        Attribute(
            "SessionId", LONG, "The session's number.", lambda p: p.it.info.producer_id.session_id
        ),
        Attribute(
            "DestinationName",
            STRING,
            "The destination; null: any destination.",
            lambda p: p.it.info.destination and p.it.info.destination.physical_name,
        ),
        _kind("DestinationQueue", "a queue", lambda d: not d.is_topic),
        _kind("DestinationTopic", "a topic", lambda d: d.is_topic),
        _kind("DestinationTemporary", "a temporary destination", lambda d: d.is_temporary),
        Attribute(
            "DispatchAsync",
            BOOLEAN,
            "Whether the client requested asynchronous dispatch.",
            lambda p: p.it.info.dispatch_async,
        ),
        Attribute("ProducerBlocked", BOOLEAN, "Whether a send waits for space.", _is_blocked),
        Attribute(
            "TotalTimeBlocked",
            LONG,
            "Total time that sends have waited for space, in ms.",
            lambda p: int(p.it.blocked_time),
        ),
        Attribute(
            "PercentageBlocked",
            INT,
            "Percentage of sends that had to wait for space.",
            lambda p: p.it.blocked_sends * 100 // p.it.sent_count if p.it.sent_count else 0,
        ),
        Attribute("SentCount", LONG, "Messages sent.", lambda p: p.it.sent_count),
        Attribute(
            "ProducerWindowSize",
            INT,
            "Producer window in bytes; 0: no window.",
            lambda p: p.it.info.window_size,
        ),
        Attribute("UserName", STRING, "The login name.", lambda p: p.it.context.user_name),
    ],
    [
        Operation(
            "resetFlowControlStats",
            "void",
            "Reset the flow-control counters.",
            _reset_blocked,
        ),
        Operation("resetStatistics", "void", "Reset all counters.", _reset_producer),
    ],
)
