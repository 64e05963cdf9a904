"""Path helpers: distinguish paths from URIs in settings, and replace files atomically."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A scheme of at least two letters: a single letter is a Windows drive."""


def uri_scheme(text: str) -> str | None:
    """Return the scheme of `text` if it is a URI, or None if it is a path."""
    found = _URI.match(text)
    return None if found is None else found[1]


def check_shared_folder(text: str, example: str) -> str:
    """Return the path of a folder that several machines use; `example` is such a path."""
    scheme = uri_scheme(text)
    if scheme is not None:
        raise ValueError(
            f"is a URI ({scheme}:), but must be a path in a file system that all machines mount, "
            f"such as {example}"
        )
    return text


def replace_text(file: Path, text: str) -> None:
    """Replace a file atomically: a reader gets the old or the new text. Blocks.

    Its directory is created if it does not exist.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def replace_durably(file: Path, text: str) -> None:
    """Replace a file of an existing folder atomically; it is durable when this returns. Blocks."""
    temporary = file.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable. Blocks."""
    if os.name == "nt":
        return  # folders cannot be synced there; renames are journalled
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
