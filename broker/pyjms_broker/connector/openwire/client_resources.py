"""The resources of one client: connections, sessions, producers, consumers, destinations.

Each change is recorded here and passed on to the broker. Adding an existing resource is a replay
after a failover, and changes nothing. When the client is lost, all its resources are removed in
ActiveMQ's order: per JMS connection the consumers and producers of each session, the session, the
temporary destinations, the connection. (activemq-broker C1 to C4, C8, C9)

The resources of a client: JMS connections, sessions, producers and consumers.

Bookkeeping only; the error messages about unregistered resources are ActiveMQ's.
(activemq-broker C3, C4)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import anyio

from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    LocalTransactionId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionId,
    SessionInfo,
    TransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import (
    ClientConnection,
    ConnectionContext,
    ConsumerExchange,
    ProducerExchange,
)
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.connector.connection_registry import RegisteredConnection
from pyjms_broker.region.subscription import LAST_DELIVERED_UNKNOWN

__all__ = [
    "MAXIMUM_SHARED",
    "ClientResources",
    "ConnectionState",
    "DeferredResponse",
    "SessionState",
    "connection_of",
    "registered",
    "session_of",
    "taken",
]

T = TypeVar("T")
Id = TypeVar("Id")
Info = TypeVar("Info")
Exchange = TypeVar("Exchange")

IMPLICIT_SESSION = -1
"""The session that every connection has without a SessionInfo, used by advisory consumers."""


class DeferredResponse(Completion):
    """A completion whose response has a value."""

    __slots__ = ("response",)

    def __init__(self, response: commands.Response) -> None:
        """Send `response` when the operation finishes without an error."""
        super().__init__()
        self.response = response


class SessionState:
    """The producers and consumers of one session."""

    __slots__ = ("consumers", "info", "producers")

    def __init__(self, info: commands.SessionInfo) -> None:
        self.info = info
        self.producers: dict[commands.ProducerId, commands.ProducerInfo] = {}
        self.consumers: dict[commands.ConsumerId, commands.ConsumerInfo] = {}


class ResourceCount:
    """The number of consumers or producers, with those on advisory topics counted separately."""

    __slots__ = ("_advisory", "_plain")

    def __init__(self) -> None:
        self._plain = 0
        self._advisory = 0

    def check(
        self, destination: Destination | None, limit: int | None, kind: str, where: object
    ) -> None:
        """Refuse another one on `destination`, like `check_limit`."""
        check_limit(
            self._advisory if _is_advisory(destination) else self._plain, limit, kind, where
        )

    def add(self, destination: Destination | None) -> None:
        """Count another one on `destination`."""
        if _is_advisory(destination):
            self._advisory += 1
        else:
            self._plain += 1

    def remove(self, destination: Destination | None) -> None:
        """Count one fewer on `destination`."""
        if _is_advisory(destination):
            self._advisory -= 1
        else:
            self._plain -= 1


class ConnectionState:
    """One JMS connection; a client usually has one over its transport."""

    __slots__ = (
        "consumers",
        "context",
        "info",
        "maximum_transactions",
        "producers",
        "sessions",
        "temporary",
        "transactions",
    )

    def __init__(
        self,
        info: commands.ConnectionInfo,
        context: ConnectionContext,
        maximum_transactions: int = 10_000,
    ) -> None:
        self.info = info
        self.maximum_transactions = maximum_transactions
        self.context = context
        self.sessions: dict[commands.SessionId, SessionState] = {}
        self.consumers = ResourceCount()
        self.producers = ResourceCount()
        self.temporary: dict[Destination, commands.DestinationInfo] = {}
        self.transactions: dict[commands.TransactionId, int | None] = {}
        """Open transactions; the value is the response to PREPARE."""
        identifier = info.connection_id.value if info.connection_id is not None else None
        implicit = commands.SessionId(identifier, IMPLICIT_SESSION)
        self.sessions[implicit] = SessionState(commands.SessionInfo(implicit))

    def session(self, session_id: commands.SessionId, action: str) -> SessionState:
        """Return a session; `action` describes the attempt in the error.

        Raises:
            IllegalStateException: the session is not registered.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise IllegalStateException(
                f"Cannot {action} a session that had not been registered: {session_id}"
            )
        return session


