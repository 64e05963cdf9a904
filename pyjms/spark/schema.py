"""Bodies as columns: pydantic validates each message in the process that reads it.

The source's `read` is Python already, so a body is parsed once, there, with all that a model can
do: validators, patterns, strictness, aliases. The columns are the model's fields by name. A schema
in Spark's DDL becomes a model, too; numbers are given to it as they were written, so that a DECIMAL
or STRING keeps its digits. A value that its column cannot hold (an int beyond 64 bits, a decimal
with more digits) makes the message invalid, like one that the model rejects. Types that JSON has no
form for (intervals, CHAR(n) ...) are refused.

A reason never contains a part of the message's body if the pipeline stops at invalid messages, as
it then becomes part of the status; in a dead letter it may contain what a validator says. Needs no
Spark session. (spark-pipeline 6.2)
"""

from __future__ import annotations

import enum
import importlib
import json
import types
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
)
from uuid import UUID

from pydantic import BaseModel, RootModel, ValidationError, create_model
from pydantic import Field as ModelField
from pydantic_core import from_json
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
    VariantVal,
)

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.message_columns import DAMAGED

if TYPE_CHECKING:
    import pyarrow as pa

logger: Final = get_logger(__name__)

VALUE: Final = "pyjms_value"
"""The column with the struct of a valid body."""
REASON: Final = "pyjms_reason"
"""The column that says why a message is invalid; null: it is valid."""

_MAX_REASONS: Final = 3
_EXACT: Final = Context(prec=80)
_MAX_EXPONENT: Final = 310
_SURROGATE: Final = "\\ud"
_NO_TYPE: Final = "has no Spark type; write str, int, float, bool, bytes, Decimal, datetime, date, \
UUID, an Enum, a Literal, a list, a dict with str keys, or another model"
_LISTS: Final = (list, set, frozenset, Sequence, Iterable)
_SAFE_WORDS: Final = frozenset(("value_error", "assertion_error"))
"""Errors whose text is a validator's, which may contain the value."""

Convert = Callable[[Any], Any]


class Kind(NamedTuple):
    """A Spark type, and what makes its value of a model's.

    `convert` raises ValueError if the column cannot hold the value.
    """

    type: DataType
    convert: Convert


class Column(NamedTuple):
    """A column of a schema: its name, the attribute of the model, and its kind."""

    name: str
    attribute: str
    kind: Kind


def model_columns(model: type[BaseModel]) -> list[Column]:
    """Return the fields of a model as columns."""
    problems: list[str] = []
    columns = _columns(model, model.__name__, (), problems)
    if problems:
        raise ConfigurationException(f"Schema {model.__name__}: {'; '.join(problems)}")
    return columns


def struct_of(columns: Iterable[Column]) -> StructType:
    """Return columns as a Spark type; any of them may be null."""
    return StructType([StructField(column.name, column.kind.type) for column in columns])


def _columns(
    model: type[BaseModel], path: str, outer: tuple[type, ...], problems: list[str]
) -> list[Column]:
    if model in outer:
        problems.append(f"{path} contains itself, which Spark's types cannot")
        return []
    if issubclass(model, RootModel):
        problems.append(f"{path} is a RootModel, which has no columns; use a BaseModel")
        return []
    return [
        Column(name, name, _kind(info.annotation, f"{path}.{name}", (*outer, model), problems))
        for name, info in model.model_fields.items()
    ]


