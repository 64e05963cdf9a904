"""Logging helpers: loggers whose records cannot forge lines, and the texts of errors.

Client ids, destinations and selectors may contain line breaks and terminal sequences. They are
escaped in the record, before the application's handlers and formatters get it.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias

# and halves of surrogate pairs, which a log file in UTF-8 cannot have
_NOT_SHOWN: Final = "\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]"
_CONTROL: Final = re.compile("[\\x00-\\x1f" + _NOT_SHOWN)
_CONTROL_IN_LINE: Final = re.compile("[\\x00-\\x09\\x0b-\\x1f" + _NOT_SHOWN)
_VALUE: Final = re.compile(r", input_value=.*(?:, input_type=\w+(?=\])|\.\.\.$)")
_LINK: Final = re.compile(r"\s*For further information visit \S+")
_REPR: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +.\d*]*[ra]")
_PLAIN: Final = (int, float, type(None))
_formatter: Final = logging.Formatter()

PACKAGE: Final = __file__.rsplit("/", 2)[0] + "/"  # without pathlib, which is slow to import
"""The folder of pyjms, with which the files of its own frames begin."""
_LIBRARY: Final = logging.__file__.rsplit("/", 2)[0] + "/"
_INSTALLED: Final = ("site-packages", "dist-packages", _LIBRARY, "<")

LogFormat: TypeAlias = Literal["text", "json"]
LINE_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
"""The format of log lines as text."""
WORKER_LINE_FORMAT: Final = (
    "%(asctime)s %(levelname)-7s worker %(worker)d (pid %(pid)d) %(name)s: %(message)s"
)
"""The format of the lines of one of several worker processes."""


log_fields: Final[ContextVar[Mapping[str, object]]] = ContextVar("pyjms_log_fields")
"""The attributes of log records about the delivery that is being rolled back in this context."""


def span_fields() -> dict[str, str]:
    """Return the ids of OpenTelemetry's current span, if it is in use."""
    trace: Any = sys.modules.get("opentelemetry.trace")  # not imported only for logging
    if trace is None:
        return {}
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    return {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}


class WarnedOnce:
    """The subjects of warnings, each logged once, and a limited number of them.

    Peers choose the subjects, such as the addresses of brokers: they must not fill the log.
    """

    def __init__(self, limit: int = 100) -> None:
        self._limit = limit
        self._subjects: set[str] = set()

    def is_due(self, subject: str) -> bool:
        """Return whether to log a warning about `subject`, and record that it is logged."""
        if subject in self._subjects or len(self._subjects) >= self._limit:
            return False
        self._subjects.add(subject)
        return True


def get_logger(name: str) -> logging.Logger:
    """Return the logger with this name, which escapes control characters in values."""
    logger = logging.getLogger(name)
    logger.addFilter(_escape_record)
    return logger


def escape_control_characters(text: str) -> str:
    """Return the text as one line, with backslash escapes for its control characters."""
    return _CONTROL.sub(_escape, text)


def indent(traceback: str) -> str:
    """Return a traceback with indented lines, which cannot be mistaken for log lines."""
    return "\n".join(f"    {_CONTROL_IN_LINE.sub(_escape, line)}" for line in traceback.split("\n"))


def _escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def _escape_record(record: logging.LogRecord) -> bool:
    args = record.args
    quoted = _REPR.search(str(record.msg)) is not None
    if isinstance(args, Mapping):
        record.args = {name: _escape_value(value, quoted) for name, value in args.items()}
    elif args:
        record.args = tuple(_escape_value(value, quoted) for value in args)
    exc_info = record.exc_info
    error = exc_info[1] if exc_info else None
    if exc_info and any(_CONTROL.search(error_text(each)) for each in _chain(error)):
        record.exc_text = indent(_formatter.formatException(exc_info))
    return True


def _escape_value(value: object, quoted: bool) -> object:
    """Return the value, or its escaped text (`repr` if `quoted`) if that has control characters."""
    if isinstance(value, _PLAIN):
        return value
    text = error_text(value)
    if _CONTROL.search(text):
        return _CONTROL.sub(_escape, text)
    if quoted and _CONTROL.search(_repr(value)):
        return text
    return value


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as second:
        return f"its text is not available: {type(second).__name__}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def last_frame(error: BaseException) -> str:
    """Return ` (shop.py:12)`, the innermost line of the application in the traceback, or "".

    Lines of installed packages count only if there are no others.
    """
    own = installed = ""
    found = error.__traceback__
    while found is not None:
        name = found.tb_frame.f_code.co_filename
        place = f" ({name.rpartition('/')[2]}:{found.tb_lineno})"
        if name.startswith(PACKAGE):
            pass
        elif any(part in name for part in _INSTALLED):
            installed = installed or place
        else:
            own = place
        found = found.tb_next
    return own or installed


def error_text(error: object) -> str:
    """Return the text of an error; the `__str__` of an application's class may fail."""
    try:
        return str(error)
    except Exception as second:
        return f"its text is not available: {type(second).__name__}"


def shorten(text: str, longest: int) -> str:
    """Return the text truncated to `longest` characters; a truncated text ends with `...`."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def one_line(text: str) -> str:
    """Return the text in one line, without the rejected values that pydantic's errors quote.

    These values are parts of messages, which must not be logged; the last one may be truncated.
    """
    return " ".join(_LINK.sub("", _VALUE.sub("", text)).split())
