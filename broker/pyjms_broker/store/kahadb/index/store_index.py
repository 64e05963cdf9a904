"""The index of a store: a sqlite3 database, and the changes since its last checkpoint.

Theory of operation
-------------------

The journal is the source of truth; the index says which of its records matter, and can be rebuilt
from it. All changes are made in memory, on the loop: updating the database for each message would
cost more than the journal. From time to time a checkpoint writes the changes to the database (see
`MessageTable` for how lookups combine both):

    begin_checkpoint     on the loop: collects all changes, and the journal location they cover
    (the journal is synced up to there)
    write_checkpoint     in a worker thread: writes them in one transaction
    complete_checkpoint  on the loop: records that the database has them

At any time, the database is therefore exactly the index of a prefix of the journal, which ends at
`covered`. A crash loses the changes in memory; recovery replays the records behind `covered`. A
failed checkpoint is written again, unchanged, before the next one begins.

Records of the journal are applied by methods such as `DestinationIndex.apply_add`, when they are
written and when they are replayed: the index is a function of the journal. The running store calls
them with the location of a record that it has just appended, `Replay` with that of a record that it
has read, and both must leave the same index. Two rules make that true.

Arrival numbers. Every add record of a destination takes the next number, whether or not its message
is still in the journal when it is replayed. Messages that take no number (a duplicate, a message
for a topic without subscriptions) are not written, or a trace record says so. Each segment begins
with a trace record of all destinations' next numbers, so the numbering survives the deletion of
older segments.

Segment references. A segment A refers to a segment B if a replay without A would restore something
of B: a removed message, a deleted subscription, a destination, a rolled back transaction.
A cleanup deletes A only after B. References are added

    by                          in the segment of    to the segment of
    a removal, acknowledgement  its record           the message's add (or update) record
    an update                   its record, and      the message's previous record: neither may
                                                     vice versa           stay without the other
    an unsubscription, or a     its record           the subscription's record
    new subscription info
    a destination's removal     its record           all its messages and subscriptions
    the end of a transaction    its record           all the transaction's records

(activemq-persistence K11, K17, K21)

Clearing or removing a destination takes constant time: the key of its rows, `contents`, is replaced
by a new one, and later checkpoints delete the obsolete rows in increments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pyjms.errors import IllegalStateException
from pyjms.wire.kahadb.commands import KahaDestination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index.checkpoint import (
    IndexCheckpoint,
    Memtable,
    delete_unused_producers,
    write_changes,
)
from pyjms_broker.store.kahadb.index.database import (
    Database,
    IndexCorrupt,
    IndexEntry,
    MessageMetadata,
    problems,
    translate_errors,
)
from pyjms_broker.store.kahadb.index.destination import (
    DIRTY_PARTS_LIMIT,
    DestinationIndex,
    MessageTable,
    TopicIndex,
)
from pyjms_broker.store.kahadb.index.sequence_set import SequenceSet


class SegmentReferences:
    """Message counts of segments, and references between segments.

    See the module for what a reference means. (activemq-persistence K17, K18)
    """

    def __init__(self, counts: Callable[[], Iterable[Mapping[int, int]]]) -> None:
        self._counts = counts
        self._targets: dict[int, set[int]] = {}
        self._changed: set[int] = set()

    def load(self, rows: Iterable[tuple[int, int]]) -> None:
        """Load the database's rows: pairs of a segment and one it refers to."""
        self._targets.clear()
        self._changed.clear()
        for file_id, target in rows:
            self._targets.setdefault(file_id, set()).add(target)

    def message_counts(self) -> dict[int, int]:
        """Return the number of messages in each segment that has any, over all destinations."""
        total: dict[int, int] = {}
        for files in self._counts():
            for file_id, count in files.items():
                total[file_id] = total.get(file_id, 0) + count
        return total

    def add_reference(self, file_id: int, target: int) -> None:
        """Add a reference: `file_id` removes or ends something in `target`."""
        if file_id == target:
            return
        targets = self._targets.get(file_id)
        if targets is None:
            targets = self._targets[file_id] = set()
        if target not in targets:
            targets.add(target)
            self._changed.add(file_id)

    def targets(self, file_id: int) -> frozenset[int]:
        """Return the segments that this one refers to."""
        return frozenset(self._targets.get(file_id, ()))

    def referring_segments(self) -> list[int]:
        """Return the segments that have references, in order."""
        return sorted(self._targets)

    def remove(self, file_id: int) -> None:
        """Remove a deleted segment's references and the references to it."""
        if self._targets.pop(file_id, None) is not None:
            self._changed.add(file_id)
        for other, targets in list(self._targets.items()):
            if file_id in targets:
                targets.discard(file_id)
                self._changed.add(other)
                if not targets:
                    del self._targets[other]

    def pop_changes(self) -> dict[int, tuple[int, ...]]:
        """Return the references of segments whose references changed since the last call."""
        changed, self._changed = self._changed, set()
        return {file_id: tuple(sorted(self._targets.get(file_id, ()))) for file_id in changed}


