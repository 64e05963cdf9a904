"""Rows sent as the task of a partition sends them, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructType,
)

from pyjms.spark import sink
from pyjms.spark.options import JmsOptions
from pyjms.spark.outgoing import batch_of_rows

if TYPE_CHECKING:
    import pyarrow as pa

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