def _kind(annotation: Any, path: str, outer: tuple[type, ...], problems: list[str]) -> Kind:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0], path, outer, problems)
    if origin in (Union, types.UnionType):
        others = [one for one in arguments if one is not type(None)]
        if len(others) == 1:
            return _kind(others[0], path, outer, problems)
        problems.append(f"{path} has several types, but a column has one; write one of them")
        return _KINDS[str]
    if origin is Literal:
        return _choices(arguments, path, problems)
    if isinstance(annotation, type):
        if issubclass(annotation, enum.Enum):
            return _choices([member.value for member in annotation], path, problems)
        if issubclass(annotation, BaseModel):
            return _struct(_columns(annotation, path, outer, problems))
        if annotation in _KINDS:
            return _KINDS[annotation]
    is_tuple = origin is tuple and len(arguments) == 2 and arguments[1] is ...
    if (origin in _LISTS and arguments) or is_tuple:
        item = _kind(arguments[0], f"{path}[]", outer, problems)
        return Kind(ArrayType(item.type), partial(_list, item.convert))
    if origin in (dict, Mapping) and arguments[0] is str:
        value = _kind(arguments[1], f"{path}[]", outer, problems)
        return Kind(MapType(StringType(), value.type), partial(_pairs, value.convert))
    problems.append(f"{path}: {getattr(annotation, '__name__', None) or annotation} {_NO_TYPE}")
    return _KINDS[str]


def _choices(values: Iterable[Any], path: str, problems: list[str]) -> Kind:
    """Return the kind of a fixed set of values: texts, booleans or whole numbers."""
    known = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for type_ in (str, bool, int):
        if all(value is None or type(value) is type_ for value in known):
            return Kind(_KINDS[type_].type, _enum_value)
    problems.append(f"{path}: its values must be all texts, all booleans or all whole numbers")
    return _KINDS[str]


def _struct(columns: Sequence[Column]) -> Kind:
    return Kind(struct_of(columns), partial(_object, tuple(columns)))


def _object(columns: Iterable[Column], value: BaseModel) -> dict[str, Any]:
    return {c.name: _item(c.kind.convert, getattr(value, c.attribute), c.name) for c in columns}


def _list(convert: Convert, values: Iterable[Any]) -> list[Any]:
    return [_item(convert, value, "[]") for value in values]


def _pairs(convert: Convert, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, _item(convert, value, "[]")) for key, value in values.items()]


