"""Columns as messages: which columns a sink has, their types, and the conversion of a batch.

A column that cannot be part of a message, or has another type, is an error when a query is planned;
nothing becomes a property by itself. A frame that was read with the format `jms` can be written as
it is: the source marks its own columns (`OWN_COLUMN` in their metadata, which Spark keeps for
columns that are only selected), and marked ones that cannot be set are ignored. A computed column
has no mark, so a `timestamp` of the user's is an error. (spark-pipeline 3.4, 6.1)

Batches come as Arrow columns, each converted to a list at once. (spark-pipeline 4)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException, MessageFormatException
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.message import BytesMessage, MapMessage, Message, TextMessage
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.jms.types import Byte, Float, Long, Short
from pyjms.spark.rows import MESSAGE_COLUMNS
from pyjms.wire.openwire.commands import MessageId, ProducerId

if TYPE_CHECKING:
    import pyarrow as pa

BODIES: Final = ("text", "bytes", "body")
OWN_COLUMN: Final = "pyjms.source"
"""The key in the metadata of a column that the source has made."""


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
    destination: Destination | None = None
    delivery_mode: DeliveryMode | None = None
    priority: int | None = None
    time_to_live: float | None = None
    delivery_delay: float | None = None
    message_id: MessageId | None = None


class _Column(NamedTuple):
    """A column of a sink: the types that it may have, in words too."""

    types: tuple[type[DataType], ...]
    words: str


_TEXT: Final = _Column((StringType,), "a string")
_WHOLE: Final = _Column((IntegralType,), "a whole number")
_SECONDS: Final = _Column(
    (NumericType, DayTimeIntervalType), "a number of seconds or an interval of days and times"
)
_COLUMNS: Final[Mapping[str, _Column]] = {
    "text": _TEXT,
    "bytes": _Column((BinaryType,), "binary"),
    "body": _Column((StructType, MapType), "a struct or a map"),
    "destination": _TEXT,
    "delivery_mode": _WHOLE,
    "priority": _WHOLE,
    "time_to_live": _SECONDS,
    "delivery_delay": _SECONDS,
    "correlation_id": _TEXT,
    "reply_to": _TEXT,
    "type": _TEXT,
    "group_id": _TEXT,
    "group_seq": _WHOLE,
    "properties": _Column((MapType, StructType, VariantType), "a map, a struct or a VARIANT"),
}
SINK_COLUMNS: Final = tuple(_COLUMNS)
"""The columns that can be part of a message."""
_FOREIGN_NAMES: Final = {
    "value": "text or bytes", "key": "group_id", "headers": "properties", "topic": "destination",
    "delay": "delivery_delay", "ttl": "time_to_live", "message": "text", "payload": "text",
}  # fmt: skip
"""What users of other connectors name their columns, and the name here."""
_PROPERTY_TYPES: Final = (StringType, BooleanType, IntegralType, FloatType, DoubleType, NullType)
_NESTED: Final = (StructType, MapType, ArrayType)


def message_schema(columns: Sequence[tuple[str, str]]) -> StructType:
    """Return the columns of a source, marked as its own."""
    schema = StructType()
    for name, kind in columns:
        schema.add(name, _SPARK_TYPES[kind], nullable=True, metadata={OWN_COLUMN: True})
    return schema


_SPARK_TYPES: Final[Mapping[str, DataType]] = {
    "long": LongType(), "int": IntegerType(), "byte": ByteType(), "string": StringType(),
    "boolean": BooleanType(), "binary": BinaryType(), "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
}  # fmt: skip


def check_columns(schema: StructType, id_column: str | None, *, routed: bool) -> None:
    """Check that rows with these columns can be sent; `routed`: the sink has a destination.

    Raises:
        ConfigurationException: columns are unknown, have wrong types, or are missing; all of them
            are named.
    """
    names = schema.names
    unknown = [f.name for f in schema if f.name not in _COLUMNS and f.name != id_column
               and not _is_own(f, schema)]  # fmt: skip
    if unknown:
        near = [f"{name} is {_FOREIGN_NAMES[name]} here" for name in unknown
                if name in _FOREIGN_NAMES]  # fmt: skip
        advice = "; ".join(near) or (
            "move it into the body, or into a column `properties` (a map, struct or VARIANT)"
        )
        raise ConfigurationException(
            f"jms: column {', '.join(unknown)} cannot be part of a message",
            hint=f"{advice}; the columns of a message are {', '.join(SINK_COLUMNS)}",
        )
    wrong = [problem for field in schema for problem in _type_problems(field)]
    if wrong:
        raise ConfigurationException(f"jms: {'; '.join(wrong)}", hint="cast it in the query")
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
    if not routed and not any(f.name == "destination" and not _is_own(f, schema) for f in schema):
        raise ConfigurationException(
            "jms: the destination is missing",
            hint="set the option destination, or select a column destination",
        )


def _is_own(field: StructField, schema: StructType) -> bool:
    """Return whether a column is unchanged from a source of the format.

    A table (CREATE TABLE ... USING jms) loses the metadata, but has all columns of the source.
    """
    if field.metadata.get(OWN_COLUMN):
        return True
    return [(f.name, f.dataType.simpleString()) for f in schema] == _OWN_TYPES


_OWN_TYPES: Final = [(f.name, f.dataType.simpleString()) for f in message_schema(MESSAGE_COLUMNS)]


def _type_problems(field: StructField) -> Iterator[str]:
    column, kind = _COLUMNS.get(field.name), field.dataType
    if column is None or isinstance(kind, NullType):
        return
    if not isinstance(kind, column.types):
        yield f"column {field.name} is {kind.simpleString()}, but must be {column.words}"
        return
    nested = field.name == "body"
    if isinstance(kind, MapType) and not isinstance(kind.keyType, StringType):
        yield f"the keys of {field.name} are {kind.keyType.simpleString()}, but must be strings"
    elif isinstance(kind, MapType):
        yield from _value_problems(f"{field.name}[]", kind.valueType, nested=nested)
    elif isinstance(kind, StructType):
        for item in kind:
            yield from _value_problems(f"{field.name}.{item.name}", item.dataType, nested=nested)


def _value_problems(path: str, kind: DataType, *, nested: bool) -> Iterator[str]:
    """Yield a problem of a value that no property, or no value of a map message, can have."""
    if isinstance(kind, _PROPERTY_TYPES) or (nested and isinstance(kind, BinaryType)):
        return
    if nested and isinstance(kind, _NESTED):
        return
    where = "map messages" if nested else "properties"
    yield (
        f"{path} is {kind.simpleString()}, which {where} do not have (strings, booleans, whole "
        "numbers, float and double)"
    )


class OutgoingColumns:
    """Makes messages of batches with the columns of a schema. Used by one task."""

    def __init__(
        self, schema: StructType, id_column: str | None = None, *, routed: bool = True
    ) -> None:
        """Prepare for a schema that `check_columns` has accepted.

        `routed`: the sink has a destination, so that a column `destination` of the source itself
        does not route.
        """
        used = [f for f in schema if f.name in _COLUMNS
                and not (f.name == "destination" and routed and _is_own(f, schema))]  # fmt: skip
        self._converters = {f.name: _converter(f.dataType) for f in used}
        self._indexes = {f.name: schema.names.index(f.name) for f in used}
        self._bodies = [name for name in BODIES if name in self._indexes]
        self._id_index = None if id_column is None else schema.names.index(id_column)
        self._destinations: dict[str, Destination] = {}

    def messages(self, batch: pa.RecordBatch) -> Iterator[tuple[Outgoing, Any]]:
        """Yield each row as a message, and its value of the id column (None: there is none).

        Raises:
            MessageFormatException: a value is not valid for its column.
        """
        values = {name: self._values(batch, name) for name in self._indexes}
        headers = [(name, values[name], _HEADERS[name]) for name in values if name in _HEADERS]
        bodies = [(values[name], _BODIES[name]) for name in self._bodies]
        nothing = [None] * batch.num_rows
        sending = [values.get(name, nothing) for name in _SENDING]
        is_special = not values.keys().isdisjoint(_SENDING)
        ids = nothing if self._id_index is None else batch.column(self._id_index).to_pylist()
        for number in range(batch.num_rows):
            message = _body(bodies, number)
            for name, column, put in headers:
                value = column[number]
                if value is not None:
                    try:
                        put(message, value)
                    except (TypeError, ValueError) as error:
                        raise MessageFormatException(
                            f"jms: the value of column {name} is not valid: {error}"
                        ) from error
            if not is_special:
                yield Outgoing(message), ids[number]
                continue
            target, mode, priority, time_to_live, delay = (column[number] for column in sending)
            yield (
                Outgoing(
                    message,
                    None if target is None else self._destination(target),
                    None if mode is None else _delivery_mode(mode),
                    priority,
                    _seconds(time_to_live),
                    _seconds(delay),
                ),
                ids[number],
            )

    def _values(self, batch: pa.RecordBatch, name: str) -> list[Any]:
        values: list[Any] = batch.column(self._indexes[name]).to_pylist()
        convert = self._converters[name]
        if convert is None:
            return values
        return [None if value is None else convert(value) for value in values]

    def _destination(self, text: str) -> Destination:
        found = self._destinations.get(text)
        if found is None:
            found = self._destinations[text] = parse_destination(text)
        return found


def with_id(outgoing: Outgoing, row_id: RowId) -> Outgoing:
    """Return a message with the id by which brokers recognize that it is sent again."""
    outgoing.message.properties[DUPLICATE_ID_PROPERTY] = row_id.text
    return outgoing._replace(message_id=row_id.message_id)


Converter = Callable[[Any], Any]
_NUMBERS: Final[tuple[tuple[type[DataType], Converter], ...]] = (
    (ByteType, Byte), (ShortType, Short), (LongType, Long), (FloatType, Float)
)  # fmt: skip


def _converter(kind: DataType) -> Converter | None:
    """Return what makes the value of a message of Arrow's; None: they are the same.

    Numbers keep their types in properties and map messages: a BIGINT is a long.
    """
    match kind:
        case StructType():
            return partial(_struct, {f.name: _item_converter(f.dataType) for f in kind})
        case MapType():
            return partial(_map, _item_converter(kind.valueType))
        case VariantType():
            return _variant
    return None


def _item_converter(kind: DataType) -> Converter:
    for type_, convert in _NUMBERS:
        if isinstance(kind, type_):
            return convert
    if isinstance(kind, ArrayType):
        return partial(_list, _item_converter(kind.elementType))
    return _converter(kind) or _same


def _same(value: Any) -> Any:
    return value


def _item(convert: Converter, value: Any) -> Any:
    return None if value is None else convert(value)


def _struct(fields: Mapping[str, Converter], value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _item(convert, value[name]) for name, convert in fields.items()}


def _map(convert: Converter, value: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: _item(convert, item) for name, item in dict(value).items()}


def _list(convert: Converter, value: Iterable[Any]) -> list[Any]:
    return [_item(convert, item) for item in value]


def _variant(value: Mapping[str, bytes]) -> dict[str, Any]:
    found = VariantVal(bytes(value["value"]), bytes(value["metadata"])).toPython()
    if not isinstance(found, dict):
        raise MessageFormatException(
            "jms: a value of column properties is not a JSON object", hint='write {"name": value}'
        )
    return {name: float(item) if isinstance(item, Decimal) else item
            for name, item in found.items()}  # fmt: skip


def _delivery_mode(value: int) -> DeliveryMode:
    try:
        return DeliveryMode(value)
    except ValueError:
        raise MessageFormatException(
            f"jms: the value of column delivery_mode is {value}", hint="write 2 (persistent) or 1"
        ) from None


def _seconds(value: Any) -> float | None:
    """Return a number of seconds, given as a number or as an interval."""
    if value is None:
        return None
    return float(value.total_seconds() if hasattr(value, "total_seconds") else value)


def _body(bodies: Sequence[tuple[list[Any], Callable[[Any], Message]]], number: int) -> Message:
    """Return a message with the body column that has a value; if none has, with the first."""
    for values, make in bodies:
        if values[number] is not None:
            return make(values[number])
    return bodies[0][1](None)


_BODIES: Final[Mapping[str, Callable[[Any], Message]]] = {
    "text": TextMessage, "bytes": BytesMessage, "body": MapMessage
}  # fmt: skip


def _set(attribute: str, message: Message, value: object) -> None:
    setattr(message, attribute, value)


def _set_reply_to(message: Message, value: str) -> None:
    message.reply_to = parse_destination(value)


def _set_properties(message: Message, value: Mapping[str, Any]) -> None:
    for name, item in value.items():
        message.properties[name] = item


_HEADERS: Final[dict[str, Callable[[Message, Any], None]]] = {
    "correlation_id": partial(_set, "correlation_id"),
    "reply_to": _set_reply_to,
    "type": partial(_set, "type"),
    "group_id": partial(_set, "group_id"),
    "group_seq": partial(_set, "group_sequence"),
    "properties": _set_properties,
}
_SENDING: Final = ("destination", "delivery_mode", "priority", "time_to_live", "delivery_delay")
