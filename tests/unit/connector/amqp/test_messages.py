"""The conversion of AMQP messages, and of the broker's."""

from __future__ import annotations

import tracemalloc
import uuid
from decimal import Decimal
from typing import Any

import pytest
from pytest_mock import MockerFixture

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.runtime import clock
from pyjms.wire.amqp.message import (
    DATA,
    NO_BODY,
    SEQUENCE,
    VALUE,
    Message,
    decode_message,
    encode_message,
)
from pyjms.wire.amqp.performatives import Header, Properties
from pyjms.wire.amqp.values import (
    Decimal32,
    Decimal64,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    ConnectionId,
    ConnectionInfo,
    MessageDispatch,
    MessageId,
    ProducerId,
    RemoveInfo,
)
from pyjms.wire.openwire.primitives import (
    decode_map,
    decode_text,
    decode_values,
    encode_map,
    encode_text,
    encode_values,
)
from pyjms_broker.connector.amqp.incoming import id_text, to_message
from pyjms_broker.connector.amqp.outgoing import id_value, to_payload

OBJECT = "application/x-java-serialized-object"
PRODUCER = ProducerId("ID:x", 1, 1)
UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def read(message: Message, transformer: str = "jms", message_format: int = 0) -> ActiveMQMessage:
    return to_message(encode_message(message), message_format, transformer, clock.time_ms())[0]


def shown(message: ActiveMQMessage, count: int = 0) -> Message:
    """What a client gets."""
    message.destination = message.destination or Queue("q")
    message.message_id = message.message_id or MessageId(None, PRODUCER, 1)
    dispatch = MessageDispatch(None, message.destination, message, count)
    return decode_message(to_payload(dispatch, message).payload)


def content(message: ActiveMQMessage) -> object:
    """The body as Python has it."""
    body = message.content
    if message.TYPE == ActiveMQTextMessage.TYPE:
        return None if body is None else decode_text(body)
    if message.TYPE == ActiveMQMapMessage.TYPE:
        return decode_map(body or b"")
    if message.TYPE == ActiveMQStreamMessage.TYPE:
        return decode_values(body or b"")
    return body


# from a client: bodies
TEXT, BYTES, MAP = ActiveMQTextMessage, ActiveMQBytesMessage, ActiveMQMapMessage
STREAM, OBJECTS, PLAIN = ActiveMQStreamMessage, ActiveMQObjectMessage, ActiveMQMessage
BODIES: list[tuple[int, Any, str | None, type[ActiveMQMessage], object, int]] = [
    (NO_BODY, None, OBJECT, OBJECTS, None, 1),
    (NO_BODY, None, "application/octet-stream", BYTES, None, 1),
    (NO_BODY, None, None, BYTES, None, 1),
    (NO_BODY, None, "text/plain", TEXT, None, 1),
    (NO_BODY, None, "image/png", PLAIN, None, 1),
    (DATA, [b"x"], OBJECT, OBJECTS, b"x", 2),
    (DATA, [b"x"], "application/octet-stream", BYTES, b"x", 2),
    (DATA, [b"x"], "text/plain", TEXT, "x", 2),
    (DATA, [b"x"], "text/plain;charset=utf-8", TEXT, "x", 2),
    (DATA, [b"x"], 'application/json; charset="UTF-8"', TEXT, "x", 2),
    (DATA, [b"x"], "application/vnd.a+xml", TEXT, "x", 2),
    (DATA, [b"\xff"], "text/plain", BYTES, b"\xff", 2),
    (DATA, [b"x"], "text/plain;charset=latin-1", BYTES, b"x", 2),
    (DATA, [b"x"], "image/png", BYTES, b"x", 2),
    (DATA, [b"x"], None, BYTES, b"x", 2),
    (DATA, [b"x"], "nonsense", BYTES, b"x", 2),
    (DATA, [b"x", b"y"], None, BYTES, b"xy", 2),
    (VALUE, None, None, TEXT, None, 4),
    (VALUE, "Gr\u00fc\u00dfe", None, TEXT, "Gr\u00fc\u00dfe", 5),
    (VALUE, b"x", OBJECT, OBJECTS, b"x", 6),
    (VALUE, b"x", None, BYTES, b"x", 6),
    (VALUE, {"a": 1, "b": {"c": [True]}, "d": b"x"}, None, MAP,
     {"a": 1, "b": {"c": [True]}, "d": b"x"}, 7),
    (VALUE, [1, "x", True, None, b"y"], None, STREAM, [1, "x", True, None, b"y"], 8),
    (SEQUENCE, [[1, "x"], [2.5]], None, STREAM, [1, "x", 2.5], 3),
]  # fmt: skip


