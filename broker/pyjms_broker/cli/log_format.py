"""The log lines of the command line: what clients have named cannot forge or hide any.

Client ids, destinations and selectors may contain line breaks and terminal sequences.
"""

from __future__ import annotations

import logging
import re
from typing import Final

__all__ = ["LineFormatter"]

_CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")
_CONTROL_IN_LINE: Final = re.compile("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u2028\\u2029]")


def _escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


class LineFormatter(logging.Formatter):
    """Formats a message as one line with its control characters escaped.

    The lines of a traceback are indented, so that they cannot pass for log lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = _CONTROL.sub(_escape, record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        text = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"    {_CONTROL_IN_LINE.sub(_escape, line)}" for line in text.split("\n"))
