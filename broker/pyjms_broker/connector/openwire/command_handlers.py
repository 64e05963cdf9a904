"""The handlers of commands: one function per command type, in `HANDLERS`.

A handler returns a Response (done, with a value) or a Completion (`COMPLETED`: done), or raises
the error for the client; see `connection` for how these are sent. Messages and acknowledgements are
handled by the connection itself.
(activemq-broker C1 to C9; openwire-encoding 11 to 15)
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import IllegalStateException, JMSException, JMSSecurityException
from pyjms.jms.destination import Destination
from pyjms.runtime.event_loop import spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire.correlator import OpenWireTransport
from pyjms.wire.limits import MAX_COUNT
from pyjms.wire.openwire.commands import (
    BrokerInfo,
    BrokerSubscriptionInfo,
    Command,
    ConnectionControl,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    ControlCommand,
    DataArrayResponse,
    DataResponse,
    DestinationInfo,
    ExceptionResponse,
    FlushCommand,
    IntegerResponse,
    KeepAliveInfo,
    MessageAck,
    MessagePull,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionInfo,
    ShutdownInfo,
    TransactionId,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms.wire.openwire.schema import MESSAGES
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, completion_of
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.openwire.client_resources import ConnectionState, connection_of
from pyjms_broker.connector.openwire.connection import (
    BrokerConnection,
    CommandHandler,
    CommandResult,
    DeferredResponse,
)
from pyjms_broker.filters.composite_destinations import members_of
from pyjms_broker.region.flow_control import CREATED_IN_ONE_TURN, create_in_turns

logger = get_logger(__name__)

_XA_OK = 0
_XA_RDONLY = 3
_TRANSACTION_TYPES: Final = frozenset(TransactionType)
RESPONSES: Final = (
    Response.TYPE,
    DataResponse.TYPE,
    DataArrayResponse.TYPE,
    ExceptionResponse.TYPE,
    IntegerResponse.TYPE,
)


def serve(connector: TransportConnector, transport: OpenWireTransport) -> BrokerConnection:
    """Serve an OpenWire client accepted by `connector`, negotiating in the background."""
    connection = BrokerConnection(connector, transport, HANDLERS)
    connection.start_soon()
    return connection


def on_pull(connection: BrokerConnection, pull: MessagePull) -> CommandResult:
    """Request a message for a consumer without prefetch; an unknown consumer is ignored."""
    exchange = connection.resources.consumer(pull.consumer_id)
    if exchange is not None:
        connection.broker.message_pull(exchange.context, pull)
    return COMPLETED


def on_consumer_control(connection: BrokerConnection, control: ConsumerControl) -> CommandResult:
    """Change the prefetch of a consumer, or start, stop or close it."""
    exchange = connection.resources.consumer(control.consumer_id)
    if exchange is not None:
        connection.broker.process_consumer_control(exchange, control)
    return COMPLETED


# resources that clients open and close
def on_connection_control(
    connection: BrokerConnection, control: ConnectionControl
) -> CommandResult:
    """Record whether the client uses `failover:` and sends again after a failure."""
    for state in connection.resources.connections.values():
        state.context.fault_tolerant = control.fault_tolerant
    return COMPLETED


def on_connection_info(connection: BrokerConnection, info: ConnectionInfo) -> CommandResult:
    """Authenticate a client and register its JMS connection. (activemq-broker C1, C2)

    While the broker checks a password, which may take time, nothing is read from the client.
    """
    context = connection.resources.context_for(info)
    if context is None:
        return COMPLETED
    try:
        authenticated = connection.broker.authenticate(context, info)
    except Exception as error:
        connection.stop_later(error)
        raise
    if authenticated is COMPLETED:
        _add(connection, info, context)
        return COMPLETED
    completion_of(authenticated, connection.broker, "authenticating a client")
    added = Completion()
    connection.pause_until(added)

    def add(completion: Completion) -> None:
        error = completion.error
        try:
            if error is None:
                _add(connection, info, context)
            else:
                connection.stop_later(error)
        except Exception as failure:
            error = failure
        added.complete(error)

    authenticated.then(add)
    return added


def _add(connection: BrokerConnection, info: ConnectionInfo, context: ConnectionContext) -> None:
    context.is_own_bridge = connection.is_own_bridge
    context.network_connection = connection.serves_broker or connection.is_own_bridge
    connection.resources.add_connection(info, context)
    if info.manageable:
        connection.send_command(connection.cluster.list_for(is_back=info.failover_reconnect))
    if info.fault_tolerant:
        connection.cluster.client_joined(connection)


def on_session_info(connection: BrokerConnection, info: SessionInfo) -> CommandResult:
    """Register a session."""
    connection.resources.add_session(info)
    return COMPLETED


def on_producer_info(connection: BrokerConnection, info: ProducerInfo) -> CommandResult:
    """Register a producer; each member of a composite destination is checked."""
    if info.destination is not None and info.destination.is_composite:
        return _add_composite_producer(connection, info, info.destination)
    connection.resources.add_producer(info)
    return COMPLETED


def _add_composite_producer(
    connection: BrokerConnection, info: ProducerInfo, destination: Destination
) -> Completion:
    """Register a producer on `destination`; completed when all members exist and it is registered.

    Its members may have to be created first. Meanwhile the broker serves other clients but reads
    nothing from this one, so the producer's messages are handled afterwards.

    Raises:
        InvalidDestinationException: the composite has no members, or too many.
        IllegalStateException: its connection or session is unknown or has too many.
    """
    members = members_of(destination)
    resources = connection.resources
    producer_id = info.producer_id
    state = None if producer_id is None else resources.connections.get(connection_of(producer_id))
    if state is None or len(members) <= CREATED_IN_ONE_TURN:
        resources.add_producer(info)
        return COMPLETED
    added = Completion()

    async def create_and_add() -> None:
        try:
            await create_in_turns(
                connection.broker, state.context, members, lambda: state in open_connections()
            )
            resources.add_producer(info)
        except Exception as error:
            added.complete(error)
        else:
            added.complete()

    open_connections = resources.connections.values
    connection.pause_until(added)
    spawn(
        create_and_add, name=f"creates {len(members)} destinations for {connection.remote_address}"
    )
    return added


def on_destination_info(connection: BrokerConnection, info: DestinationInfo) -> CommandResult:
    """Create or remove a destination."""
    connection.resources.add_or_remove_destination(info)
    return COMPLETED


def on_remove_info(connection: BrokerConnection, info: RemoveInfo) -> CommandResult:
    """Remove a connection, session, producer or consumer, by the kind of its id."""
    return connection.take_steps(connection.resources.remove(info))


# transactions (openwire-encoding 13)
def on_transaction_info(connection: BrokerConnection, info: TransactionInfo) -> CommandResult:
    """Begin, prepare or end a transaction; done when the store has recorded it."""
    state = connection.resources.named_connection(info.connection_id, "run a transaction on")
    broker, context, xid, kind = connection.broker, state.context, info.transaction_id, info.type
    if kind == TransactionType.RECOVER:
        return _recover(broker, state)
    if kind not in _TRANSACTION_TYPES:
        raise JMSException(f"Unknown transaction info type: {kind}")
    if xid is None:
        raise JMSException("Cannot run a transaction without a transaction id")
    if kind == TransactionType.BEGIN:
        return _begin(broker, state, xid)
    if kind == TransactionType.PREPARE:
        return _prepare(broker, state, xid)
    if kind == TransactionType.END:
        return COMPLETED  # the response only confirms that all previous commands have arrived
    state.transactions.pop(xid, None)
    if kind == TransactionType.ROLLBACK:
        return broker.rollback_transaction(context, xid)
    if kind == TransactionType.FORGET:
        return broker.forget_transaction(context, xid)
    one_phase = kind == TransactionType.COMMIT_ONE_PHASE
    return broker.commit_transaction(context, xid, one_phase=one_phase)


def _begin(broker: Broker, state: ConnectionState, xid: TransactionId) -> Completion:
    if state.transactions.get(xid) is not None:
        _forget_ended(broker, state)
    if xid not in state.transactions:  # a second begin is a replay (activemq-broker C3)
        if _count(state) >= state.maximum_transactions:
            _forget_ended(broker, state)
        if _count(state) >= state.maximum_transactions:
            raise IllegalStateException(
                f"Can't begin a transaction on connection {state.info.connection_id}: "
                f"at maximum limit: {state.maximum_transactions}"
            )
        broker.begin_transaction(state.context, xid)
        state.transactions[xid] = None
    return COMPLETED


def _count(state: ConnectionState) -> int:
    return len(state.transactions) + len(state.context.waiting_ends)


def _forget_ended(broker: Broker, state: ConnectionState) -> None:
    """Drop the votes of branches that other connections have ended."""
    prepared = broker.prepared_transactions(state.context)
    for xid in [xid for xid, vote in state.transactions.items() if vote is not None]:
        if xid not in prepared:
            del state.transactions[xid]


def _recover(broker: Broker, state: ConnectionState) -> CommandResult:
    """List the prepared transactions, after the PREPAREs that the client has sent before."""
    response = DataArrayResponse()
    deferred = DeferredResponse(response)

    def answer(_prepared: Completion) -> None:
        found = broker.prepared_transactions(state.context)
        if len(found) > MAX_COUNT:
            logger.warning(
                "%s is told of %d of %d prepared transactions: OpenWire carries no more; once it "
                "has ended some, it can ask again",
                state.context.client_id,
                MAX_COUNT,
                len(found),
            )
        response.data = list(found[:MAX_COUNT])
        deferred.complete()

    all_of(tuple(state.prepares)).then(answer)
    return deferred if not deferred.done else response


def _prepare(broker: Broker, state: ConnectionState, xid: TransactionId) -> CommandResult:
    if xid not in state.transactions:
        raise IllegalStateException(
            "Cannot prepare a transaction that had not been started or previously returned"
            f" XA_RDONLY: {xid}"
        )
    former = state.transactions[xid]
    if former is not None:
        return IntegerResponse(result=former)
    result = broker.prepare_transaction(state.context, xid)
    if not isinstance(result, Completion):
        if result == _XA_RDONLY:
            state.transactions.pop(xid, None)
        else:
            state.transactions[xid] = result
        return IntegerResponse(result=result)
    response = DeferredResponse(IntegerResponse(result=_XA_OK))
    state.prepares.add(result)

    def vote(completion: Completion) -> None:
        state.prepares.discard(result)
        if completion.error is None and xid in state.transactions:
            state.transactions[xid] = _XA_OK
        response.complete(completion.error)

    result.then(vote)
    return response


# the connection itself
def on_shutdown(connection: BrokerConnection, _info: ShutdownInfo) -> CommandResult:
    """Close the connection in the background, because the client sends no further commands."""
    connection.stop_soon()
    return COMPLETED


def on_keep_alive(connection: BrokerConnection, info: KeepAliveInfo) -> CommandResult:
    """Echo a keep-alive that requires a response; others only show that the peer is alive."""
    if info.response_required:
        info.response_required = False  # echo the command instead of sending a Response
        connection.send_command(info)
    return COMPLETED


def on_connection_error(
    connection: BrokerConnection, command: ConnectionErrorCommand
) -> CommandResult:
    """Log an error reported by the client."""
    logger.warning("%s reports an error: %s", connection, command.exception)
    return COMPLETED


def on_broker_info(connection: BrokerConnection, info: BrokerInfo) -> CommandResult:
    """Record that the client is a bridge of another broker. (activemq-edges NW1)"""
    if connection.serves_broker:
        logger.warning("%s introduces itself again", connection)
    elif info.network_connection:
        _check_bridge(connection)
        logger.info("%s is a network bridge of broker %s", connection, info.broker_name)
        connection.serves_broker = True
        for state in connection.resources.connections.values():
            state.context.network_connection = True
        connection.handlers = connection.host.networks.accept(connection, info)
    return COMPLETED


def _check_bridge(connection: BrokerConnection) -> None:
    """Check the right of a client that has logged in before; of others their login checks it."""
    for state in connection.resources.connections.values():
        if state.context.access is not None and not connection.is_own_bridge:
            try:
                state.context.access.check_bridge()
            except JMSSecurityException as error:
                connection.stop_later(error)
                raise


def _ignore(_connection: BrokerConnection, _command: Command) -> CommandResult:
    """Do nothing, because the command has no effect on this broker."""
    return COMPLETED


HANDLERS: dict[int, CommandHandler] = {
    **dict.fromkeys(MESSAGES, BrokerConnection.on_message),
    MessageAck.TYPE: BrokerConnection.on_ack,
    MessagePull.TYPE: on_pull,
    ConsumerControl.TYPE: on_consumer_control,
    ConnectionInfo.TYPE: on_connection_info,
    ConnectionControl.TYPE: on_connection_control,
    SessionInfo.TYPE: on_session_info,
    ProducerInfo.TYPE: on_producer_info,
    # completed when the broker has added it, or the store has recorded it
    ConsumerInfo.TYPE: lambda connection, info: connection.resources.add_consumer(info),
    DestinationInfo.TYPE: on_destination_info,
    RemoveSubscriptionInfo.TYPE: lambda connection, info: connection.resources.remove_subscription(
        info
    ),
    RemoveInfo.TYPE: on_remove_info,
    TransactionInfo.TYPE: on_transaction_info,
    ShutdownInfo.TYPE: on_shutdown,
    KeepAliveInfo.TYPE: on_keep_alive,
    ConnectionErrorCommand.TYPE: on_connection_error,
    FlushCommand.TYPE: _ignore,
    ControlCommand.TYPE: _ignore,
    # ActiveMQ's failover transport marks the end of a replay by a Response
    **dict.fromkeys(RESPONSES, _ignore),
    BrokerInfo.TYPE: on_broker_info,
    # bridges that synchronize durable subscriptions send it even if nothing is forwarded to them
    BrokerSubscriptionInfo.TYPE: _ignore,
}