@pytest.mark.fact(
    "amqp-connector A123",
    "amqp-connector A138",
    "amqp-connector A140",
    "amqp-connector A141",
    "amqp-connector 11.1/none",
    "amqp-connector 11.1/data",
    "amqp-connector 11.1/amqp-value string, null",
    "amqp-connector 11.1/amqp-value binary",
    "amqp-connector 11.1/amqp-value map with string keys",
    "amqp-connector 11.1/amqp-value list, amqp-sequence",
    "activemq-edges AM5b",
)
@pytest.mark.parametrize(("kind", "body", "content_type", "expected", "value", "number"), BODIES)
def test_the_kind_of_a_message(
    kind: int, body: Any, content_type: str | None, expected: type[ActiveMQMessage],
    value: object, number: int,
) -> None:  # fmt: skip
    properties = Properties(content_type=content_type)
    message = read(Message(kind, body, properties=properties))
    assert type(message) is expected
    assert content(message) == value
    assert message.properties["JMS_AMQP_ORIGINAL_ENCODING"] == number
    assert type(message.properties["JMS_AMQP_ORIGINAL_ENCODING"]) is Short
    assert message.timestamp == 0


@pytest.mark.fact(
    "amqp-connector A120",
    "amqp-connector A122",
    "amqp-connector 11.1/amqp-value list with null, binary or nested values; map with other keys; int, boolean, uuid, double, described",
    "activemq-edges AM5",
)
@pytest.mark.parametrize(
    "body",
    [1, True, UUID, 2.5, [[1]], [{}], {1: 2}, Described(Symbol("x"), 1), {"a": UUID}],
)
def test_what_jms_cannot_have_is_left_to_native(body: object) -> None:
    sent = Message(VALUE, body, header=Header(durable=True, priority=7))
    message = read(sent)
    assert type(message) is BYTES
    assert message.content == encode_message(sent)
    assert (message.persistent, message.priority) == (True, 7)
    assert message.properties == {"JMS_AMQP_NATIVE": True, "JMS_AMQP_HEADER": True}


@pytest.mark.fact(
    "amqp-connector A77",
    "amqp-connector A120",
    "amqp-connector A121",
    "activemq-edges AM5",
)
@pytest.mark.parametrize("transformer", ["jms", "native", "raw"])
def test_what_cannot_be_decoded_is_left_to_raw(transformer: str) -> None:
    now = clock.time_ms()
    message = to_message(b"nonsense", 7, transformer, clock.time_ms())[0]
    assert type(message) is BYTES
    assert message.content == b"nonsense"
    assert (message.persistent, message.priority) == (True, 4)
    assert message.timestamp >= now
    assert message.properties == {"JMS_AMQP_NATIVE": True, "JMS_AMQP_MESSAGE_FORMAT": 7}


@pytest.mark.fact("amqp-connector A121", "amqp-connector A122")
def test_raw_reads_nothing_of_a_message() -> None:
    sent = Message(VALUE, "x", header=Header(priority=9), application_properties={"a": 1})
    message = read(sent, "raw")
    assert message.properties == {"JMS_AMQP_NATIVE": True}
    assert (message.priority, message.content) == (4, encode_message(sent))
    message = read(sent, "native")
    assert message.properties == {"JMS_AMQP_NATIVE": True, "JMS_AMQP_HEADER": True, "a": 1}
    assert (message.priority, message.persistent) == (9, False)
    assert message.timestamp > 0


