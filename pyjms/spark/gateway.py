"""Access to features of PySpark without a public API; the only module that uses its privates.

PySpark has no public way to ask whether a JVM runs, to make a session the active one of a thread,
or to read a plan. Its own modules use these attributes across classes, so they have been stable
since Spark 2; they are checked against pyspark 4.2 and 4.3.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def jvm_is_running() -> bool:
    """Return whether PySpark has started a JVM in this process; imports nothing."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def has_active_context() -> bool:
    """Return whether a SparkContext is running in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def make_session_active(session: SparkSession) -> None:
    """Make a session the active one of this thread, where Spark looks for Python data sources."""
    spark: Any = session
    sessions = spark._get_j_spark_session_class(spark._jvm)
    sessions.setActiveSession(spark._jsparkSession)


def jvm_plan(frame: DataFrame) -> Any:
    """Return the JVM's `QueryExecution` of a frame: its plans."""
    jvm_frame: Any = frame
    return jvm_frame._jdf.queryExecution()


def explained_plan(frame: DataFrame) -> str:
    """Return the text that `DataFrame.explain()` prints."""
    spark: Any = frame.sparkSession
    mode = spark._jvm.org.apache.spark.sql.execution.ExplainMode
    return str(jvm_plan(frame).explainString(mode.fromString("simple")))
