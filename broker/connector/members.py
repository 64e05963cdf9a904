"""What clients open and close: connections, sessions, producers, consumers, destinations.

The handlers keep the connection's books and pass each change on to the broker. An add that
is there already is a replay after a failover and changes nothing. (ActiveMQ C1-C4, C8, C9)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.completion import Completion
from broker.connector.state import ConnectionState, SessionState, connection_of, session_of
from broker.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms.errors import (
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionId,
    SessionInfo,
)

if TYPE_CHECKING:
    from broker.connector.connection import BrokerConnection

__all__ = [
    "MAXIMUM_SHARED",
    "REFUSED_CONNECTION_DELAY",
    "known_state",
    "on_connection_control",
    "on_connection_info",
    "on_consumer_info",
    "on_destination_info",
    "on_producer_info",
    "on_remove_info",
    "on_remove_subscription",
    "on_session_info",
]

MAXIMUM_SHARED = 1000
"""JMS connections over one transport; the Java client has one."""
REFUSED_CONNECTION_DELAY = 2.0
"""Seconds that a refused client has to read why, before its connection is closed. (C2)"""


# connections
def on_connection_info(connection: BrokerConnection, info: ConnectionInfo) -> None:
    if info.connection_id is None:
        raise InvalidClientIDException("No connectionID specified for connection request")
    if info.connection_id in connection.states:
        return  # replayed after a failover
    _check_limit(len(connection.states), MAXIMUM_SHARED, "connection", connection.remote_address)
    connection.host.connections.claim(info.connection_id, connection)
    context = _context(connection, info)
    try:
        connection.broker.add_connection(context, info)
    except Exception as error:
        connection.host.connections.release(info.connection_id, connection)
        connection.stop_later(REFUSED_CONNECTION_DELAY, error)
        raise
    connection.states[info.connection_id] = ConnectionState(
        info, context, connection.connector.maximum_transactions_per_connection
    )
    if info.manageable:
        connection.send_command(ConnectionControl(connected_brokers="", reconnect_to=""))


def _context(connection: BrokerConnection, info: ConnectionInfo) -> ConnectionContext:
    info.client_ip = connection.remote_address
    context = ConnectionContext(connection)
    context.info = info
    context.connection_id = info.connection_id
    context.client_id = info.client_id
    context.user_name = info.user_name
    context.connector_name = connection.connector.name
    context.connector_url = connection.connector.connect_uri
    context.fault_tolerant = info.fault_tolerant
    context.allow_link_stealing = connection.connector.allow_link_stealing
    context.congested = connection.congested
    return context


def _check_limit(count: int, limit: int | None, what: str, where: object) -> None:
    """Refuse one more.

    Raises:
        IllegalStateException: there are `limit` already.
    """
    if limit is not None and count >= limit:
        raise IllegalStateException(
            f"Can't add {what} on connection {where}: at maximum limit: {limit}"
        )


def on_connection_control(connection: BrokerConnection, control: ConnectionControl) -> None:
    for state in connection.states.values():
        state.context.fault_tolerant = control.fault_tolerant


def on_session_info(connection: BrokerConnection, info: SessionInfo) -> None:
    if info.session_id is None:
        raise IllegalStateException("Cannot add a session without an id")
    state = connection.states.get(connection_of(info.session_id))
    if state is None or info.session_id in state.sessions:
        return  # unknown connections are not the session's fault (C9)
    limit = connection.connector.maximum_sessions_per_connection
    _check_limit(len(state.sessions), limit, "session", state.info.connection_id)
    connection.broker.add_session(state.context, info)
    state.sessions[info.session_id] = SessionState(info)


def on_producer_info(connection: BrokerConnection, info: ProducerInfo) -> None:
    producer_id = info.producer_id
    if producer_id is None:
        raise IllegalStateException("Cannot add a producer without an id")
    state = known_state(connection, connection_of(producer_id), "add a producer to")
    session = state.session(session_of(producer_id), "add a producer to")
    if producer_id in session.producers:
        return
    limit = connection.connector.maximum_producers_per_connection
    count = state.producers.of_kind(info.destination)
    _check_limit(count, limit, "producer", state.info.connection_id)
    connection.broker.add_producer(state.context, info)
    session.producers[producer_id] = info
    state.producers.add(info.destination)
    connection.producers[producer_id] = _exchange(connection, state, info, producer_id)


def _exchange(
    connection: BrokerConnection,
    state: ConnectionState,
    info: ProducerInfo,
    producer_id: ProducerId,
) -> ProducerExchange:
    exchange = ProducerExchange(state.context, info)
    if state.info.failover_reconnect:
        stored = connection.host.last_producer_sequence_id(producer_id)
        exchange.last_stored_sequence = stored
        connection.host.connections.lost_sends.returned(producer_id, stored)
    if state.info.fault_tolerant:
        exchange.unanswered = deque()
    return exchange


def on_consumer_info(connection: BrokerConnection, info: ConsumerInfo) -> Completion | None:
    consumer_id = info.consumer_id
    if consumer_id is None:
        raise IllegalStateException("Cannot add a consumer without an id")
    state = known_state(connection, connection_of(consumer_id), "add a consumer to")
    session = state.session(session_of(consumer_id), "add a consumer to")
    if consumer_id in session.consumers:
        return None
    limit = connection.connector.maximum_consumers_per_connection
    count = state.consumers.of_kind(info.destination)
    _check_limit(count, limit, "consumer", state.info.connection_id)
    subscription = connection.broker.add_consumer(state.context, info)
    session.consumers[consumer_id] = info
    state.consumers.add(info.destination)
    connection.consumers[consumer_id] = ConsumerExchange(state.context, subscription)
    return subscription.saved


_ADD, _REMOVE = 0, 1


def on_destination_info(connection: BrokerConnection, info: DestinationInfo) -> None:
    destination = info.destination
    if destination is None:
        raise JMSException("Cannot add or remove a destination without a name")
    if info.operation_type not in {_ADD, _REMOVE}:
        raise JMSException(f"Unknown operation type: {info.operation_type}")
    doing = "add a destination on" if info.operation_type == _ADD else "remove a destination on"
    state = known_state(connection, info.connection_id, doing)
    if info.operation_type == _ADD:
        if destination.is_temporary:
            limit = connection.connector.maximum_temporary_destinations_per_connection
            what = "temporary destination"
            _check_limit(len(state.temporary), limit, what, state.info.connection_id)
        connection.broker.add_destination_info(state.context, info)
        if destination.is_temporary:
            state.temporary[destination] = info
    else:
        _check_owner(connection, state, destination)
        connection.broker.remove_destination_info(state.context, info)
        state.temporary.pop(destination, None)


def _check_owner(
    connection: BrokerConnection, state: ConnectionState, destination: Destination
) -> None:
    """Refuse to remove a temporary destination that another live connection made.

    Raises:
        JMSException: it is another connection's.
    """
    if not destination.is_temporary or destination in state.temporary:
        return
    for other in connection.host.connections.by_id.values():
        if any(destination in owner.temporary for owner in other.states.values()):
            raise JMSException(
                f"Cannot remove {destination}: it belongs to another connection",
            )


def on_remove_subscription(
    connection: BrokerConnection, info: RemoveSubscriptionInfo
) -> Completion | None:
    state = known_state(connection, info.connection_id, "remove a subscription on")
    return connection.broker.remove_subscription(state.context, info)


# removals
def on_remove_info(connection: BrokerConnection, info: RemoveInfo) -> None:
    remove = _REMOVALS.get(type(info.object_id))
    if remove is None:
        raise UnsupportedOperationException(
            f"Unknown remove info type '{type(info.object_id).__name__}'"
        )
    remove(connection, info)


def _remove_connection(connection: BrokerConnection, info: RemoveInfo) -> None:
    assert isinstance(info.object_id, ConnectionId)
    state = connection.states.get(info.object_id)
    if state is not None:
        connection.remove_connection(state, info.last_delivered_sequence_id, None)


def _remove_session(connection: BrokerConnection, info: RemoveInfo) -> None:
    assert isinstance(info.object_id, SessionId)
    connection_id = connection_of(info.object_id)
    state = connection.states.get(connection_id)
    if state is None:
        raise IllegalStateException(
            f"Cannot remove session from connection that had not been registered: {connection_id}"
        )
    session = state.sessions.get(info.object_id)
    if session is None:
        raise IllegalStateException(
            f"Cannot remove session that had not been registered: {info.object_id}"
        )
    connection.remove_session(state, session, info.last_delivered_sequence_id)


def _remove_consumer(connection: BrokerConnection, info: RemoveInfo) -> None:
    assert isinstance(info.object_id, ConsumerId)
    state = known_state(connection, connection_of(info.object_id), "remove a consumer from")
    session = state.session(session_of(info.object_id), "remove a consumer from")
    consumer = session.consumers.pop(info.object_id, None)
    if consumer is None:
        raise IllegalStateException(
            f"Cannot remove a consumer that had not been registered: {info.object_id}"
        )
    connection.consumers.pop(info.object_id, None)
    state.consumers.remove(consumer.destination)
    connection.broker.remove_consumer(state.context, consumer, info.last_delivered_sequence_id)


def _remove_producer(connection: BrokerConnection, info: RemoveInfo) -> None:
    assert isinstance(info.object_id, ProducerId)
    state = known_state(connection, connection_of(info.object_id), "remove a producer from")
    session = state.session(session_of(info.object_id), "remove a producer from")
    producer = session.producers.pop(info.object_id, None)
    if producer is None:
        raise IllegalStateException(
            f"Cannot remove a producer that had not been registered: {info.object_id}"
        )
    connection.producers.pop(info.object_id, None)
    state.producers.remove(producer.destination)
    connection.broker.remove_producer(state.context, producer)


_REMOVALS: dict[type, Callable[[BrokerConnection, RemoveInfo], None]] = {
    ConnectionId: _remove_connection,
    SessionId: _remove_session,
    ConsumerId: _remove_consumer,
    ProducerId: _remove_producer,
}


def known_state(
    connection: BrokerConnection, connection_id: ConnectionId | None, doing: str
) -> ConnectionState:
    """The state of that connection.

    Raises:
        IllegalStateException: it was never announced; `doing` says what was tried.
    """
    state = None if connection_id is None else connection.states.get(connection_id)
    if state is None:
        raise IllegalStateException(
            f"Cannot {doing} a connection that had not been registered: {connection_id}"
        )
    return state
