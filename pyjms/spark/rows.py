"""Messages as rows and Arrow batches, with the same columns in all formats.

Object bodies stay bytes; nothing is deserialized. Maps and streams are JSON in `text`, with bytes
in Base64. New columns are only appended, so that existing queries keep working.
(spark-pipeline 3.4, 6.1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyjms.errors import ConfigurationException, ProtocolViolation
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
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