# headers
@pytest.mark.fact("amqp-connector A124", "amqp-connector A125")
def test_the_header() -> None:
    message = read(Message())
    assert (message.persistent, message.priority, message.expiration) == (False, 4, 0)
    assert "JMS_AMQP_HEADER" not in message.properties
    header = Header(True, 11, 5000, first_acquirer=True, delivery_count=3)
    now = clock.time_ms()
    message = read(Message(header=header))
    assert (message.persistent, message.priority) == (True, 9)
    assert message.redelivery_counter == 3
    assert now + 5000 <= message.expiration <= now + 15000
    assert message.properties["JMS_AMQP_FirstAcquirer"] is True
    properties = Properties(absolute_expiry_time=Timestamp(77))
    assert read(Message(header=header, properties=properties)).expiration == 77


@pytest.mark.fact("amqp-connector A126", "amqp-connector A127")
def test_the_properties() -> None:
    properties = Properties(
        message_id="mine",
        user_id=b"ann",
        to="queue://q",
        subject="kind",
        reply_to="topic://r",
        correlation_id=UUID,
        content_type="text/plain",
        content_encoding="gzip",
        creation_time=Timestamp(123),
        group_id="g",
        group_sequence=UInt(5),
        reply_to_group_id="h",
    )
    payload = encode_message(Message(VALUE, "x", properties=properties))
    message, to, text_id = to_message(payload, 0, "jms", 1)
    assert (to, text_id) == ("queue://q", "mine")
    assert (message.user_id, message.type, message.reply_to) == ("ann", "kind", Topic("r"))
    assert message.correlation_id == f"AMQP_UUID:{UUID}"
    assert (message.timestamp, message.group_id, message.group_sequence) == (123, "g", 5)
    assert message.properties == {
        "JMS_AMQP_PROPERTIES": True,
        "JMS_AMQP_ReplyToGroupID": "h",
        "JMS_AMQP_ContentType": "text/plain",
        "JMS_AMQP_ContentEncoding": "gzip",
        "JMS_AMQP_ORIGINAL_ENCODING": 5,
    }


@pytest.mark.fact("amqp-connector A128", "amqp-connector A134", "activemq-edges AM5c")
def test_annotations_and_footer() -> None:
    message = read(
        Message(
            delivery_annotations={Symbol("d"): 1},
            message_annotations={Symbol("x-opt-jms-msg-type"): Byte(5)},
            footer={Symbol("f"): "z"},
        )
    )
    assert message.properties == {
        "JMS_AMQP_MA_x-opt-jms-msg-type": 5,
        "JMS_AMQP_FT_f": "z",
        "JMS_AMQP_ORIGINAL_ENCODING": 1,
    }


@pytest.mark.fact("amqp-connector A129", "activemq-edges AM5c")
def test_schedules() -> None:
    given = {"delay": 5, "period": 7, "repeat": 3, "cron": "* * * * *"}
    annotations = {Symbol(f"x-opt-delivery-{name}"): value for name, value in given.items()}
    found = read(Message(message_annotations=annotations)).properties
    assert found["AMQ_SCHEDULED_DELAY"] == 5
    assert found["AMQ_SCHEDULED_PERIOD"] == 7
    assert found["AMQ_SCHEDULED_REPEAT"] == 3
    assert found["AMQ_SCHEDULED_CRON"] == "* * * * *"
    assert found["JMS_AMQP_MA_x-opt-delivery-delay"] == 5
    time = {Symbol("x-opt-delivery-time"): Long(clock.time_ms() + 60_000)}
    delay = read(Message(message_annotations=time)).properties["AMQ_SCHEDULED_DELAY"]
    assert isinstance(delay, int)
    assert 50_000 < delay <= 60_000
    none = {Symbol("x-opt-delivery-delay"): 0, Symbol("x-opt-delivery-period"): -1}
    found = read(Message(message_annotations=none)).properties
    assert not any(name.startswith("AMQ_") for name in found)


