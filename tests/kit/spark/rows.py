"""Rows sent as the task of a partition sends them, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    VariantVal,
)

from pyjms.spark import sink
from pyjms.spark.options import JmsOptions

_ROWS_PER_BATCH = 40
_TYPES: dict[type, DataType] = {
    str: StringType(),
    bytes: BinaryType(),
    int: IntegerType(),
    float: DoubleType(),
    dict: MapType(StringType(), StringType()),
}


def schema_of(rows: Iterable[Row]) -> StructType:
    """Return the schema of rows of texts, numbers and maps."""
    found: dict[str, DataType] = {}
    for row in rows:
        for name, value in row.asDict().items():
            if value is not None:
                found[name] = _TYPES[type(value)]
    schema = StructType()
    for name, kind in found.items():
        schema.add(name, kind)
    return schema


def batch_of_rows(rows: Iterable[Row], schema: StructType) -> pa.RecordBatch:
    """Return rows as a batch, as Spark passes them to a writer."""
    values = [
        {name: _plain(value) for name, value in row.asDict(recursive=True).items()} for row in rows
    ]
    return pa.RecordBatch.from_pylist(values, schema=to_arrow_schema(schema))


def _plain(value: object) -> object:
    """Return a value in Arrow's form: a variant is a struct of its two parts."""
    if isinstance(value, VariantVal):
        return {"value": value.value, "metadata": value.metadata}
    return value


def send_rows(options: JmsOptions, rows: Iterable[Row], prefix: str = "q:0:0") -> int:
    """Send rows in one transaction and return their number."""
    schema, batches = _batches(iter(rows))
    return sink.send_rows(options, batches, sink.batch_converter(options, schema, prefix))


def stage_rows(options: JmsOptions, query: str, batch: int, stage: str, rows: Iterable[Row]) -> int:
    """Stage rows for `exactlyOnce=epoch` and return their number."""
    schema, batches = _batches(iter(rows))
    convert = sink.batch_converter(options, schema, "")
    return sink.stage_rows(options, query, batch, stage, batches, convert)


def _batches(rows: Iterator[Row]) -> tuple[StructType, Iterator[pa.RecordBatch]]:
    first = list(islice(rows, _ROWS_PER_BATCH))
    schema = schema_of(first)

    def batches() -> Iterator[pa.RecordBatch]:
        some = first
        while some:
            yield batch_of_rows(some, schema)
            some = list(islice(rows, _ROWS_PER_BATCH))

    return schema, batches()
