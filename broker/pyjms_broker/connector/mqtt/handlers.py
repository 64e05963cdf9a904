"""What an MQTT session does with each packet of its client: a function for each class of packets.

3.1 and 3.1.1 have no answer that says why something is refused: their connection ends. 5.0 has
reason codes, and properties with further options of CONNECT, PUBLISH and SUBSCRIBE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyjms.errors import JMSException, MessageFormatException
from pyjms.runtime.logging import get_logger
from pyjms.wire.mqtt import (
    BAD_AUTHENTICATION_METHOD,
    BAD_CLIENT_ID,
    BAD_CREDENTIALS,
    BAD_FILTER,
    BAD_PAYLOAD,
    BAD_TOPIC,
    BAD_TOPIC_ALIAS,
    ID_NOT_FOUND,
    MAX_PACKET_SIZE,
    NO_SUBSCRIPTION,
    NOT_AUTHORIZED,
    PINGREQ,
    PINGRESP,
    PROTOCOL_ERROR,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    RECEIVE_MAXIMUM_EXCEEDED,
    SHARED_NOT_SUPPORTED,
    SHORT_ACKS,
    SUBACK,
    SUCCESS,
    UNSPECIFIED,
    UNSUBACK,
    UNSUPPORTED_VERSION,
    V3_1,
    V5,
    WITH_WILL,
    Ack,
    ConnAck,
    Connect,
    Disconnect,
    Fault,
    Filter,
    Ping,
    Properties,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
    check_filter,
    check_topic,
    write_varint,
)
from pyjms.wire.openwire.commands import ConnectionInfo, ProducerInfo, SessionInfo
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.connector.client_session import State
from pyjms_broker.connector.mqtt.state import EXACTLY_ONCE, MOST_RECEIVED
from pyjms_broker.connector.mqtt.topics import shared_filter, unusable

if TYPE_CHECKING:
    from pyjms_broker.connector.mqtt.deliveries import Subscription
    from pyjms_broker.connector.mqtt.session import MqttSession

logger = get_logger(__name__)

_AT_LEAST_ONCE: Final = 1
_MOST_ALIASES: Final = 100
"""The maximum of the aliases of a client; each may stand for a topic of 64 KiB."""
_REFUSED: Final = 0x80
"""From here on, reason codes are errors."""
_NEW_ONLY, _NEVER = 1, 2
"""`Filter.retain_handling`."""


# the connection
def on_connect(session: MqttSession, packet: Connect) -> None:
    """Register the client. (mqtt-connector M20 to M29, M140)"""
    if session.status is not State.NEW or session.client_id:
        session.fail(PROTOCOL_ERROR, "the client sends a second CONNECT")
        return
    session.is_v5 = session.deliveries.is_v5 = packet.level == V5
    if not packet.client_id and not packet.clean and packet.level != V5:
        session.refuse(BAD_CLIENT_ID, "a client without an id asks for a session that is kept")
        return
    if "authentication_method" in packet.properties:
        session.refuse(BAD_AUTHENTICATION_METHOD, "there is no enhanced authentication")
        return
    will = packet.will
    problem = None if will is None else check_topic(will.topic) or unusable(will.topic)
    if problem is not None:
        session.fail(BAD_TOPIC, f"its will: {problem}")
        return
    try:
        if will is not None:
            session.will_message(will)
    except MessageFormatException as error:
        session.refuse(BAD_PAYLOAD, f"its will: {error.reason}")
        return
    session.client_id = packet.client_id or str(session.connection_id)
    try:
        password = None if packet.password is None else packet.password.decode()
    except UnicodeDecodeError:
        session.refuse(BAD_CREDENTIALS, "the password is not UTF-8")
        return

    def on_refusal(code: int, text: str) -> None:
        session.refuse(BAD_CREDENTIALS if code == NOT_AUTHORIZED else code, text)

    info = ConnectionInfo(session.connection_id, session.client_id, password, packet.user_name)
    session.request(info, partial(_on_connected, session, packet), on_refusal)


def _on_connected(session: MqttSession, packet: Connect) -> None:
    session.status = State.CONNECTED
    session.will = packet.will
    _read_options(session, packet)
    sessions, host = session.host.connections.mqtt_sessions, session.host
    sessions.end_if_expired(session.client_id)
    is_present = not packet.clean and (
        sessions.get(session.client_id) is not None
        or any(session.strategy.kept_filters(host, session.client_id))
    )
    # 5.0: a session that was kept is resumed, even if it ends with this connection
    session.is_kept = session.is_kept or is_present
    answer = ConnAck(session_present=is_present and session.level != V3_1)
    if session.is_v5:
        answer.properties = _limits(session, packet)
    session.to_client(answer)
    session.request(SessionInfo(session.session_id))
    session.request(ProducerInfo(session.producer_id))
    session.start_keep_alive(packet.keep_alive or session.options.default_keep_alive)
    if packet.clean:
        session.forget_all()
    if not session.is_kept:
        return
    session.state = sessions.keep(session.client_id)
    session.state.keep_for(session.expiry)
    for packet_id, sent in session.state.sent.items():
        if sent.is_released:
            session.answer(PUBREL, packet_id)
    if not packet.clean:
        session.restore()


def _read_options(session: MqttSession, packet: Connect) -> None:
    """Take over what CONNECT says of the session; for 5.0, from its properties."""
    if packet.level != V5:
        session.is_kept = not packet.clean
        return
    properties = packet.properties
    session.expiry = properties.get("session_expiry_interval", 0)
    session.is_kept = session.expiry > 0
    deliveries = session.deliveries
    deliveries.most_in_flight = properties.get("receive_maximum", deliveries.most_in_flight)
    deliveries.largest_packet = properties.get("maximum_packet_size")
    session.tells_reasons = properties.get("request_problem_information", True)


def _limits(session: MqttSession, packet: Connect) -> Properties:
    """Return the properties of CONNACK. (mqtt-connector M140)"""
    found: Properties = {
        "receive_maximum": MOST_RECEIVED,
        "topic_alias_maximum": _MOST_ALIASES,
        "shared_subscription_available": session.strategy.shares,
    }
    limit = session.options.max_frame_size
    if limit < MAX_PACKET_SIZE:  # the property counts the header, the option does not
        header = bytearray(1)
        write_varint(header, limit)
        found["maximum_packet_size"] = len(header) + limit
    if not packet.client_id:
        found["assigned_client_identifier"] = session.client_id
    if not packet.keep_alive and session.options.default_keep_alive >= 1:
        found["server_keep_alive"] = int(session.options.default_keep_alive)
    return found


def on_ping(session: MqttSession, packet: Ping) -> None:
    """Answer PINGREQ. (mqtt-connector M37)"""
    if packet.type != PINGREQ:
        session.fail(PROTOCOL_ERROR, "a client sends no PINGRESP")
        return
    session.to_client(Ping(PINGRESP))


def on_disconnect(session: MqttSession, packet: Disconnect) -> None:
    """End the connection, without a will unless the client wants it. (mqtt-connector M38)"""
    expiry = packet.properties.get("session_expiry_interval", session.expiry)
    if expiry and not session.expiry:
        session.fail(PROTOCOL_ERROR, "DISCONNECT keeps a session that CONNECT did not keep")
        return
    session.expiry = expiry
    if packet.code != WITH_WILL:
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
    """Send a message. (mqtt-connector M55, M57, M60 to M65, M142, M145)"""
    if packet.properties and not _read_alias(session, packet):
        return
    topic, qos = packet.topic, packet.qos
    destination = session.destinations.get(topic)
    if destination is None:
        problem = check_topic(topic) or unusable(topic)
        if problem is not None:
            session.fail(BAD_TOPIC, problem)
            return
    if qos == EXACTLY_ONCE and not _is_new(session, packet.packet_id):
        return
    if destination is None:
        if topic.startswith("$") and not session.options.publish_dollar_topics:
            if qos:
                on_published(session, packet.packet_id, qos)
            return
        destination = session.add_destination(topic)
    try:
        session.publish(packet, destination)
    except JMSException:
        if qos == EXACTLY_ONCE:
            session.state.refuse_received(packet.packet_id)
        raise


def _is_new(session: MqttSession, packet_id: int) -> bool:
    """Return whether a message of QoS 2 has not come before; answer one that has."""
    received = session.state.received
    if packet_id in received:
        if received[packet_id] is None:  # else the answer follows when it is stored
            session.answer(PUBREC, packet_id)
        return False
    if len(received) >= MOST_RECEIVED:
        text = f"{MOST_RECEIVED} messages of QoS 2 wait for PUBREL"
        session.fail(RECEIVE_MAXIMUM_EXCEEDED, text)
        return False
    received[packet_id] = None
    return True


def on_published(session: MqttSession, packet_id: int, qos: int) -> None:
    """Answer a message of QoS 1 or 2 that is stored."""
    session.to_client(answer_to(session, packet_id, qos))


def answer_to(session: MqttSession, packet_id: int, qos: int) -> bytes:
    """Return the answer to a message of QoS 1 or 2 that is stored."""
    kind = PUBACK
    if qos == EXACTLY_ONCE:
        kind, received = PUBREC, session.state.received
        if packet_id in received:
            received[packet_id] = None
    return SHORT_ACKS[kind] + packet_id.to_bytes(2)


def on_refused(session: MqttSession, packet_id: int, qos: int, code: int, text: str) -> None:
    """Tell that a message of QoS 1 or 2 is not stored, or end the connection."""
    if qos == EXACTLY_ONCE:
        session.state.refuse_received(packet_id)
    if session.is_v5:
        session.answer(PUBACK if qos == _AT_LEAST_ONCE else PUBREC, packet_id, code, text)
    else:
        session.fail(code, text)


def _read_alias(session: MqttSession, packet: Publish) -> bool:
    """Replace the topic's alias by the topic; return whether the packet is right."""
    alias = packet.properties.pop("topic_alias", None)
    if "subscription_identifier" in packet.properties:
        session.fail(PROTOCOL_ERROR, "a client's message has a subscription identifier")
        return False
    if alias is None:
        return True
    if alias > _MOST_ALIASES:
        session.fail(BAD_TOPIC_ALIAS, f"the topic alias {alias} exceeds {_MOST_ALIASES}")
        return False
    if packet.topic:
        session.aliases[alias] = packet.topic
    elif alias not in session.aliases:
        session.fail(PROTOCOL_ERROR, f"the topic alias {alias} stands for nothing")
        return False
    packet.topic = session.aliases[alias]
    return True


