"""What the broker does with each command: one function a type, found through `HANDLERS`.

A handler returns None (done), a Response (done, with a value) or a Completion (done
later). It raises what the client is to hear. Messages and acknowledgements come first:
they are most of all commands. (ActiveMQ C1-C9; ENCODING sections 11 to 15)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.completion import Completion
from broker.connector import members, transactions
from broker.context import ProducerExchange
from pyjms.errors import JMSException, UnsupportedOperationException
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
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    ControlCommand,
    DestinationInfo,
    FlushCommand,
    KeepAliveInfo,
    MessageAck,
    MessagePull,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
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


# messages
def on_message(connection: BrokerConnection, message: ActiveMQMessage) -> Answer:
    exchange = connection.producers.get(message.producer_id)  # type: ignore[arg-type]  # None: absent
    if exchange is None:
        raise JMSException(
            f"Cannot send message to {message.destination} with invalid (null) producer state"
        )
    if exchange.last_stored_sequence is not None and is_stored_replay(
        connection, exchange, message
    ):
        return on_stored_replay(connection, exchange, message)
    answer = connection.broker.send(exchange, message)
    if message.response_required:
        if answer is not None and not answer.done and exchange.unanswered is not None:
            note_unanswered(exchange.unanswered, answer)
        return answer
    info = exchange.info
    window = info is not None and info.window_size > 0
    if answer is not None and not answer.done:
        connection.park(message, window, answer)
        return None
    if window and (answer is None or answer.error is None):
        connection.send_producer_ack(message)
    return answer


def is_stored_replay(
    connection: BrokerConnection, exchange: ProducerExchange, message: ActiveMQMessage
) -> bool:
    """Whether a client that failed over sends again what the store has (T27)."""
    stored, message_id = exchange.last_stored_sequence, message.message_id
    if stored is None or message_id is None or not message.persistent:
        return False
    sequence = message_id.producer_sequence_id
    if sequence <= stored:
        return not connection.host.connections.lost_sends.take(message.producer_id, sequence)
    exchange.last_stored_sequence = sequence
    return False


def on_stored_replay(
    connection: BrokerConnection, exchange: ProducerExchange, message: ActiveMQMessage
) -> Answer:
    """Answer as if it had come now, when the store is done with the first one."""
    logger.debug("Suppressed %s, sent again after a failover", message.message_id)
    if message.response_required:
        return connection.host.connections.unanswered.get(message.producer_id)  # type: ignore[arg-type]  # None: absent
    if exchange.info is not None and exchange.info.window_size > 0:
        connection.send_producer_ack(message)
    return None


def note_unanswered(sends: deque[Completion], answer: Completion) -> None:
    """Remember what the store is at, and forget what it is done with."""
    while sends and sends[0].done:
        sends.popleft()
    sends.append(answer)


def on_ack(connection: BrokerConnection, ack: MessageAck) -> Answer:
    exchange = connection.consumers.get(ack.consumer_id)  # type: ignore[arg-type]  # None: absent
    if exchange is not None:
        if not ack.response_required:
            return connection.broker.acknowledge(exchange, ack)
        exchange.context.wants_answer = True
        try:
            return connection.broker.acknowledge(exchange, ack)
        finally:
            exchange.context.wants_answer = False
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


# transactions
def on_transaction_info(connection: BrokerConnection, info: TransactionInfo) -> Answer:
    state = members.known_state(connection, info.connection_id, "run a transaction on")
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
    connection.stop_later(members.REFUSED_CONNECTION_DELAY, error)
    raise error


def unsupported(_connection: BrokerConnection, command: Command) -> Answer:
    """Commands that no client sends."""
    raise UnsupportedOperationException(
        f"This broker does not take the command {type(command).__name__}"
    )


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
    ConnectionInfo.TYPE: members.on_connection_info,
    ConnectionControl.TYPE: members.on_connection_control,
    SessionInfo.TYPE: members.on_session_info,
    ProducerInfo.TYPE: members.on_producer_info,
    ConsumerInfo.TYPE: members.on_consumer_info,
    DestinationInfo.TYPE: members.on_destination_info,
    RemoveSubscriptionInfo.TYPE: members.on_remove_subscription,
    RemoveInfo.TYPE: members.on_remove_info,
    TransactionInfo.TYPE: on_transaction_info,
    ShutdownInfo.TYPE: on_shutdown,
    KeepAliveInfo.TYPE: on_keep_alive,
    ConnectionErrorCommand.TYPE: on_connection_error,
    FlushCommand.TYPE: nothing,
    ControlCommand.TYPE: nothing,
    BrokerInfo.TYPE: on_broker_info,
}
