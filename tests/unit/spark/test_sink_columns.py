"""Columns as messages: their types, typed properties, and a source's own columns."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException, MessageFormatException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.jms.message import BytesMessage, MapMessage, TextMessage
from pyjms.jms.types import Byte, Long
from pyjms.spark.outgoing import (
    SINK_COLUMNS,
    Outgoing,
    OutgoingColumns,
    check_columns,
    message_schema,
)
from pyjms.spark.rows import MESSAGE_COLUMNS
from tests.kit.spark.rows import batch_of_rows

TEXT = StringType()
VARIANT = VariantVal(b"\x02\x02\x00\x01\x00\x02\x04\x0c\x05\x05x", b"\x01\x02\x00\x01\x02ns")
"""{"n": 5, "s": "x"}"""
LIST = VariantVal(b"\x03\x01\x00\x02\x0c\x01", b"\x01\x00\x00")
"""[1]"""


def schema(**columns: DataType) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made.add(name, kind)
    return made


def sent(kinds: StructType, *values: object, routed: bool = True) -> Outgoing:
    check_columns(kinds, None, routed=routed)
    row = Row(*kinds.names)(*values)
    [(outgoing, _)] = OutgoingColumns(kinds, routed=routed).messages(batch_of_rows([row], kinds))
    return outgoing


def problem(kinds: StructType, *, routed: bool = True) -> str:
    with pytest.raises(ConfigurationException) as caught:
        check_columns(kinds, None, routed=routed)
    return str(caught.value)


def test_headers_are_columns() -> None:
    kinds = schema(
        text=TEXT, destination=TEXT, delivery_mode=ByteType(), priority=IntegerType(),
        time_to_live=DoubleType(), delivery_delay=DayTimeIntervalType(), correlation_id=TEXT,
        reply_to=TEXT, type=TEXT, group_id=TEXT, group_seq=LongType(),
    )  # fmt: skip
    out = sent(kinds, "x", "topic://T", 1, 7, 2.5, timedelta(minutes=1), "c", "temp-queue://ID:a",
               "t", "g", 3)  # fmt: skip
    assert (out.destination, out.delivery_mode, out.priority) == (
        Topic("T"), DeliveryMode.NON_PERSISTENT, 7
    )  # fmt: skip
    assert (out.time_to_live, out.delivery_delay) == (2.5, 60.0)
    message = out.message
    assert isinstance(message, TextMessage)
    assert (message.text, message.correlation_id, message.type) == ("x", "c", "t")
    assert (message.reply_to, message.group_id, message.group_sequence) == (
        TemporaryQueue("ID:a"), "g", 3
    )  # fmt: skip
    assert set(kinds.names) | {"bytes", "body", "properties"} == set(SINK_COLUMNS)


def test_a_row_uses_the_body_that_is_there() -> None:
    kinds = schema(text=TEXT, bytes=BinaryType(), body=schema(n=LongType(), legs=ArrayType(TEXT)))
    text, data, nothing = (sent(kinds, *v).message for v in (("a", None, None), (None, b"b", None), (None,) * 3))  # fmt: skip
    assert isinstance(text, TextMessage)
    assert isinstance(data, BytesMessage)
    assert data.data == b"b"
    assert isinstance(nothing, TextMessage)
    assert nothing.text is None
    map_message = sent(kinds, None, None, Row(n=7, legs=["JFK"])).message
    assert isinstance(map_message, MapMessage)
    assert dict(map_message.items()) == {"n": 7, "legs": ["JFK"]}
    assert isinstance(map_message["n"], Long)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (MapType(TEXT, TEXT), {"k": "v"}, {"k": "v"}),
        (MapType(TEXT, ByteType()), {"k": 7}, {"k": Byte(7)}),
        (schema(n=IntegerType(), big=LongType(), region=TEXT, none=TEXT),
         Row(n=5, big=6, region="eu", none=None), {"n": 5, "big": Long(6), "region": "eu", "none": None}),
        (VariantType(), VARIANT, {"n": 5, "s": "x"}),
    ],
)  # fmt: skip
def test_properties_keep_their_types(kind: DataType, value: Any, expected: dict[str, Any]) -> None:
    found = dict(sent(schema(text=TEXT, properties=kind), "x", value).message.properties)
    assert found == expected
    assert [type(each) for each in found.values()] == [type(each) for each in expected.values()]


def test_a_variant_that_is_no_object_is_no_properties() -> None:
    kinds = schema(text=TEXT, properties=VariantType())
    with pytest.raises(MessageFormatException, match="properties is not a JSON object"):
        sent(kinds, "x", LIST)


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        (schema(text=IntegerType()), "jms: column text is int, but must be a string (cast it in the query)"),
        (schema(text=TEXT, priority=TEXT), "column priority is string, but must be a whole number"),
        (schema(text=TEXT, time_to_live=TEXT), "column time_to_live is string, but must be a number of seconds or an"),
        (schema(text=TEXT, properties=TEXT), "column properties is string, but must be a map, a struct or a VARIANT"),
        (schema(text=TEXT, properties=MapType(IntegerType(), TEXT)), "the keys of properties are int, but must be strings"),
        (schema(text=TEXT, properties=schema(at=TimestampType())), "properties.at is timestamp, which properties do not have"),
        (schema(text=TEXT, properties=MapType(TEXT, DecimalType(5, 2))), "properties[] is decimal(5,2), which properties do"),
        (schema(body=schema(day=DateType())), "body.day is date, which map messages do not have"),
        (schema(text=IntegerType(), bytes=TEXT), "column text is int, but must be a string; column bytes is string, but"),
        (schema(value=TEXT, key=TEXT), "column value, key cannot be part of a message (value is text or bytes here; key is group_id"),
        (schema(text=TEXT, delay=DoubleType()), "column delay cannot be part of a message (delay is delivery_delay here;"),
        (schema(text=TEXT, timestamp=TimestampType()), "column timestamp cannot be part of a message"),
        (schema(priority=IntegerType()), "the rows have no column text, bytes or body"),
    ],
)  # fmt: skip
def test_wrong_columns_are_refused_when_planned(kinds: StructType, sentence: str) -> None:
    assert sentence in problem(kinds)


def test_a_frame_that_was_read_can_be_written() -> None:
    read = message_schema(MESSAGE_COLUMNS)
    some = StructType([field for field in read if field.name in {"seq", "text", "destination"}])
    out = sent(some, 7, "queue://FROM", "x")
    assert out.destination is None, "the sink's destination, not the one that it came from"
    assert "the destination is missing" in problem(some, routed=False)
    computed = StructType([*some]).add("timestamp", TimestampType())
    assert "column timestamp cannot be part of a message" in problem(computed)
    routed = StructType([field for field in some if field.name != "destination"])
    routed = routed.add("destination", TEXT)
    assert sent(routed, 7, "x", "queue://TO").destination == Queue("TO")


def test_a_table_has_the_columns_of_the_source_without_their_mark() -> None:
    table = schema(**{field.name: field.dataType for field in message_schema(MESSAGE_COLUMNS)})
    check_columns(table, None, routed=True)
    without = StructType([field for field in table if field.name != "seq"])
    assert "timestamp" in problem(without)
