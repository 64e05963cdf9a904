"""Files and directories readable only by their owner, because they contain messages.

Existing ones keep their modes, which an operator may have set. Modes have no effect on Windows.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["create_private_file", "make_private_directory"]


def make_private_directory(path: Path) -> None:
    """Create a directory with mode 0700, and its parents likewise, unless it exists. Blocks.

    Raises:
        OSError: it cannot be created.
    """
    if not path.is_dir():
        if path.parent != path:
            make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def create_private_file(path: Path) -> None:
    """Create an empty file with mode 0600, unless it exists, to be opened as a database.

    Raises:
        OSError: it cannot be created.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
