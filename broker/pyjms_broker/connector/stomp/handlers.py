"""The handlers of STOMP frames: one function per command, in `HANDLERS`.

(activemq-edges ST1, ST2, ST4 to ST15)
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.wire.openwire.commands import (
    ConnectionInfo,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.stomp.frames import V1_0, V1_1, V1_2, VERSIONS, Frame
from pyjms_broker.connector.stomp.heart_beat import Periods, read_periods
from pyjms_broker.connector.stomp.messages import to_message
from pyjms_broker.connector.stomp.session import FrameHandler, State, StompSession
from pyjms_broker.connector.stomp.subscriptions import (
    ACK_MODES,
    AUTO,
    Delivered,
    Subscription,
    consumer_info,
)
from pyjms_broker.connector.stomp.values import check_kept, required

__all__ = ["HANDLERS"]

_PROVIDER: Final = ConnectionMetaData()
_SERVER: Final = f"{_PROVIDER.jms_provider_name}/{_PROVIDER.provider_version}"
"""By this header, clients know that they may send `activemq.*` headers."""
_ACK_ID: Final = "ACK received without a ack id for acknowledge!"
_NACK_ID: Final = "NACK received without an ack header to acknowledge!"
_NO_SUBSCRIPTION: Final = "received without a subscription id"
_NO_TRANSACTION: Final = "Must specify the transaction you are"


# the connection
def on_connect(session: StompSession, frame: Frame) -> None:
    """Register the client, with its version and heart-beats. (activemq-edges ST1, ST2, ST13)"""
    if session.state is not State.NEW:
        raise RemoteProtocolError("Already connected.")
    headers = frame.headers
    if not session.end.has_version:
        session.fail(
            f"Invalid Protocol version[{headers.get('accept-version', '')[:100]}], "
            f"supported versions are: [{', '.join(VERSIONS)}]"
        )
        return
    given = headers.get("heart-beat")
    periods = session.default_heart_beat if given is None else read_periods(given)
    session.client_id = headers.get("client-id") or str(session.connection_id)
    info = ConnectionInfo(
        session.connection_id, session.client_id, headers.get("passcode"), headers.get("login")
    )
    session.request(
        info,
        done=partial(_connected, session, headers, periods),
        failed=lambda reason: session.fail(reason, headers.get("receipt")),
    )


def _connected(session: StompSession, headers: dict[str, str], periods: Periods) -> None:
    session.state = State.CONNECTED
    answer = {
        "server": _SERVER,
        "heart-beat": periods.answer,
        "session": session.client_id,
        "version": session.end.version,
    }
    request = headers.get("request-id", headers.get("receipt"))
    if request is not None:
        answer["response-id"] = answer["receipt-id"] = request
    session.end.to_client(Frame("CONNECTED", answer))
    session.request(SessionInfo(session.session_id))
    session.request(ProducerInfo(session.producer_id))
    session.end.connected(periods)


def on_disconnect(session: StompSession, frame: Frame) -> None:
    """End the connection when all previous requests are done. (activemq-edges ST12)"""
    if session.state is State.NEW:
        return  # as ActiveMQ does
    session.disconnect(frame.headers.get("receipt"))


# messages
def on_send(session: StompSession, frame: Frame) -> None:
    """Send a message. (activemq-edges ST5)"""
    session.require_connected()
    required(frame.headers, "destination", "SEND received without a Destination specified!")
    transaction = _transaction(session, frame)
    message = to_message(frame, session.names)
    message.producer_id = session.producer_id
    message.message_id = MessageId(None, session.producer_id, next(session.numbers))
    message.transaction_id = transaction
    session.oneway_or_request(message, frame)


def on_ack(session: StompSession, frame: Frame) -> None:
    """Acknowledge one message, or all messages up to it. (activemq-edges ST9)"""
    session.require_connected()
    transaction = _transaction(session, frame)
    subscription, delivered = _delivered(session, frame, "ACK", _ACK_ID)
    session.oneway_or_request(subscription.acknowledge(delivered, transaction), frame)


def on_nack(session: StompSession, frame: Frame) -> None:
    """Make a message a dead letter. (activemq-edges ST9)"""
    session.require_connected()
    if session.end.version == V1_0:
        raise RemoteProtocolError("NACK received but connection is in v1.0 mode.")
    if _transaction(session, frame) is not None:
        raise RemoteProtocolError(
            "Poison ack cannot be transacted: leave the header transaction of NACK out"
        )
    subscription, delivered = _delivered(session, frame, "NACK", _NACK_ID)
    if subscription.info.browser:
        raise RemoteProtocolError("Cannot Nack a message on a Queue Browser Subscription.")
    session.oneway_or_request(subscription.refuse(delivered), frame)


def _delivered(
    session: StompSession, frame: Frame, command: str, without_id: str
) -> tuple[Subscription, Delivered]:
    """Return the message to which an ACK or NACK refers. (activemq-edges ST9)"""
    headers, version = frame.headers, session.end.version
    ack_id = message_id = identifier = None
    if version == V1_2:
        ack_id = required(headers, "id", without_id)
    else:
        message_id = required(
            headers, "message-id", f"{command} received without a message-id to acknowledge!"
        )
        identifier = headers.get("subscription")
        if version == V1_1:
            required(headers, "subscription", f"{command} {_NO_SUBSCRIPTION} for acknowledge!")
    candidates = list(session.consumers.values())
    if identifier is not None:
        candidates = [s for s in candidates if s.identifier == identifier]
    for subscription in candidates:
        delivered = subscription.find(ack_id=ack_id, message_id=message_id)
        if delivered is not None:
            return subscription, delivered
    raise RemoteProtocolError(
        f"Unexpected {command} received for message-id [{(ack_id or message_id or '')[:200]}]"
    )


# subscriptions
def on_subscribe(session: StompSession, frame: Frame) -> None:
    """Add a consumer. (activemq-edges ST7)"""
    session.require_connected()
    headers = frame.headers
    identifier = headers.get("id")
    if session.end.version != V1_0:
        identifier = required(headers, "id", f"SUBSCRIBE {_NO_SUBSCRIPTION}!")
    name = required(headers, "destination", "Invalid empty or 'null' Destination header")
    if session.end.version == V1_0 and "browser" in headers:
        raise RemoteProtocolError("Queue Browser feature only valid for Stomp v1.1+ clients!")
    if identifier is not None:
        check_kept("subscription id", identifier)
    ack = headers.get("ack", AUTO)
    if ack not in ACK_MODES:
        raise RemoteProtocolError(f"Unknown ack mode [{ack[:100]}]; use {', '.join(ACK_MODES)}")
    consumer_id = ConsumerId(str(session.connection_id), 1, next(session.numbers))
    info = consumer_info(headers, session.names.destination(name), consumer_id)
    subscription = Subscription(info, identifier, name, ack, headers.get("transformation"))
    subscription.waiting = []
    session.consumers[consumer_id] = subscription
    session.subscriptions[subscription.key] = subscription

    def failed(reason: str) -> None:
        session.forget(subscription)
        session.send_error(reason, headers.get("receipt"))

    session.request(info, frame, done=partial(session.deliver_waiting, subscription), failed=failed)


def on_unsubscribe(session: StompSession, frame: Frame) -> None:
    """Remove a consumer or a durable subscription. (activemq-edges ST11)"""
    session.require_connected()
    headers = frame.headers
    if session.end.version != V1_0:
        key = required(headers, "id", f"UNSUBSCRIBE {_NO_SUBSCRIPTION}!")
    else:
        key = headers.get("id") or required(
            headers,
            "destination",
            "Must specify the subscriptionId or the destination you are unsubscribing from",
        )
    durable = headers.get("activemq.subscriptionName")
    if durable is not None:
        client_id = durable if session.end.version == V1_0 else session.client_id
        session.request(RemoveSubscriptionInfo(session.connection_id, durable, client_id), frame)
        return
    subscription = session.subscriptions.get(key)
    if subscription is None and "id" not in headers:
        candidates = session.consumers.values()
        subscription = next((s for s in candidates if s.name == key), None)
    if subscription is None:
        raise RemoteProtocolError("No subscription matched.")
    session.forget(subscription)
    session.request(RemoveInfo(subscription.consumer_id), frame)


# transactions
def on_begin(session: StompSession, frame: Frame) -> None:
    """Begin a transaction. (activemq-edges ST10)"""
    session.require_connected()
    name = required(frame.headers, "transaction", f"{_NO_TRANSACTION} beginning")
    check_kept("transaction", name)
    if name in session.transactions:
        raise RemoteProtocolError(f"The transaction was already started: {name[:200]}")
    transaction = LocalTransactionId(next(session.numbers), session.connection_id)
    session.transactions[name] = transaction

    def failed(reason: str) -> None:
        session.transactions.pop(name, None)
        session.send_error(reason, frame.headers.get("receipt"))

    info = TransactionInfo(session.connection_id, transaction, TransactionType.BEGIN)
    session.request(info, frame, failed=failed)


def on_commit(session: StompSession, frame: Frame) -> None:
    """Commit a transaction. (activemq-edges ST10)"""
    _end_transaction(session, frame, TransactionType.COMMIT_ONE_PHASE)


def on_abort(session: StompSession, frame: Frame) -> None:
    """Roll back a transaction. (activemq-edges ST10)"""
    _end_transaction(session, frame, TransactionType.ROLLBACK)


def _end_transaction(session: StompSession, frame: Frame, kind: TransactionType) -> None:
    session.require_connected()
    required(frame.headers, "transaction", f"{_NO_TRANSACTION} committing")
    transaction = _transaction(session, frame)
    assert transaction is not None
    del session.transactions[frame.headers["transaction"]]
    committed = kind == TransactionType.COMMIT_ONE_PHASE

    def settle(*, committed: bool) -> None:
        for subscription in session.consumers.values():
            subscription.end_transaction(transaction, committed=committed)

    def failed(reason: str) -> None:
        settle(committed=False)
        session.send_error(reason, frame.headers.get("receipt"))

    info = TransactionInfo(session.connection_id, transaction, kind)
    session.request(info, frame, done=partial(settle, committed=committed), failed=failed)


def _transaction(session: StompSession, frame: Frame) -> LocalTransactionId | None:
    name = frame.headers.get("transaction")
    if name is None:
        return None
    transaction = session.transactions.get(name)
    if transaction is None:
        raise RemoteProtocolError(f"Invalid transaction id: {name[:200]}")
    return transaction


HANDLERS: Final[dict[str, FrameHandler]] = {
    "SEND": on_send,
    "ACK": on_ack,
    "NACK": on_nack,
    "BEGIN": on_begin,
    "COMMIT": on_commit,
    "ABORT": on_abort,
    "SUB": on_subscribe,
    "UNSUB": on_unsubscribe,
    "CONNECT": on_connect,
    "DISCONNECT": on_disconnect,
    "STOMP": on_connect,
}
"""By command; every command that begins with a key is accepted. (activemq-edges ST1)"""
