"""The whole index: a sqlite3 database and what changed since it was written last.

The journal is the truth; the index says up to where it covers it. What is lost with it,
or was not written yet, is read again from the journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from broker.store.kahadb.index.checkpoint import Frozen
from broker.store.kahadb.index.context import Shared
from broker.store.kahadb.index.database.checks import problems
from broker.store.kahadb.index.database.connections import Database, IndexCorrupt, translated
from broker.store.kahadb.index.database.writer import delete_unused_producers, write_frozen
from broker.store.kahadb.index.destination import DestinationIndex
from broker.store.kahadb.index.loading import load_destinations
from broker.store.kahadb.index.message_table import Layers
from broker.store.kahadb.index.segment_references import LastSequences, SegmentUse
from broker.store.kahadb.index.topic import TopicIndex
from pyjms.errors import IllegalStateException
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaDestination

__all__ = ["StoreIndex"]


class StoreIndex:
    """Open it before use. Belongs to the loop; `write` runs in a worker.

    `open`, `check`, `close` and `delete` block too; nobody else may use it meanwhile.
    """

    def __init__(self, path: Path, duplicates_limit: int = 20_000) -> None:
        self._database = Database(path)
        self._duplicates_limit = duplicates_limit
        self.segments = SegmentUse(self._files)
        self.producers = LastSequences()
        self._reset()

    def _reset(self) -> None:
        self._shared = Shared(self._database)
        self._destinations: dict[str, DestinationIndex] = {}
        self._removed: list[int] = []
        self._cleaned = (0, 0)
        self._frozen: Frozen | None = None
        self._thawed: list[Layers] = []
        self._covered: tuple[Location, int] | None = None
        self.last_broker_sequence_id = 0
        self.open_transactions: Location | None = None
        """Where the oldest transaction begins that a replay must read; None if there is none."""

    @property
    def path(self) -> Path:
        """The database's file."""
        return self._database.path

    @property
    def damage(self) -> IndexCorrupt | None:
        """What was found wrong with the database since `open`: it must be built anew."""
        return self._database.damage

    @property
    def dirty(self) -> int:
        """Changes since the last `freeze`. They are in memory: freeze at 20,000."""
        return self._shared.changes

    def open(self) -> None:
        """Open or make the database.

        Raises:
            IndexCorrupt: it is not one of ours, of another version, or damaged.
            OSError: the system does not let us.
        """
        self._reset()
        self._database.open()
        try:
            self._load()
        except (IndexCorrupt, OSError):
            self._database.close()
            raise
        except (TypeError, ValueError, KeyError, AttributeError) as error:  # rows of nonsense
            self._database.close()
            raise IndexCorrupt(f"The index {self.path} makes no sense: {error!r}.") from error

    def close(self) -> None:
        """Close it. What was not written is dropped: the journal has it. Idempotent."""
        self._database.close()

    def delete(self) -> None:
        """Close it and delete its files: `open` makes a new one."""
        self._database.delete()

    def check(self) -> list[str]:
        """Read the whole database and return what is wrong, one sentence each. Takes its time."""
        return problems(self._database)

    def covered(self) -> tuple[Location, int] | None:
        """Return up to where the database covers the journal, and the digest; None if it is new."""
        return self._covered

    def destination(
        self, destination: KahaDestination, prioritized: bool | None = None
    ) -> DestinationIndex:
        """Return a destination's part (a TopicIndex for topics), made now if need be.

        `prioritized` None leaves it as it is. It ends only when no messages are there.
        """
        found = self._destinations.get(destination.key)
        if found is None:
            found = self._make(destination)
        if prioritized is not None:
            found.prioritize(prioritized)
        return found

    def topic(self, destination: KahaDestination, prioritized: bool | None = None) -> TopicIndex:
        """Return a topic's part, made now if need be.

        Raises:
            TypeError: it is a queue.
        """
        found = self.destination(destination, prioritized)
        if not isinstance(found, TopicIndex):
            raise TypeError(f"{destination} is not a topic.")
        return found

    def lookup(self, destination: KahaDestination) -> DestinationIndex | None:
        """Return a destination's part, None if it has none."""
        return self._destinations.get(destination.key)

    def destinations(self) -> list[DestinationIndex]:
        """Return all destinations that ever had something here and were not removed."""
        return list(self._destinations.values())

    def remove_destination(self, destination: KahaDestination) -> bool:
        """Forget a destination and all it has; False if there is none."""
        found = self._destinations.pop(destination.key, None)
        if found is None:
            return False
        found.clear()
        self._shared.dirty.pop(found, None)
        self._removed.append(found.number)
        return True

    def freeze(self, covered: Location, digest: int) -> Frozen:
        """Set the changes aside for `write`; `covered` is where the journal's next record goes.

        `digest` (a signed 64-bit number) comes back from `covered`.

        Raises:
            IllegalStateException: what was frozen before has not been thawed.
        """
        if self._frozen is not None:
            raise IllegalStateException("What was frozen before has not been thawed.")
        shared = self._shared
        dirty, shared.dirty = shared.dirty, {}
        doomed, shared.doomed = shared.doomed, []
        removed, self._removed = self._removed, []
        shared.changes = 0
        destinations = [destination.freeze() for destination in dirty]
        state = (
            1,
            *covered,
            digest,
            *(self.open_transactions or (None, None)),
            self.last_broker_sequence_id,
            shared.last_number,
        )
        self._frozen = Frozen(
            Location(*covered),
            digest,
            state,
            destinations,
            removed,
            doomed,
            self.segments.take_changed(),
            self.producers.take_changed(),
        )
        return self._frozen

    def write(self, frozen: Frozen, *, sync: bool = False) -> None:
        """Write all of it in one transaction. Blocks: for a worker thread. May be tried again.

        With `sync` it survives a power failure, not only the end of the process: needed before
        a segment is deleted that only older states of the index need.

        Raises:
            OSError: the system's; nothing was written.
            IndexCorrupt: the database is damaged.
        """
        try:
            self._write(frozen, sync=sync)
        except IndexCorrupt as error:
            raise self._database.noted(error) from error.__cause__

    def _write(self, frozen: Frozen, *, sync: bool) -> None:
        writer = self._database.writer
        with translated(self.path):
            writer.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            writer.execute("BEGIN IMMEDIATE")
            try:
                write_frozen(writer, frozen)
                cleaned = delete_unused_producers(writer, self._cleaned, frozen)
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise
        self._cleaned = cleaned

    def thaw(self, frozen: Frozen) -> None:
        """Let go of what was written. On the loop, after `write`."""
        self._frozen = None
        self._covered = (frozen.covered, frozen.digest)
        for layers in self._thawed:
            layers.forget_thawed()
        self._thawed = [changed.layers for changed in frozen.destinations]
        for changed in frozen.destinations:
            changed.layers.thaw(changed.memory)

    def _make(self, destination: KahaDestination) -> DestinationIndex:
        made = self._part(
            destination, False, self._shared.next_number(), self._shared.next_number()
        )
        made.begin(0, 0)
        return made

    def _part(
        self, destination: KahaDestination, prioritized: bool, number: int, contents: int
    ) -> DestinationIndex:
        kind = TopicIndex if destination.type % 2 else DestinationIndex
        part = kind(
            self._shared, destination, prioritized, self._duplicates_limit, number, contents
        )
        self._destinations[part.key] = part
        return part

    def _files(self) -> Iterable[dict[int, int]]:
        return (destination.files for destination in self._destinations.values())

    def _load(self) -> None:
        database = self._database
        for row in database.rows("SELECT * FROM state"):
            _, file_id, offset, digest, open_file, open_offset, last_sequence, last_number = row
            self._covered = (Location(file_id, offset), digest)
            if open_file is not None:
                self.open_transactions = Location(open_file, open_offset)
            self.last_broker_sequence_id = last_sequence
            self._shared.last_number = last_number
        load_destinations(database, self._part)
        self.segments.load(database.rows("SELECT file_id, target FROM refers"))
        self.producers.load(database.rows("SELECT producer, sequence FROM sequences ORDER BY age"))