@pytest.mark.fact(
    "amqp-connector A130", "amqp-connector A131", "amqp-connector A132", "amqp-connector A133"
)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", "x"),
        (True, True),
        (Byte(1), Byte(1)),
        (Short(1), Short(1)),
        (1, 1),
        (Long(1), Long(1)),
        (Float(0.5), Float(0.5)),
        (0.1, 0.1),
        (Char("c"), Char("c")),
        (None, None),
        (UByte(127), Byte(127)),
        (UByte(200), Short(200)),
        (UShort(32767), Short(32767)),
        (UShort(40000), 40000),
        (UInt(1), 1),
        (UInt(3_000_000_000), Long(3_000_000_000)),
        (ULong(1), Long(1)),
        (ULong(2**63 + 5), Long(-(2**63) + 5)),
        (Decimal32(bytes.fromhex("32800001")), Float(1)),
        (Decimal64(bytes.fromhex("31c0000000000001")), 1.0),
        (Symbol("s"), "s"),
        (b"\1\2ab\\", "\\x01\\x02ab\\x5c"),
        (UUID, str(UUID)),
        (Timestamp(5), Long(5)),
    ],
)
def test_the_types_of_properties(value: object, expected: object) -> None:
    message = read(Message(application_properties={"a": value}))
    found = message.properties["a"]
    assert found == expected
    assert type(found) is type(expected)


def test_decimals_are_numbers() -> None:
    assert Decimal64(bytes.fromhex("31c0000000000001")).to_decimal() == Decimal(1)


@pytest.mark.fact("amqp-connector A132")
def test_properties_may_be_lists_and_maps() -> None:
    message = read(Message(application_properties={"a": [1, {"b": UByte(1)}]}))
    assert message.properties["a"] == [1, {"b": 1}]


# ids
@pytest.mark.fact("amqp-connector A137", "amqp-connector A154")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ID:x", "ID:x"),
        ("x", "x"),
        ("AMQP_UUID:x", "AMQP_STRING:AMQP_UUID:x"),
        (UUID, f"AMQP_UUID:{UUID}"),
        (ULong(7), "AMQP_ULONG:7"),
        (b"\xab\1", "AMQP_BINARY:AB01"),
        (None, None),
    ],
)
def test_ids_come_back(value: object, text: str | None) -> None:
    assert id_text(value) == text
    back = id_value(text)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.fact("amqp-connector A154")
@pytest.mark.parametrize(
    "text", ["AMQP_ULONG:xx", "AMQP_ULONG:-1", "AMQP_UUID:1", "AMQP_BINARY:z", "AMQP_OTHER:1"]
)
def test_wrong_ids_stay_texts(text: str) -> None:
    assert id_value(text) == text


# to a client
def sent(kind: type[ActiveMQMessage], body: bytes | None = None, **properties: object) -> Message:
    message = kind(content=body, priority=4)
    if properties:
        message.marshalled_properties = encode_map(properties)
    return shown(message)


