"""Write files that only their owner may read, because they may hold passwords."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["write_private"]

_PRIVATE: Final = 0o600
_EXECUTABLE: Final = 0o700


def write_private(
    path: Path, text: str, *, replace: bool = False, executable: bool = False
) -> None:
    """Write a file with mode 0600, or 0700 if it is executable; blocking.

    Raises:
        FileExistsError: it exists, and `replace` is not set.
        OSError: it cannot be written.
    """
    mode = _EXECUTABLE if executable else _PRIVATE
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    handle = os.open(path, flags, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, mode)  # an existing file kept its mode
        file.write(text)
