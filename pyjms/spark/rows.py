"""Messages as rows and Arrow batches, with the same columns in all formats; and rows as messages.

Object bodies stay bytes; nothing is deserialized. Maps and streams are JSON in `text`, with bytes
in Base64. New columns are only appended, so that existing queries keep working.
(spark-pipeline 3.4, 6.1)

A column of a sink that cannot be part of a message is an error before anything is sent; it does not
become a property. (spark-pipeline 6.1)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyjms.client.messages import CommandSource
from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException, MessageFormatException
from pyjms.jms.conversions import value_text
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.message import DUPLICATE_ID_PROPERTY, BytesMessage, MapMessage, Message, TextMessage
from pyjms.jms.types import Long
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.commands import MessageId, ProducerId

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
DAMAGED: Final = "damaged"
"""The `body_kind` of a message that cannot be read."""
_PERSISTENT, _NON_PERSISTENT = 2, 1
_LATEST: Final = (2**63 - 1) // 1000
Columns = Sequence[tuple[str, str]]
Body = tuple[str, str | None, bytes | None]
Properties = list[tuple[str, str | None]]


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


def arrow_batch(rows: Iterable[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows, each in the order of the schema's columns, as one batch."""
    import pyarrow as pa

    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    try:
        arrays = [pa.array(column, kind) for column, kind in zip(values, schema.types, strict=True)]
    except UnicodeEncodeError:  # a lone surrogate, which Java strings may contain
        arrays = [
            pa.array(_without_surrogates(column), kind)
            for column, kind in zip(values, schema.types, strict=True)
        ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _without_surrogates(value: Any) -> Any:
    """Return a text, or a list of texts, with U+FFFD for lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return type(value)(_without_surrogates(item) for item in value)
    return value


def message_values(
    message: commands.ActiveMQMessage, seq: int | None, counter: int
) -> tuple[object, ...]:
    """Return a message as the values of MESSAGE_COLUMNS; `counter` is its redelivery counter.

    Raises:
        MessageFormatException: its properties or body are damaged.
    """
    source = CommandSource(message)
    body = _BODIES.get(message.TYPE, _no_body)(source)
    properties = [(name, _text(value)) for name, value in source.decode_properties().items()]
    return _values(message, seq, counter, properties, body)


def tolerant_values(
    message: commands.ActiveMQMessage, seq: int | None, counter: int
) -> tuple[object, ...]:
    """Return the values like `message_values`; a damaged message becomes a row that says so.

    Its `body_kind` is DAMAGED, `bytes` is the body as received, and it has no properties. A stream
    must not stop forever because of one message.
    """
    try:
        return message_values(message, seq, counter)
    except MessageFormatException as error:
        logger.warning(
            "Message %s of %s is damaged: %s", message.message_id, message.destination, error
        )
        body = (DAMAGED, None, bytes(message.content or b""))
        return _values(message, seq, counter, None, body)


def _values(
    message: commands.ActiveMQMessage,
    seq: int | None,
    counter: int,
    properties: Properties | None,
    body: Body,
) -> tuple[object, ...]:
    destination, reply_to = message.destination, message.reply_to
    return (
        seq,
        str(message.message_id),
        None if destination is None else destination.qualified_name,
        _microseconds(message.timestamp),
        _microseconds(message.expiration),
        _PERSISTENT if message.persistent else _NON_PERSISTENT,
        message.priority
        if message.priority < 128
        else message.priority - 256,  # a signed byte in Java
        counter > 0,
        counter + 1,
        message.correlation_id,
        message.type,
        None if reply_to is None else reply_to.qualified_name,
        message.group_id,
        message.group_sequence if message.group_id is not None else None,
        properties,
        *body,
    )


def _microseconds(milliseconds: int) -> int | None:
    """Return a time in microseconds; None: it is not set, or out of range."""
    return milliseconds * 1000 if 0 < milliseconds <= _LATEST else None


def _text(value: object) -> str | None:
    """Return a property converted to text as JMS converts it to a String."""
    if value is None or isinstance(value, str):
        return value
    return value_text(value)


def _json(value: object) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return list(value)
    return str(value)


def _no_body(_source: CommandSource) -> Body:
    return "none", None, None


def _text_body(source: CommandSource) -> Body:
    body = source.decode_body()
    return "text", None if body is None else str(body), None


def _bytes_body(source: CommandSource) -> Body:
    body = source.decode_body()
    return "bytes", None, bytes(body) if isinstance(body, bytes | bytearray) else b""


def _object_body(source: CommandSource) -> Body:
    body = source.decode_body()
    return "object", None, bytes(body) if isinstance(body, bytes | bytearray) else None


def _map_body(source: CommandSource) -> Body:
    return "map", _json(source.decode_body()), None


def _stream_body(source: CommandSource) -> Body:
    return "stream", _json(source.decode_body()), None


_BODIES: Final[dict[int, Callable[[CommandSource], Body]]] = {
    commands.ActiveMQTextMessage.TYPE: _text_body,
    commands.ActiveMQBytesMessage.TYPE: _bytes_body,
    commands.ActiveMQObjectMessage.TYPE: _object_body,
    commands.ActiveMQMapMessage.TYPE: _map_body,
    commands.ActiveMQStreamMessage.TYPE: _stream_body,
}


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
