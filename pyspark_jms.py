"""Lets every Spark session of this environment know the format `jms`."""

from pyjms.spark.jms.source import JmsDataSource as DefaultSource

__all__ = ["DefaultSource"]
