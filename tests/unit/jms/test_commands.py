"""Messages as commands and back, against the golden vectors and captures."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from pyjms.client.messages import CommandSource, from_command, parse_message_id, to_command
from pyjms.enums import DeliveryMode
from pyjms.errors import MessageFormatException, MessageNotWriteableException
from pyjms.jms.blob import BlobMessage
from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    BrokerId,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
)
from tests.kit.data import openwire_lines

PRODUCER = ProducerId("ID:host-1-2-3:1", 4, 2)
MESSAGES: dict[type[Message], type[ActiveMQMessage]] = {
    Message: ActiveMQMessage,
    TextMessage: ActiveMQTextMessage,
    BytesMessage: ActiveMQBytesMessage,
    MapMessage: ActiveMQMapMessage,
    StreamMessage: ActiveMQStreamMessage,
    ObjectMessage: ActiveMQObjectMessage,
}


def sent(message: Message, **options: Any) -> ActiveMQMessage:
    return to_command(message, MessageId(None, PRODUCER, 7), PRODUCER, **options)


def test_headers_travel_both_ways() -> None:
    message = TextMessage("hello")
    message.destination = Queue("a")
    message.reply_to = TemporaryQueue("ID:t:1")
    message.delivery_mode = DeliveryMode.NON_PERSISTENT
    message.correlation_id, message.type, message.priority = "c", "t", 7
    message.timestamp, message.expiration = 5, 9
    message.group_id, message.group_sequence = "g", 3
    transaction = LocalTransactionId(1, ConnectionId("c"))
    command = to_command(message, MessageId(None, PRODUCER, 7), PRODUCER, transaction)
    assert (command.producer_id, command.transaction_id) == (PRODUCER, transaction)
    assert (command.persistent, command.priority, command.compressed) == (False, 7, False)
    assert message.message_id == "ID:host-1-2-3:1:2:4:7"
    command.user_id = "me"
    command.original_destination = Queue("first")
    back = from_command(command)
    for name in ("message_id", "destination", "reply_to", "delivery_mode", "correlation_id", "type",
                 "priority", "timestamp", "expiration", "group_id", "group_sequence"):  # fmt: skip
        assert getattr(back, name) == getattr(message, name), name
    assert (back.user_id, back.original_destination) == ("me", Queue("first"))
    assert (back.redelivered, back.delivery_count) == (False, 1)
    assert back.read_only_body
    assert back.read_only_properties


def test_the_dispatch_counts_redeliveries() -> None:
    command = sent(Message())
    command.redelivery_counter = 5
    assert from_command(command).delivery_count == 6
    again = from_command(command, 2)
    assert (again.redelivered, again.delivery_count) == (True, 3)
    assert again.properties.get_int("JMSXDeliveryCount") == 3
    assert not from_command(command, 0).redelivered


BODIES: list[tuple[Message, Any]] = [
    (TextMessage("h\xe9\0\U0001f600"), lambda m: m.text),
    (TextMessage(""), lambda m: m.text),
    (TextMessage(), lambda m: m.text),
    (BytesMessage(b"\0\xff" * 400), lambda m: m.data),
    (BytesMessage(), lambda m: m.data),
    (MapMessage({"a": 1, "b": Byte(2), "c": [1, {"d": "e"}], "f": b"x"}), dict),
    (MapMessage(), dict),
    (StreamMessage([1, "a", None, b"x", Long(2)]), lambda m: m.values),
    (StreamMessage(), lambda m: m.values),
    (ObjectMessage(b"\xac\xed\0\5t\0\1x"), lambda m: m.data),
    (ObjectMessage(), lambda m: m.data),
    (Message(), lambda m: m.get_body(object)),
]


@pytest.mark.parametrize("use_compression", [False, True])
@pytest.mark.parametrize(("message", "body"), BODIES)
def test_bodies_travel_both_ways(message: Message, body: Any, use_compression: bool) -> None:
    command = sent(message, use_compression=use_compression)
    assert type(command) is MESSAGES[type(message)]
    assert command.compressed == (use_compression and command.content is not None)
    back = from_command(command)
    assert type(back) is type(message)
    assert body(back) == body(message)
    back.clear_body()
    assert sent(back).content is None


def test_undecoded_content_is_forwarded_unchanged() -> None:
    message = MapMessage({"a": 1})
    message.properties["p"] = 1
    command = sent(message, use_compression=True)
    onward = sent(from_command(command))
    assert onward.content is command.content
    assert onward.compressed
    assert onward.marshalled_properties is command.marshalled_properties
    opened = from_command(command)
    assert isinstance(opened, MapMessage)
    assert opened["a"] == 1
    assert opened.properties["p"] == 1
    again = sent(opened)
    assert not again.compressed
    onward_again = from_command(again)
    assert isinstance(onward_again, MapMessage)
    assert onward_again["a"] == 1
    assert onward_again.properties["p"] == 1
    opened.clear_properties()
    assert sent(opened).marshalled_properties is None


def test_a_sent_command_does_not_change_with_the_message() -> None:
    message = BytesMessage(b"a")
    message.properties["p"] = 1
    command = sent(message)
    message.write_bytes(b"b")
    message.properties["p"] = 2
    assert from_command(command).properties["p"] == 1
    back = from_command(command)
    assert isinstance(back, BytesMessage)
    assert back.data == b"a"


@pytest.mark.fact("jms-api 7.1")
def test_received_bodies_are_read_only_until_cleared() -> None:
    for message, write in (
        (TextMessage("a"), lambda m: setattr(m, "text", "b")),
        (BytesMessage(b"a"), lambda m: m.write_byte(1)),
        (MapMessage({"a": 1}), lambda m: m.set_int("a", 1)),
        (StreamMessage([1]), lambda m: m.write_int(1)),
        (ObjectMessage(b"a"), lambda m: setattr(m, "data", b"b")),
    ):
        back = from_command(sent(message))
        with pytest.raises(MessageNotWriteableException):
            write(back)
        with pytest.raises(MessageNotWriteableException):
            back.properties["x"] = 1
        back.clear_body()
        write(back)


def test_reading_a_received_stream_and_its_bytes() -> None:
    stream = from_command(sent(StreamMessage([1, b"ab"])))
    assert isinstance(stream, StreamMessage)
    assert stream.read_int() == 1
    assert stream.read_bytes(1) == b"a"
    assert stream.read_bytes(2) == b"b"
    stream.reset()
    assert stream.read_string() == "1"
    data = from_command(sent(BytesMessage(b"\0\1")))
    assert isinstance(data, BytesMessage)
    assert data.body_length == 2
    assert data.read_short() == 1


def test_java_deflates_more_bytes_than_it_says() -> None:
    content = (3).to_bytes(4, "big") + zlib.compress(b"abc" + bytes(1025))
    command = ActiveMQBytesMessage(content=content, compressed=True)
    back = from_command(command)
    assert isinstance(back, BytesMessage)
    assert back.data == b"abc"
    command.content = (9).to_bytes(4, "big") + zlib.compress(b"abc")
    short = from_command(command)
    with pytest.raises(MessageFormatException, match="3 bytes instead of 9"):
        short.get_body(bytes)


def test_a_compressed_body_without_the_end_of_its_stream_is_read() -> None:
    deflater = zlib.compressobj()
    body = (5).to_bytes(4, "big") + b"hello"
    content = deflater.compress(body) + deflater.flush(zlib.Z_SYNC_FLUSH)  # as Artemis writes it
    whole = from_command(ActiveMQTextMessage(content=content, compressed=True))
    assert isinstance(whole, TextMessage)
    assert whole.text == "hello"
    short = from_command(ActiveMQTextMessage(content=content[:-8], compressed=True))
    with pytest.raises(MessageFormatException, match="Damaged message body"):
        short.get_body(str)


def test_damage_is_a_format_error() -> None:
    for command in (
        ActiveMQTextMessage(content=b"\0\0\0\5a"),
        ActiveMQMapMessage(content=b"\0\0\0\1\0"),
        ActiveMQStreamMessage(content=b"\xff"),
        ActiveMQTextMessage(content=b"nozlib", compressed=True),
        ActiveMQBytesMessage(content=b"\0", compressed=True),
    ):
        with pytest.raises(MessageFormatException, match="Damaged message body"):
            from_command(command).load_body()
    with pytest.raises(MessageFormatException, match="Damaged message properties"):
        len(from_command(ActiveMQMessage(marshalled_properties=b"\0\0\0\1")).properties)


def test_values_that_cannot_be_written() -> None:
    message = MapMessage()
    message["x" * 70000] = 1
    with pytest.raises(MessageFormatException, match="cannot be written"):
        sent(message)
    nested = Message()
    nested.properties["l"] = [1]
    assert sent(nested).marshalled_properties
    for refused in (nested, MapMessage({"m": {}})):
        with pytest.raises(MessageFormatException, match="no JMS type"):
            sent(refused, nested_map_and_list_enabled=False)
    assert sent(MapMessage({"m": 1}), nested_map_and_list_enabled=False).content


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ID:host-1-2-3:1:2:4:7", MessageId(None, PRODUCER, 7)),
     ("ID:c:-1:1:1", MessageId(None, ProducerId("ID:c", 1, -1), 1))],
)  # fmt: skip
def test_message_ids_are_parsed_from_the_right(text: str, expected: MessageId) -> None:
    parsed = parse_message_id(text)
    assert parsed == expected
    assert str(parsed) == text


@pytest.mark.parametrize("text", ["ID:foreign", "abc", "ID:a:b:c:d", ":1:2:3"])
def test_foreign_message_ids_are_kept(text: str) -> None:
    parsed = parse_message_id(text)
    assert parsed.text_view == text
    assert str(parsed) == (text if text.startswith("ID:") else f"ID:{text}")


@pytest.mark.fact("jms-api 6.10")
def test_what_only_the_provider_sets() -> None:
    command = sent(Message())
    command.original_transaction_id = LocalTransactionId(3, ConnectionId("c"))
    command.jms_xgroup_first_for_consumer = True
    command.broker_in_time, command.broker_out_time = 5, 6
    command.broker_path = [BrokerId("b1"), BrokerId("b2")]
    command.user_id, command.group_id, command.group_sequence = "u", "g", 1
    p = from_command(command, 1).properties
    assert p.get_string("JMSXProducerTXID") == "TX:c:3"
    assert p.get_boolean("JMSXGroupFirstForConsumer")
    assert (p.get_long("JMSActiveMQBrokerInTime"), p["JMSActiveMQBrokerOutTime"]) == (5, 6)
    assert p.get_string("JMSActiveMQBrokerPath") == "b1,b2"
    assert p.get_string("JMSXUserID") == "u"
    assert (p.get_string("JMSXGroupID"), p.get_int("JMSXGroupSeq")) == ("g", 1)
    assert p.get_int("JMSXDeliveryCount") == 2
    command.original_transaction_id = None
    command.broker_path = None
    command.transaction_id = LocalTransactionId(4, ConnectionId("c"))
    p = from_command(command).properties
    assert p.get_string("JMSXProducerTXID") == "TX:c:4"
    assert p.get_string("JMSActiveMQBrokerPath") is None
    assert p.get_int("JMSXDeliveryCount") == 1
    assert p.get_string("JMSXAppID") is None


def test_a_users_subclass_and_a_blob() -> None:
    class Special(TextMessage):
        __slots__ = ()

    assert type(sent(Special("a"))) is ActiveMQTextMessage
    blob = from_command(ActiveMQBlobMessage(remote_blob_url="http://x"))
    assert isinstance(blob, BlobMessage)
    assert (blob.url, blob.get_body(object)) == ("http://x", None)
    assert isinstance(blob.source, CommandSource)


RECORDED: dict[str, Any] = {
    "null": lambda v: None,
    "boolean": bool, "byte": Byte, "char": Char, "short": Short, "int": int, "long": Long,
    "float": lambda v: Float(float(v)), "double": float, "string": str,
    "bytes": bytes.fromhex,
    "map": lambda v: {k: _value(x) for k, x in v.items()},
    "list": lambda v: [_value(x) for x in v],
}  # fmt: skip


def _value(tagged: Any) -> Any:
    [(kind, value)] = tagged.items()
    return RECORDED[kind](value)


def _canonical(value: Any) -> Any:
    """The value with its types, in a form that compares NaN as itself."""
    if isinstance(value, dict):
        return {k: _canonical(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_canonical(v) for v in value]
    return type(value).__name__, repr(value)


def _same(left: Any, right: Any) -> bool:
    return bool(_canonical(left) == _canonical(right))


READERS: dict[str, Any] = {
    "ActiveMQTextMessage": (ActiveMQTextMessage, "text", lambda m: m.text, str),
    "ActiveMQBytesMessage": (ActiveMQBytesMessage, "bytes", lambda m: m.data, bytes.fromhex),
    "ActiveMQMapMessage": (ActiveMQMapMessage, "map", dict, RECORDED["map"]),
    "ActiveMQStreamMessage": (
        ActiveMQStreamMessage, "stream", lambda m: m.values, RECORDED["list"],
    ),
    "ActiveMQObjectMessage": (
        ActiveMQObjectMessage, "java_serialized", lambda m: m.data, bytes.fromhex,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "least"), [("vectors", 120), ("captures", 60)])
def test_recorded_bodies_and_properties(name: str, least: int) -> None:
    """Every body and property of the recordings, compressed or not, is read as recorded."""
    seen = 0
    for line in openwire_lines(name):
        for frame in _frames(line):
            fields, decoded = frame["fields"] or {}, frame.get("decoded") or {}
            nested = fields.get("message")
            message = nested if isinstance(nested, dict) else fields
            if message.get("@type") not in READERS or "body" not in decoded:
                continue
            command_class, kind, read, expected = READERS[message["@type"]]
            back = from_command(
                command_class(
                    content=_bytes(message["content"]),
                    compressed=message["compressed"],
                    marshalled_properties=_bytes(message["marshalledProperties"]),
                )
            )
            body = (decoded["body"] or {}).get(kind)
            if body is not None:
                assert _same(read(back), expected(body)), frame
            else:
                assert not read(back)
            properties = RECORDED["map"](decoded["properties"] or {})
            assert _same(back.property_values(), properties), frame
            seen += 1
    assert seen >= least


def _bytes(field: dict[str, str] | None) -> bytes | None:
    return None if field is None else bytes.fromhex(field["hex"])


def _frames(line: dict[str, Any]) -> list[dict[str, Any]]:
    if "frames" in line:
        frames: list[dict[str, Any]] = line["frames"]
        return frames
    return [line] if line.get("fields") else []
