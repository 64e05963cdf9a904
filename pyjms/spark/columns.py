"""The columns of a message, shared by all formats, and messages as rows and Arrow batches.

Object bodies stay bytes; nothing is deserialized. Maps and streams are JSON in `text`, with bytes
in Base64. New columns are only appended, so that existing queries keep working.
(spark-pipeline 3.4, 6.1)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyjms._distribution import install_command
from pyjms._logger import get_logger
from pyjms.client.messages import CommandSource
from pyjms.errors import ConfigurationException, MessageFormatException
from pyjms.jms.numbers import value_text
from pyjms.wire.openwire import commands

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DAMAGED",
    "MESSAGE_COLUMNS",
    "arrow_batch",
    "arrow_schema",
    "ddl",
    "message_values",
    "tolerant_values",
]

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
