"""The log format of the command line: names chosen by clients cannot forge or hide log lines.

The loggers of pyjms and the broker escape the values in their records themselves; this formatter
does so for the records of all other libraries.
"""

from __future__ import annotations

import logging

from pyjms._logger import escape_control_characters, indented

__all__ = ["LineFormatter"]


class LineFormatter(logging.Formatter):
    """Formats a message as one line with its control characters escaped.

    The lines of a traceback are indented, so that they cannot be mistaken for log lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            record.exc_text = None  # may be cached by another formatter
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = escape_control_characters(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return indented(super().formatException(ei))  # type: ignore[arg-type]