class ProducerSequences:
    """The last sequence number of each of the last `limit` producers (activemq-broker T27)."""

    def __init__(self, limit: int = 64) -> None:
        self.limit = limit
        self._last: dict[str, int] = {}
        self._changed = False

    def load(self, rows: Iterable[tuple[str, int]]) -> None:
        """Load the database's rows, the least recently used first."""
        self._last = dict(list(rows)[-self.limit :])
        self._changed = False

    def record(self, producer_id: str, sequence: int) -> None:
        """Record a number; a number that is not higher only marks the producer as recently used."""
        numbers = self._last
        last = numbers.pop(producer_id, -1)
        numbers[producer_id] = max(last, sequence)
        if len(numbers) > self.limit:
            del numbers[next(iter(numbers))]
        self._changed = True

    def last(self, producer_id: str) -> int:
        """Return the highest number of a producer; -1 if it is unknown."""
        return self._last.get(producer_id, -1)

    def items(self) -> list[tuple[str, int]]:
        """Return all producers and numbers, the least recently used first."""
        return list(self._last.items())

    def pop_changes(self) -> list[tuple[str, int]] | None:
        """Return all producers and numbers if any changed since the last call, else None."""
        changed, self._changed = self._changed, False
        return self.items() if changed else None


_RECENT: Final = 20_000
_DESTINATIONS = """
SELECT number, contents, type, name, prioritized, epoch, last_arrival, count, size,
    reclaim_level, reclaim_arrival
FROM destinations ORDER BY number
"""
_SUBSCRIPTIONS = """
SELECT destination, floor, number, key, info, file_id, offset FROM subscriptions ORDER BY number
"""


