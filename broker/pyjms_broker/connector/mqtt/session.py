"""The session of one MQTT client, which translates between packets and commands.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    MqttSession                                                   commands <-> packets
    TcpTransport with MqttFormat                                  packets <-> bytes

An MQTT client is thus treated like an OpenWire client, including limits and back-pressure. A packet
is handled by the function of its class in `handlers`. A command that requires a response is kept
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
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.errors import (
    ConnectionFailedException,
    JMSException,
    LocalProtocolError,
    MessageFormatException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.limits import LARGE_FRAME, UnfinishedFrame
from pyjms.wire.mqtt import (
    BAD_CLIENT_ID,
    BAD_CREDENTIALS,
    BAD_PAYLOAD,
    BAD_TOPIC,
    NAMES,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    PUBREL,
    QUOTA_EXCEEDED,
    SUCCESS,
    TAKEN_OVER,
    UNSPECIFIED,
    UNSUPPORTED_VERSION,
    V5,
    Ack,
    ConnAck,
    Disconnect,
    Filter,
    MqttFormat,
    Packet,
    Properties,
    Publish,
    Will,
)
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    BaseCommand,
    Command,
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
    Throwable,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.connector.bodies import LATEST_BODY
from pyjms_broker.connector.client_session import Accepted, ClientSession, State
from pyjms_broker.connector.mqtt.handlers import HANDLERS
from pyjms_broker.connector.mqtt.messages import (
    delivery_of,
    payload_of,
    properties_of,
    to_message,
    was_retained,
)
from pyjms_broker.connector.mqtt.state import (
    EXACTLY_ONCE,
    NEVER_EXPIRES,
    Sent,
    SessionState,
)
from pyjms_broker.connector.mqtt.topics import (
    STRATEGIES,
    begins_wild,
    is_hidden,
    shared_filter,
)

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost
    from pyjms_broker.connector.mqtt.connector import MqttOptions

logger = get_logger(__name__)

_HIGHEST_ID: Final = 65535
_MAXIMUM_TEXT: Final = 1000
"""The maximum number of characters of a reason string."""
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
_RETURN_CODES: Final = {
    UNSUPPORTED_VERSION: 1,
    BAD_CLIENT_ID: 2,
    BAD_CREDENTIALS: 5,
    NOT_AUTHORIZED: 5,
}
_OTHER_RETURN_CODE: Final = 3
"""Return codes of CONNACK by reason code. (mqtt-connector M22)"""


class Subscription:
    """A subscription of a connection."""

    def __init__(self, wanted: Filter, identifiers: list[int], info: ConsumerInfo) -> None:
        assert info.consumer_id is not None
        text, qos = wanted.text, wanted.qos
        self.text = text
        self.qos = qos
        self.options = wanted
        self.identifiers = identifiers
        """The subscription identifier of 5.0, if there is one."""
        self.info = info
        self.is_shared = shared_filter(text) is not None
        """Whether other clients use its queue."""
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


Done: TypeAlias = Callable[[], object]
Failed: TypeAlias = Callable[[int, str], object]


class MqttSession(ClientSession[Packet]):
    """The transport of one client for the broker's connection. Use it on the broker's event loop.

    Args:
        accepted: the connection.
        options: the options of the connector.
        host: the broker.
        connection_id: the id of the client's JMS connection.
    """

    FIRST = "CONNECT"

    def __init__(
        self, accepted: Accepted, options: MqttOptions, host: BrokerHost, connection_id: str
    ) -> None:
        unfinished = UnfinishedFrame(host.frame_budget)
        self._format = MqttFormat(options.max_frame_size, unfinished)
        super().__init__(accepted, self._format, unfinished, options, host, connection_id)
        self.options = options
        self.strategy = STRATEGIES[options.subscription_strategy]
        self.is_kept = False
        """Whether the session outlives the connection."""
        self.expiry = NEVER_EXPIRES
        """Seconds for which 5.0 keeps the session after the connection."""
        self.most_in_flight = _HIGHEST_ID
        """The number of messages of QoS 1 and 2 that the client accepts at once."""
        self.largest_packet: int | None = None
        """Bytes of the largest packet that the client accepts; None: any."""
        self.tells_reasons = True
        """Whether the client wants texts in addition to reason codes."""
        self.aliases: dict[int, str] = {}
        """Topics by the client's aliases."""
        self.will: Will | None = None
        self.state = SessionState()
        self.subscriptions: dict[str, Subscription] = {}
        """By topic filter."""
        self.consumers: dict[ConsumerId, Subscription] = {}
        self._command_ids = itertools.count(1)
        self._requests: dict[int, tuple[Done | None, Failed | None]] = {}
        self._held: deque[tuple[Subscription, MessageDispatch]] = deque()
        """Messages for which there is no free packet id."""
        self._with_unsent_acks: dict[Subscription, None] = {}
        self._is_released = False

    @property
    def steals_links(self) -> bool:
        return self.options.allow_link_stealing

    def on_release(self, refused: Collection[ActiveMQMessage], error: Exception | None) -> None:
        """Send the will, if the client has not disconnected, and end the session or keep it."""
        if self._is_released:
            return
        self._is_released = True
        if self.is_v5 and error is not None and not isinstance(error, ConnectionFailedException):
            self.fail(TAKEN_OVER, "the client has connected again")
        will, self.will = self.will, None
        if will is not None:
            self._send_will(will)
        self.state.end_connection({message.message_id for message in refused})
        self._held.clear()
        if self.is_kept:
            self.host.connections.mqtt_sessions.expire_later(self.client_id, self.expiry)

    def _send_will(self, will: Will) -> None:
        """Send the will, now or when its delay or the session has ended. (mqtt-connector M141)"""
        delay = min(will.properties.pop("will_delay_interval", 0), self.expiry)
        packet = Publish(will.topic, will.payload, will.qos, will.retain)
        packet.properties = will.properties
        message, host = self._message(packet), self.host
        context = host.region_broker.client_context(self.client_id)
        if not delay or not self.is_kept or context is None:
            self._send(message)
            return
        exchange = ProducerExchange(context, ProducerInfo(self.producer_id))
        address = self.remote_address

        def send() -> None:
            try:
                host.broker.send(exchange, message)
            except JMSException as error:
                logger.warning("%s: the will is refused: %s", address, error)

        host.connections.mqtt_sessions.call_later(self.client_id, delay, send)

    @property
    def protocol(self) -> str:
        return NAMES.get(self._format.level or 0, "MQTT")

    @property
    def level(self) -> int | None:
        """The level of the protocol; None until CONNECT."""
        return self._format.level

    @property
    def is_v5(self) -> bool:
        """Whether the client speaks 5.0."""
        return self._format.level == V5

    # from the client
    def on_command(self, packet: Packet) -> None:
        """Handle a packet."""
        if self.status in {State.DISCONNECTING, State.CLOSED}:
            return
        handler = HANDLERS.get(type(packet))
        try:
            if handler is None:
                self.fail(PROTOCOL_ERROR, f"a client sends no {type(packet).__name__}")
            else:
                handler(self, packet)
        except ConnectionFailedException as error:
            logger.debug("An MQTT client has disconnected: %s", error)
        except MessageFormatException as error:
            self.fail(BAD_PAYLOAD, error.reason)
        except JMSException as error:
            self.fail(UNSPECIFIED, error.reason)

    # to the broker
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
        message = to_message(packet, self.level, self.strategy)
        message.destination = self.strategy.topic(packet.topic)
        message.producer_id = self.producer_id
        message.message_id = MessageId(None, self.producer_id, next(self.numbers))
        return message

    def _send(self, message: ActiveMQMessage) -> None:
        message.command_id = next(self._command_ids)
        self.to_broker(message)

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
            code, text = _reason_of(command.exception)
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
            code, text = _reason_of(response.exception)
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
            is_full = former is None and len(self.state.sent) >= self.most_in_flight
            packet_id = packet_id or self.state.free_id()
            if not packet_id or self._held or is_full:
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
        if self.is_v5:
            packet.properties = self._properties(subscription, message)
            retains = subscription.options.retain_as_published
            packet.retain = is_retained or (retains and was_retained(message))
            if self.largest_packet is not None and self._size(packet) > self.largest_packet:
                self._acknowledge_later(subscription, dispatch, message_id)
                return
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

    def _properties(self, subscription: Subscription, message: ActiveMQMessage) -> Properties:
        properties = properties_of(message, self.strategy)
        if subscription.identifiers:
            properties["subscription_identifier"] = subscription.identifiers
        return properties

    def _size(self, packet: Publish) -> int:
        data = bytearray()
        self._format.encode_into(data, packet)
        return len(data)

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

    def answer_stored(
        self, kind: int, packet_id: int, stored: Completion, code: int = SUCCESS
    ) -> None:
        """Send an acknowledgement, unless what it stands for could not be stored."""
        try:
            if stored.error is None:
                self.answer(kind, packet_id, code)
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
    def restore(self) -> None:
        """Subscribe again to what the broker has kept; 5.0 keeps also what is not in the store."""
        known = dict(self.state.filters)
        for kept in list(self.strategy.kept(self.host, self.client_id)):
            wanted, identifiers = known.pop(kept.text, (None, []))
            if wanted is None or wanted.qos != kept.qos:
                wanted = Filter(kept.text, kept.qos, kept.no_local)
            # its retained messages came when it was new (mqtt-connector M73)
            self.subscribe(wanted, identifiers, retroactive=False)
        for wanted, identifiers in known.values():
            self.subscribe(wanted, identifiers, retroactive=False)

    def forget_all(self) -> None:
        """Delete all that the broker has kept for the client. (mqtt-connector M93)"""
        self.host.connections.mqtt_sessions.drop(self.client_id)
        for durable in self.host.region_broker.subscriptions.of_client(self.client_id):
            name = durable.key.subscription_name
            self.request(RemoveSubscriptionInfo(self.connection_id, name, self.client_id))
        for kept in list(self.strategy.kept(self.host, self.client_id)):
            place = self.strategy.place(self.client_id, kept.text, kept.qos, kept=True)
            self.request(DestinationInfo(self.connection_id, place.destination, _REMOVE))

    def subscribe(
        self,
        wanted: Filter,
        identifiers: list[int],
        done: Done | None = None,
        failed: Failed | None = None,
        *,
        retroactive: bool = True,
    ) -> None:
        """Add a subscription, or replace that to the same filter. (mqtt-connector M73, M74)"""
        former = self.subscriptions.get(wanted.text)
        if former is not None and (former.qos, former.options.no_local) == (
            wanted.qos,
            wanted.no_local,
        ):
            former.options, former.identifiers = wanted, identifiers
            stored = self._keep_filter(former)
            recover = self.host.region_broker.subscriptions.get(former.consumer_id)
            if recover is not None and retroactive:
                recover.recover_kept()
            self._call_when_stored(stored, done)
            return
        if former is not None:
            self.unsubscribe(former)
        subscription = Subscription(wanted, identifiers, self._consumer_info(wanted, retroactive))
        self.subscriptions[wanted.text] = subscription
        self.consumers[subscription.consumer_id] = subscription
        stored = self._keep_filter(subscription)

        def on_refusal(code: int, text: str) -> None:
            self._forget(subscription)
            if failed is not None:
                failed(code, text)

        added = partial(self._call_when_stored, stored, done)
        self.request(subscription.info, added, on_refusal)

    def _keep_filter(self, subscription: Subscription) -> Completion:
        if not self.is_kept or not self.is_v5:
            return COMPLETED
        return self.state.keep_filter(subscription.options, subscription.identifiers)

    def _call_when_stored(self, stored: Completion, done: Done | None) -> None:
        def call(stored: Completion) -> None:
            try:
                if stored.error is not None:
                    self.fail(UNSPECIFIED, f"a subscription cannot be stored: {stored.error}")
                elif done is not None:
                    done()
            except ConnectionFailedException as error:
                logger.debug("An MQTT client has disconnected: %s", error)

        stored.then(call)

    def _consumer_info(self, wanted: Filter, retroactive: bool) -> ConsumerInfo:
        place = self.strategy.place(self.client_id, wanted.text, wanted.qos, kept=self.is_kept)
        return ConsumerInfo(
            ConsumerId(str(self.connection_id), 1, next(self.numbers)),
            destination=place.destination,
            prefetch_size=self.options.prefetch if self.options.prefetch > 0 else place.prefetch,
            dispatch_async=True,
            no_local=wanted.no_local,
            retroactive=retroactive,
            subscription_name=place.subscription_name,
        )

    def unsubscribe(self, subscription: Subscription, done: Done | None = None) -> None:
        """Remove a subscription, and what the broker keeps for it. (mqtt-connector M76)"""
        self._forget(subscription)
        self.state.remove_of(subscription.key)
        info, is_queue = subscription.info, False
        if info.destination is not None:
            is_queue = info.destination.is_queue and not subscription.is_shared
        if not is_queue and info.subscription_name is None:
            self.request(RemoveInfo(subscription.consumer_id), done)
            return
        self.request(RemoveInfo(subscription.consumer_id))
        if is_queue:
            removal: BaseCommand = DestinationInfo(self.connection_id, info.destination, _REMOVE)
        else:
            name = info.subscription_name
            removal = RemoveSubscriptionInfo(self.connection_id, name, self.client_id)
        self.request(removal, done)

    def _forget(self, subscription: Subscription) -> None:
        self.send_unsent_acks()
        self.consumers.pop(subscription.consumer_id, None)
        if self.subscriptions.get(subscription.text) is subscription:
            del self.subscriptions[subscription.text]
            self.state.forget_filter(subscription.text)

    # to the client
    def answer(
        self, kind: int, packet_id: int, code: int = SUCCESS, text: str | None = None
    ) -> None:
        """Send PUBACK, PUBREC, PUBREL or PUBCOMP; code and text are of 5.0."""
        self._tcp.oneway(Ack(kind, packet_id, code, self._reason(text)))

    def _reason(self, text: str | None) -> Properties:
        if text is None or not self.is_v5 or not self.tells_reasons:
            return {}
        return {"reason_string": text[:_MAXIMUM_TEXT]}

    def start_keep_alive(self, seconds: float) -> None:
        """Disconnect a client that sends nothing for one and a half times its period."""
        self.identified.set()
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
        self.keep_alive = spawn(watch, name=name, on_error=tcp.fail)

    def refuse(self, code: int, text: str) -> None:
        """Refuse the client by CONNACK, and close the connection. (mqtt-connector M22)"""
        logger.info("%s: the client is refused: %s", self.remote_address, text)
        if self.is_v5:
            answer = ConnAck(code, properties=self._reason(text))
        else:
            answer = ConnAck(_RETURN_CODES.get(code, _OTHER_RETURN_CODE))
        self.to_client(answer)
        self.close()

    def fail(self, code: int, text: str) -> None:
        """Close the connection because of an error; `code` is a reason code of MQTT 5."""
        if self.status is not State.CLOSED:
            logger.info("%s is disconnected (%#x): %s", self.remote_address, code, text)
            if self.is_v5 and self.status is State.CONNECTED:
                try:
                    self.to_client(Disconnect(code, self._reason(text)))
                except ConnectionFailedException as error:
                    logger.debug("An MQTT client has disconnected: %s", error)
            self.close()

    def disconnect(self) -> None:
        """Close the connection when all requests of the client are answered."""
        self.status = State.DISCONNECTING
        if not self._requests:
            self.send_unsent_acks()
            self.close()


def _ack(sent: Sent, kind: int = AckType.INDIVIDUAL) -> MessageAck:
    message_id = sent.message_id
    return MessageAck(sent.destination, None, sent.consumer_id, kind, message_id, message_id, 1)


def _reason_of(error: Throwable | None) -> tuple[int, str]:
    if error is None:
        return UNSPECIFIED, "the broker refused the request"
    code = _CODES.get(error.class_name or "", UNSPECIFIED)
    return code, error.message or "the broker refused the request"
