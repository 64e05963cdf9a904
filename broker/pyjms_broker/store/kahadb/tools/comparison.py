"""Descriptions of the differences between two indexes of the same journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final

from pyjms.wire.kahadb.files import JournalFiles
from pyjms.wire.kahadb.frames import from_kaha_destination
from pyjms.wire.kahadb.journal import segment_name
from pyjms.wire.kahadb.reader import Skipped
from pyjms.wire.openwire.commands import contents
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry, StoreIndex, TopicIndex

__all__ = ["differences", "messages_within", "missing_segments"]

_NAMED: Final = 20


def missing_segments(index: StoreIndex, files: JournalFiles) -> list[str]:
    """Return a sentence for each missing segment that has indexed messages.

    (activemq-persistence K23)

    Raises:
        OSError: the directory cannot be read.
    """
    there = set(files.segments())
    return [
        f"{count} messages are in {segment_name(file_id)}, which is missing"
        for file_id, count in sorted(index.segments.message_counts().items())
        if file_id not in there
    ]


def messages_within(
    index: StoreIndex, damaged: Iterable[Skipped]
) -> Iterator[tuple[int, int, str]]:
    """Yield segment, offset and a sentence for each damaged range that has indexed messages."""
    ranges = list(damaged)
    inside: dict[Skipped, list[str]] = {each: [] for each in ranges}
    for destination in index.destinations() if ranges else ():
        for entry in destination.entries():
            for each in ranges:
                if entry.file_id == each.file_id and each.start <= entry.offset < each.end:
                    inside[each].append(f"{entry.message_id} of {_name(destination)}")
    for each, found in inside.items():
        if found:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            text = f"{len(found)} stored messages are here: {', '.join(found[:_NAMED])}{more}"
            yield each.file_id, each.start, f"{text}; they are quarantined when they are read"


def differences(index: StoreIndex, rebuilt: StoreIndex) -> list[str]:
    """Describe the differences between `index` and the one rebuilt from the journal."""
    found: list[str] = []
    wanted = {d.key: d for d in rebuilt.destinations()}
    there = {d.key: d for d in index.destinations()}
    for key in sorted(wanted.keys() | there.keys()):
        ours, theirs = there.get(key), wanted.get(key)
        if ours is None or theirs is None:
            known = ours or theirs
            assert known is not None, "the key is from one of the indexes"
            where = "only in the index" if theirs is None else "not in the index"
            found.append(f"{_name(known)}: is {where}")
        else:
            found += _destination_differences(ours, theirs)
    return found


def _destination_differences(ours: DestinationIndex, theirs: DestinationIndex) -> list[str]:
    name = _name(ours)
    same_numbers = ours.epoch == theirs.epoch
    found = _message_differences(name, ours, theirs, same_numbers)
    if same_numbers and ours.last_arrival != theirs.last_arrival:
        found.append(
            f"{name}: the last arrival is {ours.last_arrival} in the index,"
            f" {theirs.last_arrival} in the journal"
        )
    if isinstance(ours, TopicIndex) and isinstance(theirs, TopicIndex):
        found += _subscription_differences(name, ours, theirs)
    return found


def _message_differences(
    name: str, ours: DestinationIndex, theirs: DestinationIndex, same_numbers: bool
) -> list[str]:
    def same(one: IndexEntry | None, other: IndexEntry | None) -> bool:
        if one is None or other is None:
            return one is other
        if one.message_id != other.message_id or one.location != other.location:
            return False
        return not same_numbers or one.position == other.position

    if all(same(one, other) for one, other in zip_longest(ours.entries(), theirs.entries())):
        return []
    found: list[str] = []
    for having, lacking, text in (
        (ours, theirs, "are in the index, but not in the journal"),
        (theirs, ours, "are in the journal, but not in the index"),
    ):
        only = [entry for entry in having.entries() if lacking.find(entry.message_id) is None]
        if only:
            found.append(f"{name}: {len(only)} messages {text}, the first is {_entry(only[0])}")
    pairs = ((entry, theirs.find(entry.message_id)) for entry in ours.entries())
    moved = [(one, other) for one, other in pairs if other is not None and not same(one, other)]
    if moved:
        one, other = moved[0]
        found.append(
            f"{name}: {len(moved)} messages are at other locations than the index has,"
            f" the first is {_entry(one)} instead of {_entry(other)}"
        )
    return found


def _subscription_differences(name: str, ours: TopicIndex, theirs: TopicIndex) -> list[str]:
    found: list[str] = []
    for key in sorted(ours.subscriptions.keys() | theirs.subscriptions.keys()):
        one, other = ours.subscriptions.get(key), theirs.subscriptions.get(key)
        if one is None or other is None:
            where = "only in the index" if other is None else "not in the index"
            found.append(f"{name}: subscription {key} is {where}")
        elif contents(one.info) != contents(other.info):
            found.append(f"{name}: subscription {key} has another description in the index")
        elif _pending(ours, key) != _pending(theirs, key):
            found.append(
                f"{name}: subscription {key} has {_pending(ours, key)} pending messages in the"
                f" index, {_pending(theirs, key)} in the journal"
            )
    return found


def _pending(topic: TopicIndex, key: str) -> int:
    return topic.subscriptions[key].pending_count


def _entry(entry: IndexEntry | None) -> str:
    assert entry is not None, "only existing messages are described"
    file_id, offset = entry.location
    return f"{entry.message_id} at {segment_name(file_id)}:{offset} (number {entry.position[1]})"


def _name(destination: DestinationIndex) -> str:
    return str(from_kaha_destination(destination.destination))
