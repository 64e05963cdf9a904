"""Properties: types, names, conversions, read-only rules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any

import pytest

from pyjms.enums import DeliveryMode
from pyjms.errors import MessageFormatException, MessageNotWriteableException
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message, TextMessage
from pyjms.jms.types import Byte, Char, Float, Long, Short
from tests.kit.clients.conversions import READ, WRITTEN, outcome


@pytest.mark.fact(
    "jms-api 6.1", "jms-api 6.3", "jms-api 6.4", "jms-api 6.5", "jms-api 6.6",
    "jms-api 6/boolean", "jms-api 6/byte", "jms-api 6/short", "jms-api 6/int", "jms-api 6/long",
    "jms-api 6/float", "jms-api 6/double", "jms-api 6/String",
)  # fmt: skip
@pytest.mark.parametrize("written", WRITTEN)
def test_what_is_written_is_read_as_activemq_does(written: str, oracle: dict[str, Any]) -> None:
    properties = Message().properties
    WRITTEN[written](properties)
    recorded = oracle["jms-property-conversion"][written]
    assert recorded
    seen = {read: outcome(partial(READ[read], properties)) for read in recorded}
    assert seen == recorded
    assert {read: type(value) for read, value in seen.items()} == {
        read: type(value) if read != "Object" else type(seen["Object"])
        for read, value in recorded.items()
    }


@pytest.mark.fact("jms-api 6.6")
@pytest.mark.parametrize(
    ("value", "kind"),
    [(True, bool), (Byte(7), Byte), (Short(7), Short), (7, int), (Long(7), Long),
     (Float(1.5), Float), (1.5, float), ("x", str), (Char("c"), Char)],
)  # fmt: skip
def test_an_object_comes_back_as_it_was_written(value: object, kind: type) -> None:
    properties = Message().properties
    properties["x"] = value
    assert properties.get_object("x") == value
    assert type(properties["x"]) is kind


@pytest.mark.fact("jms-api 6.2")
def test_any_name_but_none_and_empty_is_accepted(oracle: dict[str, Any]) -> None:
    names = oracle["jms-property-conversion"]["property names (ActiveMQ)"]
    assert len(names) > 10
    for shown, recorded in names.items():
        properties = Message().properties
        name: Any = None if shown == "(null name)" else shown
        if recorded == "accepted":
            properties[name] = "1"
            assert properties.get_string(name) == "1"
        else:
            assert recorded == "!IllegalArgumentException"
            with pytest.raises(ValueError):
                properties[name] = "1"


@pytest.mark.fact("jms-api 6.2")
def test_header_names_set_the_headers() -> None:
    message = Message()
    message.properties["JMSXGroupID"] = "g"
    message.properties["JMSXGroupSeq"] = "3"
    message.properties["JMSPriority"] = 7
    message.properties["JMSType"] = "t"
    message.properties["JMSCorrelationID"] = "c"
    message.properties["JMSExpiration"] = Long(5)
    message.properties["JMSTimestamp"] = 6
    message.properties["JMSRedelivered"] = True
    message.properties["JMSXDeliveryCount"] = 4
    message.properties["JMSReplyTo"] = "queue://r"
    message.properties["JMSDeliveryMode"] = "NON_PERSISTENT"
    assert (message.group_id, message.group_sequence, message.priority) == ("g", 3, 7)
    assert (message.type, message.correlation_id) == ("t", "c")
    assert (message.expiration, message.timestamp) == (5, 6)
    assert (message.redelivered, message.delivery_count) == (True, 4)
    assert (message.reply_to, message.delivery_mode) == (Queue("r"), DeliveryMode.NON_PERSISTENT)
    assert message.property_values() == {}
    assert message.properties.get_string("JMSDeliveryMode") == "NON_PERSISTENT"
    assert message.properties.get_string("JMSReplyTo") == "queue://r"
    with pytest.raises(MessageFormatException, match="JMSPriority cannot be set from a str"):
        message.properties["JMSPriority"] = "high"
    with pytest.raises(MessageFormatException):
        message.properties["JMSDeliveryMode"] = 5


@pytest.mark.fact("jms-api 6.1")
def test_types_of_objects(oracle: dict[str, Any]) -> None:
    recorded = oracle["jms-property-conversion"]["object property types (ActiveMQ)"]
    values = {
        "Character": Char("c"), "List": [1, "a"], "Map": {"a": 1}, "byte[]": b"x",
        "Date": dt.date(2026, 1, 1), "null": None,
    }  # fmt: skip
    assert set(values) == set(recorded)
    for name, value in values.items():
        properties = Message().properties
        if recorded[name].startswith("accepted"):
            properties.set_object("x", value)
            assert "x" in properties
            assert properties["x"] == value
        else:
            with pytest.raises(MessageFormatException):
                properties.set_object("x", value)


class Colour(IntEnum):
    RED = 3


@pytest.mark.parametrize(
    "value", [2**63, {1: "a"}, [object()], {"a": {"b": object()}}, object(), 1j]
)
def test_values_without_a_jms_type_are_refused(value: object) -> None:
    with pytest.raises(MessageFormatException):
        Message().properties["x"] = value


def test_python_values_are_kept_as_plain_ones() -> None:
    properties = Message().properties
    inner = [1]
    properties.update(a=Colour.RED, b=(1, 2), c={"k": inner}, d=2**40)
    inner.append(2)
    assert dict(properties) == {"a": 3, "b": [1, 2], "c": {"k": [1]}, "d": 2**40}
    assert type(properties["a"]) is int
    assert properties.get_long("d") == 2**40
    with pytest.raises(MessageFormatException):
        properties.get_int("d")


@pytest.mark.parametrize(
    ("setter", "value"),
    [("set_byte", 128), ("set_short", -32769), ("set_int", 2**31), ("set_long", 2**63),
     ("set_int", True), ("set_boolean", 1), ("set_double", "1"), ("set_string", 5),
     ("set_int", 1.0), ("set_float", True)],
)  # fmt: skip
def test_typed_setters_refuse_what_is_not_of_the_type(setter: str, value: object) -> None:
    with pytest.raises(MessageFormatException):
        getattr(Message().properties, setter)("x", value)


def received(message: Message) -> Message:
    message.read_only_properties = message.read_only_body = True
    return message


@pytest.mark.fact("jms-api 6.8")
def test_clearing_properties_and_body_touches_nothing_else() -> None:
    message = TextMessage("text")
    message.properties["a"] = 1
    message.correlation_id = "c"
    message.group_id = "g"
    received(message).clear_properties()
    assert (message.text, message.correlation_id, message.group_id) == ("text", "c", "g")
    assert "a" not in message.properties
    assert message.read_only_body
    message.properties["b"] = 2
    received(message).clear_body()
    assert (message.text, message.correlation_id) == (None, "c")
    assert message.properties["b"] == 2
    assert message.read_only_properties
    message.text = "new"


def test_received_properties_are_read_only_until_cleared() -> None:
    message = Message()
    message.properties["a"] = 1
    received(message)
    writes: tuple[Callable[[], object], ...] = (
        lambda: message.properties.set_int("a", 2),
        lambda: message.properties.set_string("JMSXGroupID", "g"),
        lambda: message.properties.pop("a"),
        message.properties.clear,
    )
    for write in writes:
        with pytest.raises(MessageNotWriteableException):
            write()
    message.correlation_id = "headers can be set"
    message.clear_properties()
    message.properties["a"] = 2
    message.properties.clear()
    assert len(message.properties) == 0


@pytest.mark.fact("jms-api 6.9", "jms-api 14/JMSXDeliveryCount listed on first delivery")
def test_listed_names() -> None:
    message = Message()
    message.properties["a"] = 1
    message.priority = 9
    message.correlation_id = "c"
    assert list(message.properties) == ["a"]
    message.group_id = "g"
    message.user_id = "u"
    assert set(message.properties) == {"a", "JMSXGroupID", "JMSXGroupSeq", "JMSXUserID"}
    assert "JMSXDeliveryCount" not in set(message.properties)
    message.redelivered, message.delivery_count = True, 2
    assert set(message.properties) == {
        "a", "JMSXGroupID", "JMSXGroupSeq", "JMSXUserID", "JMSXDeliveryCount",
    }  # fmt: skip
    assert len(message.properties) == 5
    assert message.properties["JMSXDeliveryCount"] == 2


def test_headers_are_readable_by_name() -> None:
    message = TextMessage()
    message.destination = Queue("q")
    message.message_id = "ID:1"
    message.properties["JMSXUserID"] = "me"
    p = message.properties
    assert p.get_string("JMSDestination") == "queue://q"
    assert p.get_string("JMSMessageID") == "ID:1"
    assert p.get_string("JMSDeliveryMode") == "PERSISTENT"
    assert p.get_int("JMSPriority") == 4
    assert p.get_string("JMSXUserID") == "me"
    assert p.get_string("JMSXMimeType") == "jms/text-message"
    assert p.get_string("JMSXProducerTXID") is None
    assert "JMSPriority" in p
    assert "JMSType" not in p
    with pytest.raises(KeyError):
        p["JMSType"]
    with pytest.raises(KeyError):
        p["missing"]
    assert p.get("missing", 5) == 5


def test_a_property_set_to_none_exists() -> None:
    properties = Message().properties
    properties["x"] = None
    assert "x" in properties
    assert properties["x"] is None
    assert properties.get_string("x") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (1e10, "1.0E10"), (1.5e-5, "1.5E-5"), (0.001, "0.001"), (1234567.0, "1234567.0"),
     (1e7, "1.0E7"), (-0.0, "-0.0"), (float("inf"), "Infinity"), (float("nan"), "NaN"),
     (Float(1.1), "1.1"), (Float(3.4028234663852886e38), "3.4028235E38"), (-123.25, "-123.25")],
)  # fmt: skip
def test_numbers_in_text_are_spelt_as_java_spells_them(value: float, text: str) -> None:
    properties = Message().properties
    properties["x"] = value if not isinstance(value, Float) else None
    if isinstance(value, Float):
        properties.set_float("x", value)
    assert properties.get_string("x") == text


@pytest.mark.fact("jms-api 6.4")
@pytest.mark.parametrize(
    ("text", "getter", "value"),
    [("+12", "get_int", 12), ("-128", "get_byte", -128), (" 1.5 ", "get_double", 1.5),
     ("1.5f", "get_double", 1.5), ("NaN", "get_double", None), ("-Infinity", "get_float", float("-inf")),
     ("0x1p3", "get_double", 8.0), ("1e400", "get_double", float("inf")), ("TRUE", "get_boolean", True),
     ("yes", "get_boolean", False)],
)  # fmt: skip
def test_text_that_is_a_value(text: str, getter: str, value: object) -> None:
    properties = Message().properties
    properties["x"] = text
    found = getattr(properties, getter)("x")
    assert found == value or (value is None and found != found)  # noqa: PLR0124 - NaN


@pytest.mark.fact("jms-api 6.4")
@pytest.mark.parametrize(
    ("text", "getter"),
    [("128", "get_byte"), ("1_0", "get_int"), (" 1", "get_int"), ("2147483648", "get_int"),
     ("", "get_long"), ("1,5", "get_double"), ("0x10", "get_int"), ("nan", "get_float")],
)  # fmt: skip
def test_text_that_is_not_such_a_number(text: str, getter: str) -> None:
    properties = Message().properties
    properties["x"] = text
    with pytest.raises(ValueError) as caught:
        getattr(properties, getter)("x")
    assert type(caught.value) is ValueError


@pytest.mark.fact("activemq-broker S11")
@pytest.mark.parametrize("value", [2000, Long(2000), Short(2000), "2000"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("AMQ_SCHEDULED_DELAY", Long), ("AMQ_SCHEDULED_PERIOD", Long), ("AMQ_SCHEDULED_REPEAT", int)],
)
def test_numbers_of_a_schedule_have_the_types_of_activemqs_client(
    name: str, kind: type, value: object
) -> None:
    properties = Message().properties
    properties[name] = value
    assert properties[name] == 2000
    assert type(properties[name]) is kind


@pytest.mark.parametrize("value", ["soon", 1.5, None, True])
def test_what_is_no_number_of_a_schedule_is_left_to_the_broker(value: object) -> None:
    properties = Message().properties
    properties["AMQ_SCHEDULED_DELAY"] = value
    assert properties["AMQ_SCHEDULED_DELAY"] is value
