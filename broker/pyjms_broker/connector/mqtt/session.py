"""The session of one MQTT client, which translates between packets and commands.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    MqttSession                                                   commands <-> packets
    TcpTransport with MqttFormat                                  packets <-> bytes

An MQTT client is thus treated like an OpenWire client, including limits and back-pressure. A packet
is handled by the function of its class in `_HANDLERS`. A command that requires a response is kept
until the response arrives, which is within `to_broker` unless it waits for a store or for space.

Acknowledgement:

    from the client                       to the client
    QoS 1: PUBACK once it is stored       QoS 0: acknowledged when the packet was queued
    QoS 2: PUBREC once it is stored,      QoS 1: by PUBACK
           PUBCOMP for PUBREL             QoS 2: by PUBREC; PUBREL once that is recorded

`state` has the packet ids, which a kept session also has in its next connection: a message that the
client sends again under the id of one that is stored is only acknowledged again, and after PUBREC
PUBREL is repeated and not the message. (mqtt-connector M61, M62, M81, M85)

The will is sent on every end without DISCONNECT, before the broker removes the producer: see
`on_release`. A violation of MQTT ends the connection; 3.1 and 3.1.1 have no packet that says why,
so the reason is only logged. So does a message that the broker refuses, because an acknowledgement
would be a lie. (mqtt-connector M39 to M42, M64)
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from pyjms.errors import ConnectionFailedException, JMSException, LocalProtocolError
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.base import Transport
from pyjms.transport.tcp import TcpTransport
from pyjms.wire.limits import LARGE_FRAME
from pyjms.wire.mqtt import (
    BAD_CLIENT_ID,
    BAD_FILTER,
    BAD_TOPIC,
    NOT_AUTHORIZED,
    PINGREQ,
    PINGRESP,
    PROTOCOL_ERROR,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    QUOTA_EXCEEDED,
    RECEIVE_MAXIMUM_EXCEEDED,
    SUBACK,
    UNSPECIFIED,
    UNSUBACK,
    UNSUPPORTED_VERSION,
    V3_1,
    V5,
    Ack,
    ConnAck,
    Connect,
    Disconnect,
    Fault,
    Filter,
    MqttFormat,
    Packet,
    Ping,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
    Will,
    check_filter,
    check_topic,
)
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    BaseCommand,
    Command,
    ConnectionId,
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
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    SessionInfo,
    ShutdownInfo,
    Throwable,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.completion import Completion
from pyjms_broker.connector.bodies import LATEST_BODY
from pyjms_broker.connector.mqtt.messages import delivery_of, payload_of, to_message
from pyjms_broker.connector.mqtt.state import EXACTLY_ONCE, MOST_RECEIVED, Sent, SessionState
from pyjms_broker.connector.mqtt.topics import STRATEGIES, begins_wild, is_hidden, unusable

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost
    from pyjms_broker.connector.mqtt.connector import MqttOptions

logger = get_logger(__name__)

_AT_LEAST_ONCE: Final = 1
_REMOVE: Final = 1
"""`DestinationInfo.operation_type` of a removal."""
_SILENT_CHECKS: Final = 3
"""A client is checked each half of its keep-alive, and lost after so many without input."""
_CODES: Final = {
    "java.lang.SecurityException": NOT_AUTHORIZED,
    "javax.jms.InvalidClientIDException": BAD_CLIENT_ID,
    "javax.jms.InvalidDestinationException": BAD_TOPIC,
    "javax.jms.ResourceAllocationException": QUOTA_EXCEEDED,
}
"""Reason codes of MQTT 5 by the class of an error."""
_RETURN_CODES: Final = {UNSUPPORTED_VERSION: 1, BAD_CLIENT_ID: 2, NOT_AUTHORIZED: 5}
_OTHER_RETURN_CODE: Final = 3
"""Return codes of CONNACK by reason code. (mqtt-connector M22)"""


class Subscription:
    """A subscription of a connection."""

    def __init__(self, text: str, qos: int, info: ConsumerInfo) -> None:
        assert info.consumer_id is not None
        self.text = text
        self.qos = qos
        self.info = info
        self.consumer_id: ConsumerId = info.consumer_id
        self.key = f"{qos}:{text}"
        """Identifies it in the state of a kept session."""
        self.hides = begins_wild(text)
        """Whether it does not match advisory topics and those that begin with `$`."""
        self._unsent: list[MessageAck] = []

    @property
    def is_counted(self) -> bool:
        """Whether the broker counts the messages in the window, without keeping each."""
        destination = self.info.destination
        return (
            destination is not None and destination.is_topic and self.info.subscription_name is None
        )

    def acknowledge_later(self, dispatch: MessageDispatch, message_id: MessageId) -> None:
        """Record a message that needs no acknowledgement of the client."""
        last = self._unsent[-1] if self._unsent else None
        if last is None or not self.is_counted or last.destination != dispatch.destination:
            kind = AckType.STANDARD if self.is_counted else AckType.INDIVIDUAL
            last = MessageAck(dispatch.destination, None, self.consumer_id, kind, message_id)
            self._unsent.append(last)
        last.last_message_id = message_id
        last.message_count += 1

    def take_unsent(self) -> list[MessageAck]:
        """Return and clear the acknowledgements of such messages."""
        acks, self._unsent = self._unsent, []
        return acks


class State(Enum):
    """The state of a client."""

    NEW = auto()
    CONNECTED = auto()
    DISCONNECTING = auto()
    CLOSED = auto()


Done: TypeAlias = Callable[[], object]
Failed: TypeAlias = Callable[[int, str], object]


class MqttSession(Transport[Command]):
    """The transport of one client for the broker's connection. Use it on the broker's event loop.

    Args:
        tcp: the transport of packets, not started.
        wire_format: its format, which learns the protocol's level.
        options: the options of the connector.
        host: the broker.
        connection_id: the id of the client's JMS connection.
    """

    def __init__(
        self,
        tcp: TcpTransport[Packet],
        wire_format: MqttFormat,
        options: MqttOptions,
        host: BrokerHost,
        connection_id: str,
    ) -> None:
        self._tcp = tcp
        self._format = wire_format
        self.options = options
        self.host = host
        self.strategy = STRATEGIES[options.subscription_strategy]
        self._loop: LoopHandle
        self._keep_alive: BackgroundTask | None = None
        self._identified = anyio.Event()
        """Set when the broker has accepted the client's CONNECT, or the session is closed."""
        self.status = State.NEW
        self.client_id = ""
        self.is_kept = False
        """Whether the session outlives the connection."""
        self.will: Will | None = None
        self.state = SessionState()
        self.connection_id = ConnectionId(connection_id)
        self.session_id = SessionId(connection_id, 1)
        self.producer_id = ProducerId(connection_id, 1, 1)
        self.subscriptions: dict[str, Subscription] = {}
        """By topic filter."""
        self.consumers: dict[ConsumerId, Subscription] = {}
        self.numbers = itertools.count(1)
        """The counter of messages and consumers."""
        self._command_ids = itertools.count(1)
        self._requests: dict[int, tuple[Done | None, Failed | None]] = {}
        self._held: deque[tuple[Subscription, MessageDispatch]] = deque()
        """Messages for which there is no free packet id."""
        self._with_unsent_acks: dict[Subscription, None] = {}
        self._is_released = False
        tcp.listener = self

    # the transport
    async def start(self) -> None:
        """Start, and wait for the client's CONNECT."""
        self._loop = LoopHandle()
        await self._tcp.start()
        timeout = self.options.connect_attempt_timeout
        with _clock.timeout(timeout):
            await self._identified.wait()
            return
        raise ConnectionFailedException(
            f"{self.remote_address}: no CONNECT arrived within {timeout:g} s",
            hint="transport.connectAttemptTimeout (ms) sets the limit",
        )

    async def stop(self) -> None:
        await end_tasks(self._keep_alive)
        await self._tcp.stop()

    def flush(self) -> None:
        self._tcp.flush()

    @property
    def congested(self) -> bool:
        return self._tcp.congested

    async def drained(self) -> None:
        await self._tcp.drained()

    def pause_reading(self) -> None:
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self._tcp.resume_reading()

    @property
    def remote_address(self) -> str:
        return self._tcp.remote_address

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return self._tcp.peer_certificate

    @property
    def notices_silence(self) -> bool:
        return True  # `start` limits the wait for CONNECT; afterwards the client's keep-alive does

    @property
    def steals_links(self) -> bool:
        return self.options.allow_link_stealing

    def on_exception(self, error: Exception) -> None:
        """Report to the listener that the connection has failed."""
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        self.listener.on_exception(error)

    def on_release(self, refused: Collection[ActiveMQMessage]) -> None:
        """Send the will, if the client has not disconnected, and end the session or keep it."""
        if self._is_released:
            return
        self._is_released = True
        will, self.will = self.will, None
        if will is not None:
            self._send(self._message(Publish(will.topic, will.payload, will.qos, will.retain)))
        self.state.end_connection({message.message_id for message in refused})
        self._held.clear()

    @property
    def level(self) -> int | None:
        """The level of the protocol; None until CONNECT."""
        return self._format.level

    # from the client
    def on_command(self, packet: Packet) -> None:
        """Handle a packet."""
        if self.status in {State.DISCONNECTING, State.CLOSED}:
            return
        handler = _HANDLERS.get(type(packet))
        try:
            if handler is None:
                self.fail(PROTOCOL_ERROR, f"a client sends no {type(packet).__name__}")
            else:
                handler(self, packet)
        except ConnectionFailedException as error:
            logger.debug("An MQTT client has disconnected: %s", error)
        except JMSException as error:
            self.fail(UNSPECIFIED, error.reason)

    # to the broker
    def to_broker(self, command: Command) -> None:
        """Pass a command to the broker. Responses may arrive before this returns."""
        self.listener.on_command(command)

    def request(
        self, command: BaseCommand, done: Done | None = None, failed: Failed | None = None
    ) -> None:
        """Send a command that gets a response to the broker.

        Args:
            command: the command; it gets the number of the request.
            done: called if the broker has carried out the command.
            failed: called with a reason code and text if it has not; None: that is a violation.
        """
        command.command_id = next(self._command_ids)
        command.response_required = True
        self._requests[command.command_id] = (done, failed)
        self.to_broker(command)

    def publish(self, packet: Publish, done: Done, failed: Failed) -> None:
        """Send a message; the calls are made for QoS 1 and 2 only."""
        message = self._message(packet)
        if packet.qos == EXACTLY_ONCE:
            self.state.received[packet.packet_id] = message.message_id
            if self.state.has_marks:
                self._publish_marked(message, packet.packet_id, done, failed)
                return
        if packet.qos:
            self.request(message, done, failed)
        else:
            self._send(message)

    def _publish_marked(
        self, message: ActiveMQMessage, packet_id: int, done: Done, failed: Failed
    ) -> None:
        """Send a message, and record its packet id, in one transaction."""
        xid = message.transaction_id = LocalTransactionId(next(self.numbers), self.connection_id)

        def end(kind: int, done: Done | None = None, failed: Failed | None = None) -> None:
            self.request(TransactionInfo(self.connection_id, xid, kind), done, failed)

        def commit() -> None:
            context = self.host.region_broker.client_context(self.client_id)
            transaction = None if context is None else context.transactions.get(xid)
            if transaction is not None:
                try:
                    self.state.mark_received(packet_id, transaction)
                except JMSException as error:
                    roll_back(UNSPECIFIED, error.reason)
                else:
                    end(TransactionType.COMMIT_ONE_PHASE, done, failed)

        def roll_back(code: int, text: str) -> None:
            end(TransactionType.ROLLBACK)
            failed(code, text)

        end(TransactionType.BEGIN)
        self.request(message, commit, roll_back)

    def _message(self, packet: Publish) -> ActiveMQMessage:
        message = to_message(packet)
        message.destination = self.strategy.topic(packet.topic)
        message.producer_id = self.producer_id
        message.message_id = MessageId(None, self.producer_id, next(self.numbers))
        return message

    def _send(self, message: ActiveMQMessage) -> None:
        message.command_id = next(self._command_ids)
        self.to_broker(message)

    def call_next(self, later: Callable[[], object]) -> None:
        """Call a function in the next turn of the event loop."""
        self._loop.call_next(later)

    def send_unsent_acks(self) -> None:
        """Acknowledge messages that need no acknowledgement of the client."""
        waiting, self._with_unsent_acks = self._with_unsent_acks, {}
        for subscription in waiting:
            for ack in subscription.take_unsent():
                self.to_broker(ack)

    # from the broker
    def oneway(self, command: Command) -> None:
        """Handle a command from the broker: a response, a message or a notification.

        Raises:
            ConnectionFailedException: the connection has ended.
        """
        if isinstance(command, MessageDispatch):
            self._on_dispatch(command)
        elif isinstance(command, Response):
            self._on_response(command)
        elif isinstance(command, ConnectionErrorCommand):
            code, text = _reason(command.exception)
            self.fail(code, text)
        elif isinstance(command, ConsumerControl) and command.close:
            # the broker cannot remove the consumer while it is dispatching
            self.call_next(partial(self.fail, UNSPECIFIED, "the broker has closed a subscription"))

    def _on_response(self, response: Response) -> None:
        request = self._requests.pop(response.correlation_id, None)
        if request is None:
            return
        done, failed = request
        if isinstance(response, ExceptionResponse):
            code, text = _reason(response.exception)
            if failed is None:
                self.fail(code, text)
            else:
                failed(code, text)
        elif done is not None:
            done()
        if self.status is State.DISCONNECTING:
            self.disconnect()

    def _on_dispatch(self, dispatch: MessageDispatch) -> None:
        subscription = self.consumers.get(dispatch.consumer_id)  # type: ignore[arg-type]
        if subscription is not None and dispatch.message is not None:
            self._deliver(subscription, dispatch, dispatch.message)

    def _deliver(
        self, subscription: Subscription, dispatch: MessageDispatch, message: ActiveMQMessage
    ) -> None:
        destination, message_id = dispatch.destination, message.message_id
        assert message_id is not None
        assert destination is not None
        if subscription.hides and is_hidden(destination):
            self._acknowledge_later(subscription, dispatch, message_id)
            return
        qos, is_retained = delivery_of(message)
        qos = min(qos, subscription.qos)
        packet_id = 0
        former = None
        if qos:
            packet_id = self.state.find(subscription.key, message_id)
            former = self.state.sent.get(packet_id)
            packet_id = packet_id or self.state.free_id()
            if not packet_id or self._held:
                self._held.append((subscription, dispatch))
                return
        if former is not None and former.is_released:  # the acknowledgement was not stored
            key, consumer_id = subscription.key, subscription.consumer_id
            acknowledged = Sent(key, message_id, qos, consumer_id, destination)
            self.call_next(partial(self.to_broker, _ack(acknowledged)))
            return
        topic, payload = self.strategy.text(destination), payload_of(message)
        if len(payload) > LARGE_FRAME:
            self.call_next(LATEST_BODY.forget)
        packet = Publish(topic, payload, qos, is_retained, former is not None, packet_id)
        if not qos:
            self._tcp.oneway(packet)
            self._acknowledge_later(subscription, dispatch, message_id)
            return
        sent = Sent(subscription.key, message_id, qos, subscription.consumer_id, destination)
        if qos == EXACTLY_ONCE and self.state.has_marks and former is None:
            marked = self.state.add(packet_id, sent)
            marked.then(lambda done: self._send_marked(packet, sent, done))
        else:
            self._tcp.oneway(packet)
            self.state.add(packet_id, sent)

    def _send_marked(self, packet: Publish, sent: Sent, marked: Completion) -> None:
        """Send a message of QoS 2 whose packet id is recorded."""
        if marked.error is not None or sent.consumer_id not in self.consumers:
            return
        try:
            self._tcp.oneway(packet)
        except ConnectionFailedException as error:
            logger.debug("An MQTT client has disconnected: %s", error)
        except LocalProtocolError as error:
            logger.warning("%s cannot be sent to an MQTT client: %s", sent.message_id, error)
            self.state.remove(packet.packet_id)
            self.to_broker(_ack(sent, AckType.POISON))

    def _acknowledge_later(
        self, subscription: Subscription, dispatch: MessageDispatch, message_id: MessageId
    ) -> None:
        subscription.acknowledge_later(dispatch, message_id)
        if not self._with_unsent_acks:
            # while it is dispatching, the broker does not accept acknowledgements
            self.call_next(self.send_unsent_acks)
        self._with_unsent_acks[subscription] = None

    def settle(self, packet_id: int, sent: Sent) -> None:
        """Acknowledge a message whose packet id is free again."""
        self.state.remove(packet_id)
        if not sent.is_released:
            self.to_broker(_ack(sent))
        self.deliver_held()

    def release(self, packet_id: int, sent: Sent) -> None:
        """Acknowledge a message of QoS 2 after PUBREC, and answer PUBREL."""

        def on_marked(marked: Completion) -> None:
            if marked.error is None:
                self.to_broker(_ack(sent))
            self.answer_stored(PUBREL, packet_id, marked)

        self.state.release(packet_id, sent).then(on_marked)

    def answer_stored(self, kind: int, packet_id: int, stored: Completion) -> None:
        """Send an acknowledgement, unless what it stands for could not be stored."""
        try:
            if stored.error is None:
                self.answer(kind, packet_id)
        except ConnectionFailedException as error:
            logger.debug("An MQTT client has disconnected: %s", error)

    def deliver_held(self) -> None:
        """Deliver messages for which there are packet ids now."""
        held, self._held = self._held, deque()
        while held:
            subscription, dispatch = held.popleft()
            if subscription.consumer_id in self.consumers and dispatch.message is not None:
                self._deliver(subscription, dispatch, dispatch.message)
            if self._held:
                self._held += held
                return

    # subscriptions
    def restore(self) -> bool:
        """Subscribe again to what the broker has kept; return whether there was anything."""
        kept = list(self.strategy.kept(self.host, self.client_id))
        for text, qos in kept:
            # its retained messages came when it was new (mqtt-connector M73)
            self.subscribe(Filter(text, qos), retroactive=False)
        return bool(kept)

    def forget_all(self) -> None:
        """Delete all that the broker has kept for the client. (mqtt-connector M93)"""
        self.host.connections.mqtt_sessions.drop(self.client_id)
        for durable in self.host.region_broker.subscriptions.of_client(self.client_id):
            name = durable.key.subscription_name
            self.request(RemoveSubscriptionInfo(self.connection_id, name, self.client_id))
        for text, qos in list(self.strategy.kept(self.host, self.client_id)):
            place = self.strategy.place(self.client_id, text, qos, kept=True)
            self.request(DestinationInfo(self.connection_id, place.destination, _REMOVE))

    def subscribe(
        self,
        wanted: Filter,
        done: Done | None = None,
        failed: Failed | None = None,
        *,
        retroactive: bool = True,
    ) -> None:
        """Add a subscription, or replace that to the same filter. (mqtt-connector M73, M74)"""
        former = self.subscriptions.get(wanted.text)
        if former is not None and former.qos == wanted.qos:
            recover = self.host.region_broker.subscriptions.get(former.consumer_id)
            if recover is not None:
                recover.recover_kept()
            if done is not None:
                done()
            return
        if former is not None:
            self.unsubscribe(former)
        place = self.strategy.place(self.client_id, wanted.text, wanted.qos, kept=self.is_kept)
        info = ConsumerInfo(
            ConsumerId(str(self.connection_id), 1, next(self.numbers)),
            destination=place.destination,
            prefetch_size=self.options.prefetch if self.options.prefetch > 0 else place.prefetch,
            dispatch_async=True,
            retroactive=retroactive,
            subscription_name=place.subscription_name,
        )
        subscription = Subscription(wanted.text, wanted.qos, info)
        self.subscriptions[wanted.text] = subscription
        self.consumers[subscription.consumer_id] = subscription

        def on_refusal(code: int, text: str) -> None:
            self._forget(subscription)
            if failed is not None:
                failed(code, text)

        self.request(info, done, on_refusal)

    def unsubscribe(self, subscription: Subscription, done: Done | None = None) -> None:
        """Remove a subscription, and what the broker keeps for it. (mqtt-connector M76)"""
        self._forget(subscription)
        self.state.remove_of(subscription.key)
        info = subscription.info
        if self.is_kept and subscription.qos and info.destination is not None:
            self.request(RemoveInfo(subscription.consumer_id))
            if info.destination.is_queue:
                removal: BaseCommand = DestinationInfo(
                    self.connection_id, info.destination, _REMOVE
                )
            else:
                name = info.subscription_name
                removal = RemoveSubscriptionInfo(self.connection_id, name, self.client_id)
            self.request(removal, done)
        else:
            self.request(RemoveInfo(subscription.consumer_id), done)

    def _forget(self, subscription: Subscription) -> None:
        self.send_unsent_acks()
        self.consumers.pop(subscription.consumer_id, None)
        if self.subscriptions.get(subscription.text) is subscription:
            del self.subscriptions[subscription.text]

    # to the client
    def to_client(self, packet: Packet) -> None:
        """Send a packet.

        Raises:
            ConnectionFailedException: the connection has ended.
        """
        self._tcp.oneway(packet)

    def answer(self, kind: int, packet_id: int) -> None:
        """Send PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self._tcp.oneway(Ack(kind, packet_id))

    def start_keep_alive(self, seconds: float) -> None:
        """Disconnect a client that sends nothing for one and a half times its period."""
        self._identified.set()
        if not seconds or not self.options.use_inactivity_monitor:
            return
        tcp = self._tcp

        async def watch() -> None:
            silent, received = 0, tcp.received_bytes
            while silent < _SILENT_CHECKS:
                await _clock.sleep(seconds / 2)
                if received != tcp.received_bytes or tcp.reading_paused:
                    silent, received = 0, tcp.received_bytes
                else:
                    silent += 1
            raise ConnectionFailedException(
                f"{self.remote_address}: the client sent nothing for one and a half times its "
                f"keep-alive of {seconds:g} s"
            )

        name = f"broker {self.remote_address} keep-alive"
        self._keep_alive = spawn(watch, name=name, on_error=tcp.fail)

    def refuse(self, code: int, text: str) -> None:
        """Refuse the client by CONNACK, and close the connection. (mqtt-connector M22)"""
        logger.info("%s: the client is refused: %s", self.remote_address, text)
        self.to_client(ConnAck(_RETURN_CODES.get(code, _OTHER_RETURN_CODE)))
        self.close()

    def fail(self, code: int, text: str) -> None:
        """Close the connection because of an error; `code` is a reason code of MQTT 5."""
        if self.status is not State.CLOSED:
            logger.info("%s is disconnected (%#x): %s", self.remote_address, code, text)
            self.close()

    def close(self) -> None:
        """Close the connection, after writing what is queued. Idempotent."""
        if self.status is not State.CLOSED:
            self.status = State.CLOSED
            self._identified.set()
            self.to_broker(ShutdownInfo())

    def disconnect(self) -> None:
        """Close the connection when all requests of the client are answered."""
        self.status = State.DISCONNECTING
        if not self._requests:
            self.send_unsent_acks()
            self.close()


def _ack(sent: Sent, kind: int = AckType.INDIVIDUAL) -> MessageAck:
    message_id = sent.message_id
    return MessageAck(sent.destination, None, sent.consumer_id, kind, message_id, message_id, 1)


def _reason(error: Throwable | None) -> tuple[int, str]:
    if error is None:
        return UNSPECIFIED, "the broker refused the request"
    code = _CODES.get(error.class_name or "", UNSPECIFIED)
    return code, error.message or "the broker refused the request"


# the connection
def on_connect(session: MqttSession, packet: Connect) -> None:
    """Register the client. (mqtt-connector M20 to M29)"""
    if session.status is not State.NEW or session.client_id:
        session.fail(PROTOCOL_ERROR, "the client sends a second CONNECT")
        return
    if packet.level == V5:
        session.refuse(UNSUPPORTED_VERSION, "MQTT 5 is not supported yet")
        return
    if not packet.client_id and not packet.clean:
        session.refuse(BAD_CLIENT_ID, "a client without an id asks for a session that is kept")
        return
    will = packet.will
    problem = None if will is None else check_topic(will.topic) or unusable(will.topic)
    if problem is not None:
        session.fail(BAD_TOPIC, f"its will: {problem}")
        return
    session.client_id = packet.client_id or str(session.connection_id)
    try:
        password = None if packet.password is None else packet.password.decode()
    except UnicodeDecodeError:
        session.refuse(NOT_AUTHORIZED, "the password is not UTF-8")
        return
    info = ConnectionInfo(session.connection_id, session.client_id, password, packet.user_name)
    session.request(info, partial(_on_connected, session, packet), session.refuse)


def _on_connected(session: MqttSession, packet: Connect) -> None:
    session.status = State.CONNECTED
    session.will = packet.will
    session.is_kept = not packet.clean
    sessions = session.host.connections.mqtt_sessions
    sessions.restore(session.host.region_broker)
    former = sessions.get(session.client_id) if session.is_kept else None
    is_present = session.is_kept and (
        former is not None or any(session.strategy.kept(session.host, session.client_id))
    )
    session.to_client(ConnAck(session_present=is_present and session.level != V3_1))
    session.request(SessionInfo(session.session_id))
    session.request(ProducerInfo(session.producer_id))
    session.start_keep_alive(packet.keep_alive or session.options.default_keep_alive)
    if not session.is_kept:
        session.forget_all()
        return
    session.state = sessions.keep(session.client_id)
    for packet_id, sent in session.state.sent.items():
        if sent.is_released:
            session.answer(PUBREL, packet_id)
    session.restore()


def on_ping(session: MqttSession, packet: Ping) -> None:
    """Answer PINGREQ. (mqtt-connector M37)"""
    if packet.type != PINGREQ:
        session.fail(PROTOCOL_ERROR, "a client sends no PINGRESP")
        return
    session.to_client(Ping(PINGRESP))


def on_disconnect(session: MqttSession, _packet: Disconnect) -> None:
    """End the connection without a will. (mqtt-connector M38)"""
    session.will = None
    session.disconnect()


def on_fault(session: MqttSession, fault: Fault) -> None:
    """End the connection after a violation of MQTT."""
    if session.status is State.NEW and fault.code == UNSUPPORTED_VERSION:
        session.refuse(fault.code, fault.reason)
    else:
        session.fail(fault.code, fault.reason)


# messages
def on_publish(session: MqttSession, packet: Publish) -> None:
    """Send a message. (mqtt-connector M55, M57, M60 to M65)"""
    problem = check_topic(packet.topic) or unusable(packet.topic)
    if problem is not None:
        session.fail(BAD_TOPIC, problem)
        return
    kind = PUBACK if packet.qos == _AT_LEAST_ONCE else PUBREC
    received, packet_id = session.state.received, packet.packet_id
    if packet.qos == EXACTLY_ONCE:
        if packet_id in received:
            if received[packet_id] is None:  # else the answer follows when it is stored
                session.answer(kind, packet_id)
            return
        if len(received) >= MOST_RECEIVED:
            text = f"{MOST_RECEIVED} messages of QoS 2 wait for PUBREL"
            session.fail(RECEIVE_MAXIMUM_EXCEEDED, text)
            return
        received[packet_id] = None
    if packet.topic.startswith("$") and not session.options.publish_dollar_topics:
        if packet.qos:
            session.answer(kind, packet_id)
        return

    def on_stored() -> None:
        if packet_id in received:
            received[packet_id] = None
        session.answer(kind, packet_id)

    def on_refusal(code: int, text: str) -> None:
        session.state.refuse_received(packet_id)
        session.fail(code, text)

    session.publish(packet, on_stored, on_refusal)


def on_ack(session: MqttSession, packet: Ack) -> None:
    """Handle an acknowledgement; those of unknown packet ids change nothing.

    (mqtt-connector M61, M81)
    """
    if packet.type == PUBREL:
        released = session.state.release_received(packet.packet_id)
        released.then(lambda done: session.answer_stored(PUBCOMP, packet.packet_id, done))
        return
    sent = session.state.sent.get(packet.packet_id)
    is_live = sent is not None and (sent.consumer_id is not None or sent.is_released)
    if packet.type == PUBREC:
        if sent is not None and is_live and sent.qos == EXACTLY_ONCE and not sent.is_released:
            session.release(packet.packet_id, sent)
        else:
            session.answer(PUBREL, packet.packet_id)
    elif sent is not None and is_live:
        expected = PUBACK if sent.qos == _AT_LEAST_ONCE else PUBCOMP
        if packet.type == expected:
            session.settle(packet.packet_id, sent)


# subscriptions
def on_subscribe(session: MqttSession, packet: Subscribe) -> None:
    """Add subscriptions, and answer when all are there or refused. (mqtt-connector M70, M71)"""
    for wanted in packet.filters:
        problem = check_filter(wanted.text) or unusable(wanted.text)
        if problem is not None:
            session.fail(BAD_FILTER, problem)
            return
    codes = [wanted.qos for wanted in packet.filters]
    missing = set(range(len(codes)))

    def on_answer(position: int) -> None:
        missing.discard(position)
        if not missing:
            session.to_client(SubAck(SUBACK, packet.packet_id, codes))

    def on_refusal(position: int, code: int, text: str) -> None:
        wanted = packet.filters[position]
        logger.info(
            "%s: the subscription to %s is refused (%#x): %s",
            session.remote_address,
            wanted.text[:200],
            code,
            text,
        )
        if session.level != V3_1:
            codes[position] = UNSPECIFIED
        on_answer(position)

    if not codes:
        on_answer(0)
    for position, wanted in enumerate(packet.filters):
        session.subscribe(wanted, partial(on_answer, position), partial(on_refusal, position))


def on_unsubscribe(session: MqttSession, packet: Unsubscribe) -> None:
    """Remove subscriptions; those to unknown filters are ignored. (mqtt-connector M76)"""
    for text in packet.filters:
        problem = check_filter(text)
        if problem is not None:
            session.fail(BAD_FILTER, problem)
            return
    found = [session.subscriptions.get(text) for text in dict.fromkeys(packet.filters)]
    missing = {each for each in found if each is not None}

    def on_removed(subscription: Subscription | None) -> None:
        missing.discard(subscription)
        if not missing:
            session.to_client(SubAck(UNSUBACK, packet.packet_id, []))

    if not missing:
        on_removed(None)
    for subscription in list(missing):
        session.unsubscribe(subscription, partial(on_removed, subscription))


_HANDLERS: Final[dict[type, Callable[[MqttSession, Any], None]]] = {
    Connect: on_connect,
    Publish: on_publish,
    Ack: on_ack,
    Subscribe: on_subscribe,
    Unsubscribe: on_unsubscribe,
    Ping: on_ping,
    Disconnect: on_disconnect,
    Fault: on_fault,
}
"""By the packet's class."""
