"""The location of the tests' temporary folders: in memory, if there is space.

A store in a test calls `fsync` some thousand times. On a disk each call takes milliseconds, which
are most of the duration of such a test; in memory, microseconds. Nothing that a test asserts
depends on the difference: processes are killed, machines are not, and what a machine's failure
leaves behind is simulated (`simulated_disk`).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

__all__ = ["keep_temporary_folders_in_memory"]

_FOLDER: Final = Path("/dev/shm")
_ROOM: Final = 8 * 1024**3
"""Bytes that must be free: stores preallocate their files, and four workers run at a time."""


def keep_temporary_folders_in_memory() -> None:
    """Have pytest make its folders in memory, unless the environment names another place."""
    writable = _FOLDER.is_dir() and os.access(_FOLDER, os.W_OK)
    if writable and shutil.disk_usage(_FOLDER).free >= _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_FOLDER))
