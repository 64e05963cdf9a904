"""The session of one STOMP client, which translates between frames and commands.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    StompSession                                                  commands <-> frames
    TcpTransport with StompFormat                                 frames <-> bytes

A STOMP client is thus treated like an OpenWire client, including limits and back-pressure.

A frame for the broker becomes a command, by the handler of its kind in `_HANDLERS`. A command that
requires a response is kept in `Answers` until the response arrives; then the client gets its
RECEIPT, or an ERROR. The broker handles a command within `to_broker`; unless the command waits for
a store or for space, the response has arrived when that returns. (activemq-edges ST1 to ST15)

Acknowledgement:

    ack                  acknowledged
    auto                 when the frame was queued for the socket
    client               by ACK, with all earlier messages of the subscription
    client-individual    by ACK, singly

An acknowledgement in a transaction takes effect at the commit, but makes room for further messages
at once. After an abort the messages are still dispatched, and may be acknowledged again.
(activemq-edges ST7 to ST10, ST19)

Heart-beats: ends of line when nothing else is sent, and disconnection of silent clients.
`pyjms.transport.tcp` has the algorithm. Sending is checked at half the promised period, so that
the client never waits longer than that period. Receiving is checked at the client's period times
the grace multiplier, from the second period on, so a silent client is disconnected after three
periods. (activemq-edges ST13)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

from pyjms.errors import ConnectionFailedException, JMSException, RemoteProtocolError
from pyjms.jms.destination import Destination
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import get_logger
from pyjms.selector.parser import CONVERT_STRINGS_PREFIX
from pyjms.transport.tcp import NEVER, Checks, TcpTransport, wait_for_silence
from pyjms.wire.limits import LARGE_FRAME
from pyjms.wire.openwire.commands import (
    AckType,
    BaseCommand,
    Command,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ExceptionResponse,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionInfo,
    ShutdownInfo,
    Throwable,
    TransactionId,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms.wire.stomp import HEART_BEAT, V1_0, V1_1, V1_2, VERSIONS, Frame, StompFormat
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.bodies import LATEST_BODY
from pyjms_broker.connector.client_session import ClientSession, Done, Failed, State
from pyjms_broker.connector.stomp.answers import Answers, Request
from pyjms_broker.connector.stomp.headers import (
    MAXIMUM_INT,
    DestinationNames,
    boolean,
    check_kept,
    integer,
    require,
)
from pyjms_broker.connector.stomp.messages import to_frame, to_message

if TYPE_CHECKING:
    from pyjms_broker.connector.client_connector import Accepted
    from pyjms_broker.connector.stomp.connector import StompOptions

logger = get_logger(__name__)

AUTO: Final = "auto"
CLIENT: Final = "client"
ACK_MODES: Final = (AUTO, CLIENT, "client-individual")
_PREFIX: Final = "activemq."
_PREFETCH: Final = {"browser": 500, "durable": 100, "queue": 1000, "topic": 32767}
"""ActiveMQ's defaults for STOMP. (activemq-edges ST7)"""
_NACK_CAUSE: Final = Throwable("javax.jms.JMSException", "NACK of a STOMP client", (), None)


def consumer_info(
    headers: dict[str, str], destination: Destination, consumer_id: ConsumerId
) -> ConsumerInfo:
    """Return the consumer that a SUBSCRIBE frame requests."""
    info = ConsumerInfo(consumer_id, destination=destination, dispatch_async=True)
    selector = headers.get("selector")
    if selector:
        # so that `price > 3` compares header values, which are strings, as numbers
        # (activemq-edges ST15)
        info.selector = CONVERT_STRINGS_PREFIX + selector
    if "browser" in headers:
        info.browser = boolean("browser", headers["browser"])
    info.prefetch_size = -1
    for name, value in headers.items():
        if name.startswith(_PREFIX):
            _set_option(info, name, value)
    if info.subscription_name is not None and destination.is_queue:
        raise RemoteProtocolError(
            "Invalid Subscription: cannot durably subscribe to a Queue destination!"
        )
    if info.prefetch_size < 0:
        info.prefetch_size = _PREFETCH[_kind(info, destination)]
    return info


def _kind(info: ConsumerInfo, destination: Destination) -> str:
    if info.browser:
        return "browser"
    if info.subscription_name is not None:
        return "durable"
    return "queue" if destination.is_queue else "topic"


