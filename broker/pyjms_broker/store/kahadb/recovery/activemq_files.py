"""Preparation of a directory that ActiveMQ has used, which stays usable for ActiveMQ.

ActiveMQ trusts its index if there is one. Its index is therefore archived before our first write;
without it, ActiveMQ replays the journal. The presence of ActiveMQ's index also shows that ActiveMQ
has written to the journal since our last start. (decisions D7; activemq-persistence K1, K27)
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyjms._logger import get_logger
from pyjms.wire.kahadb.journal import segment_number
from pyjms_broker.store.journal.disk import Disk

__all__ = ["INDEX_FILES", "OUR_INDEX", "archive_activemq_index", "delete_files"]

logger = get_logger(__name__)

INDEX_FILES: Final = ("db.data", "db.redo", "db.free")
OUR_INDEX: Final = "pyjms-index.db"
_ARCHIVE: Final = "activemq-index"


def archive_activemq_index(
    directory: Path, disk: Disk, index_directory: Path | None = None
) -> bool:
    """Move ActiveMQ's index to the directory `activemq-index`; return whether there was one.

    A previously archived index is replaced. Blocks.

    Raises:
        OSError: it cannot be moved.
    """
    found = False
    for folder in {directory, index_directory or directory}:
        names = disk.names(folder) if folder.is_dir() else {}
        for name in INDEX_FILES:
            if name in names:
                disk.make_directory(folder / _ARCHIVE)
                disk.rename(folder / name, folder / _ARCHIVE / name)
                found = True
        if found:
            disk.sync_directory(folder)
    if found:
        logger.info("ActiveMQ has used %s: moved its index to %s", directory, _ARCHIVE)
    return found


def delete_files(directory: Path, index_directory: Path, disk: Disk) -> None:
    """Delete the journal and all indexes, ours and ActiveMQ's. Blocks.

    Raises:
        OSError: a file cannot be deleted.
    """
    for folder in {directory, index_directory}:
        names = disk.names(folder)
        for name in names:
            ours = segment_number(name) is not None or name.startswith(OUR_INDEX)
            if ours or name in INDEX_FILES:
                disk.remove(folder / name)
        disk.sync_directory(folder)