def on_ack(session: MqttSession, packet: Ack) -> None:
    """Handle an acknowledgement; those of unknown packet ids change nothing.

    (mqtt-connector M61, M81)
    """
    packet_id, kind, state, is_v5 = packet.packet_id, packet.type, session.state, session.is_v5
    if kind == PUBREL:
        code = SUCCESS if packet_id in state.received or not is_v5 else ID_NOT_FOUND
        released = state.release_received(packet_id)
        if released is COMPLETED and not code:
            session.answers += SHORT_ACKS[PUBCOMP] + packet_id.to_bytes(2)
        else:
            released.then(lambda done: session.answer_stored(PUBCOMP, packet_id, done, code))
        return
    sent, deliveries = state.sent.get(packet_id), session.deliveries
    is_live = sent is not None and (sent.subscription is not None or sent.is_released)
    if kind == PUBREC:
        if sent is None or not is_live or sent.qos != EXACTLY_ONCE:
            session.answer(PUBREL, packet_id, ID_NOT_FOUND if is_v5 else SUCCESS)
        elif packet.code >= _REFUSED:
            deliveries.settle(packet_id, sent)
        elif sent.is_released:
            session.answer(PUBREL, packet_id)
        else:
            deliveries.release(packet_id, sent)
    elif (
        sent is not None and is_live and kind == (PUBACK if sent.qos == _AT_LEAST_ONCE else PUBCOMP)
    ):
        deliveries.settle(packet_id, sent)