def _set_option(info: ConsumerInfo, name: str, value: str) -> None:
    match name.removeprefix(_PREFIX):
        case "dispatchAsync":
            boolean(name, value)  # no effect: ActiveMQ also dispatches to STOMP asynchronously
        case "exclusive":
            info.exclusive = boolean(name, value)
        case "maximumPendingMessageLimit":
            info.maximum_pending_message_limit = integer(name, value, -1, MAXIMUM_INT)
        case "noLocal":
            info.no_local = boolean(name, value)
        case "prefetchSize":
            info.prefetch_size = integer(name, value, 1, MAXIMUM_INT)
        case "priority":
            info.priority = integer(name, value, -128, 127)
        case "retroactive":
            info.retroactive = boolean(name, value)
        case "subscriptionName" if value:
            info.subscription_name = value
        case _:
            raise RemoteProtocolError(f"The header {name[:100]} is unknown or empty")


@dataclass(slots=True, eq=False)
class Delivered:
    """A message that was delivered and not finally acknowledged."""

    ack_id: str
    message_id: MessageId
    destination: Destination | None
    transaction: TransactionId | None = None
    has_made_room: bool = False
    """Whether the broker dispatches another message instead, before this one is acknowledged."""


class Subscription:
    """A subscription of a connection."""

    def __init__(
        self,
        info: ConsumerInfo,
        identifier: str | None,
        name: str,
        ack: str,
        transformation: str | None = None,
    ) -> None:
        """Create it.

        Args:
            info: the consumer.
            identifier: the header `id`, if present.
            name: the header `destination`.
            ack: one of `ACK_MODES`.
            transformation: the header `transformation`, if present.
        """
        assert info.consumer_id is not None
        self.consumer_id = info.consumer_id
        self.info = info
        self.identifier = identifier
        self.name = name
        self.ack = ack
        self.transformation = transformation
        self.request_number = 0
        """The request that has added the consumer."""
        self._delivered: dict[str, Delivered] = {}
        self._unsent: list[MessageAck] = []
        self._number = 0

    @property
    def key(self) -> str:
        """The key for UNSUBSCRIBE: the id, or the destination if there is no id."""
        return self.name if self.identifier is None else self.identifier

    def deliver(self, message_id: MessageId, destination: Destination | None) -> str | None:
        """Record a message sent to the client; return its ack id, or None if it needs none."""
        if self.ack == AUTO:
            self._acknowledge_later(message_id, destination)
            return None
        self._number += 1
        ack_id = f"{self.consumer_id}:{self._number}"
        self._delivered[ack_id] = Delivered(ack_id, message_id, destination)
        return ack_id

    def _acknowledge_later(self, message_id: MessageId, destination: Destination | None) -> None:
        ack = self._unsent[-1] if self._unsent else None
        if ack is None or ack.destination != destination:
            ack = MessageAck(
                destination,
                consumer_id=self.consumer_id,
                ack_type=AckType.STANDARD,
                first_message_id=message_id,
            )
            self._unsent.append(ack)
        ack.last_message_id = message_id
        ack.message_count += 1

    def take_unsent(self) -> list[MessageAck]:
        """Return and clear the acknowledgements of messages delivered in mode auto."""
        acks, self._unsent = self._unsent, []
        return acks

    def find(
        self,
        transaction: TransactionId | None = None,
        *,
        ack_id: str | None = None,
        message_id: str | None = None,
    ) -> Delivered | None:
        """Return a message that the client may acknowledge, by its ack id or message id.

        In mode client, also one that it has acknowledged in `transaction` before.
        """
        allowed = {None, transaction} if self.ack == CLIENT else {None}
        if ack_id is not None:
            found = self._delivered.get(ack_id)
            return found if found is not None and found.transaction in allowed else None
        for delivered in self._delivered.values():
            if delivered.transaction in allowed and str(delivered.message_id) == message_id:
                return delivered
        return None

    def acknowledge(
        self, last: Delivered, transaction: TransactionId | None
    ) -> tuple[MessageAck, MessageAck | None]:
        """Return the acknowledgement of `last`, in mode client including all before it.

        In a transaction, the second one makes the broker dispatch further messages before the
        commit. (activemq-edges ST19)
        """
        settled = [last]
        if self.ack == CLIENT:
            settled = []
            for delivered in self._delivered.values():
                if delivered.transaction is None:
                    settled.append(delivered)
                if delivered is last:
                    break
        for delivered in settled:
            delivered.transaction = transaction
            if transaction is None:
                del self._delivered[delivered.ack_id]
        kind = AckType.STANDARD if self.ack == CLIENT else AckType.INDIVIDUAL
        ack = self._ack(kind, settled, transaction)
        if transaction is None or not (self.ack == CLIENT or self._is_counted):
            return ack, None  # for client-individual, a queue's subscription makes room itself
        counted = [delivered for delivered in settled if not delivered.has_made_room]
        for delivered in counted:
            delivered.has_made_room = True
        return ack, self._ack(AckType.DELIVERED, counted) if counted else None

    def _ack(
        self, kind: int, messages: list[Delivered], transaction: TransactionId | None = None
    ) -> MessageAck:
        first, last = messages[0], messages[-1]
        return MessageAck(
            last.destination,
            transaction,
            self.consumer_id,
            kind,
            first.message_id,
            last.message_id,
            len(messages),
        )

    @property
    def _is_counted(self) -> bool:
        """Whether the broker counts the messages in the window, without keeping each."""
        destination = self.info.destination
        return (
            destination is not None and destination.is_topic and self.info.subscription_name is None
        )

    def refuse(self, delivered: Delivered) -> MessageAck:
        """Return the acknowledgement that makes a message a dead letter. (activemq-edges ST9)"""
        del self._delivered[delivered.ack_id]
        ack = self._ack(AckType.POISON, [delivered])
        ack.poison_cause = _NACK_CAUSE
        return ack

    def end_transaction(self, transaction: TransactionId, *, committed: bool) -> None:
        """Drop the messages that the transaction acknowledged, or make them pending again."""
        ended = [d for d in self._delivered.values() if d.transaction == transaction]
        for delivered in ended:
            if committed:
                del self._delivered[delivered.ack_id]
            else:
                delivered.transaction = None
                # other subscriptions take the room back
                delivered.has_made_room = self._is_counted


