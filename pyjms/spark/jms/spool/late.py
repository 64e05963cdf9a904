"""Ids of messages that may come again after their rows are gone from the spool.

When a driver dies, or its connection, between writing a segment and hearing that it was
acknowledged, the broker may still hold the messages for a connection that it takes for alive. It
delivers them again when it notices, by default after half a minute: by then the segment may be
done with. So the ids of such segments stay, for a day.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from pyjms import _clock
from pyjms.spark.files import write_whole

__all__ = ["LateIds"]

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"late-\d{20}\.json")
_DAY_MS: Final = 24 * 3600 * 1000
_MOST_FILES: Final = 50


class LateIds:
    """A file for each segment in doubt that is gone. One process writes; blocks on the disk."""

    def __init__(self, folder: Path) -> None:
        """Read what is there; what is older than a day goes.

        Raises:
            OSError: the folder cannot be read, or what is old cannot be deleted.
        """
        self._folder = folder
        self._known: dict[Path, frozenset[str]] = {}
        for path in sorted(folder.iterdir()):
            if _NAME.fullmatch(path.name):
                self._known[path] = _read(path)
        self._drop_old()

    def has(self, message_id: str) -> bool:
        """Whether a message was in one of those segments."""
        return any(message_id in ids for ids in self._known.values())

    def keep(self, first: int, ids: Collection[str]) -> None:
        """Remember the ids of the segment that begins with row `first`; on the disk when done.

        Raises:
            OSError: the disk does not take them.
        """
        path = self._folder / f"late-{first:020d}.json"
        write_whole(path, json.dumps(sorted(ids)))
        self._known[path] = frozenset(ids)
        self._drop_old()

    def _drop_old(self) -> None:
        before = _clock.time_ms() - _DAY_MS
        newest_first = sorted(self._known, reverse=True)
        for place, path in enumerate(newest_first):
            if place >= _MOST_FILES or path.stat().st_mtime * 1000 < before:
                path.unlink()
                del self._known[path]


def _read(path: Path) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(path.read_text(encoding="utf-8"))))
    except (ValueError, TypeError):
        logger.warning("%s is damaged; messages that it names are not known again", path)
        return frozenset()