class StoreIndex:
    """The index of a store. Open it before use, and use it on the loop.

    Only `write_checkpoint` runs in a worker thread. `open`, `check`, `close` and `delete` block,
    and must not run concurrently with any other call.
    """

    def __init__(self, path: Path, duplicates_limit: int = 20_000) -> None:
        self.database = Database(path)
        self.duplicates_limit = duplicates_limit
        self.segments = SegmentReferences(self._files)
        self.producers = ProducerSequences()
        self.on_dirty: Callable[[], object] = _do_nothing
        """Called when a checkpoint is due because of the number of changes in memory."""
        self._reset()

    def _reset(self) -> None:
        self.dirty = 0
        """The number of changes since the last checkpoint began (the next: at `DIRTY_LIMIT`)."""
        self.dirty_parts: dict[DestinationIndex, None] = {}
        """Destinations with changes."""
        self.obsolete_contents: list[int] = []
        """Contents to be deleted: of cleared and of removed destinations."""
        self._last_number = 0
        self._recent: dict[tuple[int, int], IndexEntry] = {}
        self._older: dict[tuple[int, int], IndexEntry] = {}
        self._destinations: dict[str, DestinationIndex] = {}
        self._removed: list[int] = []
        self._scanned = (0, 0)  # the progress of the scan for unused producers
        self._checkpoint: IndexCheckpoint | None = None
        self._tables: list[tuple[MessageTable, Memtable]] = []  # of the running checkpoint
        self._written_tables: list[MessageTable] = []  # of the last one
        self._covered: tuple[Location, int] | None = None
        self.last_broker_sequence_id = 0
        self.open_transactions: Location | None = None
        """The oldest record of an open transaction, at which a replay must begin; None: no such."""

    @property
    def path(self) -> Path:
        """The path of the database."""
        return self.database.path

    @property
    def damage(self) -> IndexCorrupt | None:
        """Damage found in the database since `open`: it must be rebuilt."""
        return self.database.damage

    def open(self) -> None:
        """Open or create the database.

        Raises:
            IndexCorrupt: it belongs to another program, has another version, or is damaged.
            OSError: the system refused access.
        """
        self._reset()
        self.database.open()
        try:
            self._load()
        except (IndexCorrupt, OSError):
            self.database.close()
            raise
        except (TypeError, ValueError, KeyError, AttributeError) as error:  # invalid rows
            self.database.close()
            raise IndexCorrupt(f"The index {self.path} has invalid content: {error!r}.") from error

    def close(self) -> None:
        """Close it. Unwritten changes are dropped: the journal has them. Idempotent."""
        self.database.close()

    def delete(self) -> None:
        """Close it and delete its files; `open` creates a new one."""
        self.database.delete()

    def check(self) -> list[str]:
        """Check the whole database and return a sentence for each problem. Slow."""
        return problems(self.database)

    def coverage(self) -> tuple[Location, int] | None:
        """Return the last location that the index covers, and its digest; None for a new index."""
        return self._covered

    def destination(
        self, destination: KahaDestination, prioritized: bool | None = None
    ) -> DestinationIndex:
        """Return a destination's index (a TopicIndex for topics), creating it if needed.

        If `prioritized` is None it stays unchanged; it is switched off only without messages.
        """
        found = self._destinations.get(destination.key)
        if found is None:
            found = self._make(destination)
        if prioritized is not None:
            found.prioritize(prioritized)
        return found

    def topic(self, destination: KahaDestination, prioritized: bool | None = None) -> TopicIndex:
        """Return a topic's index, creating it if needed."""
        found = self.destination(destination, prioritized)
        if not isinstance(found, TopicIndex):
            raise TypeError(f"{destination} is not a topic.")
        return found

    def lookup(self, destination: KahaDestination) -> DestinationIndex | None:
        """Return a destination's index, or None."""
        return self._destinations.get(destination.key)

    def destinations(self) -> list[DestinationIndex]:
        """Return all destinations that were used and have not been removed."""
        return list(self._destinations.values())

    def remove_destination(self, destination: KahaDestination) -> bool:
        """Remove a destination with everything in it; False if there is none."""
        found = self._destinations.pop(destination.key, None)
        if found is None:
            return False
        found.clear()
        self.dirty_parts.pop(found, None)
        self._removed.append(found.number)
        return True

    # -- records of the journal

    def note_sender(self, metadata: MessageMetadata) -> None:
        """Record the sequence numbers of a message that was consumed before it was appended."""
        self.last_broker_sequence_id = max(self.last_broker_sequence_id, metadata.broker_sequence)
        if metadata.producer is not None:
            self.producers.record(metadata.producer, metadata.producer_sequence)

    def apply_destination_removal(self, destination: KahaDestination, location: Location) -> None:
        """Apply the removal of a destination with everything in it."""
        known = self.lookup(destination)
        if known is None:
            return
        for file_id in known.files:
            self.segments.add_reference(location.file_id, file_id)
        if isinstance(known, TopicIndex):
            for subscription in known.subscriptions.values():
                self.segments.add_reference(location.file_id, subscription.file_id)
        self.remove_destination(destination)

    def apply_end(self, location: Location, files: Iterable[int]) -> None:
        """Apply the end, at `location`, of a transaction with records in these segments."""
        for file_id in files:
            self.segments.add_reference(location.file_id, file_id)

    # -- checkpoints

    def note_dirty_part(self, destination: DestinationIndex) -> None:
        """Record that a destination has changed."""
        self.dirty_parts[destination] = None
        if len(self.dirty_parts) == DIRTY_PARTS_LIMIT:
            self.on_dirty()

    def begin_checkpoint(self, covered: Location, digest: int) -> IndexCheckpoint:
        """Collect all changes for `write_checkpoint`. On the loop.

        `covered` is the location of the last record the index has; `digest` (a signed 64-bit
        number, see `record_digest`) identifies it. `coverage()` returns both after a restart.
        """
        if self._checkpoint is not None:
            raise IllegalStateException("The previous index checkpoint is not complete.")
        dirty, self.dirty_parts = self.dirty_parts, {}
        obsolete, self.obsolete_contents = self.obsolete_contents, []
        removed, self._removed = self._removed, []
        self.dirty = 0
        tables = [destination.table for destination in dirty]
        changes = [destination.collect_changes() for destination in dirty]
        self._tables = [(t, c.memtable) for t, c in zip(tables, changes, strict=True)]
        state = (
            1,
            *covered,
            digest,
            *(self.open_transactions or (None, None)),
            self.last_broker_sequence_id,
            self._last_number,
        )
        self._checkpoint = IndexCheckpoint(
            Location(*covered),
            digest,
            state,
            changes,
            removed,
            obsolete,
            self.segments.pop_changes(),
            self.producers.pop_changes(),
        )
        return self._checkpoint

    def write_checkpoint(self, checkpoint: IndexCheckpoint, *, sync: bool = False) -> None:
        """Write a checkpoint in one transaction. Blocks: for a worker thread. May be retried.

        With `sync` it survives a power failure, not only the end of the process. That is needed
        before deleting a segment that an earlier state of the index needs.

        Raises:
            OSError: the system refused access; nothing was written.
            IndexCorrupt: the database is damaged.
        """
        try:
            self._write(checkpoint, sync=sync)
        except IndexCorrupt as error:
            raise self.database.note_damage(error) from error.__cause__

    def _write(self, checkpoint: IndexCheckpoint, *, sync: bool) -> None:
        writer = self.database.writer
        with translate_errors(self.path):
            writer.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            writer.execute("BEGIN IMMEDIATE")
            try:
                write_changes(writer, checkpoint)
                scanned = delete_unused_producers(writer, self._scanned, checkpoint)
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise
        self._scanned = scanned

    def write(self, covered: Location, digest: int) -> None:
        """Write all changes now. Blocks, and raises as `write_checkpoint`."""
        checkpoint = self.begin_checkpoint(covered, digest)
        self.write_checkpoint(checkpoint)
        self.complete_checkpoint(checkpoint)

    def complete_checkpoint(self, checkpoint: IndexCheckpoint) -> None:
        """Record that a checkpoint was written. On the loop, after `write_checkpoint`."""
        self._checkpoint = None
        self._covered = (checkpoint.covered, checkpoint.digest)
        for table in self._written_tables:
            table.drop_written_memtable()
        self._written_tables = [table for table, _ in self._tables]
        for table, memtable in self._tables:
            table.memtable_written(memtable)
        self._tables = []

    # -- for destinations

    def next_number(self) -> int:
        """Return a number that is unused in the database, as the key of a new row."""
        self._last_number += 1
        return self._last_number

    def cache(self, contents: int, entries: list[IndexEntry]) -> None:
        """Cache entries read from the database, which their removal will look up again."""
        recent = self._recent
        for entry in entries:
            recent[contents, entry[0][1]] = entry
        if len(recent) > _RECENT:
            self._recent, self._older = {}, recent

    def find_cached(self, contents: int, arrival: int) -> IndexEntry | None:
        """Return an entry that was read recently, or None."""
        key = (contents, arrival)
        return self._recent.get(key) or self._older.get(key)

    def evict(self, contents: int, arrival: int) -> None:
        """Drop an entry from the cache: the message was removed or relocated."""
        key = (contents, arrival)
        self._recent.pop(key, None)
        self._older.pop(key, None)

    def _make(self, destination: KahaDestination) -> DestinationIndex:
        made = self._part(destination, False, self.next_number(), self.next_number())
        made.begin(0, 0)
        return made

    def _part(
        self, destination: KahaDestination, prioritized: bool, number: int, contents: int
    ) -> DestinationIndex:
        kind = TopicIndex if destination.type % 2 else DestinationIndex
        part = kind(self, destination, prioritized, number, contents)
        self._destinations[part.key] = part
        return part

    def _files(self) -> Iterable[dict[int, int]]:
        return [destination.files for destination in self._destinations.values()]

    def _load(self) -> None:
        database = self.database
        for row in database.rows("SELECT * FROM state"):
            _, file_id, offset, digest, open_file, open_offset, last_sequence, last_number = row
            self._covered = (Location(file_id, offset), digest)
            if open_file is not None:
                self.open_transactions = Location(open_file, open_offset)
            self.last_broker_sequence_id = last_sequence
            self._last_number = last_number
        _load_destinations(database, self._part)
        self.segments.load(database.rows("SELECT file_id, target FROM refers"))
        self.producers.load(database.rows("SELECT producer, sequence FROM sequences ORDER BY age"))


