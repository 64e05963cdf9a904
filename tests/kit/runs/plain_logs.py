"""Logs of tests that run behind others which use PySpark.

Pytest attaches its handlers, before each phase of a test, to PySpark's loggers, too. Those give
each handler their own formatter, which writes JSON and reads the texts of exceptions.
"""

from __future__ import annotations

import logging

__all__ = ["format_logs_plainly"]


def format_logs_plainly() -> None:
    """Give handlers of the root logger that have PySpark's formatter the standard library's."""
    for handler in logging.getLogger().handlers:
        if type(handler.formatter).__module__.startswith("pyspark."):
            handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
