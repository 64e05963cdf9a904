"""Verification of a journal and its index: every problem is listed. Only reads; blocks.

The index is compared with one that is built from the journal at the same time. Both get the same
records, so a broker may write meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommand,
    KahaRemoveMessageCommand,
    KahaSubscriptionCommand,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import (
    STORE_OPENWIRE_VERSION,
    decode_ack,
    decode_subscription_info,
    from_kaha_destination,
)
from pyjms.wire.kahadb.journal import Location, segment_name, segment_number
from pyjms.wire.kahadb.segments import (
    JournalFiles,
    JournalRecord,
    SegmentReader,
    Skipped,
    read_record,
)
from pyjms.wire.openwire.commands import contents
from pyjms_broker.store.journal.segments import empty_segments
from pyjms_broker.store.kahadb.index import (
    DestinationIndex,
    IndexCorrupt,
    IndexEntry,
    StoreIndex,
    TopicIndex,
)
from pyjms_broker.store.kahadb.records import RecordFormat
from pyjms_broker.store.kahadb.recovery import OUR_INDEX, find_lost_end
from pyjms_broker.store.kahadb.tools.journal_directory import (
    ReadProgress,
    Segment,
    Snapshot,
    copy_index,
    has_activemq_index,
    journal_end,
    read_segments,
    trusted_location,
)

_NAMED: Final = 20


def _missing_segments(index: StoreIndex, files: JournalFiles) -> list[str]:
    """Return a sentence for each missing segment that has indexed messages."""
    there = set(files.segments())
    return [
        f"{count} messages are in {segment_name(file_id)}, which is missing"
        for file_id, count in sorted(index.segments.message_counts().items())
        if file_id not in there
    ]


def _messages_within(
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


def _differences(index: StoreIndex, rebuilt: StoreIndex) -> list[str]:
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


_TAIL_READS: Final = 10
"""The number of times the end is read again; a write is finished long before the last."""
_REASONS: Final = {
    "torn": "the bytes end within a batch",
    "checksum": "the batch's checksum is wrong",
    "damaged": "no whole batch is here",
}


class Problem(NamedTuple):
    """A problem and its location."""

    location: str
    text: str


@dataclass
class Verification:
    """The counts of what was checked, and the problems found."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    messages: int | None = None
    """The number of messages; None if not counted, as in the journal of a job scheduler."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Remarks that are not problems."""


def verify_journal(
    folder: Path,
    *,
    index_directory: Path | None = None,
    with_index: bool = True,
    on_bytes: Callable[[int], None] = lambda _size: None,
) -> Verification:
    """Check every batch, every record, and the index against the journal."""
    found = Verification()
    with tempfile.TemporaryDirectory(prefix="pyjms-verify-") as scratch:
        snapshots: list[Snapshot] = []
        try:
            if with_index:
                snapshots = _snapshots(folder, Path(scratch), index_directory, found)
            _check_sizes(folder, found)
            damaged = _read_all(folder, snapshots, found, on_bytes)
            if snapshots:
                _compare(folder, snapshots, damaged, found)
        finally:
            for snapshot in snapshots:
                snapshot.close()
    return found


def _snapshots(
    folder: Path, scratch: Path, index_directory: Path | None, found: Verification
) -> list[Snapshot]:
    """Return a new index and, if it can be compared, a copy of the store's index."""
    for name in ("new", "copy"):
        (scratch / name).mkdir()
    path = (index_directory or folder) / OUR_INDEX
    copy = _copy(folder, path, scratch / "copy", index_directory, found)
    index = StoreIndex(scratch / "new" / OUR_INDEX)
    index.open()
    return [Snapshot(index, None), *copy]


def _copy(
    folder: Path, path: Path, scratch: Path, index_directory: Path | None, found: Verification
) -> list[Snapshot]:
    if has_activemq_index(folder, index_directory):
        found.notes.append("ActiveMQ has used this store since: the next start rebuilds the index")
        return []
    if not path.exists():
        found.notes.append(f"There is no index {path.name}: the next start builds it")
        return []
    if not path.stat().st_size:
        found.problems.append(Problem(path.name, "it is empty: the next start rebuilds it"))
        return []
    try:
        index = copy_index(path, scratch)
    except IndexCorrupt as error:
        found.problems.append(Problem(path.name, str(error)))
        return []
    if index is None:
        found.notes.append("The index keeps changing and was not compared")
        return []
    if index.coverage() is None:
        found.notes.append("The index has had no checkpoint yet and was not compared")
        index.close()
        return []
    found.problems += [Problem(path.name, text) for text in index.check()]
    covered = trusted_location(folder, index)
    if covered is None:
        lost = find_lost_end(
            index, journal_end(folder), lambda at: JournalFiles(folder).read_unchecked(at).payload
        )
        if lost is None:
            text = "it is not of this journal, or of an earlier state: the next start rebuilds it"
        else:
            missing = "it is missing, though the index covers it: it was an end of the journal"
            found.problems += [Problem(segment_name(each), missing) for each in lost.segments]
            text = f"{lost.text}; the next start rebuilds it"
            if lost.segments:
                text = f"{lost.text}; restore the segments, or set ignore_missing_journalfiles"
        found.problems.append(Problem(path.name, text))
        index.close()
        return []
    return [Snapshot(index, covered)]


