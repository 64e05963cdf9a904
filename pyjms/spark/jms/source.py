"""`jms` for Spark: `spark.readStream.format("jms")`, and its batch and writing sisters."""

from __future__ import annotations

import logging
from pathlib import Path

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
from pyjms.spark.jms.options import JmsOptions, read_options
from pyjms.spark.jms.sink.writers import JmsBatchWriter, JmsStreamWriter, check_sink
from pyjms.spark.jms.spool.stream import SpoolStreamReader

__all__ = ["JmsDataSource"]

logger = logging.getLogger(__name__)


class JmsDataSource(DataSource):
    """Destinations of an OpenWire broker. (spark-pipeline 6.1)"""

    @classmethod
    def name(cls) -> str:
        return "jms"

    def schema(self) -> str:
        return ddl(MESSAGE_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BrowseReader(read_options(self.options, "source"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = read_options(self.options, "source")
        return SpoolStreamReader(options, _spool_folder(options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = read_options(self.options, "sink")
        check_sink(options, schema, streaming=False)
        return JmsBatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = read_options(self.options, "sink")
        check_sink(options, schema, streaming=True)
        return JmsStreamWriter(options)


def _spool_folder(options: JmsOptions) -> str:
    if options.spool is None:
        raise ConfigurationException(
            "jms: option spool is missing: this broker has no ranges, so messages are kept in "
            "files until Spark is done with them",
            hint='option("spool", "/shared/folder/of-this-query"), which driver and executors '
            "reach; pipelines set it beside their checkpoint",
        )
    return str(Path(options.spool).absolute())
