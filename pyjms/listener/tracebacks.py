"""Tracebacks for logs: the frames of the application, without the frames of pyjms above them."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType
from typing import Final

from pyjms.errors import JMSException

__all__ = ["last_frame", "users_traceback"]

_PACKAGE: Final = f"{Path(__file__).parents[1]}/"

_INSTALLED: Final = ("site-packages", "dist-packages", f"{Path(logging.__file__).parents[1]}/", "<")

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def users_traceback(error: BaseException) -> ExceptionInfo | None:
    """Return `error` for `exc_info`, with a traceback that begins at the first frame outside pyjms.

    None: a JMSException whose traceback has no frame of the application, such as a commit that
    failed because the broker was lost; its text is enough. Other errors of pyjms itself keep all
    frames, because they are defects. The exception is not changed.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    if found is None and isinstance(error, JMSException):
        return None
    return type(error), error, found or error.__traceback__


def last_frame(error: BaseException) -> str:
    """Return ` (shop.py:12)`, the innermost line of the application in the traceback, or "".

    Lines of installed packages count only if there are no others.
    """
    own = installed = ""
    found = error.__traceback__
    while found is not None:
        name = found.tb_frame.f_code.co_filename
        place = f" ({Path(name).name}:{found.tb_lineno})"
        if name.startswith(_PACKAGE):
            pass
        elif any(part in name for part in _INSTALLED):
            installed = installed or place
        else:
            own = place
        found = found.tb_next
    return own or installed
