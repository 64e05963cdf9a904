"""Unreadable stored data: which errors mean damage, and how damage is reported.

A store quarantines unreadable messages: they stay stored and counted, readers do not get them, and
each is logged once. A damaged record therefore never blocks the others. Transient errors are
raised instead, and the broker reads again later. (activemq-persistence K20)
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from pyjms.errors import ProtocolViolation, ResourceAllocationException
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.errors import is_passing
from pyjms.wire.kahadb.journal import Location

logger = get_logger(__name__)

# No TypeError: what decodes checks the types of values, and compiled code raises one for a mistake.
_DAMAGE: Final = (
    ProtocolViolation,
    ValueError,
    LookupError,
    RecursionError,
    OverflowError,
    struct.error,
)


def is_damage(error: BaseException) -> bool:
    """Return whether reading the same data again would fail again."""
    cause = error.__cause__ if isinstance(error, ResourceAllocationException) else error
    if isinstance(cause, OSError):
        return not is_passing(cause)
    return isinstance(error, _DAMAGE)


def quarantine_record(
    directory: Path, location: Location, payload: bytes, error: BaseException
) -> None:
    """Save a journal record that cannot be applied to the folder `quarantine`, and log it. Blocks.

    The start continues without the record; the copy remains when the segment is removed.
    """
    path = directory / "quarantine" / f"db-{location.file_id}-{location.offset}.record"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(payload)
    except OSError as failure:
        logger.error("%s cannot be written: %s", path, failure)
    logger.error(
        "The journal record at %s of %s cannot be applied; it is quarantined in %s: %s",
        location,
        directory,
        path,
        error,
    )


def quarantined_files(directory: Path) -> dict[Path, int]:
    """Return the folders below `directory` with data quarantined at a start. Blocks.

    The values are the numbers of files: records in `quarantine`, and the ends of damaged segments.
    """
    found: dict[Path, int] = {}
    for pattern in ("quarantine/*.record", "db-*.log.cut-*"):
        for path in sorted(directory.rglob(pattern)):
            found[path.parent] = found.get(path.parent, 0) + 1
    return found


class Quarantine:
    """The messages that a store has quarantined since it was opened."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        """Return the number of quarantined messages."""
        return len(self._known)

    def add(self, destination: str, message_id: str, where: object, error: BaseException) -> None:
        """Record a message and log it, unless it was quarantined before."""
        name = (destination, message_id)
        if name not in self._known:
            self._known.add(name)
            logger.error(
                "%s: message %s cannot be read and is quarantined, at %s: %s",
                destination,
                message_id,
                where,
                error,
            )
