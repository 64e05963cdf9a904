"""Tracebacks for logs: the frames of the application, without those that called it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final

__all__ = ["users_traceback"]

_PACKAGE: Final = f"{Path(__file__).parents[1]}/"

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def users_traceback(error: BaseException) -> ExceptionInfo:
    """Return `error` for `exc_info`, its traceback beginning with the first frame outside pyjms.

    An error of pyjms itself keeps all frames. The exception is not changed.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    return type(error), error, found or error.__traceback__
