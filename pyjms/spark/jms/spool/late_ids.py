"""The ids of messages that may be delivered again after their segment was deleted.

If a driver, or its connection, dies after a segment was written and before the acknowledgement is
confirmed, the broker may still assign the messages to the dead connection. It delivers them again
when it detects that, by default after half a minute; by then the segment may be finished and
deleted. So the ids of such segments are kept for a day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.spark.files import write_atomically

__all__ = ["LateIds"]

logger: Final = get_logger(__name__)

_FILE_NAME: Final = re.compile(r"late-\d{20}\.json")
_DAY_MS: Final = 24 * 3600 * 1000
_MAX_FILES: Final = 50


class LateIds:
    """One file per deleted segment in doubt. One process writes; blocks on the disk."""

    def __init__(self, folder: Path) -> None:
        """Read the files of a folder; those older than a day are deleted.

        Raises:
            OSError: the folder cannot be read, or an old file cannot be deleted.
        """
        self._folder = folder
        self._ids: dict[Path, frozenset[str]] = {}
        for path in sorted(folder.iterdir()):
            if _FILE_NAME.fullmatch(path.name):
                self._ids[path] = _read(path)
        self._delete_old()

    def __contains__(self, message_id: str) -> bool:
        return any(message_id in ids for ids in self._ids.values())

    def add(self, first: int, ids: Collection[str]) -> None:
        """Keep the ids of the segment that starts with row `first`; durable on return.

        Raises:
            OSError: the file cannot be written.
        """
        path = self._folder / f"late-{first:020d}.json"
        write_atomically(path, json.dumps(sorted(ids)))
        self._ids[path] = frozenset(ids)
        self._delete_old()

    def _delete_old(self) -> None:
        oldest = _clock.time_ms() - _DAY_MS
        newest_first = sorted(self._ids, reverse=True)
        for index, path in enumerate(newest_first):
            if index >= _MAX_FILES or path.stat().st_mtime * 1000 < oldest:
                path.unlink()
                del self._ids[path]


def _read(path: Path) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(path.read_text(encoding="utf-8"))))
    except (ValueError, TypeError):
        logger.warning(
            "%s is damaged and ignored: messages that it lists may be read twice if the broker "
            "delivers them again",
            path,
        )
        return frozenset()
