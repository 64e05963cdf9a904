"""Conversion of texts to typed values, and what is wrong with a value, as Spark expressions.

`converted` gives null where a value does not match its type, `problem` a sentence, which never
contains a part of the message's body. (spark-pipeline 6.2)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from pyjms.spark.pipeline.schema.bodies import OPTIONS, marked, quote_numbers, text_of
from pyjms.spark.pipeline.schema.patterns import java_pattern
from pyjms.spark.pipeline.schema.types import (
    ARRAY_ITEM,
    Array,
    Check,
    Field,
    Map,
    Native,
    Scalar,
    Struct,
    Type,
    raw_ddl,
)

__all__ = ["converted", "first_not_null", "problem"]

_WHOLE: Final = frozenset(("tinyint", "smallint", "int", "bigint"))
_REAL: Final = frozenset(("float", "double"))
_TIMES: Final = frozenset(("timestamp", "timestamp_ntz"))
_JAVA_ONLY: Final = r"[dDfF]\s*$|[xX]"
"""`1d` and `0x1p3` are doubles in Java only."""
_EXPONENT: Final = "[eE]([+-]?[0-9]{1,3})"
"""A longer exponent would keep Spark busy for minutes."""
_NUMBER: Final = rf"^\s*[+-]?[0-9]+(\.[0-9]*)?({_EXPONENT})?\s*$"
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


def converted(raw: Column, kind: Type) -> Column:
    """Return a value of the JSON reader, converted to the type."""
    match kind:
        case Scalar(ddl):
            return _scalar(raw, ddl)
        case Native():
            return raw
        case Array(item):
            return F.transform(raw, lambda value: converted(value, item))
        case Map(value):
            return F.transform_values(raw, lambda _, one: converted(one, value))
        case Struct(fields):
            made = [converted(_raw(raw, f), f.type).alias(f.name) for f in fields]
            return F.when(raw.isNotNull(), F.struct(*made))


def problem(raw: Column, kind: Type, path: str) -> Column:
    """Return a sentence that says what is wrong with a value; null: it is valid."""
    match kind:
        case Scalar(ddl, checks):
            value = _scalar(raw, ddl)
            is_mismatch = raw.isNotNull() & value.isNull()
            mismatch = F.when(is_mismatch, F.lit(f"{path} is not of type {ddl}"))
            return first_not_null([mismatch, *_failed(value, F.length, checks, path)])
        case Native():
            return F.lit(None).cast("string")
        case Array(item, is_required, checks):
            found = _of_items(raw, item, path + ARRAY_ITEM, required=is_required)
            return first_not_null([found, *_failed(raw, F.size, checks, path)])
        case Map(value, is_required, checks):
            items = F.map_values(raw)
            found = _of_items(items, value, path + ARRAY_ITEM, required=is_required)
            return first_not_null([found, *_failed(raw, F.size, checks, path)])
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
        return F.lit(marked(value) if isinstance(value, str) else default)
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
        raw.rlike(_NUMBER), since_1970.try_cast(ddl)
    )


def _failed(
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