_SHORTEST_CHECK: Final = 0.01
"""Seconds between two checks; clients that ask for more frequent beats do not get them."""


class Periods(NamedTuple):
    """The maximum silence of each side in milliseconds; 0: no guarantee."""

    client: int
    broker: int

    @property
    def answer(self) -> str:
        """Return the header `heart-beat` of CONNECTED."""
        return f"{self.broker},{self.client}"


def read_periods(text: str) -> Periods:
    """Parse the header `heart-beat` of CONNECT: the client's own and its requested period."""
    parts = text.split(",")
    try:
        return Periods(*(integer("heart-beat", part, 0, MAXIMUM_INT) for part in parts))
    except (TypeError, RemoteProtocolError):  # not two values, or no numbers
        raise RemoteProtocolError(f"Invalid heart-beat header:{text[:100]}") from None


def start_heart_beat(
    transport: TcpTransport[Frame], periods: Periods, grace: float
) -> BackgroundTask | None:
    """Start the heart-beats of one connection; return the task, or None if there are no periods.

    A client may exceed its period by the factor `grace`. Call it on the event loop.
    """
    if not any(periods):
        return None
    write = max(periods.broker / 2000, _SHORTEST_CHECK)
    read = max(periods.client * grace / 1000, _SHORTEST_CHECK)

    async def watch() -> None:
        await wait_for_silence(
            transport,
            lambda: transport.oneway(HEART_BEAT),
            writes=Checks(write, write) if periods.broker else NEVER,
            reads=Checks(2 * read, read) if periods.client else NEVER,
        )
        raise ConnectionFailedException(
            f"{transport.remote_address}: the client sent nothing for {read:g} s, "
            "though it promised a heart-beat",
            hint="transport.hbGracePeriodMultiplier lets clients take longer",
        )

    name = f"broker {transport.remote_address} heart-beat"
    return spawn(watch, name=name, on_error=transport.fail)


_MAXIMUM_TEXT: Final = 1000
"""The maximum number of characters of the header `message`."""
_ONE_LINE: Final = str.maketrans("\r\n\0", "   ")


FrameHandler: TypeAlias = Callable[["StompSession", Frame], None]


