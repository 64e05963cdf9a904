"""Makes the format `jms` known to every Spark session of this environment.

Spark imports modules named `pyspark_*` and registers their `DefaultSource`.
"""

from pyjms.spark.formats import JmsDataSource as DefaultSource

__all__ = ["DefaultSource"]