def session_of(resource: commands.ConsumerId | commands.ProducerId) -> commands.SessionId:
    """Return the session of a consumer or producer."""
    return commands.SessionId(resource.connection_id, resource.session_id)


def connection_of(
    resource: commands.ConsumerId | commands.ProducerId | commands.SessionId,
) -> commands.ConnectionId:
    """Return the connection of a session, consumer or producer."""
    return commands.ConnectionId(resource.connection_id)


def _is_advisory(destination: Destination | None) -> bool:
    return destination is not None and destination.physical_name.startswith(ADVISORY_PREFIX)


def registered(found: T | None, kind: str, object_id: object) -> T:
    """Return `found` if it is not None.

    Raises:
        IllegalStateException: it is None.
    """
    if found is None:
        raise IllegalStateException(
            f"Cannot remove {kind} that had not been registered: {object_id}"
        )
    return found


def taken(
    resources: dict[Id, Info], exchanges: dict[Id | None, Exchange], object_id: Id, kind: str
) -> Info:
    """Remove a resource from the tables of its session and of its client, and return it.

    Raises:
        IllegalStateException: the session does not have it.
    """
    info = registered(resources.pop(object_id, None), kind, object_id)
    exchanges.pop(object_id, None)
    return info


def check_limit(count: int, limit: int | None, kind: str, where: object) -> None:
    """Check that one more is allowed.

    Raises:
        IllegalStateException: `count` has reached `limit`.
    """
    if limit is not None and count >= limit:
        raise IllegalStateException(
            f"Can't add {kind} on connection {where}: at maximum limit: {limit}"
        )


# --- The context of a JMS connection, before the client is authenticated.


class ContextOwner(ClientConnection, Protocol):
    """The connection of a client."""

    @property
    def congested(self) -> bool:
        """Whether too much unread data is queued for the client."""

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The client's TLS certificate, if it was verified."""


def client_context(
    owner: ContextOwner, connector: TransportConnector, info: ConnectionInfo
) -> ConnectionContext:
    """Return a new context; the client's address is also set in `info`."""
    info.client_ip = owner.remote_address
    context = ConnectionContext(owner)
    context.introduce(info)
    context.certificate = owner.peer_certificate
    context.connector_name = connector.name
    context.connector_url = connector.connect_uri
    context.allow_link_stealing = connector.allow_link_stealing
    context.congested = owner.congested
    return context


logger = get_logger(__name__)

_Id = TypeVar("_Id", bound=ProducerId | ConsumerId)

MAXIMUM_SHARED = 1000
"""The maximum number of JMS connections over one transport; the Java client has one."""


class ResourceOwner(ContextOwner, RegisteredConnection, Protocol):
    """The connection that owns the resources."""

    host: BrokerHost
    connector: TransportConnector

    def refused(self, error: Exception) -> None:
        """Close the connection soon, because the broker has refused the client."""