@pytest.mark.fact("amqp-connector A88", "amqp-connector A158", "activemq-edges AM5b")
@pytest.mark.parametrize(
    ("kind", "body", "encoding", "section", "value"),
    [
        (TEXT, encode_text("x"), None, VALUE, "x"),
        (TEXT, None, None, VALUE, None),
        (TEXT, encode_text("x"), 2, DATA, [b"x"]),
        (TEXT, None, 1, NO_BODY, None),
        (BYTES, b"x", None, DATA, [b"x"]),
        (BYTES, None, None, DATA, [b""]),
        (BYTES, b"x", 6, VALUE, b"x"),
        (BYTES, None, 1, NO_BODY, None),
        (MAP, encode_map({"a": b"x", "c": Char("c")}), None, VALUE, {"a": b"x", "c": "c"}),
        (STREAM, encode_values([1, "x", b"y"]), None, VALUE, [1, "x", b"y"]),
        (STREAM, encode_values([1]), 3, SEQUENCE, [[1]]),
        (OBJECTS, b"x", None, DATA, [b"x"]),
        (PLAIN, None, None, NO_BODY, None),
    ],
)
def test_bodies(
    kind: type[ActiveMQMessage], body: bytes | None, encoding: int | None, section: int,
    value: object,
) -> None:  # fmt: skip
    properties = {} if encoding is None else {"JMS_AMQP_ORIGINAL_ENCODING": Short(encoding)}
    found = sent(kind, body, **properties)
    assert (found.body_kind, found.body) == (section, value)
    if kind is OBJECTS:
        assert found.properties is not None
        assert found.properties.content_type == OBJECT


@pytest.mark.fact("amqp-connector A161")
def test_messages_of_mqtt() -> None:
    found = sent(BYTES, b"x", **{"ActiveMQ.MQTT.QoS": 1})
    assert (found.body_kind, found.body) == (DATA, [b"x"])
    assert found.application_properties == {"ActiveMQ.MQTT.QoS": 1}


@pytest.mark.fact("amqp-connector A152")
def test_a_header_only_if_it_says_something() -> None:
    assert sent(TEXT).header is None
    message = TEXT(persistent=True, priority=7, expiration=clock.time_ms() + 5000)
    header = shown(message, 2).header
    assert header is not None
    assert (header.durable, header.priority, header.delivery_count) == (True, 7, 2)
    assert 0 < (header.ttl or 0) <= 5000
    expired = shown(TEXT(priority=4, expiration=1)).header
    assert expired is not None
    assert expired.ttl == 1


@pytest.mark.fact("amqp-connector A153", "amqp-connector A155")
@pytest.mark.parametrize(
    ("destination", "number"),
    [(Queue("a"), 0), (Topic("a"), 1), (TemporaryQueue("a"), 2), (TemporaryTopic("a"), 3)],
)
def test_headers_of_jms(destination: Destination, number: int) -> None:
    message = TEXT(
        destination=destination,
        reply_to=destination,
        type="kind",
        correlation_id="AMQP_ULONG:5",
        user_id="ann",
        timestamp=5,
        expiration=clock.time_ms() + 5000,
        group_id="g",
        group_sequence=3,
    )
    found = shown(message)
    properties = found.properties
    assert properties is not None
    assert properties.message_id == "ID:x:1:1:1"
    assert properties.to == properties.reply_to == destination.qualified_name
    assert (properties.subject, properties.correlation_id) == ("kind", 5)
    assert (properties.user_id, properties.creation_time) == (b"ann", 5)
    assert properties.absolute_expiry_time == message.expiration
    assert (properties.group_id, properties.group_sequence) == ("g", 3)
    assert found.message_annotations == {"x-opt-jms-dest": number, "x-opt-jms-reply-to": number}


@pytest.mark.fact("amqp-connector A156", "amqp-connector A157")
def test_properties_return_to_their_sections() -> None:
    message = TEXT(priority=4)
    message.marshalled_properties = encode_map(
        {
            "JMS_AMQP_MA_m": 1,
            "JMS_AMQP_DA_d": 2,
            "JMS_AMQP_FT_f": 3,
            "JMS_AMQP_MESSAGE_FORMAT": Long(9),
            "JMS_AMQP_ContentType": "text/plain",
            "JMS_AMQP_OTHER": 5,
            "AMQ_SCHEDULED_DELAY": 6,
            "byte": Byte(1),
            "long": Long(2),
            "float": Float(0.5),
            "x": "y",
        }
    )
    found = shown(message)
    assert (found.message_annotations or {})["m"] == 1
    assert found.delivery_annotations == {"d": 2}
    assert found.footer == {"f": 3}
    assert found.properties is not None
    assert found.properties.content_type == "text/plain"
    properties = found.application_properties or {}
    assert properties == {"JMS_AMQP_OTHER": 5, "byte": 1, "long": 2, "float": 0.5, "x": "y"}
    assert [type(value) for value in properties.values()] == [int, Byte, Long, Float, str]
    assert to_payload(MessageDispatch(None, Queue("q"), message, 0), message).message_format == 9


