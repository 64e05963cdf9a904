"""Tracebacks for logs: the frames of the application, without those that called it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final

from pyjms.errors import JMSException

__all__ = ["users_traceback"]

_PACKAGE: Final = f"{Path(__file__).parents[1]}/"

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def users_traceback(error: BaseException) -> ExceptionInfo | None:
    """Return `error` for `exc_info`, its traceback beginning with the first frame outside pyjms.

    None: a JMSException that no frame of the application is part of, such as a commit that the
    broker lost; its text says everything. Other errors of pyjms itself keep all frames, for they
    are defects. The exception is not changed.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    if found is None and isinstance(error, JMSException):
        return None
    return type(error), error, found or error.__traceback__
