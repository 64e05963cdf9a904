"""The log lines of the command line: nothing that a client has named can forge or hide any.

The loggers of pyjms and of the broker escape the values of their records themselves; this formatter
does it for those of all other libraries, too.
"""

from __future__ import annotations

import logging

from pyjms._logger import escape_control_characters, indented

__all__ = ["LineFormatter"]


class LineFormatter(logging.Formatter):
    """Formats a message as one line with its control characters escaped.

    The lines of a traceback are indented, so that they cannot pass for log lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            record.exc_text = None  # of another formatter
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = escape_control_characters(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return indented(super().formatException(ei))  # type: ignore[arg-type]
