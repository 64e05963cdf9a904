"""What the broker does with each command: one function a type, found through `HANDLERS`.

A handler returns None (done), a Response (done, with a value) or a Completion (done
later). It raises what the client is to hear. Messages and acknowledgements come first:
they are most of all commands. (ActiveMQ C1-C9; ENCODING sections 11 to 15)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.completion import Completion
from broker.connector import transactions
from broker.connector.state import ConnectionState, SessionState, connection_of, session_of
from broker.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms.errors import (
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    ControlCommand,
    DestinationInfo,
    FlushCommand,
    KeepAliveInfo,
    MessageAck,
    MessagePull,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    SessionInfo,
    ShutdownInfo,
    TransactionInfo,
)
from pyjms.wire.openwire.commands import (
    ConnectionError as ConnectionErrorCommand,
)

if TYPE_CHECKING:
    from broker.connector.connection import BrokerConnection

__all__ = ["HANDLERS", "Answer", "Handler", "unsupported"]

logger = logging.getLogger(__name__)

Answer = Completion | Response | None
Handler = Callable[["BrokerConnection", Any], Answer]

REFUSED_CONNECTION_DELAY = 2.0
"""Seconds that a refused client has to read why, before its connection is closed. (C2)"""


# messages
def on_message(connection: BrokerConnection, message: ActiveMQMessage) -> Answer:
    exchange = connection.producers.get(message.producer_id)  # type: ignore[arg-type]  # None: absent
    if exchange is None:
        raise JMSException(
            f"Cannot send message to {message.destination} with invalid (null) producer state"
        )
    answer = connection.broker.send(exchange, message)
    if message.response_required:
        return answer
    info = exchange.info
    window = info is not None and info.window_size > 0
    if answer is not None and not answer.done:
        connection.park(message, window, answer)
        return None
    if window and (answer is None or answer.error is None):
        connection.send_producer_ack(message)
    return answer


def on_ack(connection: BrokerConnection, ack: MessageAck) -> Answer:
    exchange = connection.consumers.get(ack.consumer_id)  # type: ignore[arg-type]  # None: absent
    if exchange is not None:
        return connection.broker.acknowledge(exchange, ack)
    level = logging.WARNING if ack.transaction_id is not None else logging.DEBUG
    logger.log(level, "Ack for non existent subscription %s ignored", ack.consumer_id)
    return None


def on_pull(connection: BrokerConnection, pull: MessagePull) -> Answer:
    exchange = connection.consumers.get(pull.consumer_id)  # type: ignore[arg-type]  # None: absent
    if exchange is not None:
        connection.broker.message_pull(exchange.context, pull)
    return None


def on_consumer_control(connection: BrokerConnection, control: ConsumerControl) -> Answer:
    exchange = connection.consumers.get(control.consumer_id)  # type: ignore[arg-type]  # None: absent
    if exchange is not None:
        connection.broker.process_consumer_control(exchange, control)
    return None


# connections
def on_connection_info(connection: BrokerConnection, info: ConnectionInfo) -> Answer:
    if info.connection_id is None:
        raise InvalidClientIDException("No connectionID specified for connection request")
    if info.connection_id in connection.states:
        return None  # replayed after a failover
    connection.host.connections.claim(info.connection_id, connection)
    context = _context(connection, info)
    try:
        connection.broker.add_connection(context, info)
    except Exception as error:
        connection.host.connections.release(info.connection_id, connection)
        connection.stop_later(REFUSED_CONNECTION_DELAY, error)
        raise
    connection.states[info.connection_id] = ConnectionState(info, context)
    if info.manageable:
        connection.send_command(ConnectionControl(connected_brokers="", reconnect_to=""))
    return None


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
    return context


def on_connection_control(connection: BrokerConnection, control: ConnectionControl) -> Answer:
    for state in connection.states.values():
        state.context.fault_tolerant = control.fault_tolerant
    return None


def on_session_info(connection: BrokerConnection, info: SessionInfo) -> Answer:
    if info.session_id is None:
        raise IllegalStateException("Cannot add a session without an id")
    state = connection.states.get(connection_of(info.session_id))
    if state is None or info.session_id in state.sessions:
        return None  # unknown connections are not the session's fault (C9)
    connection.broker.add_session(state.context, info)
    state.sessions[info.session_id] = SessionState(info)
    return None


def on_producer_info(connection: BrokerConnection, info: ProducerInfo) -> Answer:
    producer_id = info.producer_id
    if producer_id is None:
        raise IllegalStateException("Cannot add a producer without an id")
    state = _state(connection, connection_of(producer_id), "add a producer to")
    session = state.session(session_of(producer_id), "add a producer to")
    if producer_id in session.producers:
        return None
    limit = connection.connector.maximum_producers_per_connection
    if limit is not None and state.producer_count >= limit:
        raise IllegalStateException(
            f"Can't add producer on connection {state.info.connection_id}: "
            f"at maximum limit: {limit}"
        )
    connection.broker.add_producer(state.context, info)
    session.producers[producer_id] = info
    connection.producers[producer_id] = ProducerExchange(state.context, info)
    return None


def on_consumer_info(connection: BrokerConnection, info: ConsumerInfo) -> Answer:
    consumer_id = info.consumer_id
    if consumer_id is None:
        raise IllegalStateException("Cannot add a consumer without an id")
    state = _state(connection, connection_of(consumer_id), "add a consumer to")
    session = state.session(session_of(consumer_id), "add a consumer to")
    if consumer_id in session.consumers:
        return None
    limit = connection.connector.maximum_consumers_per_connection
    if limit is not None and state.consumer_count >= limit:
        raise IllegalStateException(
            f"Can't add consumer on connection {state.info.connection_id}: "
            f"at maximum limit: {limit}"
        )
    subscription = connection.broker.add_consumer(state.context, info)
    session.consumers[consumer_id] = info
    connection.consumers[consumer_id] = ConsumerExchange(state.context, subscription)
    return None


_ADD, _REMOVE = 0, 1


def on_destination_info(connection: BrokerConnection, info: DestinationInfo) -> Answer:
    destination = info.destination
    if destination is None:
        raise JMSException("Cannot add or remove a destination without a name")
    if info.operation_type not in {_ADD, _REMOVE}:
        raise JMSException(f"Unknown operation type: {info.operation_type}")
    doing = "add a destination on" if info.operation_type == _ADD else "remove a destination on"
    state = _state(connection, info.connection_id, doing)
    if info.operation_type == _ADD:
        connection.broker.add_destination_info(state.context, info)
        if destination.is_temporary:
            state.temporary[destination] = info
    else:
        connection.broker.remove_destination_info(state.context, info)
        state.temporary.pop(destination, None)
    return None


def on_remove_subscription(connection: BrokerConnection, info: RemoveSubscriptionInfo) -> Answer:
    state = _state(connection, info.connection_id, "remove a subscription on")
    connection.broker.remove_subscription(state.context, info)
    return None


# removals
def on_remove_info(connection: BrokerConnection, info: RemoveInfo) -> Answer:
    remove = _REMOVALS.get(type(info.object_id))
    if remove is None:
        raise UnsupportedOperationException(
            f"Unknown remove info type '{type(info.object_id).__name__}'"
        )
    remove(connection, info)
    return None


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
    state = _state(connection, connection_of(info.object_id), "remove a consumer from")
    session = state.session(session_of(info.object_id), "remove a consumer from")
    consumer = session.consumers.pop(info.object_id, None)
    if consumer is None:
        raise IllegalStateException(
            f"Cannot remove a consumer that had not been registered: {info.object_id}"
        )
    connection.consumers.pop(info.object_id, None)
    connection.broker.remove_consumer(state.context, consumer, info.last_delivered_sequence_id)


def _remove_producer(connection: BrokerConnection, info: RemoveInfo) -> None:
    assert isinstance(info.object_id, ProducerId)
    state = _state(connection, connection_of(info.object_id), "remove a producer from")
    session = state.session(session_of(info.object_id), "remove a producer from")
    producer = session.producers.pop(info.object_id, None)
    if producer is None:
        raise IllegalStateException(
            f"Cannot remove a producer that had not been registered: {info.object_id}"
        )
    connection.producers.pop(info.object_id, None)
    connection.broker.remove_producer(state.context, producer)


_REMOVALS: dict[type, Callable[[BrokerConnection, RemoveInfo], None]] = {
    ConnectionId: _remove_connection,
    SessionId: _remove_session,
    ConsumerId: _remove_consumer,
    ProducerId: _remove_producer,
}


# transactions
def on_transaction_info(connection: BrokerConnection, info: TransactionInfo) -> Answer:
    state = _state(connection, info.connection_id, "run a transaction on")
    return transactions.run(connection.broker, state, info)


# the conversation itself
def on_shutdown(connection: BrokerConnection, _info: ShutdownInfo) -> Answer:
    connection.stop_soon()
    return None


def on_keep_alive(connection: BrokerConnection, info: KeepAliveInfo) -> Answer:
    if info.response_required:
        info.response_required = False  # echoed as it came, with no Response beside
        connection.send_command(info)
    return None


def on_connection_error(connection: BrokerConnection, command: ConnectionErrorCommand) -> Answer:
    logger.warning("%s reports: %s", connection.remote_address, command.exception)
    return None


def nothing(_connection: BrokerConnection, _command: Command) -> Answer:
    """Commands that ask for nothing here."""
    return None


def on_broker_info(connection: BrokerConnection, info: BrokerInfo) -> Answer:
    error = UnsupportedOperationException(
        f"Broker {info.broker_name} asks for a network connection; this broker has no networks yet"
    )
    connection.stop_later(REFUSED_CONNECTION_DELAY, error)
    raise error


def unsupported(_connection: BrokerConnection, command: Command) -> Answer:
    """Commands that no client sends."""
    raise UnsupportedOperationException(
        f"This broker does not take the command {type(command).__name__}"
    )


def _state(
    connection: BrokerConnection, connection_id: ConnectionId | None, doing: str
) -> ConnectionState:
    state = None if connection_id is None else connection.states.get(connection_id)
    if state is None:
        raise IllegalStateException(
            f"Cannot {doing} a connection that had not been registered: {connection_id}"
        )
    return state


HANDLERS: dict[int, Handler] = {
    **dict.fromkeys(
        (
            ActiveMQMessage.TYPE,
            ActiveMQBytesMessage.TYPE,
            ActiveMQMapMessage.TYPE,
            ActiveMQObjectMessage.TYPE,
            ActiveMQStreamMessage.TYPE,
            ActiveMQTextMessage.TYPE,
            ActiveMQBlobMessage.TYPE,
        ),
        on_message,
    ),
    MessageAck.TYPE: on_ack,
    MessagePull.TYPE: on_pull,
    ConsumerControl.TYPE: on_consumer_control,
    ConnectionInfo.TYPE: on_connection_info,
    ConnectionControl.TYPE: on_connection_control,
    SessionInfo.TYPE: on_session_info,
    ProducerInfo.TYPE: on_producer_info,
    ConsumerInfo.TYPE: on_consumer_info,
    DestinationInfo.TYPE: on_destination_info,
    RemoveSubscriptionInfo.TYPE: on_remove_subscription,
    RemoveInfo.TYPE: on_remove_info,
    TransactionInfo.TYPE: on_transaction_info,
    ShutdownInfo.TYPE: on_shutdown,
    KeepAliveInfo.TYPE: on_keep_alive,
    ConnectionErrorCommand.TYPE: on_connection_error,
    FlushCommand.TYPE: nothing,
    ControlCommand.TYPE: nothing,
    BrokerInfo.TYPE: on_broker_info,
}