class ClientResources:
    """The open resources of one client."""

    def __init__(self, owner: ResourceOwner) -> None:
        self._owner = owner
        self._host = owner.host
        self._connector = owner.connector
        self._broker = owner.host.broker
        self.connections: dict[ConnectionId, ConnectionState] = {}
        self.producers: dict[ProducerId | None, ProducerExchange] = {}
        """By id. None is never a key: a command without a producer id finds no producer."""
        self.consumers: dict[ConsumerId | None, ConsumerExchange] = {}
        """By id. None is never a key, as in `producers`."""
        self._pending_sends: dict[ProducerId, deque[Completion]] = {}
        self._lost = False
        self.connection_added = anyio.Event()
        """Set once the client has registered a JMS connection."""

    def connection(self, connection_id: ConnectionId | None, action: str) -> ConnectionState:
        """Return a JMS connection; `action` describes the attempt in the error.

        Raises:
            IllegalStateException: the connection is not registered.
        """
        state = None if connection_id is None else self.connections.get(connection_id)
        if state is None:
            raise IllegalStateException(
                f"Cannot {action} a connection that had not been registered: {connection_id}"
            )
        return state

    def named_connection(self, connection_id: ConnectionId | None, action: str) -> ConnectionState:
        """Return the JMS connection that a request names, like `connection`.

        If the client has only one connection, that one is returned for any id, so that it can end
        leftovers of a closed connection. (activemq-broker C10)
        """
        if len(self.connections) == 1 and connection_id not in self.connections:
            return next(iter(self.connections.values()))
        return self.connection(connection_id, action)

    def _session_of(
        self, resource_id: ProducerId | ConsumerId, action: str
    ) -> tuple[ConnectionState, SessionState]:
        """Return the JMS connection and session of a producer or consumer, like `connection`."""
        state = self.connection(connection_of(resource_id), action)
        return state, state.session(session_of(resource_id), action)

    def _place_of(self, id_: _Id | None, kind: str) -> tuple[_Id, ConnectionState, SessionState]:
        """Return the id of a new producer or consumer, and its JMS connection and session."""
        if id_ is None:
            raise IllegalStateException(f"Cannot add a {kind} without an id")
        return id_, *self._session_of(id_, f"add a {kind} to")

    def connection_of(self, transaction_id: TransactionId) -> ConnectionState | None:
        """Return the JMS connection of a transaction; for an XA transaction, any connection."""
        if isinstance(transaction_id, LocalTransactionId) and transaction_id.connection_id:
            return self.connections.get(transaction_id.connection_id)
        return next(iter(self.connections.values()), None)

    # connections and sessions
    def context_for(self, info: ConnectionInfo) -> ConnectionContext | None:
        """Return the context of a new JMS connection; None if it is already registered.

        Raises:
            InvalidClientIDException: it has no connection id.
            IllegalStateException: the client has too many connections.
        """
        if info.connection_id is None:
            raise InvalidClientIDException("No connectionID specified for connection request")
        if info.connection_id in self.connections:
            return None  # replayed after a failover
        where = self._owner.remote_address
        check_limit(len(self.connections), MAXIMUM_SHARED, "connection", where)
        return client_context(self._owner, self._connector, info)

    def add_connection(self, info: ConnectionInfo, context: ConnectionContext) -> None:
        """Register a JMS connection whose client is authenticated.

        Raises:
            ConnectionFailedException: the client has meanwhile disconnected.
            JMSException: the broker refuses the client, which is disconnected soon.
        """
        if info.connection_id is None or self._lost:
            raise ConnectionFailedException(f"{self._owner.remote_address} has disconnected")
        self._host.connections.claim(info.connection_id, self._owner)
        try:
            self._broker.add_connection(context, info)
        except Exception as error:
            self._host.connections.release(info.connection_id, self._owner)
            self._owner.refused(error)
            raise
        self.connections[info.connection_id] = ConnectionState(
            info, context, self._connector.maximum_transactions_per_connection
        )
        self.connection_added.set()

    def add_session(self, info: SessionInfo) -> None:
        """Register a session.

        Raises:
            IllegalStateException: it has no id, or the connection has too many.
        """
        if info.session_id is None:
            raise IllegalStateException("Cannot add a session without an id")
        state = self.connections.get(connection_of(info.session_id))
        if state is None or info.session_id in state.sessions:
            return  # a session of an unknown connection is ignored (activemq-broker C9)
        limit = self._connector.maximum_sessions_per_connection
        check_limit(len(state.sessions), limit, "session", state.info.connection_id)
        self._broker.add_session(state.context, info)
        state.sessions[info.session_id] = SessionState(info)

    # producers and consumers
    def add_producer(self, info: ProducerInfo) -> None:
        """Register a producer.

        Raises:
            IllegalStateException: its connection or session is unknown or has too many.
        """
        producer_id, state, session = self._place_of(info.producer_id, "producer")
        if producer_id in session.producers:
            return
        limit = self._connector.maximum_producers_per_connection
        state.producers.check(info.destination, limit, "producer", state.info.connection_id)
        self._broker.add_producer(state.context, info)
        session.producers[producer_id] = info
        state.producers.add(info.destination)
        self.producers[producer_id] = self._producer_exchange(state, info, producer_id)

    def _producer_exchange(
        self, state: ConnectionState, info: ProducerInfo, producer_id: ProducerId
    ) -> ProducerExchange:
        exchange = ProducerExchange(state.context, info)
        if state.info.failover_reconnect:
            last_stored = self._host.last_producer_sequence_id(producer_id)
            exchange.last_stored_sequence = last_stored
            self._host.connections.unstored_sends.producer_returned(producer_id, last_stored)
        if state.info.fault_tolerant:
            exchange.unanswered = deque()
        return exchange

    def add_consumer(self, info: ConsumerInfo) -> Completion:
        """Register a consumer; completed when a new durable subscription is stored.

        Raises:
            IllegalStateException: its connection or session is unknown or has too many.
        """
        consumer_id, state, session = self._place_of(info.consumer_id, "consumer")
        if consumer_id in session.consumers:
            return COMPLETED
        limit = self._connector.maximum_consumers_per_connection
        state.consumers.check(info.destination, limit, "consumer", state.info.connection_id)
        subscription = self._broker.add_consumer(state.context, info)
        session.consumers[consumer_id] = info
        state.consumers.add(info.destination)
        self.consumers[consumer_id] = ConsumerExchange(state.context, subscription)
        return subscription.saved

    # destinations and subscriptions
    def add_or_remove_destination(self, info: DestinationInfo) -> None:
        """Create or delete a destination.

        Raises:
            JMSException: the request is invalid, or the broker refuses it.
        """
        if info.destination is None:
            raise JMSException("Cannot add or remove a destination without a name")
        change = _DESTINATION_CHANGES.get(info.operation_type)
        if change is None:
            raise JMSException(f"Unknown operation type: {info.operation_type}")
        change(self, info, info.destination)

    def add_destination(self, info: DestinationInfo, destination: Destination) -> None:
        """Create a destination for the client."""
        state = self.named_connection(info.connection_id, "add a destination on")
        if destination.is_temporary:
            limit = self._connector.maximum_temporary_destinations_per_connection
            kind = "temporary destination"
            check_limit(len(state.temporary), limit, kind, state.info.connection_id)
        self._broker.add_destination_info(state.context, info)
        if destination.is_temporary:
            state.temporary[destination] = info

    def remove_destination(self, info: DestinationInfo, destination: Destination) -> None:
        """Delete a destination, unless it is a temporary one of another live connection."""
        state = self.named_connection(info.connection_id, "remove a destination on")
        if destination.is_temporary and destination not in state.temporary:
            owner = self._host.connections.owner_of(destination)
            if owner is not None:
                raise JMSException(f"Cannot remove {destination}: it belongs to another connection")
        self._broker.remove_destination_info(state.context, info)
        state.temporary.pop(destination, None)

    def owns_temporary(self, destination: Destination) -> bool:
        """Return whether the client has created this temporary destination."""
        return any(destination in state.temporary for state in self.connections.values())

    def remove_subscription(self, info: RemoveSubscriptionInfo) -> Completion:
        """Delete a durable subscription."""
        state = self.named_connection(info.connection_id, "remove a subscription on")
        return self._broker.remove_subscription(state.context, info)

    # resources that the client closes
    def remove(self, info: RemoveInfo) -> None:
        """Close a connection, session, consumer or producer.

        Raises:
            IllegalStateException: it is not registered.
            UnsupportedOperationException: it is an object of another kind.
        """
        remove = _REMOVALS.get(type(info.object_id))
        if remove is None:
            raise UnsupportedOperationException(
                f"Unknown remove info type '{type(info.object_id).__name__}'"
            )
        remove(self, info)

    def remove_connection(self, info: RemoveInfo) -> None:
        """Close a JMS connection; an unknown one is ignored."""
        assert isinstance(info.object_id, ConnectionId)
        state = self.connections.get(info.object_id)
        if state is not None:
            self._close_connection(state, info.last_delivered_sequence_id, None)

    def remove_session(self, info: RemoveInfo) -> None:
        """Close a session."""
        assert isinstance(info.object_id, SessionId)
        connection_id = connection_of(info.object_id)
        state = self.connections.get(connection_id)
        if state is None:
            raise IllegalStateException(
                "Cannot remove session from connection that had not been registered: "
                f"{connection_id}"
            )
        session = registered(state.sessions.get(info.object_id), "session", info.object_id)
        self._close_session(state, session, info.last_delivered_sequence_id)

    def remove_consumer(self, info: RemoveInfo) -> None:
        """Close a consumer."""
        assert isinstance(info.object_id, ConsumerId)
        state, session = self._session_of(info.object_id, "remove a consumer from")
        consumer = taken(session.consumers, self.consumers, info.object_id, "a consumer")
        state.consumers.remove(consumer.destination)
        self._broker.remove_consumer(state.context, consumer, info.last_delivered_sequence_id)

    def remove_producer(self, info: RemoveInfo) -> None:
        """Close a producer."""
        assert isinstance(info.object_id, ProducerId)
        state, session = self._session_of(info.object_id, "remove a producer from")
        producer = taken(session.producers, self.producers, info.object_id, "a producer")
        state.producers.remove(producer.destination)
        self._broker.remove_producer(state.context, producer)

    # the end of the client
    def close(self, error: Exception | None) -> None:
        """Remove all resources of a client whose connection has ended. (activemq-broker C4)"""
        self._lost = True
        for state in list(self.connections.values()):
            self._close_connection(state, LAST_DELIVERED_UNKNOWN, error)

    def _close_connection(
        self, state: ConnectionState, last_delivered: int, error: Exception | None
    ) -> None:
        context = state.context
        for session in list(state.sessions.values()):
            self._close_session(state, session, last_delivered)
        for destination in list(state.temporary):
            self._try(self._broker.remove_destination, context, destination, 0.0)
        state.temporary.clear()
        waiting = tuple(context.blocked_sends) if state.info.fault_tolerant else ()
        self._try(self._broker.remove_connection, context, state.info, error)
        if self._lost:
            self._host.connections.connection_lost(self._pending_sends, waiting)
            self._pending_sends.clear()
        if state.info.connection_id is not None:
            self.connections.pop(state.info.connection_id, None)
            self._host.connections.release(state.info.connection_id, self._owner)

    def _close_session(
        self, state: ConnectionState, session: SessionState, last_delivered: int
    ) -> None:
        context = state.context
        for consumer_id, consumer in list(session.consumers.items()):
            self.consumers.pop(consumer_id, None)
            state.consumers.remove(consumer.destination)
            self._try(self._broker.remove_consumer, context, consumer, last_delivered)
        session.consumers.clear()
        for producer_id, producer in list(session.producers.items()):
            exchange = self.producers.pop(producer_id, None)
            if self._lost and exchange is not None and exchange.unanswered:
                self._pending_sends[producer_id] = exchange.unanswered
            state.producers.remove(producer.destination)
            self._try(self._broker.remove_producer, context, producer)
        session.producers.clear()
        if session.info.session_id is not None:
            state.sessions.pop(session.info.session_id, None)
        self._try(self._broker.remove_session, context, session.info)

    def _try(self, call: Callable[..., None], *args: object) -> None:
        """Call `call`, logging an error, so that the remaining resources are also removed."""
        try:
            call(*args)
        except Exception:
            logger.exception("%s: cleaning up failed", self._owner.remote_address)


_DESTINATION_CHANGES: dict[int, Callable[[ClientResources, DestinationInfo, Destination], None]] = {
    0: ClientResources.add_destination,
    1: ClientResources.remove_destination,
}
_REMOVALS: dict[type, Callable[[ClientResources, RemoveInfo], None]] = {
    ConnectionId: ClientResources.remove_connection,
    SessionId: ClientResources.remove_session,
    ConsumerId: ClientResources.remove_consumer,
    ProducerId: ClientResources.remove_producer,
}