class StompSession(ClientSession[Frame]):
    """The transport of one client for the broker's connection. Use it on the broker's event loop.

    Args:
        accepted: the connection.
        options: the options of the connector.
        host: the broker.
        connection_id: the id of the client's JMS connection.
    """

    FIRST: ClassVar[str] = "CONNECT"

    def __init__(
        self, accepted: Accepted, options: StompOptions, host: BrokerHost, connection_id: str
    ) -> None:
        self._format = StompFormat(options.max_frame_size, max_data_length=options.max_data_length)
        super().__init__(accepted, self._format, options, host, connection_id)
        self.options = options
        self.names = DestinationNames(self._create_temporary)
        self.subscriptions: dict[str, Subscription] = {}
        """By the header `id`, or by `destination` if there was no `id`."""
        self.consumers: dict[ConsumerId, Subscription] = {}
        self.transactions: dict[str, LocalTransactionId] = {}
        self.answers = Answers(self.producer_id, self._deliver, self.call_next)
        self._with_unsent_acks: dict[Subscription, None] = {}
        self._disconnect_receipt: str | None = None

    @property
    def protocol(self) -> str:
        return f"STOMP {self.version}"

    @property
    def version(self) -> str:
        """The protocol's version; 1.0 until one is agreed."""
        return self._format.version or V1_0

    @property
    def has_version(self) -> bool:
        """Whether a version has been agreed."""
        return self._format.version is not None

    def start_heart_beat(self, periods: Periods) -> None:
        """Start heart-beats, as the broker has accepted the client."""
        self.identified.set()
        self.keep_alive = start_heart_beat(self._tcp, periods, self.options.grace_multiplier)

    # from the client
    def on_command(self, frame: Frame) -> None:
        """Handle a frame; an error in it becomes an ERROR frame."""
        if self.status in {State.DISCONNECTING, State.CLOSED}:
            return
        try:
            handler = self._handler(frame)
            if handler is not None:
                handler(self, frame)
        except ConnectionFailedException as error:
            logger.debug("A STOMP client has disconnected: %s", error)
        except JMSException as error:
            self.send_error(error.reason, frame.headers.get("receipt"))
            if self.status is State.NEW:
                self.close()

    def _handler(self, frame: Frame) -> FrameHandler | None:
        command = frame.command
        if frame.fault is not None:
            self.fail(frame.fault)
            return None
        handler = _HANDLERS.get(command)
        if handler is None:
            # ActiveMQ recognizes commands by their beginning (activemq-edges ST1)
            found = (known for known in _HANDLERS if command.startswith(known))
            handler = _HANDLERS.get(next(found, ""))
        if handler is None:
            self.fail(f"Unknown STOMP action: {command[:100]}", frame.headers.get("receipt"))
        return handler

    def require_connected(self) -> None:
        """Check that the client has sent CONNECT."""
        if self.status is not State.CONNECTED:
            raise RemoteProtocolError("Not connected.")

    # to the broker
    def request(
        self,
        command: BaseCommand,
        done: Done | None = None,
        failed: Failed | None = None,
        *,
        frame: Frame | None = None,
    ) -> None:
        """Send a command that gets a response to the broker.

        Args:
            command: the command; it gets the number of the request if it has none.
            done: called after the receipt if the broker has carried out the command.
            failed: called with the reason if it has not.
            frame: the frame that caused it; its receipt is sent, or an ERROR.
        """
        command.command_id = command.command_id or self.next_request_number()
        command.response_required = True
        receipt = None if frame is None else frame.headers.get("receipt")
        self.answers.expect(command, Request(receipt, done, failed), self.to_broker)

    def next_request_number(self) -> int:
        """Return a number for a command."""
        return next(self.command_ids)

    def oneway_or_request(
        self, command: BaseCommand, frame: Frame, done: Callable[[], object] | None = None
    ) -> None:
        """Send a command to the broker; with a response only if a receipt is requested."""
        if "receipt" in frame.headers:
            self.request(command, frame=frame, done=done)
            return
        command.command_id = self.next_request_number()
        self.to_broker(command)
        if done is not None:
            done()

    def _create_temporary(self, kind: type[Destination]) -> Destination:
        destination = kind(f"{self.connection_id}:{next(self.numbers)}")
        refused: list[str] = []
        info = DestinationInfo(self.connection_id, destination)
        self.request(info, failed=refused.append)  # the broker answers at once
        if refused:
            raise RemoteProtocolError(refused[0])
        return destination

    def send_unsent_acks(self) -> None:
        """Acknowledge messages that were delivered in mode auto."""
        waiting, self._with_unsent_acks = self._with_unsent_acks, {}
        for subscription in waiting:
            for ack in subscription.take_unsent():
                self.to_broker(ack)

    # from the broker
    def oneway(self, command: Command) -> None:
        """Handle a command from the broker: a response, a message or a notification."""
        if isinstance(command, MessageDispatch):
            self._on_dispatch(command)
        elif isinstance(command, Response):
            self.on_response(command)
        elif isinstance(command, ConnectionErrorCommand):
            self.send_error(_text(command.exception))
        elif isinstance(command, ConsumerControl) and command.close:
            assert command.consumer_id is not None
            # the broker cannot remove the consumer while it is dispatching
            self.call_next(partial(self._close_consumer, command.consumer_id))

    def on_response(self, response: Response) -> None:
        request = self.answers.take(response.correlation_id)
        if request is None:
            return
        if isinstance(response, ExceptionResponse):
            text = _text(response.exception)
            if request.failed is not None:
                request.failed(text)
            else:
                self.send_error(text, request.receipt)
        else:
            if request.receipt is not None:
                self.to_client(Frame("RECEIPT", {"receipt-id": request.receipt}))
            if request.done is not None:
                request.done()
        self.answers.release()
        self._disconnect_when_idle()

    def _on_dispatch(self, dispatch: MessageDispatch) -> None:
        subscription = self.consumers.get(dispatch.consumer_id)  # type: ignore[arg-type]
        if subscription is not None and not self.answers.hold(subscription, dispatch):
            self._deliver(subscription, dispatch)

    def _deliver(self, subscription: Subscription, dispatch: MessageDispatch) -> None:
        if subscription.consumer_id not in self.consumers:
            return  # the client has unsubscribed while the message waited
        message, version = dispatch.message, self.version
        if message is None:
            headers = {"destination": subscription.name, "message-id": "0", "browser": "end"}
            frame = Frame("MESSAGE", headers)
        else:
            frame = to_frame(dispatch, message, self.names, version, subscription.transformation)
            if len(frame.body) > LARGE_FRAME:
                self.call_next(LATEST_BODY.forget)
        if subscription.identifier is not None:
            frame.headers["subscription"] = subscription.identifier
        if message is not None:
            assert message.message_id is not None
            ack_id = subscription.deliver(message.message_id, dispatch.destination)
            if ack_id is None:
                if not self._with_unsent_acks:
                    # while it is dispatching, the broker does not accept acknowledgements
                    self.call_next(self.send_unsent_acks)
                self._with_unsent_acks[subscription] = None
            elif version == V1_2:
                frame.headers["ack"] = ack_id
        self.to_client(frame)

    def _close_consumer(self, consumer_id: ConsumerId) -> None:
        subscription = self.consumers.get(consumer_id)
        if subscription is not None:
            self.forget(subscription)
            self.request(RemoveInfo(consumer_id))
            self.send_error(f"The broker has closed the subscription to {subscription.name}")

    def forget(self, subscription: Subscription) -> None:
        """Deliver nothing more to a subscription."""
        self.send_unsent_acks()
        self.consumers.pop(subscription.consumer_id, None)
        key = subscription.key
        if self.subscriptions.get(key) is subscription:
            del self.subscriptions[key]

    # to the client
    def send_error(self, text: str, receipt: str | None = None) -> None:
        """Send an ERROR; disconnect a client that causes errors and does not read them."""
        headers = {"message": text[:_MAXIMUM_TEXT].translate(_ONE_LINE)}
        headers["content-type"] = "text/plain"
        if receipt is not None:
            headers["receipt-id"] = receipt
        self.to_client(
            Frame("ERROR", headers, f"{text}\n".replace("\0", " ").encode("utf-8", "replace"))
        )
        if self.congested:
            self.close()

    def fail(self, text: str, receipt: str | None = None) -> None:
        """Send an ERROR and close the connection."""
        self.send_error(text, receipt)
        self.close()

    def disconnect(self, receipt: str | None) -> None:
        """Close the connection, after the RECEIPT, when all previous requests are done."""
        self.status = State.DISCONNECTING
        self._disconnect_receipt = receipt
        self._disconnect_when_idle()

    def _disconnect_when_idle(self) -> None:
        if self.status is not State.DISCONNECTING or self.answers:
            return
        self.send_unsent_acks()
        self.status = State.CLOSED
        self.to_broker(RemoveInfo(self.connection_id))
        if self._disconnect_receipt is not None:
            self.to_client(Frame("RECEIPT", {"receipt-id": self._disconnect_receipt}))
        self.to_broker(ShutdownInfo())


