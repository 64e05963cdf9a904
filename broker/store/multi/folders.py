"""The folders of single destinations' stores. All of it blocks and raises OSError."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from broker.store.journal.disk import Disk
from pyjms.jms.destination import Destination, Queue, parse_destination
from pyjms.wire.kahadb.journal import segment_number

__all__ = ["delete_journal", "delete_store", "destination_folders", "likely_destination"]

_PREFIXES: Final = ("queue#", "topic#")
_ESCAPED: Final = re.compile(r"#([0-9a-f]{2,4}?)")


def destination_folders(directory: Path) -> list[str]:
    """Return the names of the folders that a destination's store may be in, sorted."""
    return sorted(
        p.name for p in directory.iterdir() if p.name.startswith(_PREFIXES) and p.is_dir()
    )


def likely_destination(name: str) -> Destination:
    """Return the destination whose folder most likely has this name.

    Likely, as `#` stands for itself in names: the store inside says what is true.
    """
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)
    return parse_destination(text, default=Queue)


def delete_store(directory: Path) -> None:
    """Delete the folder of a closed store that has no destination any more."""
    shutil.rmtree(directory)


def delete_journal(directory: Path, disk: Disk) -> None:
    """Delete a closed journal's segments."""
    for name in disk.names(directory):
        if segment_number(name) is not None:
            disk.remove(directory / name)
    disk.sync_directory(directory)
