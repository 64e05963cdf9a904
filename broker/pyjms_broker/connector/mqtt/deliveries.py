"""The messages that one MQTT client gets: sent, waiting for a packet id, and acknowledged.

    QoS    acknowledged to the broker        the packet id is free again
    0      when the packet was queued        it has none
    1      by PUBACK                         by PUBACK
    2      by PUBREC                         by PUBCOMP

A message of QoS 1 or 2 waits while as many as the client accepts are in flight. Acknowledgements
are collected and passed on at the end of a chunk of the client's input, or in the next turn of the
event loop: while it is dispatching, the broker accepts none. Those of a subscription whose messages
the broker only counts become one.

Most messages are written here, from the bytes of the topic and the message's content: they need no
packet object, and one that several clients get with QoS 0 is written once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pyjms.errors import ConnectionFailedException, LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.runtime.logging import get_logger
from pyjms.wire.limits import LARGE_FRAME
from pyjms.wire.mqtt import (
    MAX_SHORT_PACKET,
    PUBREL,
    SHORT_ACKS,
    Filter,
    MqttFormat,
    Packet,
    Properties,
    Publish,
    publish_bytes,
    topic_bytes,
)
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQBytesMessage,
    ActiveMQMessage,
    Command,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    message_size,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.connector.bodies import LATEST_BODY
from pyjms_broker.connector.mqtt.messages import (
    FREQUENT_DELIVERIES,
    delivery_of,
    payload_of,
    properties_of,
    was_retained,
)
from pyjms_broker.connector.mqtt.state import EXACTLY_ONCE, Sent
from pyjms_broker.connector.mqtt.topics import begins_wild, is_hidden, shared_filter

if TYPE_CHECKING:
    from pyjms_broker.connector.mqtt.session import MqttSession

logger = get_logger(__name__)

_HIGHEST_ID: Final = 65535
_MOST_TOPICS: Final = 200
"""The maximum number of topics of which a session keeps the bytes."""
_LONGEST_KEPT: Final = 1000
"""The maximum of characters of these topics."""
_MOST_HELD: Final = 1024 * 1024
"""Bytes of messages that wait for packet ids, above which subscriptions get no more."""
_RETAIN: Final = 1
_DUPLICATE: Final = 8


class Subscription:
    """A subscription of a connection."""

    def __init__(self, wanted: Filter, identifiers: list[int], info: ConsumerInfo) -> None:
        assert info.consumer_id is not None
        assert info.destination is not None
        text, qos = wanted.text, wanted.qos
        self.text = text
        self.qos = qos
        self.options = wanted
        self.identifiers = identifiers
        """The subscription identifier of 5.0, if there is one."""
        self.info = info
        self.is_shared = shared_filter(text) is not None
        """Whether other clients use its queue."""
        self.consumer_id = info.consumer_id
        self.key = f"{qos}:{text}"
        """Identifies it in the state of a kept session."""
        self.hides = begins_wild(text)
        """Whether it does not match advisory topics and those that begin with `$`."""
        self.is_counted = info.destination.is_topic and info.subscription_name is None
        """Whether the broker counts the messages in the window, without keeping each."""
        self.is_removed = False
        self.unsent: list[MessageAck] = []
        """Acknowledgements that the broker gets soon."""


@lru_cache(maxsize=1024)
def _shared_topic(text: str) -> bytes:
    """Return the bytes of a topic, the same object for all sessions."""
    return topic_bytes(text)


class _Latest:
    """The message of QoS 0 that was written last, which other subscribers may get as well."""

    def __init__(self) -> None:
        self.message: ActiveMQMessage | None = None
        self.topic = b""
        self.flags = -1
        self.data = b""


_LATEST: Final = _Latest()


class Deliveries:
    """The messages of one session. Use it on the broker's event loop."""

    def __init__(self, session: MqttSession) -> None:
        self._session = session
        self._send = session.to_client
        self.is_v5 = False
        self.most_in_flight = _HIGHEST_ID
        """The number of messages of QoS 1 and 2 that the client accepts at once."""
        self.largest_packet: int | None = None
        """Bytes of the largest packet that the client accepts; None: any."""
        self.consumers: dict[tuple[object, ...], Subscription] = {}
        """By the identity of the consumer's id."""
        self._held: deque[tuple[Subscription, MessageDispatch]] = deque()
        """Messages for which there is no free packet id."""
        self._held_size = 0
        self._narrowed: dict[Subscription, int] = {}
        """The subscriptions that get nothing meanwhile, and their prefetch."""
        self._with_unsent_acks: dict[Subscription, None] = {}
        self._topics: dict[tuple[int, str], bytes] = {}

    # subscriptions
    def add(self, subscription: Subscription) -> None:
        """Deliver the messages of a new subscription."""
        self.consumers[subscription.consumer_id.identity] = subscription

    def remove(self, subscription: Subscription) -> None:
        """Deliver no more messages of a subscription."""
        self.send_unsent_acks()
        subscription.is_removed = True
        self.consumers.pop(subscription.consumer_id.identity, None)

    def close(self) -> None:
        """Drop the messages that wait for packet ids, as the connection has ended."""
        self._held.clear()
        self._held_size = 0

    # messages
    def deliver(self, dispatch: MessageDispatch, out: bytearray | None = None) -> None:
        """Send a message, or let it wait; short ones are appended to `out`, if it is there.

        Raises:
            ConnectionFailedException: the connection has ended.
            LocalProtocolError: the message cannot be written.
        """
        consumer_id, message = dispatch.consumer_id, dispatch.message
        if consumer_id is None or message is None:
            return
        subscription = self.consumers.get(consumer_id.identity)
        if subscription is None:
            return
        destination, message_id = dispatch.destination, message.message_id
        assert destination is not None
        assert message_id is not None
        if subscription.hides and is_hidden(destination):
            self.acknowledge_later(subscription, destination, message_id)
            return
        found = FREQUENT_DELIVERIES.get(message.marshalled_properties)
        qos, is_retained = delivery_of(message) if found is None else found
        qos = min(qos, subscription.qos)
        flags, packet_id, former, state = qos << 1, 0, None, self._session.state
        if is_retained:
            flags |= _RETAIN
        if qos:
            # those of former connections are not in flight; some never come again, as they expire
            if self._held or len(state.sent) - len(state.former) >= self.most_in_flight:
                self._hold(subscription, dispatch)
                return
            packet_id = state.find(subscription.key, message_id) if state.former else 0
            former = state.sent.get(packet_id) if packet_id else None
            packet_id = packet_id or state.free_id()
            if not packet_id:
                self._hold(subscription, dispatch)
                return
        if former is not None:
            if former.is_released:  # the acknowledgement was not stored
                self.acknowledge_later(subscription, destination, message_id)
                return
            flags |= _DUPLICATE
        packet = self._packet_of(subscription, destination, message, flags, packet_id)
        if packet is not None and qos == EXACTLY_ONCE and former is None and state.has_marks:
            sent = Sent(subscription.key, message_id, qos, subscription, destination)
            marked = state.add(packet_id, sent)
            marked.then(lambda done: self._send_marked(packet, packet_id, sent, done))
            return
        if packet is not None:
            if out is None:
                self._send(packet)
            elif type(packet) is bytes:
                out += packet
            else:
                self._send(bytes(out))
                out.clear()
                self._send(packet)
        if packet is None or not qos:
            self.acknowledge_later(subscription, destination, message_id)
        else:
            sent = Sent(subscription.key, message_id, qos, subscription, destination)
            state.add(packet_id, sent)

    def deliver_run(self, commands: Sequence[Command], out: bytearray) -> int:
        """Append the first of these messages to `out`, as `deliver` does each; return how many.

        It ends before one that needs `deliver`: they are for one subscription, short, and known to
        be of MQTT clients.
        """
        first, state = commands[0], self._session.state
        if type(first) is not MessageDispatch or self._held or state.former:
            return 0
        consumer_id, destination = first.consumer_id, first.destination
        assert consumer_id is not None
        assert destination is not None
        subscription = self.consumers.get(consumer_id.identity)
        if subscription is None or (subscription.hides and is_hidden(destination)):
            return 0
        is_v5, options = self.is_v5, subscription.options
        if subscription.identifiers or options.retain_as_published or self.largest_packet:
            return 0
        topic = self._topics.get(destination.identity) or self._topic_of(destination)
        room = self.most_in_flight - len(state.sent)
        count = acknowledged = 0
        last_id = None
        for command in commands:
            if (
                type(command) is not MessageDispatch
                or command.consumer_id is not consumer_id
                or command.destination is not destination
            ):
                break
            message = command.message
            if type(message) is not ActiveMQBytesMessage or message.compressed:
                break
            if is_v5 and (message.expiration or message.reply_to or message.correlation_id):
                break
            message_id, payload = message.message_id, message.content or b""
            found = FREQUENT_DELIVERIES.get(message.marshalled_properties)
            is_long = len(topic) + len(payload) > MAX_SHORT_PACKET
            if found is None or message_id is None or is_long:
                break
            qos = min(found.qos, subscription.qos)
            flags, packet_id = qos << 1 | found.is_retained, 0
            if not qos:
                if not subscription.is_counted:
                    break
                acknowledged, last_id = acknowledged + 1, message_id
            else:
                packet_id = state.free_id() if room > 0 else 0
                if not packet_id or (qos == EXACTLY_ONCE and state.has_marks):
                    break
                room -= 1
                sent = Sent(subscription.key, message_id, qos, subscription, destination)
                state.sent[packet_id] = sent
            out += publish_bytes(topic, payload, flags, packet_id, is_v5=is_v5)
            count += 1
        if last_id is not None:
            self.acknowledge_later(subscription, destination, last_id)
            subscription.unsent[-1].message_count += acknowledged - 1
        return count

    def _packet_of(
        self,
        subscription: Subscription,
        destination: Destination,
        message: ActiveMQMessage,
        flags: int,
        packet_id: int,
    ) -> Packet | None:
        """Return the packet of a message; None if it is larger than the client accepts."""
        topic = self._topics.get(destination.identity)
        if topic is None:
            topic = self._topic_of(destination)
        properties: Properties = {}
        is_v5 = self.is_v5
        if is_v5:
            properties = properties_of(message, self._session.strategy)
            if subscription.identifiers:
                properties["subscription_identifier"] = subscription.identifiers
            if subscription.options.retain_as_published and was_retained(message):
                flags |= _RETAIN
        elif not packet_id:
            latest = _LATEST
            if latest.message is message and latest.topic is topic and latest.flags == flags:
                return latest.data
        if type(message) is ActiveMQBytesMessage and not message.compressed:
            payload = message.content or b""
        else:
            payload = payload_of(message)
        packet: Packet
        if properties or len(topic) + len(payload) > MAX_SHORT_PACKET:
            if len(payload) > LARGE_FRAME:
                self._session.call_next(LATEST_BODY.forget)
            text = self._session.strategy.text(destination)
            qos, is_retained, is_duplicate = flags >> 1 & 3, bool(flags & 1), flags >= _DUPLICATE
            packet = Publish(text, payload, qos, is_retained, is_duplicate, packet_id, properties)
        else:
            packet = publish_bytes(topic, payload, flags, packet_id, is_v5=is_v5)
            if not packet_id and not is_v5:
                latest = _LATEST
                latest.message, latest.topic, latest.flags = message, topic, flags
                latest.data = packet
        largest = self.largest_packet
        return None if largest is not None and _size(packet) > largest else packet

    def _topic_of(self, destination: Destination) -> bytes:
        text = self._session.strategy.text(destination)
        if len(text) > _LONGEST_KEPT:
            return topic_bytes(text)
        if len(self._topics) >= _MOST_TOPICS:
            self._topics.clear()
        topic = self._topics[destination.identity] = _shared_topic(text)
        return topic

    def _send_marked(self, packet: Packet, packet_id: int, sent: Sent, marked: Completion) -> None:
        """Send a message of QoS 2 whose packet id is recorded."""
        subscription = sent.subscription
        if marked.error is not None or subscription is None or subscription.is_removed:
            return
        try:
            self._send(packet)
        except ConnectionFailedException as error:
            logger.debug("An MQTT client has disconnected: %s", error)
        except LocalProtocolError as error:
            logger.warning("%s cannot be sent to an MQTT client: %s", sent.message_id, error)
            self._session.state.remove(packet_id)
            self._session.to_broker(_ack(subscription, sent.destination, sent.message_id, _POISON))

    def _hold(self, subscription: Subscription, dispatch: MessageDispatch) -> None:
        """Keep a message until there is a packet id.

        A non-durable subscription has a window of thousands of messages, whose memory the broker
        does not count once they are dispatched. So if many wait here, it gets no more.
        """
        self._held.append((subscription, dispatch))
        assert dispatch.message is not None
        self._held_size += message_size(dispatch.message)
        if self._held_size <= _MOST_HELD:
            return
        found = self._session.host.region_broker.subscriptions.get(subscription.consumer_id)
        if found is not None and subscription.is_counted and subscription not in self._narrowed:
            self._narrowed[subscription] = found.prefetch_size
            found.prefetch_size = 1  # which is in use: nothing more is dispatched

    def _deliver_held(self) -> None:
        """Deliver messages for which there are packet ids now."""
        held, self._held = self._held, deque()
        while held:
            subscription, dispatch = held.popleft()
            message = dispatch.message
            assert message is not None
            self._held_size -= message_size(message)
            if not subscription.is_removed:
                self.deliver(dispatch)
            if self._held:
                self._held += held
                return
        narrowed, self._narrowed = self._narrowed, {}
        for subscription, prefetch in narrowed.items():
            found = self._session.host.region_broker.subscriptions.get(subscription.consumer_id)
            if found is not None:
                found.set_prefetch(prefetch)

    # acknowledgements
    def acknowledge_later(
        self, subscription: Subscription, destination: Destination, message_id: MessageId
    ) -> None:
        """Acknowledge a message to the broker soon."""
        unsent = subscription.unsent
        if unsent:
            last = unsent[-1]
            if subscription.is_counted and last.destination is destination:
                last.last_message_id = message_id
                last.message_count += 1
                return
        else:
            if not self._with_unsent_acks:
                self._session.call_next(self.send_unsent_acks)
            self._with_unsent_acks[subscription] = None
        unsent.append(_ack(subscription, destination, message_id))

    def send_unsent_acks(self) -> None:
        """Pass the acknowledgements on."""
        waiting = self._with_unsent_acks
        if not waiting:
            return
        self._with_unsent_acks = {}
        commands: deque[Command] = deque()
        for subscription in waiting:
            commands += subscription.unsent
            subscription.unsent = []
        while commands:  # a pause of reading does not hold acknowledgements back
            self._session.connection.on_commands(commands)

    def settle(self, packet_id: int, sent: Sent) -> None:
        """Acknowledge a message whose packet id is free again."""
        self._session.state.remove(packet_id)
        subscription, destination = sent.subscription, sent.destination
        if not (sent.is_released or subscription is None or subscription.is_removed):
            assert destination is not None
            self.acknowledge_later(subscription, destination, sent.message_id)
        if self._held:
            self._deliver_held()

    def release(self, packet_id: int, sent: Sent) -> None:
        """Acknowledge a message of QoS 2 after PUBREC, and answer PUBREL."""
        released = self._session.state.release(packet_id, sent)
        if released is COMPLETED:
            self._acknowledge_released(sent)
            self._session.answers += SHORT_ACKS[PUBREL] + packet_id.to_bytes(2)
        else:
            released.then(lambda done: self._on_released(packet_id, sent, done))

    def _on_released(self, packet_id: int, sent: Sent, released: Completion) -> None:
        if released.error is None:
            self._acknowledge_released(sent)
        self._session.answer_stored(PUBREL, packet_id, released)

    def _acknowledge_released(self, sent: Sent) -> None:
        subscription, destination = sent.subscription, sent.destination
        if subscription is not None and not subscription.is_removed:
            assert destination is not None
            self.acknowledge_later(subscription, destination, sent.message_id)


_POISON: Final = int(AckType.POISON)
_STANDARD: Final = int(AckType.STANDARD)


def _ack(
    subscription: Subscription,
    destination: Destination | None,
    message_id: MessageId,
    kind: int = _STANDARD,
) -> MessageAck:
    consumer_id = subscription.consumer_id
    return MessageAck(destination, None, consumer_id, kind, message_id, message_id, 1)


def _size(packet: Packet) -> int:
    if isinstance(packet, bytes):
        return len(packet)
    data = bytearray()
    MqttFormat(level=5).encode_into(data, packet)
    return len(data)
