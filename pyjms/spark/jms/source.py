"""`jms` for Spark: `spark.readStream.format("jms")`, and its batch and writing sisters."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyjms.errors import ConfigurationException
from pyjms.spark.columns import MESSAGE_COLUMNS, ddl
from pyjms.spark.jms.browse import BrowseReader
from pyjms.spark.jms.options import read_options
from pyjms.spark.jms.ranges.batch import RangeReader
from pyjms.spark.jms.sink.writers import JmsBatchWriter, JmsStreamWriter, check_sink
from pyjms.spark.jms.stream import JmsStreamReader

__all__ = ["JmsDataSource"]


class JmsDataSource(DataSource):
    """Destinations of an OpenWire broker. (spark-pipeline 6.1)"""

    @classmethod
    def name(cls) -> str:
        return "jms"

    def schema(self) -> str:
        return ddl(MESSAGE_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, "source")
        return RangeReader(options) if options.mode == "ranges" else BrowseReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return JmsStreamReader(read_options(self.options, "source"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = read_options(self.options, "sink")
        if overwrite:
            raise ConfigurationException(
                "jms: a destination cannot be written over: what was sent stays",
                hint="write .mode('append')",
            )
        check_sink(options, schema, streaming=False)
        return JmsBatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = read_options(self.options, "sink")
        # `overwrite` is a query's output mode `complete` here, which sends all rows each time
        check_sink(options, schema, streaming=True)
        return JmsStreamWriter(options)
