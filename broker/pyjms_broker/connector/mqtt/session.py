"""The session of one MQTT client, which translates between packets and commands.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    MqttSession                                                   commands <-> packets
    TcpTransport with MqttFormat                                  packets <-> bytes

A packet is handled by the function of its class in `handlers`. A command that requires a response
is kept until the response arrives, which is within `to_broker` unless it waits for a store or for
space. Messages are kept as numbers only, and all that follow each other in a chunk of input go to
the broker in one call.

    messages of the client                messages to the client: see `deliveries`
    QoS 1: PUBACK once it is stored
    QoS 2: PUBREC once it is stored,
           PUBCOMP for PUBREL

`state` has the packet ids, which a kept session also has in its next connection: a message that the
client sends again under the id of one that is stored is only acknowledged again, and after PUBREC
PUBREL is repeated and not the message. (mqtt-connector M61, M62, M81, M85)

The will is sent on every end without DISCONNECT, before the broker removes the producer: see
`on_release`. A violation of MQTT ends the connection; 3.1 and 3.1.1 have no packet that says why,
so the reason is only logged. So does a message that the broker refuses, because an acknowledgement
would be a lie. (mqtt-connector M39 to M42, M64)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from pyjms.errors import (
    ConnectionFailedException,
    JMSException,
    LocalProtocolError,
    MessageFormatException,
)
from pyjms.jms.destination import Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.tcp import HIGH_WATER
from pyjms.wire.mqtt import (
    BAD_CLIENT_ID,
    BAD_CREDENTIALS,
    BAD_PAYLOAD,
    BAD_TOPIC,
    NAMES,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    SUCCESS,
    TAKEN_OVER,
    UNSPECIFIED,
    UNSUPPORTED_VERSION,
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
    ActiveMQMessage,
    BaseCommand,
    Command,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ExceptionResponse,
    LocalTransactionId,
    MessageDispatch,
    MessageId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    Throwable,
    TransactionInfo,
    TransactionType,
    message_size,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.access import Right
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.client_session import ClientSession, Done, Failed, State
from pyjms_broker.connector.mqtt.deliveries import Deliveries, Subscription
from pyjms_broker.connector.mqtt.handlers import HANDLERS, answer_to, on_published, on_refused
from pyjms_broker.connector.mqtt.messages import to_message
from pyjms_broker.connector.mqtt.state import (
    EXACTLY_ONCE,
    MOST_RECEIVED,
    NEVER_EXPIRES,
    SessionState,
)
from pyjms_broker.connector.mqtt.topics import STRATEGIES

if TYPE_CHECKING:
    from pyjms_broker.connector.client_connector import Accepted
    from pyjms_broker.connector.mqtt.connector import MqttOptions
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

_HIGHEST_ID: Final = 65535
_PUBLISHED: Final = 1 << 30
_QOS_BIT: Final = 16
"""The number of a message's command has this bit, its QoS above this one, and its packet id."""
_ENDING: Final = (State.DISCONNECTING, State.CLOSED)
_MOST_DESTINATIONS: Final = 200
"""The maximum number of topics of a session whose destinations are kept."""
_LONGEST_CACHED: Final = 200
_MOST_PENDING: Final = 1000
"""The messages that may wait for a subscription to which retained ones are sent again."""
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


