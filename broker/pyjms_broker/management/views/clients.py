"""Views of connectors, connections with their sessions, producers, and of networks of brokers.

A session has no view in ActiveMQ, and no counters: its numbers are the sums over its current
producers and consumers. (ActiveMQ ConnectorView, ConnectionView, ProducerView,
NetworkConnectorView, NetworkBridgeView; activemq-edges 7, 9)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ConnectionId
from pyjms_broker.api.context import ClientLink, ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.openwire.client_resources import ConnectionState, SessionState
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.model import Action, Entry, ViewKind, part, view_kind
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.network import NetworkBridge, NetworkConnector


@dataclass(frozen=True, slots=True)
class Client:
    """A JMS connection and its transport connection."""

    transport: BrokerConnection
    state: ConnectionState

    @property
    def counts(self) -> tuple[int, int]:
        """How many messages it has sent, and was dispatched."""
        return self.transport.resources.counts(self.state)


_Connection: TypeAlias = Managed[Client]
_Producer: TypeAlias = Managed[ProducerExchange]


def _sessions(c: _Connection) -> Iterator[tuple[int, SessionState]]:
    """Iterate over the sessions created by the client, in order."""
    for session_id, session in c.it.state.sessions.items():
        if session_id.value >= 0:  # the negative one has the connection's advisory consumers
            yield session_id.value, session


def _session_rows(c: _Connection) -> list[dict[str, object]]:
    state, transport = c.it.state, c.it.transport
    subscriptions = {
        each.consumer_id: each
        for each in c.tree.region.subscriptions.all()
        if each.context is state.context
    }
    return [
        _session_row(
            number,
            [subscriptions[each] for each in session.consumers if each in subscriptions],
            [
                transport.producers[each.identity]
                for each in session.producers
                if each.identity in transport.producers
            ],
        )
        for number, session in _sessions(c)
    ]


def _session_row(
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


def clients(tree: ManagementContext) -> Iterator[Client]:
    """Iterate over the JMS connections of all connectors."""
    for connection_id in tuple(tree.host.connections.by_id):
        found = client_of(tree, connection_id)
        if found is not None:
            yield found


def client_of(tree: ManagementContext, connection_id: ConnectionId) -> Client | None:
    """Return the JMS connection with an id; None if there is none."""
    transport = tree.host.connections.by_id.get(connection_id)
    if isinstance(transport, BrokerConnection):
        state = transport.resources.connections.get(connection_id)
        return None if state is None else Client(transport, state)
    return None


def producers(client: Client) -> Iterator[ProducerExchange]:
    """Iterate over the producers of a JMS connection."""
    for exchange in tuple(client.transport.producers.values()):
        if exchange.context is client.state.context and exchange.info is not None:
            yield exchange


def producer_name(tree: ManagementContext, exchange: ProducerExchange) -> ObjectName:
    """Return the name of a producer's view."""
    info = exchange.info
    assert info is not None, "only the broker's own exchanges have no info"
    client_id = exchange.context.client_id or "NOTSET"
    return tree.names.producer(info.destination, client_id, str(info.producer_id))


def _producer_names(c: _Connection) -> list[str]:
    return [str(producer_name(c.tree, each)) for each in producers(c.it)]


def _consumer_names(c: _Connection) -> list[str]:
    return [
        str(c.tree.names.consumer(each))
        for each in c.tree.region.subscriptions.all()
        if each.context is c.it.state.context
    ]


def _sends_to(is_one: Callable[[Destination], bool]) -> Callable[[_Producer], bool]:
    def get(p: _Producer) -> bool:
        destination = None if p.it.info is None else p.it.info.destination
        return destination is not None and is_one(destination)

    return get


def _is_blocked(p: _Producer) -> bool:
    own = None if p.it.info is None else p.it.info.producer_id
    return any(each.message.producer_id == own for each in p.it.context.blocked_sends)


def _link_of(p: _Producer) -> ClientLink | None:
    info, connection = p.it.info, p.it.context.connection
    own = None if info is None else info.producer_id
    return None if own is None or connection is None else connection.link_of(own)


def _credit_of(p: _Producer) -> int | None:
    link = _link_of(p)
    return None if link is None else link.credit


def _settle_mode_of(p: _Producer) -> str | None:
    link = _link_of(p)
    return None if link is None else link.settle_mode


def _reset_blocked(p: _Producer) -> None:
    p.it.blocked_sends = 0
    p.it.blocked_time = 0.0


def _reset_producer(p: _Producer) -> None:
    p.it.sent_count = 0
    _reset_blocked(p)


def _oldest_transaction(c: _Connection) -> int | None:
    began = [each.began for each in c.it.state.context.transactions.values()]
    return int((_clock.now() - min(began)) * 1000) if began else None


