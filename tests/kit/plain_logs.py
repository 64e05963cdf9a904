"""Logging exceptions whose text cannot be read, behind tests that use PySpark.

A handler of pytest raises what its formatter raises. Pytest attaches its handlers to PySpark's
loggers, too, which give each handler their own formatter, and that one reads the exception's
text. Pytest attaches them before each phase of a test, so a fixture would come too early.
"""

from __future__ import annotations

import logging

__all__ = ["format_logs_plainly"]


def format_logs_plainly() -> None:
    """Give the root logger's handlers the formatter of the standard library, until the test ends."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter())