class MqttSession(ClientSession[Packet]):
    """The transport of one client for the broker's connection. Use it on the broker's event loop.

    Args:
        accepted: the connection.
        options: the options of the connector.
        host: the broker.
        connection_id: the id of the client's JMS connection.
    """

    FIRST: ClassVar[str] = "CONNECT"

    def __init__(
        self, accepted: Accepted, options: MqttOptions, host: BrokerHost, connection_id: str
    ) -> None:
        self._format = MqttFormat(options.max_frame_size)
        super().__init__(accepted, self._format, options, host, connection_id)
        self.runs_are_raw = False
        self.options = options
        self.strategy = STRATEGIES[options.subscription_strategy]
        self.is_kept = False
        """Whether the session outlives the connection."""
        self.expiry = NEVER_EXPIRES
        """Seconds for which 5.0 keeps the session after the connection."""
        self.is_v5 = False
        """Whether the client speaks 5.0."""
        self.tells_reasons = True
        """Whether the client wants texts in addition to reason codes."""
        self.aliases: dict[int, str] = {}
        """Topics by the client's aliases."""
        self.will: Will | None = None
        self.state = SessionState()
        self.subscriptions: dict[str, Subscription] = {}
        """By topic filter."""
        self.deliveries = Deliveries(self)
        self._deliver = self.deliveries.deliver
        self._unanswered = 0
        """The number of messages of QoS 1 and 2 that the broker has not stored yet."""
        self._messages: deque[Command] = deque()
        """Messages that the broker gets next."""
        self.destinations: dict[str, Topic] = {}
        """The destinations of topics, of which it is known that messages can be sent to them."""
        self.answers = bytearray()
        """PUBREL and PUBCOMP that are sent at the end of the chunk."""
        self._now = 0
        """The time (ms) of the messages of this chunk."""
        self._is_sending = False
        self._is_released = False

    @property
    def steals_links(self) -> bool:
        return self.options.server.allow_link_stealing

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
        self._drop_messages()
        self.deliveries.close()
        if self.is_kept:
            self.state.end_connection({message.message_id for message in refused})
            self.host.connections.mqtt_sessions.expire_later(self.client_id, self.expiry)

    def _send_will(self, will: Will) -> None:
        """Send the will, now or when its delay or the session has ended. (mqtt-connector M141)"""
        delay = min(will.properties.pop("will_delay_interval", 0), self.expiry)
        message, topic, host = self.will_message(will), self.strategy.topic(will.topic), self.host
        context = host.region_broker.client_context(self.client_id)
        if not delay or not self.is_kept or context is None:
            self.to_broker(message)
            return
        if _may_send(context, host.region_broker, topic):
            try:
                self.state.keep_will(will, delay, self.options.subscription_strategy)
            except JMSException as error:
                logger.warning("%s: the will is not stored: %s", self.remote_address, error)
        exchange = ProducerExchange(context, ProducerInfo(self.producer_id))
        size = message_size(message)
        sessions = host.connections.mqtt_sessions
        sessions.send_later(self.client_id, delay, message, exchange, size)

    def will_message(self, will: Will) -> ActiveMQMessage:
        """Return the message of a will.

        Raises:
            MessageFormatException: its properties are wrong.
        """
        message_id = MessageId(None, self.producer_id, next(self.numbers))
        topic, now = self.strategy.topic(will.topic), _clock.time_ms()
        return to_message(will.publish(), topic, self.strategy, message_id, now)

    @property
    def protocol(self) -> str:
        return NAMES.get(self._format.level or 0, "MQTT")

    @property
    def level(self) -> int | None:
        """The level of the protocol; None until CONNECT."""
        return self._format.level

    # from the client
    def on_command(self, packet: Packet) -> None:
        """Handle a packet."""
        self.on_frames(deque((packet,)))

    def on_frames(self, packets: deque[Packet]) -> None:
        """Handle packets, until there are none or reading is paused."""
        self._now = _clock.time_ms()
        while packets and not self.is_paused:
            if type(packets[0]) is Publish and self.status is State.CONNECTED:
                self._take_messages(packets)
                if not packets:
                    break
            packet = packets[0]
            kind = type(packet)
            if self._messages and kind is not Ack and self._follows_messages(packet):
                self._send_messages()
                continue
            packets.popleft()
            if self.status in _ENDING:
                continue
            handler = HANDLERS.get(kind)
            try:
                if handler is None:
                    self.fail(PROTOCOL_ERROR, f"a client sends no {kind.__name__}")
                    continue
                handler(self, packet)
                while kind is Ack and packets and type(packets[0]) is Ack:
                    if self.status is not State.CONNECTED:
                        break
                    handler(self, packets.popleft())
            except ConnectionFailedException as error:
                logger.debug("An MQTT client has disconnected: %s", error)
            except MessageFormatException as error:
                self.fail(BAD_PAYLOAD, error.reason)
            except JMSException as error:
                self.fail(UNSPECIFIED, error.reason)
        self._send_messages()
        self._send_answers()
        self.deliveries.send_unsent_acks()
        self.limit_unread()

    def _send_answers(self) -> None:
        if self.answers:
            data, self.answers = bytes(self.answers), bytearray()
            try:
                self.to_client(data)
            except ConnectionFailedException as error:
                logger.debug("An MQTT client has disconnected: %s", error)

    def _take_messages(self, packets: deque[Packet]) -> None:
        """Take the messages at the head, as far as they are usual; see `on_publish`.

        They are those to topics that are known to be right, without properties.
        """
        received, has_marks = self.state.received, self.state.has_marks
        producer_id, numbers = self.producer_id, self.numbers
        while packets:
            packet = packets[0]
            if type(packet) is not Publish or packet.properties:
                return
            destination, qos, packet_id = (
                self.destinations.get(packet.topic), packet.qos, packet.packet_id,
            )  # fmt: skip
            if destination is None or (
                qos == EXACTLY_ONCE
                and (has_marks or packet_id in received or len(received) >= MOST_RECEIVED)
            ):
                return
            packets.popleft()
            message_id = MessageId(None, producer_id, next(numbers))
            message = to_message(packet, destination, self.strategy, message_id, self._now)
            if qos:
                if qos == EXACTLY_ONCE:
                    received[packet_id] = message_id
                message.command_id = _PUBLISHED | qos << _QOS_BIT | packet_id
                message.response_required = True
                self._unanswered += 1
            self._messages.append(message)

    def _follows_messages(self, packet: Packet) -> bool:
        """Return whether the broker must have the messages before it gets what a packet causes."""
        if isinstance(packet, Publish):
            return packet.qos == EXACTLY_ONCE and self.state.has_marks
        return True

    def _send_messages(self) -> None:
        """Pass the messages on, as long as the broker wants any."""
        if self._is_sending:  # one of them was refused, which ends the connection
            return
        self._is_sending = True
        try:
            while self._messages and not self.is_paused:
                self.connection.on_commands(self._messages)
        finally:
            self._is_sending = False

    def resume_reading(self) -> None:
        if not self._messages:
            super().resume_reading()
            return
        self.is_paused = False
        self.call_next(self._resume)

    def _resume(self) -> None:
        """Pass on the messages that the pause has kept, then read again."""
        self._send_messages()
        if not self.is_paused:
            super().resume_reading()

    # to the broker
    def add_destination(self, topic: str) -> Topic:
        """Return the destination of a topic that was checked."""
        destination = self.strategy.topic(topic)
        if len(self.destinations) >= _MOST_DESTINATIONS:
            self.destinations.clear()
        if len(topic) <= _LONGEST_CACHED:
            self.destinations[topic] = destination
        return destination

    def publish(self, packet: Publish, destination: Topic) -> None:
        """Send a message; `on_published` is called for QoS 1 and 2."""
        message_id = MessageId(None, self.producer_id, next(self.numbers))
        message = to_message(packet, destination, self.strategy, message_id, self._now)
        qos = packet.qos
        if qos:
            if qos == EXACTLY_ONCE:
                self.state.received[packet.packet_id] = message_id
                if self.state.has_marks:
                    self._publish_marked(message, packet.packet_id)
                    return
            message.command_id = _PUBLISHED | qos << _QOS_BIT | packet.packet_id
            message.response_required = True
            self._unanswered += 1
        self._messages.append(message)

    def _publish_marked(self, message: ActiveMQMessage, packet_id: int) -> None:
        """Send a message of QoS 2, and record its packet id, in one transaction."""
        done = partial(on_published, self, packet_id, EXACTLY_ONCE)
        failed = partial(on_refused, self, packet_id, EXACTLY_ONCE)
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

    # from the broker
    def oneway(self, command: Command) -> None:
        """Handle a command from the broker: a response, a message or a notification.

        Raises:
            ConnectionFailedException: the connection has ended.
        """
        if type(command) is MessageDispatch:
            self._deliver(command)
        elif isinstance(command, Response):
            self.on_response(command)
        elif isinstance(command, ConnectionErrorCommand):
            code, text = _reason_of(command.exception)
            self.fail(code, text)
        elif isinstance(command, ConsumerControl) and command.close:
            # the broker cannot remove the consumer while it is dispatching
            self.call_next(partial(self.fail, UNSPECIFIED, "the broker has closed a subscription"))

    @property
    def run_room(self) -> int:
        queued = self._tcp.queued_bytes
        return 0 if queued is None else max(0, HIGH_WATER - queued)

    def oneway_run(self, commands: Sequence[Command]) -> int:
        """Send messages, or the acknowledgements of messages that are stored."""
        count, out = 0, bytearray()
        try:
            count = self.deliveries.deliver_run(commands, out)
            for command in islice(commands, count, None):
                if type(command) is MessageDispatch:
                    self._deliver(command, out)
                elif type(command) is Response and command.correlation_id & _PUBLISHED:
                    number = command.correlation_id
                    self._unanswered -= 1
                    out += answer_to(self, number & _HIGHEST_ID, number >> _QOS_BIT & 3)
                else:
                    break
                count += 1
        except (ConnectionFailedException, LocalProtocolError) as error:
            logger.debug("%s: not sent in a run: %s", self.remote_address, error)
        try:
            if out:
                self.to_client(bytes(out))
        except ConnectionFailedException as error:
            logger.debug("An MQTT client has disconnected: %s", error)
        return count

    def on_response(self, response: Response) -> None:
        number = response.correlation_id
        if number & _PUBLISHED:
            self._unanswered -= 1
            packet_id, qos = number & _HIGHEST_ID, number >> _QOS_BIT & 3
            if not isinstance(response, ExceptionResponse):
                on_published(self, packet_id, qos)
            else:
                on_refused(self, packet_id, qos, *_reason_of(response.exception))
        else:
            super().on_response(response)
        if self.status is State.DISCONNECTING:
            self.disconnect()

    def on_refusal(self, error: Throwable | None, failed: Failed | None) -> None:
        """Call `failed` with a reason code and text; None: the refusal is a violation."""
        (failed or self.fail)(*_reason_of(error))

    def answer_stored(
        self, kind: int, packet_id: int, stored: Completion, code: int = SUCCESS
    ) -> None:
        """Send an acknowledgement, unless what it stands for could not be stored."""
        try:
            if stored.error is None:
                self.answer(kind, packet_id, code)
        except ConnectionFailedException as error:
            logger.debug("An MQTT client has disconnected: %s", error)

    # subscriptions
    def restore(self) -> None:
        """Subscribe again to what the broker has kept; 5.0 keeps also what is not in the store."""
        known = dict(self.state.filters)
        for kept in list(self.strategy.kept_filters(self.host, self.client_id)):
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
        for kept in list(self.strategy.kept_filters(self.host, self.client_id)):
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
            # a client that asks again and again without reading must not pile them up
            if recover is not None and retroactive and recover.pending_count < _MOST_PENDING:
                recover.recover_kept()
            self._call_when_stored(stored, done)
            return
        if former is not None:
            self.unsubscribe(former)
        subscription = Subscription(wanted, identifiers, self._consumer_info(wanted, retroactive))
        self.subscriptions[wanted.text] = subscription
        self.deliveries.add(subscription)
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
        self.deliveries.remove(subscription)
        if self.subscriptions.get(subscription.text) is subscription:
            del self.subscriptions[subscription.text]
            self.state.forget_filter(subscription.text)

    # to the client
    def answer(
        self, kind: int, packet_id: int, code: int = SUCCESS, text: str | None = None
    ) -> None:
        """Send PUBACK, PUBREC, PUBREL or PUBCOMP; code and text are of 5.0."""
        self._send_messages()  # each kind of answer is sent in the order of what it answers
        self._send_answers()
        self.to_client(Ack(kind, packet_id, code, self._reason(text)))

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
        self._send_messages()  # those before the error, which are answered
        self._send_answers()
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
        if not self.requests and not self._unanswered:
            self.close()

    def close(self) -> None:
        self._send_messages()
        self._send_answers()
        self._drop_messages()
        self.deliveries.send_unsent_acks()
        super().close()

    def _drop_messages(self) -> None:
        """Drop the messages that the broker has not got, which the client may send again."""
        messages = [each for each in self._messages if isinstance(each, ActiveMQMessage)]
        dropped = {message.message_id for message in messages}
        for packet_id, message_id in list(self.state.received.items()) if dropped else ():
            if message_id is not None and message_id in dropped:
                self.state.refuse_received(packet_id)
        self._messages.clear()


def _may_send(context: ConnectionContext, region: RegionBroker, destination: Topic) -> bool:
    """Return whether a client may send a message, as it could no longer be told otherwise."""
    access = context.access
    return access is None or (
        access.may(Right.WRITE, destination)
        and (destination in region.destinations() or access.may(Right.ADMIN, destination))
    )


def _reason_of(error: Throwable | None) -> tuple[int, str]:
    if error is None:
        return UNSPECIFIED, "the broker refused the request"
    code = _CODES.get(error.class_name or "", UNSPECIFIED)
    return code, error.message or "the broker refused the request"
