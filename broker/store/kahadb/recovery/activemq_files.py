"""Taking over a folder that ActiveMQ has written, and leaving it fit for ActiveMQ.

ActiveMQ trusts its index if there is one, so it is moved aside before our first write; without
it ActiveMQ replays the journal. That there is one tells that ActiveMQ was here since. (design
D7; persistence K1, K27)
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from broker.store.journal.disk import Disk
from pyjms.wire.kahadb.journal import segment_number

__all__ = ["INDEX_FILES", "OUR_INDEX", "archive_activemq_index", "delete_files"]

logger = logging.getLogger(__name__)

INDEX_FILES: Final = ("db.data", "db.redo", "db.free")
OUR_INDEX: Final = "pyjms-index.db"
_ASIDE: Final = "activemq-index"


def archive_activemq_index(
    directory: Path, disk: Disk, index_directory: Path | None = None
) -> bool:
    """Move ActiveMQ's index into the folder `activemq-index`; returns whether there was one.

    Those of an earlier takeover are replaced. Blocks.

    Raises:
        OSError: it cannot be moved.
    """
    found = False
    for folder in {directory, index_directory or directory}:
        names = disk.names(folder) if folder.is_dir() else {}
        for name in INDEX_FILES:
            if name in names:
                disk.make_directory(folder / _ASIDE)
                disk.rename(folder / name, folder / _ASIDE / name)
                found = True
        if found:
            disk.sync_directory(folder)
    if found:
        logger.info("ActiveMQ has used %s: its index is moved to %s", directory, _ASIDE)
    return found


def delete_files(directory: Path, index_directory: Path, disk: Disk) -> None:
    """Delete the journal and all indexes, ours and ActiveMQ's. Blocks.

    Raises:
        OSError: something cannot be deleted.
    """
    for folder in {directory, index_directory}:
        names = disk.names(folder)
        for name in names:
            ours = segment_number(name) is not None or name.startswith(OUR_INDEX)
            if ours or name in INDEX_FILES:
                disk.remove(folder / name)
        disk.sync_directory(folder)