# subscriptions
def on_subscribe(session: MqttSession, packet: Subscribe) -> None:
    """Add subscriptions, and answer when all are there or refused.

    (mqtt-connector M70, M71, M144)
    """
    codes = [_check(session, wanted) for wanted in packet.filters]
    if any(codes) and not session.is_v5:
        number = next(number for number, code in enumerate(codes) if code)
        session.fail(BAD_FILTER, f"the topic filter {packet.filters[number].text[:200]!r} is wrong")
        return
    missing = {number for number, code in enumerate(codes) if not code}
    identifiers = packet.properties.get("subscription_identifier", [])

    def answer_if_complete() -> None:
        if not missing:
            session.to_client(SubAck(SUBACK, packet.packet_id, codes))

    def on_added(position: int) -> None:
        codes[position] = packet.filters[position].qos
        missing.discard(position)
        answer_if_complete()

    def on_refusal(position: int, code: int, text: str) -> None:
        wanted = packet.filters[position]
        address, name = session.remote_address, wanted.text[:200]
        logger.info("%s: the subscription to %s is refused (%#x): %s", address, name, code, text)
        codes[position] = wanted.qos if session.level == V3_1 else UNSPECIFIED
        if session.is_v5:
            codes[position] = code
        missing.discard(position)
        answer_if_complete()

    if not missing:
        answer_if_complete()
    for position in sorted(missing):
        wanted = packet.filters[position]
        is_new = wanted.text not in session.subscriptions
        handling = wanted.retain_handling
        session.subscribe(
            wanted,
            identifiers,
            partial(on_added, position),
            partial(on_refusal, position),
            retroactive=handling != _NEVER and (is_new or handling != _NEW_ONLY),
        )


def _check(session: MqttSession, wanted: Filter) -> int:
    """Return the reason code that refuses a filter; 0: none. (mqtt-connector M56)"""
    shared = shared_filter(wanted.text)
    if check_filter(wanted.text) or unusable(wanted.text):
        return BAD_FILTER
    if wanted.text.startswith("$share/") and session.is_v5:
        if shared is None or "+" in shared.group or not shared.text or wanted.no_local:
            return BAD_FILTER
        if not session.strategy.shares:
            return SHARED_NOT_SUPPORTED
    return SUCCESS


def on_unsubscribe(session: MqttSession, packet: Unsubscribe) -> None:
    """Remove subscriptions; those to unknown filters are ignored. (mqtt-connector M76)"""
    for text in packet.filters:
        problem = check_filter(text)
        if problem is not None:
            session.fail(BAD_FILTER, problem)
            return
    found = [session.subscriptions.get(text) for text in packet.filters]
    codes = []
    if session.is_v5:
        codes = [NO_SUBSCRIPTION if each is None else SUCCESS for each in found]
    missing = {each for each in found if each is not None}

    def on_removed(subscription: Subscription | None) -> None:
        missing.discard(subscription)
        if not missing:
            session.to_client(SubAck(UNSUBACK, packet.packet_id, codes))

    if not missing:
        on_removed(None)
    for subscription in list(missing):
        session.unsubscribe(subscription, partial(on_removed, subscription))


HANDLERS: Final[dict[type, Callable[[MqttSession, Any], None]]] = {
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