def _text(error: Throwable | None) -> str:
    return (error.message if error is not None else None) or "The broker refused the request"


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
    if session.status is not State.NEW:
        raise RemoteProtocolError("Already connected.")
    headers = frame.headers
    if not session.has_version:
        session.fail(
            f"Invalid Protocol version[{headers.get('accept-version', '')[:100]}], "
            f"supported versions are: [{', '.join(VERSIONS)}]"
        )
        return
    given = headers.get("heart-beat")
    periods = session.options.default_heart_beat if given is None else read_periods(given)
    session.client_id = headers.get("client-id") or str(session.connection_id)
    info = ConnectionInfo(
        session.connection_id, session.client_id, headers.get("passcode"), headers.get("login")
    )
    session.request(
        info,
        done=partial(_on_connected, session, headers, periods),
        failed=lambda reason: session.fail(reason, headers.get("receipt")),
    )


def _on_connected(session: StompSession, headers: dict[str, str], periods: Periods) -> None:
    session.status = State.CONNECTED
    answer = {
        "server": _SERVER,
        "heart-beat": periods.answer,
        "session": session.client_id,
        "version": session.version,
    }
    request = headers.get("request-id", headers.get("receipt"))
    if request is not None:
        answer["response-id"] = answer["receipt-id"] = request
    session.to_client(Frame("CONNECTED", answer))
    session.request(SessionInfo(session.session_id))
    session.request(ProducerInfo(session.producer_id))
    session.start_heart_beat(periods)


