"""The process that forks Spark's Python workers: it has imported what each of them needs.

Spark starts it as `spark.python.daemon.module`. pyspark's own forks first and imports afterwards,
because an import might start threads, which a fork loses. pyarrow and this package start none:
`tests/unit/spark/test_start.py`.
"""

from __future__ import annotations

import gc

import pyarrow as pa
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker
from pyspark.daemon import manager

import pyjms.spark.formats
import pyjms.spark.journal
import pyjms.spark.schema
import pyjms.spark.sink
import pyjms.spark.source

__all__ = ["pa", "pyjms", "pyspark"]

if __name__ == "__main__":
    gc.freeze()  # else each worker's first collection copies all pages
    manager()
