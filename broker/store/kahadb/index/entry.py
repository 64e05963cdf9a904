"""What the index knows of a message. Entries never change; a changed message gets a new one."""

from __future__ import annotations

from typing import NamedTuple

from broker.store.api import Position
from pyjms.wire.kahadb.journal import Location

__all__ = ["IndexEntry"]


class IndexEntry(NamedTuple):
    """Where a message stands in its destination and where its bytes are."""

    position: Position
    message_id: str
    file_id: int
    """The segment of its add record, or of the update record that came later."""
    offset: int
    size: int
    """Bytes, as memory counts the message."""
    producer: int
    """How the index keeps the id: the number it gave the producer in this destination ..."""
    sequence: int
    """... and the number at the id's end; -1 if it ends otherwise."""

    @property
    def location(self) -> Location:
        """Where the journal has the message."""
        return Location(self.file_id, self.offset)
