"""What no version of OpenWire or no store can carry is refused, with the field and its limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.errors import (
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    MessageFormatException,
)
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    MESSAGE_OVERHEAD,
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    MessageId,
    ProducerInfo,
)
from pyjms.wire.openwire.fast_writer import marshal_body
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.schema import CURRENT_VERSION
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms_broker.api.fields import MAX_NAME, MAX_TEXT, check_message, largest_message
from tests.kit.brokers.region import Broker, Client

Q = Queue("Q")
LONG = "x" * (MAX_TEXT + 1)
EMOJI = "\U0001f600" * (MAX_TEXT // 6 + 1)
HALF = "\ud800"

Change = Callable[[ActiveMQMessage, str], object]
TEXTS: dict[str, Change] = {
    "JMSType": lambda m, text: setattr(m, "type", text),
    "JMSCorrelationID": lambda m, text: setattr(m, "correlation_id", text),
    "JMSXGroupID": lambda m, text: setattr(m, "group_id", text),
    "JMSXUserID": lambda m, text: setattr(m, "user_id", text),
    "JMSReplyTo": lambda m, text: setattr(m, "reply_to", Queue(text)),
    "original destination": lambda m, text: setattr(m, "original_destination", Queue(text)),
    "JMSMessageID": lambda m, text: setattr(m, "message_id", MessageId(text, m.producer_id, 1)),
}


@pytest.mark.fact("activemq-broker C11")
@pytest.mark.parametrize("text", [LONG, EMOJI], ids=["letters", "emoji"])
@pytest.mark.parametrize("field", TEXTS)
def test_a_text_that_is_too_long_is_refused(client: Client, field: str, text: str) -> None:
    message = client.message(Q, "1")
    TEXTS[field](message, text)
    with pytest.raises(MessageFormatException, match=rf"{field} has \d+ bytes, more than 32766"):
        client.send(Q, "1", message=message)


@pytest.mark.parametrize("field", TEXTS)
def test_the_longest_text_is_accepted(client: Client, field: str) -> None:
    message = client.message(Q, "1")
    TEXTS[field](message, LONG[1:])
    client.send(Q, "1", message=message)
    (dispatch,) = client.dispatches_of(client.consume(Q))
    assert dispatch.message is not None


@pytest.mark.parametrize("field", ["JMSType", "JMSCorrelationID", "JMSXGroupID"])
def test_a_frame_of_openwire_is_checked_as_well(client: Client, field: str) -> None:
    message = client.message(Q, "1")
    TEXTS[field](message, LONG)
    marshal_body(message)
    with pytest.raises(MessageFormatException, match=field):
        client.send(Q, "1", message=message)


@pytest.mark.fact("activemq-broker C11")
@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("priority", 128, "JMSPriority 128 does not fit into 8 bits"),
        ("group_sequence", 2**31, "JMSXGroupSeq"),
        ("redelivery_counter", -(2**31) - 1, "redelivery counter"),
        ("expiration", 2**63, "JMSExpiration"),
        ("timestamp", -(2**63) - 1, "JMSTimestamp"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(
    client: Client, attribute: str, value: int, words: str
) -> None:
    message = client.message(Q, "1")
    setattr(message, attribute, value)
    with pytest.raises(MessageFormatException, match=words):
        client.send(Q, "1", message=message)


def test_a_message_that_fills_the_largest_frame_is_refused(client: Client) -> None:
    client.context.limit_messages(largest_message(10_000))
    for size, fits in ((8_000, True), (9_000, False)):
        message = client.message(Q, "1")
        message.content = bytes(size)
        marshal_body(message)
        if fits:
            client.send(Q, "1", message=message)
        else:
            with pytest.raises(MessageFormatException, match="more than 8750"):
                client.send(Q, "1", message=message)


def test_the_broker_itself_may_send_what_it_has_stored(broker: Broker) -> None:
    client = broker.client()
    client.context.is_broker = True
    message = client.message(Q, "1")
    message.type = LONG
    client.send(Q, "1", message=message)
    assert broker.region.region_destination(Q).statistics.messages == 1


@pytest.mark.fact("activemq-broker C11")
@pytest.mark.parametrize("name", ["x" * (MAX_NAME + 1), HALF], ids=["long", "half"])
@pytest.mark.parametrize("kind", [Queue, Topic])
@pytest.mark.parametrize("form", ["{}", "{}.>", "a,{}"])
def test_names_of_destinations_are_checked(
    client: Client, kind: type[Destination], form: str, name: str
) -> None:
    destination = kind(form.format(name))
    with pytest.raises(InvalidDestinationException):
        client.consume(destination)
    if ">" not in form:
        with pytest.raises(InvalidDestinationException):
            client.broker.add_producer(client.context, ProducerInfo(None, destination))


@pytest.mark.fact("activemq-broker C11")
@pytest.mark.parametrize("text", [LONG, EMOJI, HALF], ids=["letters", "emoji", "half"])
def test_selectors_are_checked(client: Client, text: str) -> None:
    with pytest.raises(InvalidSelectorException, match="The selector"):
        client.consume(Q, selector=f"a = '{text}'")


@pytest.mark.parametrize("name", ["x" * (MAX_NAME + 1), HALF], ids=["long", "half"])
def test_names_of_durable_subscriptions_are_checked(client: Client, name: str) -> None:
    with pytest.raises(JMSException, match="subscription name"):
        client.consume(Topic("T"), subscription_name=name)


@pytest.mark.fact("activemq-broker C11")
@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("client id", "x" * (MAX_NAME + 1)),
        ("client id", HALF),
        ("connection id", "x" * (MAX_NAME + 1)),
        ("connection id", HALF),
        ("user name", "x" * (MAX_NAME + 1)),
    ],
)
def test_names_of_connections_are_checked(client: Client, field: str, name: str) -> None:
    names = {"client id": "c", "connection id": "c", "user name": "u"} | {field: name}
    info = ConnectionInfo(
        ConnectionId(names["connection id"]),
        names["client id"],
        user_name=names["user name"],
    )
    with pytest.raises(InvalidClientIDException, match=f"The {field}"):
        client.broker.add_connection(client.context, info)


def test_ordinary_messages_pass(client: Client) -> None:
    check_message(client.message(Q, "1"), largest_message(None))


@pytest.mark.fact("activemq-broker C11")
@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("version", [1, 5, 10, 12])
def test_the_largest_message_comes_back_in_every_encoding(
    client: Client, version: int, tight: bool
) -> None:
    limit = 20_000
    wire_format = OpenWireFormat(
        WireFormatSettings(
            version,
            tight_encoding_enabled=tight,
            cache_enabled=tight,
            max_frame_size=limit,
        )
    )
    wire_format.negotiate(wire_format.local_info())
    client.context.limit_messages(largest_message(limit))
    queue = Queue("q" * 200)
    message = client.message(queue, "1")
    message.content = bytes(largest_message(limit) - MESSAGE_OVERHEAD)
    if version == CURRENT_VERSION and not tight:  # it arrives as it is sent
        message.content += bytes(largest_message(limit) - len(marshal_body(message)))
        message.raw = None
        marshal_body(message)
    client.send(queue, "1", message=message)
    consumer = client.consume(queue)
    (dispatch,) = client.dispatches_of(consumer)
    dispatch.consumer_id = ConsumerId("ID:" + "h" * 300, 1, 1)
    assert len(wire_format.encode(dispatch)) <= limit
