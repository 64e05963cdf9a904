"""The resources of one client: connections, sessions, producers, consumers, destinations.

Each change is recorded here and passed on to the broker. Adding an existing resource is a replay
after a failover, and changes nothing. When the client is lost, all its resources are removed in
ActiveMQ's order: per JMS connection the consumers and producers of each session, the session, the
temporary destinations, the connection. The error messages about unregistered resources are
ActiveMQ's. (activemq-broker C1 to C4, C8, C9)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import anyio

from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
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
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.fields import largest_message
from pyjms_broker.api.usage import MEMBER_SIZE, TEMPORARY_SIZE, ClientMemory
from pyjms_broker.region.subscription import LAST_DELIVERED_UNKNOWN

if TYPE_CHECKING:
    from pyjms_broker.connector.openwire.connection import BrokerConnection

logger = get_logger(__name__)

_Id = TypeVar("_Id", bound=ProducerId | ConsumerId)

MAXIMUM_SHARED = 1000
"""The maximum number of JMS connections over one transport; the Java client has one."""
_IMPLICIT_SESSION = -1
"""The session that every connection has without a SessionInfo, used by advisory consumers."""


class SessionState:
    """The producers and consumers of one session."""

    __slots__ = ("consumers", "info", "producers")

    def __init__(self, info: SessionInfo) -> None:
        self.info = info
        self.producers: dict[ProducerId, ProducerInfo] = {}
        self.consumers: dict[ConsumerId, ConsumerInfo] = {}


class ConnectionState:
    """One JMS connection; a client usually has one over its transport."""

    __slots__ = (
        "began",
        "consumers",
        "context",
        "dispatched",
        "info",
        "maximum_transactions",
        "prepares",
        "producers",
        "sent",
        "sessions",
        "temporary",
        "transactions",
    )

    def __init__(
        self, info: ConnectionInfo, context: ConnectionContext, maximum_transactions: int = 10_000
    ) -> None:
        self.info = info
        self.maximum_transactions = maximum_transactions
        self.context = context
        self.began = _clock.time_ms()
        self.sent = 0
        """Messages of producers that are closed."""
        self.dispatched = 0
        """Messages to consumers that are closed."""
        self.sessions: dict[SessionId, SessionState] = {}
        self.consumers = {False: 0, True: 0}
        """The number of consumers: of others, and of those on advisory topics."""
        self.producers = {False: 0, True: 0}
        """The number of producers, as for `consumers`."""
        self.temporary: dict[Destination, None] = {}
        self.transactions: dict[TransactionId, int | None] = {}
        """Open transactions; the value is the response to PREPARE."""
        self.prepares: set[Completion] = set()
        """PREPAREs that the store has not recorded yet."""
        identifier = info.connection_id.value if info.connection_id is not None else None
        implicit = SessionId(identifier, _IMPLICIT_SESSION)
        self.sessions[implicit] = SessionState(SessionInfo(implicit))


def connection_of(resource: ConsumerId | ProducerId | SessionId) -> ConnectionId:
    """Return the connection of a session, consumer or producer."""
    return ConnectionId(resource.connection_id)


def _is_advisory(destination: Destination | None) -> bool:
    return destination is not None and destination.physical_name.startswith(ADVISORY_PREFIX)


def _not_registered(action: str, kind: str, object_id: object) -> IllegalStateException:
    return IllegalStateException(
        f"Cannot {action} {kind} that had not been registered: {object_id}"
    )


def _check_limit(count: int, limit: int | None, kind: str, where: object) -> None:
    """Check that one more is allowed."""
    if limit is not None and count >= limit:
        raise IllegalStateException(
            f"Can't add {kind} on connection {where}: at maximum limit: {limit}"
        )


class ClientResources:
    """The open resources of one client."""

    def __init__(self, owner: BrokerConnection) -> None:
        self._owner = owner
        self._host = owner.host
        self._connector = owner.connector
        self._broker = owner.host.broker
        self.connections: dict[ConnectionId, ConnectionState] = {}
        self.producers: dict[object, ProducerExchange] = {}
        """By the `identity` of their ids, whose hash needs no Python call."""
        self.consumers: dict[object, ConsumerExchange] = {}
        """By the `identity` of their ids."""
        self._pending_sends: dict[ProducerId, deque[Completion]] = {}
        self._lost = False
        self._memory = ClientMemory(owner.host.client_memory_limit)
        self.connection_added = anyio.Event()
        """Set once the client has registered a JMS connection."""
        self._on_login: list[Callable[[ConnectionContext], None]] = []

    def connection(self, connection_id: ConnectionId | None, action: str) -> ConnectionState:
        """Return a JMS connection; `action` describes the attempt in the error.

        Raises:
            IllegalStateException: the connection is not registered.
        """
        state = None if connection_id is None else self.connections.get(connection_id)
        if state is None:
            raise _not_registered(action, "a connection", connection_id)
        return state

    def consumer(self, consumer_id: ConsumerId | None) -> ConsumerExchange | None:
        """Return a consumer; None if it is not registered."""
        return None if consumer_id is None else self.consumers.get(consumer_id.identity)

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
        session_id = SessionId(resource_id.connection_id, resource_id.session_id)
        session = state.sessions.get(session_id)
        if session is None:
            raise _not_registered(action, "a session", session_id)
        return state, session

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

        The client's address is also set in `info`.

        Raises:
            InvalidClientIDException: it has no connection id.
            IllegalStateException: the client has too many connections.
        """
        if info.connection_id is None:
            raise InvalidClientIDException("No connectionID specified for connection request")
        if info.connection_id in self.connections:
            return None  # replayed after a failover
        where = self._owner.remote_address
        _check_limit(len(self.connections), MAXIMUM_SHARED, "connection", where)
        info.client_ip = where
        context = ConnectionContext(self._owner)
        context.introduce(info)
        context.certificate = self._owner.peer_certificate
        context.security = self._owner.login
        context.connector_name = self._connector.name
        context.connector_url = self._connector.connect_uri
        steals = self._connector.allow_link_stealing or self._owner.steals_links
        context.allow_link_stealing = steals
        context.congested = self._owner.congested
        context.limit_messages(largest_message(self._owner.max_frame_size))
        context.memory = self._memory
        return context

    def add_connection(self, info: ConnectionInfo, context: ConnectionContext) -> None:
        """Register a JMS connection whose client is authenticated.

        Raises:
            ConnectionFailedException: the client has meanwhile disconnected.
            JMSException: the broker refuses the client, which is disconnected soon.
        """
        if info.connection_id is None or self._lost:
            raise ConnectionFailedException(f"{self._owner.remote_address} has disconnected")
        try:
            self._host.connections.claim(info.connection_id, self._owner, context.user)
            self._broker.add_connection(context, info)
        except Exception as error:
            self._host.connections.release(info.connection_id, self._owner, refused=True)
            self._owner.stop_later(error)
            raise
        self.connections[info.connection_id] = ConnectionState(
            info, context, self._connector.maximum_transactions_per_connection
        )
        self.connection_added.set()
        while self._on_login:
            self._on_login.pop(0)(context)

    def when_logged_in(self, action: Callable[[ConnectionContext], None]) -> None:
        """Call `action` with the client's first connection: now, or once it is registered."""
        if self.connections:
            action(next(iter(self.connections.values())).context)
        else:
            self._on_login.append(action)

    def add_session(self, info: SessionInfo) -> None:
        """Register a session."""
        if info.session_id is None:
            raise IllegalStateException("Cannot add a session without an id")
        state = self.connections.get(connection_of(info.session_id))
        if state is None or info.session_id in state.sessions:
            return  # a session of an unknown connection is ignored (activemq-broker C9)
        limit = self._connector.maximum_sessions_per_connection
        _check_limit(len(state.sessions), limit, "session", state.info.connection_id)
        self._memory.reserve(MEMBER_SIZE)
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
        is_advisory = _is_advisory(info.destination)
        count = state.producers[is_advisory]
        _check_limit(count, limit, "producer", state.info.connection_id)
        self._memory.reserve(MEMBER_SIZE)
        try:
            self._broker.add_producer(state.context, info)
        except Exception:
            self._memory.release(MEMBER_SIZE)
            raise
        session.producers[producer_id] = info
        state.producers[is_advisory] += 1
        self.producers[producer_id.identity] = self._producer_exchange(state, info, producer_id)

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
        is_advisory = _is_advisory(info.destination)
        count = state.consumers[is_advisory]
        _check_limit(count, limit, "consumer", state.info.connection_id)
        subscription = self._broker.add_consumer(state.context, info)
        session.consumers[consumer_id] = info
        state.consumers[is_advisory] += 1
        self.consumers[consumer_id.identity] = ConsumerExchange(state.context, subscription)
        return subscription.saved

    # destinations and subscriptions
    def add_or_remove_destination(self, info: DestinationInfo) -> None:
        """Create or delete a destination."""
        if info.destination is None:
            raise JMSException("Cannot add or remove a destination without a name")
        if info.operation_type == 0:
            self._add_destination(info, info.destination)
        elif info.operation_type == 1:
            self._remove_destination(info, info.destination)
        else:
            raise JMSException(f"Unknown operation type: {info.operation_type}")

    def _add_destination(self, info: DestinationInfo, destination: Destination) -> None:
        """Create a destination for the client."""
        state = self.named_connection(info.connection_id, "add a destination on")
        if destination.is_temporary:
            limit = self._connector.maximum_temporary_destinations_per_connection
            kind = "temporary destination"
            _check_limit(len(state.temporary), limit, kind, state.info.connection_id)
            if destination not in state.temporary:
                self._memory.reserve(TEMPORARY_SIZE)
        try:
            self._broker.add_destination_info(state.context, info)
        except Exception:
            if destination.is_temporary and destination not in state.temporary:
                self._memory.release(TEMPORARY_SIZE)
            raise
        if destination.is_temporary:
            state.temporary[destination] = None

    def _remove_destination(self, info: DestinationInfo, destination: Destination) -> None:
        """Delete a destination, unless it is a temporary one of another live connection."""
        state = self.named_connection(info.connection_id, "remove a destination on")
        if destination.is_temporary and destination not in state.temporary:
            owner = self._host.connections.owner_of(destination)
            if owner is not None:
                raise JMSException(f"Cannot remove {destination}: it belongs to another connection")
        self._broker.remove_destination_info(state.context, info)
        if destination in state.temporary:
            del state.temporary[destination]
            self._memory.release(TEMPORARY_SIZE)

    def remove_subscription(self, info: RemoveSubscriptionInfo) -> Completion:
        """Delete a durable subscription."""
        state = self.named_connection(info.connection_id, "remove a subscription on")
        return self._broker.remove_subscription(state.context, info)

    # resources that the client closes
    def remove(self, info: RemoveInfo) -> Iterator[None]:
        """Close a consumer or producer; return the remaining steps for a connection or session.

        Raises:
            IllegalStateException: it is not registered.
            UnsupportedOperationException: it is an object of another kind.
        """
        removed = info.object_id
        if isinstance(removed, ConsumerId):
            self._remove_consumer(removed, info.last_delivered_sequence_id)
        elif isinstance(removed, ProducerId):
            self._remove_producer(removed)
        elif isinstance(removed, SessionId):
            return self._remove_session(removed, info.last_delivered_sequence_id)
        elif isinstance(removed, ConnectionId):
            state = self.connections.get(removed)
            if state is not None:  # an unknown one is ignored
                return self._close_connection(state, info.last_delivered_sequence_id, None)
        else:
            raise UnsupportedOperationException(
                f"Unknown remove info type '{type(removed).__name__}'"
            )
        return iter(())

    def _remove_session(self, session_id: SessionId, last_delivered: int) -> Iterator[None]:
        connection_id = connection_of(session_id)
        state = self.connections.get(connection_id)
        if state is None:
            raise IllegalStateException(
                "Cannot remove session from connection that had not been registered: "
                f"{connection_id}"
            )
        session = state.sessions.get(session_id)
        if session is None:
            raise _not_registered("remove", "session", session_id)
        return self._close_session(state, session, last_delivered)

    def _remove_consumer(self, consumer_id: ConsumerId, last_delivered: int) -> None:
        state, session = self._session_of(consumer_id, "remove a consumer from")
        consumer = session.consumers.pop(consumer_id, None)
        if consumer is None:
            raise _not_registered("remove", "a consumer", consumer_id)
        self._forget_consumer(state, consumer_id)
        state.consumers[_is_advisory(consumer.destination)] -= 1
        self._broker.remove_consumer(state.context, consumer, last_delivered)

    def _remove_producer(self, producer_id: ProducerId) -> None:
        state, session = self._session_of(producer_id, "remove a producer from")
        producer = session.producers.pop(producer_id, None)
        if producer is None:
            raise _not_registered("remove", "a producer", producer_id)
        self._forget_producer(state, producer_id)
        state.producers[_is_advisory(producer.destination)] -= 1
        self._memory.release(MEMBER_SIZE)
        self._broker.remove_producer(state.context, producer)

    def _forget_consumer(self, state: ConnectionState, consumer_id: ConsumerId) -> None:
        exchange = self.consumers.pop(consumer_id.identity, None)
        if exchange is not None and exchange.subscription is not None:
            state.dispatched += exchange.subscription.dispatched_count

    def _forget_producer(
        self, state: ConnectionState, producer_id: ProducerId
    ) -> ProducerExchange | None:
        exchange = self.producers.pop(producer_id.identity, None)
        if exchange is not None:
            state.sent += exchange.sent_count
        return exchange

    def counts(self, state: ConnectionState) -> tuple[int, int]:
        """Return how many messages a JMS connection has sent, and was dispatched."""
        context = state.context
        sent = sum(e.sent_count for e in self.producers.values() if e.context is context)
        dispatched = sum(
            each.subscription.dispatched_count
            for each in self.consumers.values()
            if each.context is context and each.subscription is not None
        )
        return state.sent + sent, state.dispatched + dispatched

    # the end of the client
    def close(self, error: Exception | None) -> Iterator[None]:
        """Return the steps that remove all resources of a lost client. (activemq-broker C4)

        A client may have thousands, so that other work is done between the steps. Each step takes
        what it removes from the tables first, so that steps of several callers may alternate.
        """
        self._lost = True
        return self._close_all(error)

    def _close_all(self, error: Exception | None) -> Iterator[None]:
        for state in list(self.connections.values()):
            yield from self._close_connection(state, LAST_DELIVERED_UNKNOWN, error)

    def _close_connection(
        self, state: ConnectionState, last_delivered: int, error: Exception | None
    ) -> Iterator[None]:
        context, connection_id = state.context, state.info.connection_id
        for session in list(state.sessions.values()):
            yield from self._close_session(state, session, last_delivered)
        while state.temporary:
            destination = next(iter(state.temporary))
            self._try(self._broker.remove_destination, context, destination, 0.0)
            if destination in state.temporary:
                del state.temporary[destination]
                self._memory.release(TEMPORARY_SIZE)
            yield
        if connection_id is None or self.connections.get(connection_id) is not state:
            return
        waiting = tuple(context.blocked_sends) if state.info.fault_tolerant else ()
        self._try(self._broker.remove_connection, context, state.info, error)
        if self._lost:
            self._host.connections.connection_lost(self._pending_sends, waiting)
            self._pending_sends.clear()
        self.connections.pop(connection_id, None)
        self._host.connections.release(connection_id, self._owner)

    def _close_session(
        self, state: ConnectionState, session: SessionState, last_delivered: int
    ) -> Iterator[None]:
        context = state.context
        while session.consumers:
            consumer_id = next(iter(session.consumers))
            consumer = session.consumers.pop(consumer_id)
            self._forget_consumer(state, consumer_id)
            state.consumers[_is_advisory(consumer.destination)] -= 1
            self._try(self._broker.remove_consumer, context, consumer, last_delivered)
            yield
        while session.producers:
            producer_id = next(iter(session.producers))
            producer = session.producers.pop(producer_id)
            exchange = self._forget_producer(state, producer_id)
            if self._lost and exchange is not None and exchange.unanswered:
                self._pending_sends[producer_id] = exchange.unanswered
            state.producers[_is_advisory(producer.destination)] -= 1
            self._try(self._broker.remove_producer, context, producer)
            self._memory.release(MEMBER_SIZE)
            yield
        session_id = session.info.session_id
        if session_id is not None and state.sessions.pop(session_id, None) is not None:
            self._memory.release(MEMBER_SIZE)
            self._try(self._broker.remove_session, context, session.info)

    def _try(self, call: Callable[..., None], *args: object) -> None:
        """Call `call`, logging an error, so that the remaining resources are also removed."""
        try:
            call(*args)
        except Exception:
            logger.exception("%s: cleaning up failed", self._owner)
