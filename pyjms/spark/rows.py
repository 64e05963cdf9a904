"""Messages as rows and Arrow batches, with the same columns in all formats; and rows as messages.

Object bodies stay bytes; nothing is deserialized. Maps and streams are JSON in `text`, with bytes
in Base64. New columns are only appended, so that existing queries keep working.
(spark-pipeline 3.4, 6.1)

A column of a sink that cannot be part of a message is an error before anything is sent; it does not
become a property. (spark-pipeline 6.1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException, MessageFormatException, ProtocolViolation
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.message import DUPLICATE_ID_PROPERTY, BytesMessage, MapMessage, Message, TextMessage
from pyjms.jms.types import Long
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import MessageId, ProducerId
from pyjms.wire.openwire.message_columns import COLUMNS, MessageColumns

if TYPE_CHECKING:
    import pyarrow as pa

logger: Final = get_logger(__name__)

MESSAGE_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("seq", "long"),
    ("message_id", "string"),
    ("destination", "string"),
    ("timestamp", "timestamp"),
    ("expiration", "timestamp"),
    ("delivery_mode", "byte"),
    ("priority", "byte"),
    ("redelivered", "boolean"),
    ("delivery_count", "int"),
    ("correlation_id", "string"),
    ("type", "string"),
    ("reply_to", "string"),
    ("group_id", "string"),
    ("group_seq", "int"),
    ("properties", "map<string,string>"),
    ("body_kind", "string"),
    ("text", "string"),
    ("bytes", "binary"),
)
"""The name and Spark type of each column. In Arrow, times are microseconds since 1970, in UTC."""

_ARROW_TYPES: Final = {
    "long": "int64",
    "int": "int32",
    "byte": "int8",
    "string": "string",
    "boolean": "bool",
    "binary": "binary",
}
assert tuple(name for name, _ in MESSAGE_COLUMNS) == COLUMNS
Columns = Sequence[tuple[str, str]]


def ddl(columns: Columns) -> str:
    """Return the columns as Spark's DDL, all nullable."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def arrow_schema(columns: Columns) -> pa.Schema:
    """Return the columns as an Arrow schema, with the exact types that Spark requires.

    Raises:
        ConfigurationException: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ConfigurationException(
            "The Spark formats need pyarrow, which is not installed", hint=install_command("spark")
        ) from error

    special = {
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return pa.schema(
        [
            (name, special.get(kind) or pa.type_for_alias(_ARROW_TYPES[kind]))
            for name, kind in columns
        ]
    )


def new_columns(columns: Columns = MESSAGE_COLUMNS) -> MessageColumns:
    """Return empty columns of messages, to be filled and made a batch by `message_batch`.

    A damaged message becomes a row that says so, and a warning: its `body_kind` is DAMAGED,
    `bytes` is the body as received, and it has no properties. A stream must not stop forever
    because of one message.
    """
    return MessageColumns([name for name, _ in columns], warn_of_damage)


def warn_of_damage(message_id: str, destination: str | None, error: ProtocolViolation) -> None:
    """Log that a message cannot be read, without its contents."""
    logger.warning("Message %s of %s is damaged: %s", message_id, destination, error)


def message_batch(
    columns: MessageColumns, schema: pa.Schema, own: Mapping[str, list[Any]] | None = None
) -> pa.RecordBatch:
    """Return the columns as one batch, and empty them; `own` has those that are not a message's."""
    import pyarrow as pa

    lists, names, texts = columns.take()
    if own:
        lists.update(own)
    try:
        arrays = _arrays(lists, names, texts, schema)
    except UnicodeEncodeError:  # a lone surrogate, which Java strings may contain
        whole = {name: _without_surrogates(values) for name, values in lists.items()}
        arrays = _arrays(whole, _without_surrogates(names), _without_surrogates(texts), schema)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _arrays(
    lists: Mapping[str, list[Any]], names: list[str], texts: list[str | None], schema: pa.Schema
) -> list[pa.Array]:
    import pyarrow as pa

    arrays = []
    for field in schema:
        values = lists[field.name]
        if field.name == "properties":
            starts = pa.array([*values, len(names)], pa.int32())
            keys, items = pa.array(names, pa.string()), pa.array(texts, pa.string())
            arrays.append(pa.MapArray.from_arrays(starts, keys, items))
        else:
            arrays.append(pa.array(values, field.type))
    return arrays


def _without_surrogates(values: list[Any]) -> list[Any]:
    """Return the values with U+FFFD for lone surrogates in texts."""
    return [
        value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, str)
        else value
        for value in values
    ]


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


def _set(attribute: str, message: Message, value: str) -> None:
    setattr(message, attribute, value)


def _set_reply_to(message: Message, value: str) -> None:
    message.reply_to = parse_destination(value)


def _set_properties(message: Message, value: dict[str, Any]) -> None:
    for name, item in value.items():
        message.properties[name] = item


def _set_delay(message: Message, value: float) -> None:
    message.properties["AMQ_SCHEDULED_DELAY"] = Long(round(float(value) * 1000))


_HEADERS: Final[dict[str, Callable[[Message, Any], None]]] = {
    "correlation_id": partial(_set, "correlation_id"),
    "reply_to": _set_reply_to,
    "type": partial(_set, "type"),
    "group_id": partial(_set, "group_id"),
    "properties": _set_properties,
    "delay": _set_delay,
}
_SENDING: Final = ("destination", "delivery_mode", "priority", "time_to_live")
SINK_COLUMNS: Final = (*BODIES, *_SENDING, *_HEADERS)
"""The columns that can be part of a message."""