def on_disconnect(session: StompSession, frame: Frame) -> None:
    """End the connection when all previous requests are done. (activemq-edges ST12)"""
    if session.status is State.NEW:
        return  # as ActiveMQ does
    session.disconnect(frame.headers.get("receipt"))


# messages
def on_send(session: StompSession, frame: Frame) -> None:
    """Send a message. (activemq-edges ST5)"""
    session.require_connected()
    require(frame.headers, "destination", "SEND received without a Destination specified!")
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
    subscription, delivered = _find_delivered(session, frame, "ACK", _ACK_ID, transaction)
    if delivered.transaction is not None:  # acknowledged before in this transaction
        if "receipt" in frame.headers:
            session.to_client(Frame("RECEIPT", {"receipt-id": frame.headers["receipt"]}))
        return
    ack, room = subscription.acknowledge(delivered, transaction)
    make_room = None if room is None else partial(session.to_broker, room)
    session.oneway_or_request(ack, frame, done=make_room)


def on_nack(session: StompSession, frame: Frame) -> None:
    """Make a message a dead letter. (activemq-edges ST9)"""
    session.require_connected()
    if session.version == V1_0:
        raise RemoteProtocolError("NACK received but connection is in v1.0 mode.")
    if _transaction(session, frame) is not None:
        raise RemoteProtocolError(
            "Poison ack cannot be transacted: leave the header transaction of NACK out"
        )
    subscription, delivered = _find_delivered(session, frame, "NACK", _NACK_ID)
    if subscription.info.browser:
        raise RemoteProtocolError("Cannot Nack a message on a Queue Browser Subscription.")
    session.oneway_or_request(subscription.refuse(delivered), frame)


def _find_delivered(
    session: StompSession,
    frame: Frame,
    command: str,
    without_id: str,
    transaction: TransactionId | None = None,
) -> tuple[Subscription, Delivered]:
    """Return the message to which an ACK or NACK refers. (activemq-edges ST9)"""
    headers, version = frame.headers, session.version
    ack_id = message_id = identifier = None
    if version == V1_2:
        ack_id = require(headers, "id", without_id)
    else:
        message_id = require(
            headers, "message-id", f"{command} received without a message-id to acknowledge!"
        )
        identifier = headers.get("subscription")
        if version == V1_1:
            require(headers, "subscription", f"{command} {_NO_SUBSCRIPTION} for acknowledge!")
    candidates = list(session.consumers.values())
    if identifier is not None:
        candidates = [s for s in candidates if s.identifier == identifier]
    for subscription in candidates:
        delivered = subscription.find(transaction, ack_id=ack_id, message_id=message_id)
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
    if session.version != V1_0:
        identifier = require(headers, "id", f"SUBSCRIBE {_NO_SUBSCRIPTION}!")
    name = require(headers, "destination", "Invalid empty or 'null' Destination header")
    if session.version == V1_0 and "browser" in headers:
        raise RemoteProtocolError("Queue Browser feature only valid for Stomp v1.1+ clients!")
    if identifier is not None:
        check_kept("subscription id", identifier)
    ack = headers.get("ack", AUTO)
    if ack not in ACK_MODES:
        raise RemoteProtocolError(f"Unknown ack mode [{ack[:100]}]; use {', '.join(ACK_MODES)}")
    consumer_id = ConsumerId(str(session.connection_id), 1, next(session.numbers))
    info = consumer_info(headers, session.names.destination(name), consumer_id)
    subscription = Subscription(info, identifier, name, ack, headers.get("transformation"))
    info.command_id = subscription.request_number = session.next_request_number()
    session.consumers[consumer_id] = subscription
    session.subscriptions[subscription.key] = subscription

    def on_refusal(reason: str) -> None:
        session.forget(subscription)
        session.send_error(reason, headers.get("receipt"))

    session.request(info, frame=frame, failed=on_refusal)


