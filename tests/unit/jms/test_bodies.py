"""The five bodies: modes, typed values, conversions, limits."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import pytest

from pyjms.errors import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.types import Byte, Char, Float, Long, Short
from tests.kit.clients.conversions import KINDS, VALUES, as_recorded, outcome


@pytest.mark.fact(
    "jms-api 7.7", "jms-api 7.8",
    "jms-api 7/boolean", "jms-api 7/byte", "jms-api 7/short", "jms-api 7/char", "jms-api 7/int",
    "jms-api 7/long", "jms-api 7/float", "jms-api 7/double", "jms-api 7/String", "jms-api 7/bytes",
)  # fmt: skip
@pytest.mark.parametrize("written", [*VALUES, "(key not set)"])
def test_map_values_are_read_as_activemq_does(written: str, oracle: dict[str, Any]) -> None:
    message = MapMessage()
    if written in VALUES:
        message["x"] = VALUES[written]
    recorded = oracle["jms-bodies"]["MapMessage"][written]
    seen = {
        column: as_recorded(
            column, outcome(partial(getattr(message, f"get_{column.lower()}"), "x"))
        )
        for column in recorded
    }
    assert seen == recorded


@pytest.mark.fact("jms-api 7.7")
@pytest.mark.parametrize("written", [*VALUES, "(null String written)"])
def test_stream_values_are_read_as_activemq_does(written: str, oracle: dict[str, Any]) -> None:
    recorded = oracle["jms-bodies"]["StreamMessage"][written]
    assert recorded
    for column, expected in recorded.items():
        message = StreamMessage()
        message.write_object(VALUES.get(written))
        message.reset()
        if column == "bytes" and isinstance(expected, int):
            assert message.read_bytes_into(bytearray(8)) == expected
            continue
        read = getattr(message, f"read_{column.lower()}")
        value = outcome(read)
        assert as_recorded(column, value) == expected
        if isinstance(value, str) and value.startswith("!"):
            assert message.read_object() == VALUES[written]  # the position stayed


@pytest.mark.fact("jms-api 7.8")
def test_none_in_a_stream_read_as_a_primitive() -> None:
    message = StreamMessage([None])
    message.reset()
    for kind, error in (
        ("byte", ValueError), ("short", ValueError), ("int", ValueError), ("long", ValueError),
        ("float", TypeError), ("double", TypeError), ("char", TypeError),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            getattr(message, f"read_{kind}")()
        assert type(caught.value) is error
    assert message.read_boolean() is False


def test_typed_setters_keep_the_types() -> None:
    message = MapMessage()
    message.set_boolean("boolean", True)
    message.set_byte("byte", -128)
    message.set_short("short", 300)
    message.set_char("char", "é")
    message.set_int("int", 5)
    message.set_long("long", 5)
    message.set_float("float", 1.1)
    message.set_double("double", 1.1)
    message.set_string("string", "s")
    message.set_bytes("bytes", b"abcdef", 1, 3)
    kinds = (bool, Byte, Short, Char, int, Long, Float, float, str, bytes)
    assert [type(value) for _, value in message.items()] == list(kinds)
    assert message.get_bytes("bytes") == b"bcd"
    assert message["float"] != 1.1
    stream = StreamMessage()
    for kind in KINDS:
        getattr(stream, f"write_{kind}")(message[kind])
    assert [type(value) for value in stream.values] == list(kinds)
    with pytest.raises(MessageFormatException):
        message.set_char("char", "ab")


@pytest.mark.fact("jms-api 7.3")
def test_map_names_and_values(oracle: dict[str, Any]) -> None:
    message = MapMessage()
    assert oracle["jms-bodies"]["MapMessage"]["(empty key)"] == "!IllegalArgumentException"
    for name in ("", None):
        with pytest.raises(ValueError):
            message[name] = 1  # type: ignore[index]
        with pytest.raises(ValueError):
            message.get_int(name)  # type: ignore[arg-type]
    with pytest.raises(MessageFormatException):
        message.set_object("x", dt.date(2026, 1, 1))
    message.set_object("list", [1, "a"])
    message.set_object("map", {"k": b"v"})
    message.set_object("char", Char("c"))
    data: Any = bytearray(b"abc")
    message.set_bytes("bytes", data)
    data[0] = 0
    assert message["bytes"] == b"abc"
    message["a"] = 1
    message["a"] = 2
    assert message["a"] == 2
    message["none"] = None
    assert set(message.map_names) == {"list", "map", "char", "bytes", "a", "none"}
    assert message.item_exists("none")
    assert not message.item_exists("missing")
    del message["a"]
    assert "a" not in message
    assert len(message) == 5
    assert dict(message)["list"] == [1, "a"]


def test_an_empty_map_message_is_true_and_hashable() -> None:
    message = MapMessage()
    assert message
    assert len({message, MapMessage()}) == 2


@pytest.mark.fact("jms-api 7.2")
def test_an_empty_text_is_not_a_missing_one() -> None:
    assert TextMessage().text is None
    assert TextMessage("").text == ""
    with pytest.raises(MessageFormatException):
        TextMessage(b"bytes")  # type: ignore[arg-type]


@pytest.mark.fact("jms-api 7.1")
def test_read_and_write_modes(oracle: dict[str, Any]) -> None:
    modes = oracle["jms-bodies"]["read and write modes"]
    for message in (BytesMessage(), StreamMessage()):
        message.write_int(5)
        with pytest.raises(MessageNotReadableException):
            message.read_int()
        message.reset()
        with pytest.raises(MessageNotWriteableException):
            message.write_int(5)
        assert message.read_int() == 5
        message.reset()
        assert message.read_int() == 5
        message.clear_body()
        with pytest.raises(MessageNotReadableException):
            message.read_int()
        message.write_boolean(True)
        message.reset()
        assert message.read_boolean() is True
    with pytest.raises(MessageNotReadableException):
        _ = BytesMessage().body_length
    assert modes["getBodyLength of a new BytesMessage"] == "!MessageNotReadableException"
    for received, write in (
        (TextMessage("x"), lambda m: setattr(m, "text", "y")),
        (ObjectMessage(b"x"), lambda m: setattr(m, "data", b"y")),
        (MapMessage({"a": 1}), lambda m: m.set_int("a", 2)),
        (BytesMessage(b"x"), lambda m: setattr(m, "data", b"y")),
    ):
        received.read_only_body = True
        with pytest.raises(MessageNotWriteableException):
            write(received)
        received.clear_body()
        write(received)


@pytest.mark.fact("jms-api 7.5")
def test_bytes_message(oracle: dict[str, Any]) -> None:
    modes = oracle["jms-bodies"]["read and write modes"]
    message = BytesMessage()
    message.write_boolean(True)
    message.write_byte(-1)
    message.write_short(-2)
    message.write_char("\u2603")
    message.write_int(70000)
    message.write_long(-5)
    message.write_float(1.5)
    message.write_double(2.25)
    message.write_utf("a\0\U0001f600")
    message.write_bytes(b"tail!", 0, 4)
    message.reset()
    assert message.data[:4] == b"\x01\xff\xff\xfe"
    assert message.body_length == len(message.data)
    assert message.read_boolean() is True
    assert message.read_unsigned_byte() == 255
    assert message.read_unsigned_short() == 65534
    assert message.read_char() == "\u2603"
    assert message.read_int() == 70000
    assert message.read_long() == -5
    assert message.read_float() == 1.5
    assert message.read_double() == 2.25
    assert message.read_utf() == "a\0\U0001f600"
    with pytest.raises(MessageEOFException):
        message.read_long()
    assert modes["read past the end"] == modes["readInt over 2 bytes"] == "!MessageEOFException"
    assert message.read_bytes(2) == b"ta"
    assert message.read_bytes() == b"il"
    assert message.read_bytes() is None
    assert message.read_bytes_into(bytearray(4)) == -1 == modes["readBytes at the end"]
    message.clear_body()
    for value in (True, Byte(1), Short(1), Char("c"), 1, Long(1), Float(1), 1.0, "s", b"b"):
        message.write_object(value)
    assert len(message.data) == 1 + 1 + 2 + 2 + 4 + 8 + 4 + 8 + 3 + 1
    with pytest.raises(MessageFormatException):
        message.write_object(dt.date(2026, 1, 1))
    assert modes["writeObject(null)"] == "!NullPointerException"
    with pytest.raises(TypeError):
        message.write_object(None)


def test_any_bytes_may_be_read_as_any_type() -> None:
    message = BytesMessage(b"\0\1\0\2")
    message.reset()
    assert message.read_int() == 0x10002
    message.reset()
    assert [message.read_byte(), message.read_byte()] == [0, 1]
    message.reset()
    assert message.read_short() == 1
    assert message.get_body(bytes) == b"\0\1\0\2"
    assert message.read_int() == 0x10002


def test_utf_in_bytes_messages() -> None:
    message = BytesMessage(b"\0\2\xc0\x80\0\6ab\0\1\xff")
    message.reset()
    assert message.read_utf() == "\0"
    with pytest.raises(MessageEOFException):
        message.read_utf()
    assert message.read_unsigned_short() == 6
    assert message.read_bytes(2) == b"ab"
    with pytest.raises(MessageFormatException):
        message.read_utf()
    assert message.read_unsigned_short() == 1
    with pytest.raises(MessageFormatException):
        BytesMessage().write_utf("x" * 65536)
    with pytest.raises(TypeError):
        BytesMessage().write_utf(None)  # type: ignore[arg-type]
    surrogates = BytesMessage()
    surrogates.write_utf("\ud800x")
    surrogates.reset()
    assert surrogates.read_utf() == "\ud800x"


@pytest.mark.fact("jms-api 7.4")
def test_reading_bytes_of_a_stream_piece_by_piece() -> None:
    data = bytearray(b"xy")
    copied = StreamMessage([data])
    data[0] = 0
    copied.reset()
    assert copied.read_object() == b"xy"
    message = StreamMessage([b"12345", b"", None, b"1234", "abc"])
    message.reset()
    buffer = bytearray(3)
    counts = [message.read_bytes_into(buffer)]
    assert bytes(buffer) == b"123"
    with pytest.raises(MessageFormatException):
        message.read_int()
    counts += [message.read_bytes_into(buffer)]
    assert bytes(buffer[:2]) == b"45"
    assert counts == [3, 2]
    assert message.read_bytes_into(buffer) == 0
    assert message.read_bytes_into(buffer) == -1
    two = bytearray(2)
    assert [message.read_bytes_into(two) for _ in range(3)] == [2, 2, -1]
    with pytest.raises(ValueError):
        message.read_int()
    assert message.read_string() == "abc"
    with pytest.raises(MessageEOFException):
        message.read_object()


@pytest.mark.fact("jms-api 7.4")
def test_the_oracle_agrees_on_parts(oracle: dict[str, Any]) -> None:
    recorded = oracle["jms-bodies"]["StreamMessage"]
    message = StreamMessage([b"12345"])
    message.reset()
    expected = recorded["readBytes of 5 bytes with a buffer of 3, repeated"]
    assert [message.read_bytes_into(bytearray(3)) for _ in expected] == expected == [3, 2, -1]
    with pytest.raises(MessageEOFException):
        message.read_bytes_into(bytearray(3))


def test_a_stream_refuses_containers_and_half_reads() -> None:
    for value in ([1], {"a": 1}, dt.date(2026, 1, 1)):
        with pytest.raises(MessageFormatException):
            StreamMessage([value])
    message = StreamMessage([b"123456", 5])
    message.reset()
    assert message.read_bytes(2) == b"12"
    assert message.read_bytes() == b"3456"
    assert message.read_object() == 5


@pytest.mark.fact("jms-api 7.9", "jms-api 14/getBody")
def test_get_body() -> None:
    assert TextMessage("a").get_body(str) == "a"
    assert TextMessage("a").get_body(object) == "a"
    assert MapMessage({"a": 1}).get_body(dict) == {"a": 1}
    assert ObjectMessage(b"x").get_body(bytes) == b"x"
    data = BytesMessage(b"ab")
    data.reset()
    data.read_byte()
    assert data.get_body(bytes) == b"ab"
    assert data.read_byte() == ord("a")
    stream = StreamMessage([1])
    assert not stream.is_body_assignable_to(object)
    for message, kind in ((stream, object), (TextMessage("a"), int), (MapMessage({"a": 1}), str)):
        with pytest.raises(MessageFormatException):
            message.get_body(kind)
        assert not message.is_body_assignable_to(kind)
    for empty in (Message(), TextMessage(), MapMessage(), BytesMessage(), ObjectMessage()):
        assert empty.is_body_assignable_to(int)
        assert empty.get_body(int) is None


@pytest.mark.fact("jms-api 7.6")
def test_the_object_of_an_object_message_is_its_serialized_form() -> None:
    serialized: Any = bytearray.fromhex("aced0005740001") + b"a"
    message = ObjectMessage(bytes(serialized))
    message.data = serialized
    serialized[-1:] = b"b"  # a later change does not show
    assert message.data == bytes.fromhex("aced000574000161")
    for kind in (str, dict, list):
        with pytest.raises(MessageFormatException):
            message.get_body(kind)
    with pytest.raises(MessageFormatException):
        message.data = {"a": 1}  # type: ignore[assignment]
    message.read_only_body = True
    with pytest.raises(MessageNotWriteableException):
        message.data = b""


def test_no_body_in_repr() -> None:
    messages = (TextMessage("secret"), BytesMessage(b"secret"), MapMessage({"secret": "secret"}))
    for message in messages:
        message.properties["secret"] = "secret-value"
        assert "secret" not in repr(message)
        assert "secret-value" not in repr(message.properties)


def test_printed_properties_have_their_values() -> None:
    message = TextMessage("x")
    message.properties["size"] = 3
    message.properties["colour"] = "red"
    assert str(message.properties) == "{'colour': 'red', 'size': 3}"


async def test_acknowledge_without_a_session_does_nothing() -> None:
    message = Message()
    message.acknowledge()
    await message.acknowledge()


async def test_acknowledge_calls_the_session_at_once() -> None:
    acknowledged: list[Message] = []
    message = Message()
    message.acknowledger = acknowledged.append
    message.acknowledge()
    assert acknowledged == [message]
    await message.acknowledge()
    assert acknowledged == [message, message]
