"""Rows as messages: the columns of a sink, and their effects on messages.

A column that cannot be part of a message is an error before anything is sent; it does not become a
property. (spark-pipeline 6.1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException, MessageFormatException
from pyjms.jms.bodies import BytesMessage, MapMessage, TextMessage
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.message import Message
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import MessageId, ProducerId

__all__ = ["BODIES", "SINK_COLUMNS", "Outgoing", "RowId", "check_columns", "to_message"]

BODIES: Final = ("text", "bytes", "body")


class RowId(NamedTuple):
    """The identity of a row, the same in repeated sends: a source of rows, and a number in it.

    It becomes the property that the bundled broker and Artemis check, and the message id, by which
    ActiveMQ drops duplicates.
    """

    source: str
    number: int | None = None

    @property
    def text(self) -> str:
        """The id as one text."""
        return self.source if self.number is None else f"{self.source}:{self.number}"

    @property
    def message_id(self) -> MessageId:
        """The message id, which is the same for the same row."""
        producer = ProducerId(f"ID:PyJMS:{self.source}", 1, 1)
        return MessageId(None, producer, 1 if self.number is None else self.number + 1)


class Outgoing(NamedTuple):
    """A message to send, its destination (None: the sink's) and its delivery options."""

    message: Message
    destination: Destination | None
    delivery_mode: DeliveryMode | None
    priority: int | None
    time_to_live: float | None
    message_id: MessageId | None = None


def check_columns(columns: Iterable[str], id_column: str | None, *, routed: bool) -> None:
    """Check that rows with these columns can be sent; `routed`: the sink has a destination.

    Raises:
        ConfigurationException: a column is unknown, or a required one is missing.
    """
    names = list(columns)
    unknown = [n for n in names if n not in BODIES and n not in _HEADERS and n not in _SENDING
               and n != id_column]  # fmt: skip
    if unknown:
        raise ConfigurationException(
            f"jms: column {', '.join(unknown)} cannot be part of a message",
            hint="move it into the body, or into a column `properties` (map<string,string>); "
            f"the columns of a message are {', '.join(SINK_COLUMNS)}",
        )
    if not any(name in names for name in BODIES):
        raise ConfigurationException(
            "jms: the rows have no column text, bytes or body",
            hint="select one of them; with several, each row uses the one that is not null",
        )
    if id_column is not None and id_column not in names:
        raise ConfigurationException(
            f"jms: idColumn {id_column} is not a column of the rows",
            hint=f"the columns are {', '.join(names)}",
        )
    if not routed and "destination" not in names:
        raise ConfigurationException(
            "jms: the destination is missing",
            hint="set the option destination, or select a column destination",
        )


def to_message(row: Any, row_id: RowId | None = None) -> Outgoing:
    """Return a row as a message.

    Raises:
        MessageFormatException: a value is not valid for its column.
    """
    values: dict[str, Any] = row.asDict()
    message = _body(values)
    for name, setter in _HEADERS.items():
        value = values.get(name)
        if value is not None:
            try:
                setter(message, value)
            except (TypeError, ValueError) as error:
                raise MessageFormatException(
                    f"jms: the value of column {name} is not valid: {error}"
                ) from error
    if row_id is not None:
        message.properties[DUPLICATE_ID_PROPERTY] = row_id.text
    target = values.get("destination")
    mode = values.get("delivery_mode")
    return Outgoing(
        message,
        None if target is None else parse_destination(target),
        None if mode is None else DeliveryMode(mode),
        values.get("priority"),
        _seconds(values.get("time_to_live")),
        None if row_id is None else row_id.message_id,
    )


def _seconds(value: Any) -> float | None:
    """Return a time to live in seconds, given in seconds or as an interval."""
    if value is None:
        return None
    return float(value.total_seconds() if hasattr(value, "total_seconds") else value)


def _body(values: dict[str, Any]) -> Message:
    """Return a message with the body column that has a value; if none has, with the first."""
    given = [name for name in BODIES if name in values]
    kind = next((name for name in given if values[name] is not None), given[0])
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
"""The columns that can be part of a message."""
