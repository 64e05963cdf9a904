"""Schemas in Spark's DDL as a type tree; NOT NULL marks a required value."""

from __future__ import annotations

from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, VariantType

from pyjms.errors import ConfigurationException
from pyjms.spark.pipeline.schema.types import Array, Field, Map, Native, Scalar, Struct, Type

__all__ = ["ddl_type"]

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
