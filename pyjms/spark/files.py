"""Small files that are there whole or not at all, and lasting."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_folder", "write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and put it there; it is on the disk when this returns.

    Raises:
        OSError: the disk does not take it; what was there stays.
    """
    fresh = path.with_suffix(".tmp")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder last."""
    if os.name == "nt":
        return  # a folder cannot be synced there; renames are journalled
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
