"""Detection of data loss when a journal ends before the last record that its index covers.

The index is written only when the journal is durable up to the record that it covers. A journal
that ends earlier has therefore lost its last segments, or the end of its last segment, and the
index still lists the lost messages. An index that belongs to another journal is recognized by the
fact that none of its messages is found at its location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import KahaAddMessageCommand, KahaUpdateMessageCommand
from pyjms.wire.kahadb.frames import from_kaha_destination
from pyjms.wire.kahadb.journal import Location, segment_name
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry, StoreIndex, TopicIndex

__all__ = ["LostEnd", "find_lost_end"]

_SAMPLES: Final = 20
_NAMED: Final = 20


class LostEnd(NamedTuple):
    """Data that the index covers but the journal does not contain."""

    segments: tuple[int, ...]
    """The missing or empty segments; empty if the last one was truncated."""
    text: str
    """The end of the journal, and the lost messages that the index knows, in words."""


def find_lost_end(
    index: StoreIndex,
    end: Location,
    read: Callable[[Location], bytes],
    *,
    is_empty_missing: bool = True,
) -> LostEnd | None:
    """Return the lost data; None if there is none, or the index is another journal's. Blocks.

    Args:
        index: the index, as it was opened.
        end: where the journal ends.
        read: returns the payload of a record before the end.
        is_empty_missing: whether a last segment without a batch counts as missing; False if
            the journal is never synced.
    """
    known = index.covered()
    if known is None or known[0] < end or not _matches_journal(index, end, read):
        return None
    covered = known[0]
    has_end = bool(end.offset) or not is_empty_missing
    missing = tuple(range(end.file_id + has_end, covered.file_id + 1))
    losses = [text for d in index.destinations() if (text := _losses(d, end))]
    named = losses[:_NAMED]
    if len(losses) > _NAMED:
        named.append(f"messages of {len(losses) - _NAMED} more destinations")
    return LostEnd(
        missing,
        f"the journal ends at {_text(end)}, but its index covers it up to {_text(covered)}. "
        f"Lost: {'; '.join(named) or 'no message that the index knows'}. "
        "Messages whose acknowledgements were there are delivered again",
    )


def _matches_journal(index: StoreIndex, end: Location, read: Callable[[Location], bytes]) -> bool:
    """Return whether the index's locations have its messages; True if it has no messages."""
    found = True
    for entry in islice(_entries_before(index, end), _SAMPLES):
        try:
            command = decode_command(read(entry.location))
        except JMSException:
            found = False  # damage, or another journal: the next message will tell
            continue
        if isinstance(command, KahaUpdateMessageCommand):
            command = command.message
        found = (
            isinstance(command, KahaAddMessageCommand) and command.message_id == entry.message_id
        )
        if found:
            return True
    return found


def _entries_before(index: StoreIndex, end: Location) -> Iterator[IndexEntry]:
    for destination in index.destinations():
        for entry in destination.entries():
            if entry.location < end:
                yield entry


def _losses(destination: DestinationIndex, end: Location) -> str:
    """Describe the lost messages of a destination; empty if there are none."""
    lost = [entry.position for entry in destination.entries() if entry.location >= end]
    if not lost:
        return ""
    name = from_kaha_destination(destination.destination).qualified_name
    text = f"{len(lost)} messages of {name}"
    if isinstance(destination, TopicIndex):
        pending = {
            key: sum(destination.is_pending(key, position) for position in lost)
            for key in destination.subscriptions
        }
        named = ", ".join(f"{count} of {key}" for key, count in pending.items() if count)
        text += f" (pending for durable subscriptions: {named or 'none'})"
    return text


def _text(location: Location) -> str:
    return f"{segment_name(location.file_id)}:{location.offset}"
