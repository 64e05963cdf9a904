"""Rows to messages: which columns a sink takes, and what each becomes.

A column that no message has a place for is an error before anything is sent, not a property.
(spark-pipeline 6.1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException, MessageFormatException
from pyjms.jms.bodies import BytesMessage, MapMessage, TextMessage
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.message import Message
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import MessageId, ProducerId

__all__ = [
    "BODIES",
    "DUPLICATE_ID",
    "SINK_COLUMNS",
    "Outgoing",
    "RowId",
    "check_columns",
    "to_message",
]

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
"""The property by which a broker drops what it has seen."""
BODIES: Final = ("text", "bytes", "body")


class RowId(NamedTuple):
    """What a row is known by when it comes again: the number within a source of rows.

    It becomes the property that our broker looks at, and the message's id, by which ActiveMQ
    drops what it still has or has seen lately.
    """

    source: str
    number: int | None = None

    @property
    def text(self) -> str:
        """The id in one text."""
        return self.source if self.number is None else f"{self.source}:{self.number}"

    @property
    def message_id(self) -> MessageId:
        """The message id, the same for the same row."""
        producer = ProducerId(f"ID:PyJMS:{self.source}", 1, 1)
        return MessageId(None, producer, 1 if self.number is None else self.number + 1)


class Outgoing(NamedTuple):
    """A row as a message: what, where to (None: the sink's destination), and how."""

    message: Message
    destination: Destination | None
    delivery_mode: DeliveryMode | None
    priority: int | None
    time_to_live: float | None
    message_id: MessageId | None = None


def check_columns(columns: Iterable[str], id_column: str | None, *, routed: bool) -> None:
    """Check that rows with these columns can be sent; `routed`: the sink has a destination.

    Raises:
        ConfigurationException: a column is unknown, or what is needed is missing.
    """
    names = list(columns)
    unknown = [n for n in names if n not in BODIES and n not in _HEADERS and n not in _SENDING
               and n != id_column]  # fmt: skip
    if unknown:
        raise ConfigurationException(
            f"jms: a message has no place for column {', '.join(unknown)}",
            hint="put it into the body, or into a column `properties` (map<string,string>); "
            f"known are {', '.join(SINK_COLUMNS)}",
        )
    if not any(name in names for name in BODIES):
        raise ConfigurationException(
            "jms: a row needs a column text, bytes or body, and has none of them",
            hint="with more than one of them, each row has a value in one",
        )
    if id_column is not None and id_column not in names:
        raise ConfigurationException(f"jms: idColumn {id_column} is none of the columns")
    if not routed and "destination" not in names:
        raise ConfigurationException(
            "jms: neither option destination nor a column destination says where to send"
        )


def to_message(row: Any, row_id: RowId | None = None) -> Outgoing:
    """Return a row as a message.

    Raises:
        MessageFormatException: a value does not fit its place.
    """
    values: dict[str, Any] = row.asDict()
    message = _body(values)
    for name, setter in _HEADERS.items():
        value = values.get(name)
        if value is not None:
            try:
                setter(message, value)
            except (TypeError, ValueError) as error:
                raise MessageFormatException(f"Column {name}: {error}") from error
    if row_id is not None:
        message.properties[DUPLICATE_ID] = row_id.text
    where = values.get("destination")
    mode = values.get("delivery_mode")
    return Outgoing(
        message,
        None if where is None else parse_destination(where),
        None if mode is None else DeliveryMode(mode),
        values.get("priority"),
        _seconds(values.get("time_to_live")),
        None if row_id is None else row_id.message_id,
    )


def _seconds(value: Any) -> float | None:
    """Return a time to live: seconds, or an interval."""
    if value is None:
        return None
    return float(value.total_seconds() if hasattr(value, "total_seconds") else value)


def _body(values: dict[str, Any]) -> Message:
    """Return a message of the column that has a value; of the first there is, if none has."""
    there = [name for name in BODIES if name in values]
    kind = next((name for name in there if values[name] is not None), there[0])
    if kind == "text":
        return TextMessage(values["text"])
    if kind == "bytes":
        data = values["bytes"]
        return BytesMessage(None if data is None else bytes(data))
    body: Any = values["body"]
    return MapMessage(body.asDict() if hasattr(body, "asDict") else body)


def _set_reply_to(message: Message, value: str) -> None:
    message.reply_to = parse_destination(value)


def _set_properties(message: Message, value: dict[str, Any]) -> None:
    for name, item in value.items():
        message.properties[name] = item


def _set_delay(message: Message, value: float) -> None:
    message.properties["AMQ_SCHEDULED_DELAY"] = Long(round(float(value) * 1000))


def _set_correlation_id(message: Message, value: str) -> None:
    message.correlation_id = value


def _set_type(message: Message, value: str) -> None:
    message.type = value


def _set_group_id(message: Message, value: str) -> None:
    message.group_id = value


_HEADERS: Final[dict[str, Callable[[Message, Any], None]]] = {
    "correlation_id": _set_correlation_id,
    "reply_to": _set_reply_to,
    "type": _set_type,
    "group_id": _set_group_id,
    "properties": _set_properties,
    "delay": _set_delay,
}
_SENDING: Final = ("destination", "delivery_mode", "priority", "time_to_live")
SINK_COLUMNS: Final = (*BODIES, *_SENDING, *_HEADERS)
"""The columns that a message has a place for."""