@pytest.mark.fact("amqp-connector A150")
def test_what_was_stored_raw_is_sent_so() -> None:
    payload = encode_message(Message(VALUE, 5, footer={Symbol("f"): 1}))
    message = to_message(payload, 0, "raw", clock.time_ms())[0]
    message.destination, message.message_id = Queue("q"), MessageId(None, PRODUCER, 1)
    assert to_payload(MessageDispatch(None, Queue("q"), message, 0), message).payload == payload
    again = shown(message, 3)
    assert again.header is not None
    assert again.header.delivery_count == 3
    assert (again.body, again.footer) == (5, {"f": 1})


@pytest.mark.fact("amqp-connector A88")
def test_what_only_says_that_it_was_stored_raw_is_refused() -> None:
    with pytest.raises(JMSException, match="JMS_AMQP_NATIVE"):
        sent(TEXT, encode_text("x"), JMS_AMQP_NATIVE=True)


@pytest.mark.fact("amqp-connector A160")
def test_advisories_about_connections() -> None:
    info = ConnectionInfo(ConnectionId("ID:c"), "me", None, "ann")
    found = shown(ActiveMQMessage(data_structure=info))
    assert found.body["ClientId"] == "me"
    assert found.application_properties == {"ActiveMqDataStructureType": "ConnectionInfo"}
    found = shown(ActiveMQMessage(data_structure=RemoveInfo(ConnectionId("ID:c"))))
    assert found.application_properties == {"ActiveMqDataStructureType": "RemoveInfo"}


def test_long_content_types_are_not_kept() -> None:
    """Properties of AMQP messages are converted once and kept, as long as they are short."""
    tracemalloc.start()
    try:
        for number in range(8):
            properties = Properties(content_type=Symbol(f"{number}" + "x" * 1_000_000))
            to_message(encode_message(Message(VALUE, "t", properties=properties)), 0, "jms", 1)
        assert tracemalloc.get_traced_memory()[0] < 4_000_000
    finally:
        tracemalloc.stop()


def test_long_properties_that_are_not_shown_are_not_kept() -> None:
    """What follows from the properties of a message is kept, as long as these are short."""
    tracemalloc.start()
    try:
        for number in range(8):
            message = ActiveMQBytesMessage(content=b"x")
            hidden = {"AMQ_SCHEDULED_NOTE": f"{number}" + "x" * 1_000_000}
            message.marshalled_properties = encode_map(hidden)
            shown_bytes(message, Queue("q"))
            del message, hidden
        assert tracemalloc.get_traced_memory()[0] < 4_000_000
    finally:
        tracemalloc.stop()


# messages of the same shape
def values_of(message: ActiveMQMessage) -> dict[str, object]:
    slots = [name for kind in type(message).__mro__ for name in getattr(kind, "__slots__", ())]
    values = {name: getattr(message, name, None) for name in slots}
    return {**values, "kind": type(message)}