CONNECTOR: Final[ViewKind[Any]] = view_kind(
    "ConnectorView",
    "A connector.",
    attributes.CONNECTOR,
    {"Started": lambda c: not c.it.stopping},
    {
        "void start()": Action("Accept connections.", lambda c: c.it.start()),
        "void stop()": Action("Close all connections.", lambda c: c.it.stop()),
        "int connectionCount()": Action("Number of connections.", lambda c: len(c.it.connections)),
    },
)
CONNECTION: Final[ViewKind[Any]] = view_kind(
    "ConnectionView",
    "A JMS connection.",
    attributes.CONNECTION,
    {
        "Blocked": lambda c: bool(c.it.state.context.blocked_sends),
        "ActiveTransactionCount": lambda c: len(c.it.state.context.transactions),
        "OldestActiveTransactionDuration": _oldest_transaction,
        "SessionCount": lambda c: sum(1 for _ in _sessions(c)),
        "SentCount": lambda c: c.it.counts[0],
        "DispatchedCounter": lambda c: c.it.counts[1],
        "Consumers": _consumer_names,
        "Producers": _producer_names,
    },
    {
        "void stop()": Action("Close the connection.", lambda c: c.it.transport.stop_soon()),
        "CompositeData[] sessions()": Action(
            "Return the sessions, with their producers, consumers, and the sums of their counters.",
            _session_rows,
        ),
    },
)
PRODUCER: Final[ViewKind[Any]] = view_kind(
    "ProducerView",
    "A producer.",
    attributes.PRODUCER,
    {
        "ProducerId": lambda p: str(p.it.info.producer_id),
        "DestinationName": lambda p: p.it.info.destination and p.it.info.destination.physical_name,
        "DestinationQueue": _sends_to(lambda d: not d.is_topic),
        "DestinationTopic": _sends_to(lambda d: d.is_topic),
        "DestinationTemporary": _sends_to(lambda d: d.is_temporary),
        "ProducerBlocked": _is_blocked,
        "Credit": _credit_of,
        "SettleMode": _settle_mode_of,
        "TotalTimeBlocked": lambda p: int(p.it.blocked_time),
        "PercentageBlocked": lambda p: (
            p.it.blocked_sends * 100 // p.it.sent_count if p.it.sent_count else 0
        ),
    },
    {
        "void resetFlowControlStats()": Action("Reset the flow-control counters.", _reset_blocked),
        "void resetStatistics()": Action("Reset all counters.", _reset_producer),
    },
)

NETWORK_CONNECTOR: Final[ViewKind[Managed[NetworkConnector]]] = view_kind(
    "NetworkConnectorView",
    "A network connector.",
    attributes.NETWORK_CONNECTOR,
    {},
    {
        "void start()": Action("Connect to the remote brokers.", lambda c: c.it.start()),
        "void stop()": Action("Close all bridges.", lambda c: c.it.stop()),
    },
)
NETWORK_BRIDGE: Final[ViewKind[Managed[NetworkBridge]]] = view_kind(
    "NetworkBridgeView",
    "A bridge to another broker.",
    attributes.NETWORK_BRIDGE,
    {
        "LocalBrokerName": lambda b: b.tree.host.broker_name,
        "RemoteBrokerId": lambda b: str(b.it.remote_id),
    },
    {"void resetStats()": Action("Reset the counters.", lambda b: b.it.reset_counts())},
)


def _connectors(context: ManagementContext) -> Iterator[Entry]:
    for connector in context.host.connectors:
        yield context.names.connector(connector.name), CONNECTOR, connector


def _connections(context: ManagementContext) -> Iterator[Entry]:
    for client in clients(context):
        known = client.state.context
        named = {"clientId": known.client_id, "remoteAddress": client.transport.remote_address}
        for view_type, name in named.items():
            keys = {"connectionViewType": view_type, "connectionName": name or "NOTSET"}
            parent = known.connector_name or "NOTSET"
            yield context.names.connector(parent, **keys), CONNECTION, client


def _producers(*, dynamic: bool) -> Callable[[ManagementContext], Iterator[Entry]]:
    def entries(context: ManagementContext) -> Iterator[Entry]:
        for client in clients(context):
            for exchange in producers(client):
                name = producer_name(context, exchange)
                if dynamic != ("destinationName" in name.keys):
                    yield name, PRODUCER, exchange

    return entries


def _network_connectors(context: ManagementContext) -> Iterator[Entry]:
    for connector in tuple(context.host.networks.connectors):
        yield context.names.network_connector(connector.name), NETWORK_CONNECTOR, connector


def _bridges(context: ManagementContext) -> Iterator[Entry]:
    for bridge in tuple(context.host.networks.bridges):
        name = context.names.network_connector(
            bridge.connector_name, duplex=bridge.created_by_duplex, bridge=bridge.remote_address
        )
        yield name, NETWORK_BRIDGE, bridge


_CLIENT: Final = ("endpoint", "clientId", "producerId")
_NETWORK: Final = ("connector", "networkConnectorName")
PARTS: Final = (
    part(_producers(dynamic=False), "destinationType", "destinationName", *_CLIENT),
    part(_producers(dynamic=True), *_CLIENT),
    part(_connectors, "connector", "connectorName"),
    part(_network_connectors, *_NETWORK),
    part(_bridges, *_NETWORK, "networkBridge"),
    part(
        *(_connections, "connector", "connectorName"),
        *("connectionViewType", "connectionName"),
    ),
)
