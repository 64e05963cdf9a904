"""Tracebacks of blocking calls: the caller's frames, without those of the portal and the loop.

Otherwise, a blocking call that fails would show a dozen internal frames. The frames of application
functions that the call has called, such as message creators and converters, are kept. If the error
is a bug in pyjms, such as a failed assertion, all frames are kept.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import TracebackType
from typing import Final

import anyio

from pyjms.errors import JMSException

__all__ = ["trim"]

_LONGEST_CHAIN: Final = 20


@cache
def _internal_folders() -> tuple[str, ...]:
    import sysconfig  # noqa: PLC0415 - needed only after an error, as is the next
    from pathlib import Path  # noqa: PLC0415

    found = (find_spec(name) for name in ("pyjms", "pyjms_broker"))
    files = [spec.origin for spec in found if spec is not None and spec.origin is not None]
    packages = (f"{Path(file).parent}/" for file in (anyio.__file__, *files))
    return (*packages, f"{sysconfig.get_path('stdlib')}/")


_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_OF_ARGUMENTS: Final = (JMSException, TypeError, ValueError, OSError, TimeoutError)
"""Exceptions raised on purpose: the message explains the cause, not the frames."""


def trim(error: BaseException) -> None:
    """Remove the internal frames from the tracebacks of an error and of its causes."""
    found: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if found is None:
            return
        frames = _frames(found.__traceback__)
        others = [frame for frame in frames if not _is_internal(frame)]
        if isinstance(found, _OF_ARGUMENTS) or (frames and frames[-1] in others):
            found.__traceback__ = _chained(others)
        found = found.__cause__


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _is_internal(traceback: TracebackType) -> bool:
    file, internal = traceback.tb_frame.f_code.co_filename, _internal_folders()
    if file.startswith(internal):  # installed packages may be below the library's directory
        return file.startswith(internal[:-1]) or not any(each in file for each in _INSTALLED)
    return file.endswith(".pyx")  # a compiled event loop


def _chained(frames: list[TracebackType]) -> TracebackType | None:
    chained = None
    for frame in reversed(frames):
        chained = TracebackType(chained, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chained