SHAPES: dict[str, Message] = {
    "plain": Message(DATA, [b"x"], properties=Properties("m", to="q")),
    "no properties": Message(DATA, [b"x"]),
    "empty properties": Message(VALUE, "x", properties=Properties()),
    "text": Message(
        VALUE, "x", header=Header(durable=True, priority=7), properties=Properties("m")
    ),
    "long text": Message(VALUE, "x" * 300, application_properties={"a": "b", "n": 5}),
    "other characters": Message(VALUE, "\u00e9\0"),
    "text as data": Message(DATA, [b"x"], properties=Properties(content_type=Symbol("text/plain"))),
    "no text as data": Message(
        DATA, [b"\xff"], properties=Properties(content_type=Symbol("text/plain"))
    ),
    "object": Message(DATA, [b"x"], properties=Properties(content_type=Symbol(OBJECT))),
    "time to live": Message(VALUE, "x", header=Header(ttl=10**9), properties=Properties("m")),
    "annotations": Message(VALUE, "x", message_annotations={Symbol("a"): 1}),
    "schedule": Message(VALUE, "x", message_annotations={Symbol("x-opt-delivery-delay"): Long(9)}),
    "footer": Message(VALUE, "x", footer={Symbol("a"): 1}),
    "redelivered": Message(VALUE, "x", header=Header(delivery_count=3, first_acquirer=True)),
    "ids": Message(VALUE, "x", properties=Properties(UUID, correlation_id=b"c")),
    "prefix": Message(VALUE, "x", properties=Properties("AMQP_ULONG:1", correlation_id="AMQP_")),
    "all": Message(
        DATA,
        [b"x"],
        properties=Properties(
            *("m", b"u", "to", "subject", "queue://r", "c", Symbol("a/b"), Symbol("gzip")),
            *(Timestamp(2**50), Timestamp(5), "g", UInt(4), "rg"),
        ),
    ),
    "two data": Message(DATA, [b"x", b"y"]),
    "map": Message(VALUE, {"a": 1}, application_properties={"a": "b"}),
    "null": Message(VALUE, None),
    "empty": Message(VALUE, ""),
    "nothing": Message(),
}


@pytest.mark.fact("amqp-connector A122", "amqp-connector A123")
@pytest.mark.parametrize("transformer", ["jms", "native", "raw"])
@pytest.mark.parametrize("name", SHAPES)
def test_later_messages_of_a_shape_are_converted_like_the_first(
    name: str, transformer: str, mocker: MockerFixture
) -> None:
    mocker.patch.object(clock, "time_ms", return_value=1_700_000_000_000)
    payload = encode_message(SHAPES[name])
    found = [to_message(payload, 7, transformer, 1_700_000_000_000) for _ in range(3)]
    assert values_of(found[1][0]) == values_of(found[0][0])
    assert found[1][1:] == found[0][1:]
    for destination in (Queue("q"), Topic("t" * 300)):
        sent = [shown_bytes(each[0], destination) for each in found]
        assert sent[1] == sent[0]


def shown_bytes(message: ActiveMQMessage, destination: Destination) -> bytes:
    message.destination = destination
    message.message_id = MessageId(None, PRODUCER, 1)
    return to_payload(MessageDispatch(None, destination, message, 0), message).payload


def test_a_text_that_is_not_utf_8_decides_nothing_for_the_others() -> None:
    properties = Properties("m", content_type=Symbol("text/plain"))
    kinds = [
        type(read(Message(DATA, [body], properties=properties)))
        for body in (b"\xff", b"x", b"\xff", b"y")
    ]
    assert kinds == [BYTES, TEXT, BYTES, TEXT]
    invalid = b"\0\x53\x77\xa1\1\xff"  # a string
    valid = b"\0\x53\x77\xa1\1x"
    kinds = [type(to_message(each, 0, "jms", 1)[0]) for each in (invalid, valid)]
    assert kinds == [BYTES, TEXT]


def test_a_null_text_decides_nothing_for_the_others() -> None:
    for body in (None, "x", None, "y"):
        message = ActiveMQTextMessage(content=encode_text(body))
        assert shown(message).body == body


@pytest.mark.fact("amqp-connector A142")
def test_binaries_of_a_map_are_whole() -> None:
    values = {"long": b"x" * 300, "short": b"abc", "after": b"def"}
    message = read(Message(VALUE, values, application_properties={"padding": "p"}))
    assert decode_map(message.content or b"") == values
