"""Lets every Spark session of this environment know the format `jms-journal`."""

from pyjms.spark.journal.source import JournalDataSource as DefaultSource

__all__ = ["DefaultSource"]