def _check_sizes(folder: Path, found: Verification) -> None:
    """Report empty segments, except for the last one, which a crash may have left empty."""
    sizes = {
        number: path.stat().st_size
        for path in folder.iterdir()
        if (number := segment_number(path.name)) is not None and path.name == segment_name(number)
    }
    for number in empty_segments(sizes):
        found.problems.append(Problem(segment_name(number), "it is empty: what it held is lost"))


def _read_all(
    folder: Path, snapshots: list[Snapshot], found: Verification, on_bytes: Callable[[int], None]
) -> list[Skipped]:
    """Read all records; return the damaged ranges before the journal's end."""
    record_format = RecordFormat(STORE_OPENWIRE_VERSION)
    damaged: list[Skipped] = []
    tail: Skipped | None = None
    progress = ReadProgress(on_bytes)
    for segment in read_segments(folder):
        if tail is not None:
            found.problems.append(_skipped_problem(tail))
            damaged.append(tail)
        found.segments += 1
        reader = segment.reader()
        for record in _records(segment, reader, found):
            found.records += 1
            progress.report_up_to(record.location.offset)
            reason = _decoding_problem(record, record_format)
            if reason is not None:
                found.problems.append(Problem(_location_text(*record.location), reason))
                continue
            for snapshot in snapshots:
                snapshot.apply(record)
        tail = _tail(reader)
        holes = reader.skipped if tail is None else reader.skipped[:-1]
        found.problems += [_skipped_problem(each) for each in holes]
        damaged += holes
        progress.report_all_of(segment)
    if tail is not None and _is_permanent(folder, tail):
        location, text = _skipped_problem(tail)
        text += "; it is the end of the journal, which the next start cuts here"
        found.problems.append(Problem(location, text))
    return damaged


def _records(
    segment: Segment, reader: SegmentReader, found: Verification
) -> Iterator[JournalRecord]:
    if segment.data is None:
        found.notes.append(f"{segment_name(segment.file_id)} was deleted while this was running")
        return
    view = memoryview(segment.data)
    for batch in reader.batches():
        found.batches += 1
        for offset in batch.offsets:
            yield read_record(view, Location(segment.file_id, offset))


def _tail(reader: SegmentReader) -> Skipped | None:
    """Return the range behind the last valid batch, if something was written there."""
    last = reader.skipped[-1] if reader.skipped else None
    return last if last is not None and last.start >= reader.end else None


def _skipped_problem(skipped: Skipped) -> Problem:
    reason = _REASONS.get(skipped.reason, skipped.reason)
    size = skipped.end - skipped.start
    return Problem(
        _location_text(skipped.file_id, skipped.start), f"{reason}: {size} bytes are lost"
    )


def _is_permanent(folder: Path, tail: Skipped) -> bool:
    """Return whether the journal's incomplete end is more than a write in progress."""
    path = folder / segment_name(tail.file_id)
    for _ in range(_TAIL_READS):
        if not path.exists():
            return False
        reader = Segment(tail.file_id, path.read_bytes()).reader()
        for _batch in reader.batches():
            pass
        now = _tail(reader)
        if now is None or now.start != tail.start:
            return False
    return True


def _decoding_problem(record: JournalRecord, record_format: RecordFormat) -> str | None:
    """Decode the record completely; return the problem, or None if it is valid."""
    try:
        command = record.command()
        _decode_parts(command, record_format)
    except JMSException as error:
        return f"the record cannot be decoded: {error}"
    return None


def _decode_parts(command: KahaCommand, record_format: RecordFormat) -> None:
    # Jobs are not decoded: ActiveMQ's scheduler accepts any bytes as a job.
    if isinstance(command, KahaUpdateMessageCommand):
        command = command.message
    if isinstance(command, KahaAddMessageCommand):
        from_kaha_destination(command.destination)
        record_format.decode(command.message)
    elif isinstance(command, KahaRemoveMessageCommand):
        from_kaha_destination(command.destination)
        if command.ack:
            decode_ack(command.ack, record_format.version)
    elif isinstance(command, KahaSubscriptionCommand):
        from_kaha_destination(command.destination)
        if command.subscription_info is not None:
            decode_subscription_info(command.subscription_info, record_format.version)


def _compare(
    folder: Path, snapshots: list[Snapshot], damaged: list[Skipped], found: Verification
) -> None:
    for snapshot in snapshots:
        snapshot.finish()
    rebuilt, *copies = (snapshot.index for snapshot in snapshots)
    found.messages = sum(destination.count for destination in rebuilt.destinations())
    for index in copies:
        found.problems += [
            Problem(_location_text(file_id, start), text)
            for file_id, start, text in _messages_within(index, damaged)
        ]
        found.problems += [
            Problem(OUR_INDEX, text) for text in _missing_segments(index, JournalFiles(folder))
        ]
        found.problems += [Problem(OUR_INDEX, text) for text in _differences(index, rebuilt)]


def _location_text(file_id: int, offset: int) -> str:
    return f"{segment_name(file_id)}:{offset}"
