"""Messages as typed rows: bodies are read as JSON, and valid and invalid messages separated.

Valid and invalid messages are two branches of one stream: Spark computes the offsets of its source
once, so both branches see the same messages. (spark-pipeline 6.2)

Bodies are prepared for Spark's JSON reader, which converts a number to a double before it becomes a
text, does not distinguish a text from an object that is read as a text, and stops after the first
value. So numbers are put in quotes, texts that look like JSON get a prefix, and a body is framed by
an array with a known last element, which shows whether something follows the object.
(spark-pipeline 6.2)

Texts are converted by Spark expressions: `convert` gives null where a value does not match its
type, `problem` a sentence, which never contains a part of the message's body. (spark-pipeline 6.2)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, VariantType

from pyjms.errors import ConfigurationException
from pyjms.spark.rows import MESSAGE_COLUMNS
from pyjms.spark.schema import (
    ARRAY_ITEM,
    Array,
    Check,
    Field,
    Map,
    Native,
    Scalar,
    Struct,
    Type,
    java_pattern,
    model_type,
    raw_ddl,
)
from pyjms.wire.openwire.message_columns import DAMAGED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyjms.spark.pipeline import Schema

CORRUPT: Final = "corrupt"
"""The field that the reader fills if it could not read everything."""
OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
}
END: Final = f"pyjms_{token_hex(16)}"
"""The key of the object after the body; random, so that no body can imitate it."""
_NO_OBJECT: Final = "the body is not a JSON object"
_MARK: Final = "~"
_LOOKS_LIKE_JSON: Final = ("{", "[", '"', _MARK)
_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
# From the end of the last number, over texts and everything else, to the next one. What is not a
# number in JSON's grammar stays unquoted, an error to the reader. The quantifiers are possessive,
# so that Java does not use its stack.
_NUMBERS: Final = (
    rf'(?s)\G((?:[^"0-9-]++|-(?![0-9])|{_TEXT})*+)(?<=[\[:,\s])({_NUMBER})(?=\s*+[,\]}}])'
)
# In JSON these characters never follow a closing or escaped quote; a key is followed by a colon.
_QUOTES: Final = (
    r'(?s)(?<!\\)"(?=(?:[{\[~]|\\(?:"|u00(?:7[bBeE]|5[bB]|22)))(?:[^"\\]|\\.)*+"\s*+(?![:\s]))'
)
_NO_TEXT: Final = r'^[{\["]'
"""An object, a list, or NaN, which the reader puts in quotes."""


def body_text() -> Column:
    """Return the text of a message, bytes as UTF-8; null for an object, damaged or empty body."""
    data = F.try_validate_utf8(F.col("bytes").cast("string"))
    return F.coalesce("text", F.when(~F.col("body_kind").isin("object", DAMAGED), data))


def quote_numbers(body: Column) -> Column:
    """Return JSON with its numbers as texts, and a prefix on texts that look like JSON.

    Text that is not JSON stays invalid.
    """
    texts = F.regexp_replace(body, F.lit(_QUOTES), F.lit(f'"{_MARK}'))
    return F.regexp_replace(texts, F.lit(_NUMBERS), F.lit('$1"$2"'))


def mark(text: str) -> str:
    """Return a text as the reader returns it for one in a body."""
    return _MARK + text if text.startswith(_LOOKS_LIKE_JSON) else text


def text_of(raw: Column) -> Column:
    """Return a value of the reader as a text; null for an object, a list and NaN."""
    return F.when(raw.startswith(_MARK), F.substring(raw, 2, 2**31 - 1)).when(
        ~raw.rlike(_NO_TEXT), raw
    )


def read_objects(body: Column, ddl: str) -> Column:
    """Return the reader's result for a body: its `first_object`, if `no_single_object` is null.

    `ddl` is the type of a struct with a field END.
    """
    framed = F.concat(F.lit(f'{{"{END}":['), body, F.lit(f',{{"{END}":""}}]}}'))
    return F.from_json(framed, f"{END} array<{ddl}>, {CORRUPT} string", OPTIONS)


def first_object(read: Column) -> Column:
    """Return the object of a body that the reader has read."""
    return F.get(read.getField(END), 0)


def no_single_object(read: Column) -> list[Column]:
    """Return the problems of a body as a whole: sentences, or nulls."""
    objects = read.getField(END)
    last = F.get(objects, F.size(objects) - 1)
    return [
        F.when(read.isNull(), F.lit("it has no text body")),
        F.when(objects.isNull(), F.lit(_NO_OBJECT)),
        F.when(
            read.getField(CORRUPT).isNotNull(),
            F.lit("a value is not an object or list, as the schema requires"),
        ),
        F.when(F.get(objects, 0).isNull() | last.getField(END).isNull(), F.lit(_NO_OBJECT)),
        F.when(F.size(objects) > 2, F.lit("the body is more than one JSON object")),
        F.when(F.size(objects) < 2, F.lit(_NO_OBJECT)),
    ]


def keys_of(body: Column) -> Column:
    """Return the keys of a body that is one object."""
    return F.map_keys(F.from_json(body, "map<string,string>", OPTIONS))


_WHOLE: Final = frozenset(("tinyint", "smallint", "int", "bigint"))
_REAL: Final = frozenset(("float", "double"))
_TIMES: Final = frozenset(("timestamp", "timestamp_ntz"))
_JAVA_ONLY: Final = r"[dDfF]\s*$|[xX]"
"""`1d` and `0x1p3` are doubles in Java only."""
_EXPONENT: Final = "[eE]([+-]?[0-9]{1,3})"
"""A longer exponent would keep Spark busy for minutes."""
_CONVERSION_NUMBER: Final = rf"^\s*[+-]?[0-9]+(\.[0-9]*)?({_EXPONENT})?\s*$"
_SCIENTIFIC: Final = rf"^\s*+[+-]?+([0-9]*+)(?:\.([0-9]*+))?+{_EXPONENT}\s*+$"
_DATE: Final = r"^\s*[+-]?[0-9]{4,}-"
"""Spark would read a time of day alone as a time of the current day."""
_DAY: Final = r"^\s*[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}([T ]00:00(:00(\.0+)?)?(Z|[+-]00:00)?)?\s*$"
"""A date, or a timestamp at midnight, so that no time of day is cut off."""
_SECONDS_BELOW: Final = 20_000_000_000
"""As in pydantic: larger numbers are milliseconds."""
_ANY_WHOLE: Final = "decimal(38,18)"
"""Holds all whole numbers, with a fraction to detect."""


def first_not_null(sentences: Iterable[Column]) -> Column:
    """Return the first sentence that is not null; null if there is none."""
    return F.coalesce(*sentences, F.lit(None).cast("string"))


def convert(raw: Column, kind: Type) -> Column:
    """Return a value of the JSON reader, converted to the type."""
    match kind:
        case Scalar(ddl):
            return _scalar(raw, ddl)
        case Native():
            return raw
        case Array(item):
            return F.transform(raw, lambda value: convert(value, item))
        case Map(value):
            return F.transform_values(raw, lambda _, one: convert(one, value))
        case Struct(fields):
            made = [convert(_raw(raw, f), f.type).alias(f.name) for f in fields]
            return F.when(raw.isNotNull(), F.struct(*made))


def problem(raw: Column, kind: Type, path: str) -> Column:
    """Return a sentence that says what is wrong with a value; null: it is valid."""
    match kind:
        case Scalar(ddl, checks):
            value = _scalar(raw, ddl)
            is_mismatch = raw.isNotNull() & value.isNull()
            mismatch = F.when(is_mismatch, F.lit(f"{path} is not of type {ddl}"))
            return first_not_null([mismatch, *_failed_checks(value, F.length, checks, path)])
        case Native():
            return F.lit(None).cast("string")
        case Array(item, is_required, checks):
            found = _of_items(raw, item, path + ARRAY_ITEM, required=is_required)
            return first_not_null([found, *_failed_checks(raw, F.size, checks, path)])
        case Map(value, is_required, checks):
            items = F.map_values(raw)
            found = _of_items(items, value, path + ARRAY_ITEM, required=is_required)
            return first_not_null([found, *_failed_checks(raw, F.size, checks, path)])
        case Struct(fields):
            in_fields = [_of_field(raw, field, path) for field in fields]
            return F.when(raw.isNotNull(), first_not_null(in_fields))


def _of_field(raw: Column, field: Field, path: str) -> Column:
    name = f"{path}.{field.key}" if path else field.key
    value = _raw(raw, field)
    found = problem(value, field.type, name)
    if field.required:
        return F.coalesce(F.when(value.isNull(), F.lit(f"{name} is missing or null")), found)
    return found


def _of_items(items: Column, kind: Type, path: str, *, required: bool) -> Column:
    def one(value: Column) -> Column:
        missing = F.when(value.isNull() & F.lit(required), F.lit(f"{path} is null"))
        return F.coalesce(missing, problem(value, kind, path))

    return F.get(F.filter(F.transform(items, one), lambda found: found.isNotNull()), 0)


def _raw(raw: Column, field: Field) -> Column:
    value = raw.getField(field.key)
    if field.default is None:
        return value
    return F.coalesce(value, _default(field.type, field.default))


def _default(kind: Type, default: str) -> Column:
    if isinstance(kind, Scalar):
        value = json.loads(default)
        return F.lit(mark(value) if isinstance(value, str) else default)
    wrapped = quote_numbers(F.lit(f'{{"v":{default}}}'))
    return F.from_json(wrapped, f"v {raw_ddl(kind)}", OPTIONS).getField("v")


def _scalar(raw: Column, ddl: str) -> Column:
    if ddl == "string":
        return text_of(raw)
    if ddl.startswith("string collate"):
        return text_of(raw).cast(ddl)
    if ddl in _WHOLE:
        exact = _decimal(raw, _ANY_WHOLE)
        whole = exact.try_cast(ddl)
        return F.coalesce(raw.try_cast(ddl), F.when(exact == whole, whole))
    if ddl in _REAL:
        return _real(raw, ddl)
    if ddl in _TIMES:
        return _time(raw, ddl)
    if ddl == "date":
        return F.when(raw.rlike(_DAY), raw.try_cast("date"))
    if ddl.startswith("decimal("):
        return _decimal(raw, ddl)
    return raw.try_cast(ddl)


def _real(raw: Column, ddl: str) -> Column:
    # the reader puts NaN and Infinity in quotes
    bare = F.when(raw.startswith('"'), F.btrim(raw, F.lit('"'))).otherwise(raw)
    return F.when(~raw.rlike(_JAVA_ONLY), bare.try_cast(ddl))


def _decimal(raw: Column, ddl: str) -> Column:
    """Cast a number with no more digits than the type; by its text, since a cast would round."""
    scale = int(re.findall(r"\d+", ddl)[1])
    plain = rf"^\s*+[+-]?+[0-9]*+(?:\.[0-9]{{0,{scale}}}+0*+)?+\s*+$"
    whole, fraction, exponent = (F.regexp_extract(raw, _SCIENTIFIC, n) for n in (1, 2, 3))
    digits = F.concat(whole, fraction)
    counted = F.rtrim(digits, F.lit("0"))
    zeros = F.length(digits) - F.length(counted)
    places = F.length(fraction) - exponent.try_cast("int") - zeros
    fits = raw.rlike(plain) | (raw.rlike(_SCIENTIFIC) & ((counted == "") | (places <= scale)))
    return F.when(fits, raw.try_cast(ddl))


def _time(raw: Column, ddl: str) -> Column:
    """Read ISO 8601 (UTC without a zone), and numbers as seconds or milliseconds since 1970."""
    number = raw.try_cast("decimal(30,9)")
    factor = F.when(F.abs(number) > _SECONDS_BELOW, F.lit(1000)).otherwise(F.lit(1_000_000))
    since_1970 = F.timestamp_micros((number * factor).try_cast("bigint"))
    return F.when(raw.rlike(_DATE), raw.try_cast(ddl)).when(
        raw.rlike(_CONVERSION_NUMBER), since_1970.try_cast(ddl)
    )


def _failed_checks(
    value: Column, size: Callable[[Column], Column], checks: Iterable[Check], path: str
) -> list[Column]:
    found = []
    for check in checks:
        measured = size(value) if check.name in _SIZES else value
        holds = _HOLDS[check.name](measured, check.bound)
        sentence = f"{path} {_SENTENCES[check.name]} {_bound_text(check.bound)}".rstrip()
        found.append(F.when(~holds, F.lit(sentence)))
    return found


def _bound_text(bound: Any) -> str:
    if bound is None:
        return ""
    return ", ".join(map(str, bound)) if isinstance(bound, tuple) else str(bound)


_SIZES: Final = frozenset(("min_length", "max_length"))
_HOLDS: Final[Mapping[str, Callable[[Column, Any], Column]]] = {
    "gt": lambda value, bound: value > bound,
    "ge": lambda value, bound: value >= bound,
    "lt": lambda value, bound: value < bound,
    "le": lambda value, bound: value <= bound,
    "min_length": lambda size, bound: size >= bound,
    "max_length": lambda size, bound: size <= bound,
    "pattern": lambda value, bound: value.rlike(java_pattern(bound)),
    "in": lambda value, bound: value.isin(*bound),
    "number": lambda value, _: ~F.isnan(value),
    "finite": lambda value, _: F.abs(value) < F.lit(float("inf")),  # to Spark, NaN is greater
}
_SENTENCES: Final[Mapping[str, str]] = {
    "gt": "is not greater than",
    "ge": "is less than",
    "lt": "is not less than",
    "le": "is greater than",
    "min_length": "is shorter than",
    "max_length": "is longer than",
    "pattern": "does not match",
    "in": "is not one of",
    "number": "is NaN",
    "finite": "is not finite",
}


_CAST: Final = frozenset(
    "boolean tinyint smallint int bigint float double date timestamp timestamp_ntz".split()  # noqa: SIM905 - to be read
)


def ddl_type(text: str) -> Struct:
    """Return the columns of a text in Spark's DDL. Needs a Spark session.

    Raises:
        ConfigurationException: it is not valid DDL, or numbers could not be read exactly.
    """
    try:
        struct = StructType.fromDDL(text)
        assert isinstance(struct, StructType)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigurationException(
            f"schema is not valid DDL: {reason}",
            hint="write for example `origin STRING, delay DOUBLE`",
        ) from error
    for field in struct:
        if not isinstance(field.dataType, VariantType) and _has_variant(field.dataType):
            raise ConfigurationException(
                f"schema has a VARIANT inside {field.name}, where numbers are read as strings",
                hint=f"make all of {field.name} a VARIANT, or the VARIANT a column of its own",
            )
    return _struct(struct)


def _has_variant(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_variant(field.dataType) for field in kind)
        case ArrayType():
            return _has_variant(kind.elementType)
        case MapType():
            return _has_variant(kind.valueType)
    return isinstance(kind, VariantType)


def _struct(struct: StructType) -> Struct:
    return Struct(
        tuple(Field(f.name, f.name, _type(f.dataType), required=not f.nullable) for f in struct)
    )


def _type(kind: DataType) -> Type:
    match kind:
        case StructType():
            return _struct(kind)
        case ArrayType():
            return Array(_type(kind.elementType), not kind.containsNull)
        case MapType() if isinstance(kind.keyType, StringType):
            return Map(_type(kind.valueType), not kind.valueContainsNull)
    name = kind.simpleString()
    is_cast = name in _CAST or name.startswith(("string", "decimal("))
    return Scalar(name) if is_cast else Native(name)


JMS: Final = "jms"
"""The struct column with the origin of a row."""
REASON: Final = "pyjms_reason"
"""The column of invalid messages that says why."""
OBSERVED: Final = "pyjms"
"""The prefix of the observed metrics: `messages` read, and `dead_letters` among them."""
_ORIGIN: Final = (
    "message_id", "seq", "timestamp", "destination", "correlation_id", "type", "properties",
)  # fmt: skip
_READ: Final = "pyjms_read"
_PLAIN: Final = "pyjms_plain"
_VALUE: Final = "pyjms_value"
_END: Final = Field(END, END, Scalar("string"), required=False)


class Parsed(NamedTuple):
    """The two branches: rows of the schema, and invalid messages with a reason."""

    valid: DataFrame
    invalid: DataFrame


def schema_type(schema: Schema) -> Struct:
    """Return the type tree of a pipeline's schema; DDL needs a Spark session.

    Raises:
        ConfigurationException: it is not a usable schema.
    """
    struct = ddl_type(schema) if isinstance(schema, str) else model_type(schema)
    names = [field.name for field in struct.fields]
    if JMS in names:
        raise ConfigurationException(
            f"schema has a field {JMS}, which is the name of the column with the origin of a row",
            hint="rename the field; in a model, an alias keeps the key of the JSON",
        )
    if not names:
        raise ConfigurationException("schema has no fields", hint="remove it to get plain messages")
    return struct


def parse(messages: DataFrame, struct: Struct, source: str, pipeline: str | None) -> Parsed:
    """Return messages of the format `jms` as rows of the schema, and those that do not match it.

    Both are counted as observed metrics. `pipeline`: the pipeline's name, if an invalid message
    must stop it; the error names the number of the message.
    """
    read, raw = _read(messages, struct)
    checked = read.select(
        *(name for name, _ in MESSAGE_COLUMNS),
        convert(raw, struct).alias(_VALUE),
        _reason(raw, struct).alias(REASON),
    )
    # this also keeps Spark from parsing twice, as it moves no filter below it
    counted = checked.observe(
        f"{OBSERVED}_{source}",
        F.count(F.lit(1)).alias("messages"),
        F.count(F.col(REASON)).alias("dead_letters"),
    )
    is_valid = F.col(REASON).isNull()
    valid = counted.where(is_valid if pipeline is None else is_valid | _failure(pipeline))
    return Parsed(
        valid.select(
            *(F.col(_VALUE).getField(field.name).alias(field.name) for field in struct.fields),
            F.struct(*_ORIGIN).alias(JMS),
        ),
        counted.where(F.col(REASON).isNotNull()).drop(_VALUE),
    )


def _read(messages: DataFrame, struct: Struct) -> tuple[DataFrame, Column]:
    """Return messages with the result of the JSON reader, and the object in it.

    Columns of native types are read separately, with their numbers unchanged.
    """
    plain = tuple(field for field in struct.fields if isinstance(field.type, Native))
    exact = tuple(field for field in struct.fields if field not in plain)
    numbers = quote_numbers(body_text())
    read = messages.withColumn(_READ, read_objects(numbers, raw_ddl(Struct((*exact, _END)))))
    raw = first_object(F.col(_READ))
    if not plain:
        return read, raw
    read = read.withColumn(_PLAIN, read_objects(body_text(), raw_ddl(Struct((*plain, _END)))))
    other = first_object(F.col(_PLAIN))
    keys = [
        (other if field in plain else raw).getField(field.key).alias(field.key)
        for field in struct.fields
    ]
    return read, F.when(raw.isNotNull(), F.struct(*keys))


def _failure(pipeline: str) -> Column:
    """Return a condition that raises an error when it is evaluated."""
    text = F.format_string(
        f"Pipeline {pipeline}: message seq %d (%s) of %s: %s; dead_letter is `fail`",
        "seq", "message_id", "destination", REASON,
    )  # fmt: skip
    return F.raise_error(text).cast("boolean")


def _reason(raw: Column, struct: Struct) -> Column:
    damaged = F.when(F.col("body_kind") == DAMAGED, F.lit("the message is damaged"))
    sentences = [damaged, *no_single_object(F.col(_READ))]
    if any(isinstance(field.type, Native) for field in struct.fields):
        sentences += no_single_object(F.col(_PLAIN))
    sentences.append(problem(raw, struct, ""))
    if struct.is_closed:
        known = F.array(*(F.lit(field.key) for field in struct.fields))
        other = F.array_except(keys_of(body_text()), known)
        sentences.append(
            F.when(
                F.size(other) > 0, F.concat(F.get(other, 0), F.lit(" is not a key of the schema"))
            )
        )
    return first_not_null(sentences)