def _do_nothing() -> None:
    """Ignore that a checkpoint is due: a replay checks it itself."""


_MakePart = Callable[[KahaDestination, bool, int, int], DestinationIndex]


def _load_destinations(database: Database, make_part: _MakePart) -> None:
    """Create the destinations and load their data, except for the messages."""
    files: dict[int, dict[int, int]] = defaultdict(dict)
    for contents, file_id, messages in database.rows("SELECT * FROM files"):
        files[contents][file_id] = messages
    duplicates = _by_first(
        database, "SELECT destination, number, id, file_id FROM duplicates ORDER BY 1, 2"
    )
    subscriptions = _by_first(database, _SUBSCRIPTIONS)
    blocks = _by_first(database, "SELECT subscription, block, bits FROM acked")
    for number, contents, kind, name, prioritized, *row, level, arrival in database.rows(
        _DESTINATIONS
    ):
        part = make_part(KahaDestination(kind, name), bool(prioritized), number, contents)
        epoch, last_arrival, count, size = row
        part.load((epoch, last_arrival, count, size), files.get(contents, {}))
        part.duplicates.load(duplicates.get(number, ()))
        if isinstance(part, TopicIndex):
            reclaim = None if level is None else Position(level, arrival)
            part.load_subscriptions(
                [
                    (tuple(one), SequenceSet(floor, blocks.get(one[0], ())))
                    for floor, *one in subscriptions.get(number, ())
                ],
                reclaim,
            )


def _by_first(database: Database, query: str) -> dict[int, list[Any]]:
    """Return a query's rows without their first column, grouped by it."""
    result: dict[int, list[Any]] = defaultdict(list)
    for first, *rest in database.rows(query):
        result[first].append(tuple(rest))
    return result