def _item(convert: Convert, value: Any, name: str) -> Any:
    if value is None:
        return None
    try:
        return convert(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _same(value: Any) -> Any:
    return value


def _enum_value(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _whole(bits: int, value: int) -> int:
    if -(1 << bits) <= value < 1 << bits:
        return value
    raise ValueError(f"the number has more than {bits + 1} bits")


def _decimal(precision: int, scale: int, value: Decimal) -> Decimal:
    """Return a decimal with the digits of its type; one with more is not rounded."""
    try:
        exact = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except InvalidOperation:
        exact = None
    if exact is None or exact != value or len(exact.as_tuple().digits) > precision:
        raise ValueError(f"the number has more digits than decimal({precision},{scale})")
    return exact


def _instant(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _local(value: datetime) -> datetime:
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


_KINDS: Final[dict[Any, Kind]] = {
    str: Kind(StringType(), _same),
    bool: Kind(BooleanType(), _same),
    int: Kind(LongType(), partial(_whole, 63)),
    float: Kind(DoubleType(), _same),
    bytes: Kind(BinaryType(), _same),
    Decimal: Kind(DecimalType(38, 18), partial(_decimal, 38, 18)),
    datetime: Kind(TimestampType(), _instant),
    date: Kind(DateType(), _same),
    UUID: Kind(StringType(), str),
}


class _Number(str):
    """A number of a JSON text, as it was written."""

    __slots__ = ()


def _base64(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, _Number):
        raise ValueError("the value is not a text in Base64")  # noqa: TRY004 - a reason like others
    return b64decode(value, validate=True)


def _variant(value: Any) -> dict[str, bytes]:
    made = VariantVal.parseJson(_json_text(value))
    return {"value": made.value, "metadata": made.metadata}


def _json_text(value: Any) -> str:
    """Return a value as JSON, with numbers as they were written."""
    match value:
        case _Number():
            return value
        case dict():
            return f"{{{','.join(f'{json.dumps(k)}:{_json_text(v)}' for k, v in value.items())}}}"
        case list():
            return f"[{','.join(map(_json_text, value))}]"
    return json.dumps(value)


_OF_TYPES: Final[dict[type[DataType], tuple[Any, Convert]]] = {
    StringType: (str, _same),
    BooleanType: (bool, _same),
    ByteType: (int, partial(_whole, 7)),
    ShortType: (int, partial(_whole, 15)),
    IntegerType: (int, partial(_whole, 31)),
    LongType: (int, partial(_whole, 63)),
    FloatType: (float, _same),
    DoubleType: (float, _same),
    DateType: (date, _same),
    TimestampType: (datetime, _instant),
    TimestampNTZType: (datetime, _local),
    TimeType: (time, _same),
    BinaryType: (Any, _base64),
    VariantType: (Any, _variant),
}
"""The type of a model's field for a Spark type."""


def ddl_model(schema: StructType) -> tuple[type[BaseModel], list[Column]]:
    """Return a model for columns, and the columns."""
    fields: dict[str, Any] = {}
    columns = []
    for number, column in enumerate(schema):
        try:
            annotation, kind = _of_type(column.dataType)
        except LookupError:
            raise ConfigurationException(
                f"schema: {column.name} is {column.dataType.simpleString()}, which no body can be",
                hint="write STRING, and cast it in the pipeline",
            ) from None
        attribute = f"f{number}"
        default = ... if not column.nullable else None
        optional = annotation if not column.nullable else annotation | None
        fields[attribute] = (optional, ModelField(default, alias=column.name))
        columns.append(Column(column.name, attribute, kind))
    return create_model("Columns", **fields), columns


def _of_type(kind: DataType) -> tuple[Any, Kind]:
    """Return the type of a model's field for a Spark type, and its kind."""
    match kind:
        case StructType():
            model, columns = ddl_model(kind)
            return model, Kind(kind, _struct(columns).convert)
        case ArrayType():
            annotation, item = _of_type(kind.elementType)
            optional = annotation | None if kind.containsNull else annotation
            return list[optional], Kind(kind, partial(_list, item.convert))  # type: ignore[valid-type]
        case MapType(keyType=StringType()):
            annotation, value = _of_type(kind.valueType)
            optional = annotation | None if kind.valueContainsNull else annotation
            return dict[str, optional], Kind(kind, partial(_pairs, value.convert))  # type: ignore[valid-type]
        case DecimalType():
            return Decimal, Kind(kind, partial(_decimal, kind.precision, kind.scale))
    for type_, (annotation, convert) in _OF_TYPES.items():
        if isinstance(kind, type_):
            return annotation, Kind(kind, convert)
    raise LookupError(kind)


def _number(text: str) -> str:
    """Return a number without an exponent, which pydantic does not read as a whole number."""
    if "e" in text.lower() and abs((value := Decimal(text)).adjusted()) < _MAX_EXPONENT:
        return _Number(format(value, "f"))
    return _Number(text)


def encode_schema(columns: StructType, model: type[BaseModel] | None, *, is_quiet: bool) -> str:
    """Return what a source's processes need to read bodies, as the text of an option.

    `model`: None for columns of DDL. It is named and not pickled: whoever may set options, in SQL
    too, must not be able to run code by them. `is_quiet`: reasons do not quote validators.
    """
    name = None if model is None else model_name(model)
    return json.dumps({"columns": columns.jsonValue(), "model": name, "quiet": is_quiet})


def model_name(model: type[BaseModel]) -> str:
    """Return the name by which processes import a model, or find it among those they are given."""
    return f"{model.__module__}:{model.__qualname__}"


def can_be_imported(model: type[BaseModel]) -> bool:
    """Return whether other processes can import a model: not that of a script or a function."""
    return model.__module__ != "__main__" and "<" not in model.__qualname__


def added_columns(encoded: str) -> StructType:
    """Return the columns VALUE and REASON for the text of `encode_schema`."""
    found = StructType.fromJson(json.loads(encoded)["columns"])
    columns = StructType([StructField(field.name, field.dataType) for field in found])
    return StructType().add(VALUE, columns).add(REASON, StringType())


class BodyReader:
    """Reads bodies by a schema. Used by one process."""

    def __init__(self, encoded: str, models: Iterable[type[BaseModel]] = ()) -> None:
        """Prepare for the text of `encode_schema`; its model is one of these, or imported."""
        given = json.loads(encoded)
        self._added = added_columns(encoded)
        self._is_quiet: bool = given["quiet"]
        self._is_exact = given["model"] is None
        if self._is_exact:
            self._model, columns = ddl_model(StructType.fromJson(given["columns"]))
        else:
            known = {model_name(model): model for model in models}
            self._model = known.get(given["model"]) or _import_model(given["model"])
            columns = model_columns(self._model)
        self._convert = _struct(columns).convert

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of messages with the columns VALUE and REASON."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        added = to_arrow_schema(self._added, timezone="UTC")
        for batch in batches:
            texts = (batch.column(name).to_pylist() for name in ("text", "bytes", "body_kind"))
            found = [self._read_one(*values) for values in zip(*texts, strict=True)]
            arrays = [
                pa.array([each[at] for each in found], field.type) for at, field in enumerate(added)
            ]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *arrays], schema=pa.schema([*batch.schema, *added])
            )

    def _read_one(
        self, text: str | None, data: bytes | None, kind: str
    ) -> tuple[dict[str, Any] | None, str | None]:
        """Return the value of a body, or the reason why it is invalid."""
        if kind == DAMAGED:
            return None, "the message is damaged"
        body = data if text is None and kind != "object" else text
        if body is None:
            return None, "it has no text body"
        try:
            value = self._validate(body)
            return self._convert(value), None
        except ValidationError as error:
            return None, self._reason(error)
        except ValueError as error:
            return None, str(error)
        except Exception as error:  # of a validator: it must not stop the stream at this message
            logger.warning("A validator of the schema failed: %s", type(error).__name__)
            return None, f"a validator failed with {type(error).__name__}"

    def _validate(self, body: str | bytes) -> BaseModel:
        if not self._is_exact:
            return self._model.model_validate_json(body)
        try:
            text = body if isinstance(body, str) else body.decode()
            found = json.loads(text, parse_float=_number, parse_int=_Number)
            if _SURROGATE in text.lower():
                from_json(text)  # refuses half a surrogate pair, which no column can hold
        except (ValueError, RecursionError):
            raise ValueError("the body is not a JSON object") from None
        if not isinstance(found, dict):
            raise ValueError("the body is not a JSON object")  # noqa: TRY004 - a reason like others
        return self._model.model_validate(found)

    def _reason(self, error: ValidationError) -> str:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        sentences = [self._sentence(each) for each in found[:_MAX_REASONS]]
        more = len(found) - len(sentences)
        return "; ".join(sentences) + (f"; and {more} more" if more else "")

    def _sentence(self, error: Any) -> str:
        path = ""
        for part in error["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
        text = error["type"] if self._is_quiet and error["type"] in _SAFE_WORDS else error["msg"]
        return f"{path or 'the body'}: {text}"


@lru_cache(maxsize=16)
def body_reader(encoded: str, models: tuple[type[BaseModel], ...] = ()) -> BodyReader:
    """Return this process's reader for the text of `encode_schema`; see `BodyReader`."""
    return BodyReader(encoded, models)


def _import_model(name: str) -> type[BaseModel]:
    module, _, path = name.partition(":")
    try:
        model: Any = importlib.import_module(module)
        for part in path.split("."):
            model = getattr(model, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationException(
            f"The schema's model {name} cannot be imported by Spark's processes: {error}",
            hint="install its module on all machines, or set PYTHONPATH before Spark starts",
        ) from error
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigurationException(f"The schema {name} is not a pydantic model")
    return model
