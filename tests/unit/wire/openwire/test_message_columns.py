"""Messages as columns are what the decoder of objects makes of the same bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.destination import Queue
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.openwire.commands import ActiveMQMessage, ActiveMQTextMessage, MessageId, ProducerId
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.message_columns import ADDED, COLUMNS, DECLINED, LEFT_OUT, MessageColumns
from pyjms.wire.openwire.primitives import encode_map, encode_text
from pyjms.wire.openwire.settings import WireFormatSettings
from tests.kit.properties import examples
from tests.kit.stores.column_rows import Row, object_row, random_message, rows_of, tolerant_row

chances = st.integers(0, 2**32).map(random.Random)
PRODUCER = ProducerId("ID:h-1-2-3:1", 1, 1)


def ignore(_id: str, _destination: str | None, _error: JMSException) -> None:
    """Damage is a row here."""


def message(**fields: object) -> ActiveMQTextMessage:
    made = ActiveMQTextMessage(
        PRODUCER,
        Queue("q"),
        message_id=MessageId(None, PRODUCER, 1),
        content=encode_text("hello"),
        timestamp=17,
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def as_received(sent: ActiveMQMessage, chance: random.Random) -> ActiveMQMessage:
    """Return a message as it arrives over a connection with any of the wire formats."""
    settings = WireFormatSettings(
        version=chance.choice((12, 12, 11, 9, 6, 3)),
        tight_encoding_enabled=chance.random() < 0.5,
        cache_enabled=chance.random() < 0.5,
    )
    sender, receiver = OpenWireFormat(settings), OpenWireFormat(settings)
    sender.negotiate(receiver.local_info())
    receiver.negotiate(sender.local_info())
    (received,) = receiver.receive_data(sender.encode(sent))
    assert isinstance(received, ActiveMQMessage)
    return received


def add(columns: MessageColumns, frame: bytes, seq: int | None = None) -> int:
    """Add a stored message as the readers do; return what `add` said."""
    found = columns.add(frame, 5, len(frame), frame[4], seq)
    if found == DECLINED:
        decoded = decode_message(frame, 12)
        columns.add_message(decoded, seq, decoded.redelivery_counter)
    return found


@given(chances)
@examples(15)
def test_columns_are_those_of_the_decoded_objects(chance: random.Random) -> None:
    columns, expected = MessageColumns(COLUMNS, ignore), []
    for number in range(10):
        frame = encode_message(as_received(random_message(chance), chance))
        add(columns, frame, number)
        decoded = decode_message(frame, 12)
        expected.append(tolerant_row(decoded, number, decoded.redelivery_counter))
    assert rows_of(columns) == expected


@given(chances)
@examples(30)
def test_damaged_bytes_are_read_or_refused_alike(chance: random.Random) -> None:
    columns = MessageColumns(COLUMNS, ignore)
    frame = bytearray(encode_message(random_message(chance)))
    for _ in range(20):
        damaged = bytearray(frame)
        damaged[chance.randrange(5, len(frame))] = chance.randrange(256)
        expected: Row | None
        try:
            decoded = decode_message(bytes(damaged), 12)
            expected = tolerant_row(decoded, None, decoded.redelivery_counter)
        except JMSException:
            expected = None
        found: list[Row] = []
        try:
            add(columns, bytes(damaged))
        except JMSException:
            assert expected is None
        else:
            found = rows_of(columns)
            assert found == [expected]


@given(chances, st.sets(st.sampled_from(COLUMNS)))
@examples(15)
def test_chosen_columns_are_those_of_all(chance: random.Random, chosen: set[str]) -> None:
    some, every = MessageColumns(chosen, ignore), MessageColumns(COLUMNS, ignore)
    for _ in range(5):
        sent = random_message(chance)
        frame = encode_message(sent)
        if object_row_is_readable(sent):
            add(some, frame)
            add(every, frame)
    expected = [{name: row[name] for name in chosen} for row in rows_of(every)]
    assert rows_of(some) == expected


def object_row_is_readable(sent: ActiveMQMessage) -> bool:
    try:
        object_row(sent, None, 0)
    except MessageFormatException:
        return False
    return True


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"correlation_id": "c", "type": "t", "reply_to": Queue("r"), "group_id": "g"},
        {"marshalled_properties": encode_map({"n": 5, "f": 1.5, "b": True, "s": "é", "x": None})},
        {"user_id": "me"},
        {"original_destination": Queue("o")},
    ],
)
def test_usual_messages_are_read_without_objects(fields: dict[str, object]) -> None:
    columns = MessageColumns(COLUMNS)
    assert add(columns, encode_message(message(**fields))) == ADDED


def test_only_messages_of_the_time_and_destinations_are_added() -> None:
    columns = MessageColumns(["message_id"], None, 5_000, 9_000, frozenset(["queue://q"]))
    times = (0, 4, 5, 9, 10)
    added = [add(columns, encode_message(message(timestamp=time))) for time in times]
    assert added == [LEFT_OUT, LEFT_OUT, ADDED, ADDED, LEFT_OUT]
    elsewhere = message(timestamp=5, destination=Queue("other"))
    assert add(columns, encode_message(elsewhere)) == LEFT_OUT
    assert columns.add_message(elsewhere, None, 0) is False
    assert columns.count == 2


def test_damage_is_raised_where_nobody_is_told() -> None:
    columns = MessageColumns(COLUMNS)
    frame = encode_message(message(content=b"\0\0\0\xffabc"))
    with pytest.raises(MessageFormatException, match=r"^Damaged message"):
        add(columns, frame)
    assert columns.count == 0