def on_unsubscribe(session: StompSession, frame: Frame) -> None:
    """Remove a consumer or a durable subscription. (activemq-edges ST11)"""
    session.require_connected()
    headers = frame.headers
    if session.version != V1_0:
        key = require(headers, "id", f"UNSUBSCRIBE {_NO_SUBSCRIPTION}!")
    else:
        key = headers.get("id") or require(
            headers,
            "destination",
            "Must specify the subscriptionId or the destination you are unsubscribing from",
        )
    durable = headers.get("activemq.subscriptionName")
    if durable is not None:
        client_id = durable if session.version == V1_0 else session.client_id
        session.request(
            RemoveSubscriptionInfo(session.connection_id, durable, client_id), frame=frame
        )
        return
    subscription = session.subscriptions.get(key)
    if subscription is None and "id" not in headers:
        candidates = session.consumers.values()
        subscription = next((s for s in candidates if s.name == key), None)
    if subscription is None:
        raise RemoteProtocolError("No subscription matched.")
    session.forget(subscription)
    session.request(RemoveInfo(subscription.consumer_id), frame=frame)


# transactions
def on_begin(session: StompSession, frame: Frame) -> None:
    """Begin a transaction. (activemq-edges ST10)"""
    session.require_connected()
    name = require(frame.headers, "transaction", f"{_NO_TRANSACTION} beginning")
    check_kept("transaction", name)
    if name in session.transactions:
        raise RemoteProtocolError(f"The transaction was already started: {name[:200]}")
    transaction = LocalTransactionId(next(session.numbers), session.connection_id)
    session.transactions[name] = transaction

    def on_refusal(reason: str) -> None:
        session.transactions.pop(name, None)
        session.send_error(reason, frame.headers.get("receipt"))

    info = TransactionInfo(session.connection_id, transaction, TransactionType.BEGIN)
    session.request(info, frame=frame, failed=on_refusal)


def on_commit(session: StompSession, frame: Frame) -> None:
    """Commit a transaction. (activemq-edges ST10)"""
    _end_transaction(session, frame, TransactionType.COMMIT_ONE_PHASE)


def on_abort(session: StompSession, frame: Frame) -> None:
    """Roll back a transaction. (activemq-edges ST10)"""
    _end_transaction(session, frame, TransactionType.ROLLBACK)


def _end_transaction(session: StompSession, frame: Frame, kind: TransactionType) -> None:
    session.require_connected()
    require(frame.headers, "transaction", f"{_NO_TRANSACTION} committing")
    transaction = _transaction(session, frame)
    assert transaction is not None
    del session.transactions[frame.headers["transaction"]]
    committed = kind == TransactionType.COMMIT_ONE_PHASE

    def settle(*, committed: bool) -> None:
        for subscription in session.consumers.values():
            subscription.end_transaction(transaction, committed=committed)

    def on_refusal(reason: str) -> None:
        settle(committed=False)
        session.send_error(reason, frame.headers.get("receipt"))

    info = TransactionInfo(session.connection_id, transaction, kind)
    session.request(info, frame=frame, done=partial(settle, committed=committed), failed=on_refusal)


def _transaction(session: StompSession, frame: Frame) -> LocalTransactionId | None:
    name = frame.headers.get("transaction")
    if name is None:
        return None
    transaction = session.transactions.get(name)
    if transaction is None:
        raise RemoteProtocolError(f"Invalid transaction id: {name[:200]}")
    return transaction


_HANDLERS: Final[dict[str, FrameHandler]] = {
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
