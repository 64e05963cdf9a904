"""A message as a row; one that is damaged is a row, too."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue
from pyjms.spark.rows import MESSAGE_COLUMNS, arrow_schema, message_batch, new_columns
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_map, encode_text


def message(**fields: object) -> ActiveMQTextMessage:
    made = ActiveMQTextMessage(
        destination=Queue("IN"),
        message_id=MessageId(None, ProducerId("c", 1, 1), 7),
        content=encode_text("hello"),
        marshalled_properties=encode_map({"k": "v"}),
        correlation_id="c",
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def row_of(made: ActiveMQTextMessage) -> dict[str, object]:
    columns = new_columns()
    columns.add_message(made, 3, 0)
    rows: list[dict[str, object]] = message_batch(
        columns, arrow_schema(MESSAGE_COLUMNS)
    ).to_pylist()
    [row] = rows
    return row


@pytest.mark.parametrize(
    "damage",
    [
        {"marshalled_properties": b"\x00\x00\x00\x05\x00"},
        {"content": b"\x00\x00\x00\xffabc"},
        {"content": b"no zlib", "compressed": True},
    ],
)
def test_a_damaged_one_keeps_its_headers_and_says_so(
    damage: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    made = message(**damage)
    row = row_of(made)
    assert (row["seq"], row["message_id"], row["correlation_id"]) == (3, "ID:c:1:1:7"[3:], "c")
    assert (row["body_kind"], row["text"], row["properties"]) == ("damaged", None, None)
    assert row["bytes"] == made.content
    assert str(made.message_id) in caplog.text
    assert "abc" not in caplog.text
