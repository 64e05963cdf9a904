"""Background work on an open store: checkpoints, deletion of segments, the check of its lock.

    checkpoint   every `checkpoint_interval`, and as soon as 10,000 changes are in memory
    cleanup      every `cleanup_interval`, when senders wait for store space
                 (`reclaim_soon`), and with the last checkpoint (`cleanup_on_stop`)
    lock         every `lock_keep_alive_period`

A failed checkpoint is logged and retried. While checkpoints fail and more than 10,000 changes
wait, the store is SUSPENDED; a damaged index makes it FAILED. (activemq-persistence K16, H2)

Checkpoints write the index changes in memory to the database. The order makes them safe. The
changes up to the last appended record are collected on the loop; then the journal is synced; only
then a worker thread writes the changes in one database transaction. The index on disk is therefore
never ahead of the journal. A failed checkpoint is kept and written before the next one begins.
(activemq-persistence K16)

Cleanups delete journal segments that are no longer needed. The journal is never rewritten; space is
reclaimed by deleting whole segments. A segment is needed if

- it is current: the last one, or the last one that the index on disk covers;
- it holds a message that has not been removed (`DestinationIndex.files` counts them);
- it holds the record of a durable subscription;
- it lies between the first and the last record of an open transaction; or
- it refers to another needed segment (`SegmentReferences`): it removes or ends something that a
  replay without it would restore. This is applied transitively.

A cleanup has these steps:

1. Reclaim the backlogs of deleted subscriptions, and write a checkpoint, so that the index on disk
needs no old segment.
2. Rewrite the records of idle subscriptions (nothing pending) at the end of the journal if only
they keep the oldest segment.
3. Determine the segments that are not needed. If there are none, as in some cleanups before,
compact acknowledgements: `AckCompaction` frees one more segment.
4. Rewrite the duplicate ids whose records are about to be deleted, and write a second, synced
checkpoint: neither the journal nor the index may need the segments after a power failure.
5. Delete the segments, oldest first: each one only after all segments to which it refers.
(activemq-persistence K17, K18)

Acknowledgements are compacted: they are moved out of segments that hold nothing else. A segment
whose messages are all removed is kept as long as it acknowledges messages of older segments that
are kept: one old message that nobody consumes would keep all later segments. When
`compact_acks_after_no_gc` cleanups in a row have deleted nothing, the acknowledgements of the
oldest such segment are appended again, and the segment can be deleted. That writes little, because
a remove record is a fraction of the size of its message. While senders wait because the store has
reached its limit, this is done once a second, regardless of earlier cleanups. ActiveMQ does not do
that: its senders wait for ten cleanups, five minutes by default, for each segment.

An update (a message is marked as redelivered) and the message's previous record refer to each
other: a removal refers to the update, and without the update the message would come back. If the
message has been removed, a remove record also replaces the update. ActiveMQ does not compact such
segments, and therefore keeps most of the journal of a broker whose consumers occasionally fail.

A segment is not compacted if it also ends transactions or destinations that begin in older
segments, or has subscription records or updates in topics, because their order relative to other
records matters. Nor is it if one of the removed or updated message ids is in use again, because a
later remove record would remove that message, or if a message that was added in it now has its
record in another segment. One run reads a limited number of segments; the next run continues
behind them.
(activemq-persistence K18)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import decode_command, encode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaPrepareCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTraceCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import from_kaha_destination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.completion import wait_for
from pyjms_broker.store.adapters import run_logged
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.files import SharedFileLock
from pyjms_broker.store.kahadb.index import (
    IndexCheckpoint,
    IndexEntry,
    StoreIndex,
    SubscriptionIndex,
    TopicIndex,
)
from pyjms_broker.store.kahadb.index.destination import DIRTY_LIMIT, TOPIC_TYPES, DestinationIndex
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import (
    TRANSACTION,
    destination_field,
    parse_trace,
    plain_trace,
    remove_record,
)
from pyjms_broker.store.kahadb.recovery import record_digest
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.kahadb.transactions import KahaDBTransactionStore

logger = get_logger(__name__)

_MAX_TARGETS: Final = 16
"""The maximum number of segments read to find the beginning of a transaction."""
_MAX_READ: Final = 32
"""The maximum number of segments that one run reads."""
_NEVER_MOVED: Final = (KahaRemoveDestinationCommand, KahaSubscriptionCommand)


@dataclass(slots=True)
class Movable:
    """The effects of a segment that can be moved."""

    removes: list[KahaRemoveMessageCommand] = field(default_factory=list)
    added: list[tuple[KahaDestination, str]] = field(default_factory=list)
    """The messages that were added in the segment; none of them may still exist."""


class AckCompaction:
    """Counts cleanups that deleted nothing, and moves acknowledgements when that is due."""

    def __init__(self, db: MessageDatabase, settings: KahaDBSettings) -> None:
        self._db = db
        self._settings = settings
        self._without_gc = 0
        self._end = 0
        self._examined = 0
        """The last segment that was examined."""

    def note(self, *, freed: bool) -> None:
        """Record whether a cleanup deleted anything."""
        end = self._db.journal.segments()[-1:]
        grown = end != [self._end]
        self._end = end[0] if end else 0
        if freed or (grown and not self._settings.compact_acks_ignores_store_growth):
            self._without_gc = 0
        else:
            self._without_gc += 1

    def is_due(self, *, is_space_wanted: bool) -> bool:
        """Return whether space is wanted, or enough cleanups in a row have deleted nothing."""
        settings = self._settings
        return settings.enable_ack_compaction and (
            is_space_wanted or self._without_gc >= settings.compact_acks_after_no_gc
        )

    async def run(self, candidates: Iterable[int]) -> int | None:
        """Move the acknowledgements out of the first segment that allows it.

        Return its number: it can be deleted once the new records are durable. Return None if no
        examined segment allows it.
        """
        self._without_gc = 0
        db = self._db
        read = 0
        for file_id in sorted(candidates, key=lambda each: (each <= self._examined, each)):
            if read >= _MAX_READ:
                break
            self._examined = file_id
            targets = db.index.segments.targets(file_id) & set(db.journal.segments())
            earlier = sorted(target for target in targets if target < file_id)
            read += 1 + len(earlier)
            movable = await anyio.to_thread.run_sync(self._read, file_id, earlier)
            if movable is None or not self._is_allowed(movable, file_id):
                continue
            for remove in movable.removes:
                self._move(remove, file_id)
            logger.info(
                "Moved %d acknowledgements out of segment %d", len(movable.removes), file_id
            )
            return file_id
        return None

    def _move(self, remove: KahaRemoveMessageCommand, file_id: int) -> None:
        keys = [remove.subscription_key]
        index = self._db.index.lookup(remove.destination)
        if isinstance(index, TopicIndex) and index.find(remove.message_id) is None:
            # A retroactive subscription added in between would get the message in a replay.
            keys += [
                key
                for key, subscription in index.subscriptions.items()
                if subscription.file_id >= file_id and key != remove.subscription_key
            ]
        part = destination_field(remove.destination)
        segments = self._db.index.segments
        for key in keys:
            payload = remove_record(part, remove.message_id, key, ack=remove.ack)
            location = self._db.journal.append(payload, lazy=True)
            for target in segments.targets(file_id):
                segments.add_reference(location.file_id, target)

    def _is_allowed(self, movable: Movable, file_id: int) -> bool:
        """Return whether moving the records would leave all existing messages unaffected."""
        return not self._ids_in_use(movable.removes, file_id) and not any(
            self._find(destination, message_id) for destination, message_id in movable.added
        )

    def _ids_in_use(self, removes: list[KahaRemoveMessageCommand], file_id: int) -> bool:
        """Return whether one of the message ids is in use again."""
        for remove in removes:
            entry = self._find(remove.destination, remove.message_id)
            if entry is not None and (remove.subscription_key is None or entry.file_id > file_id):
                return True
        return False

    def _find(self, destination: KahaDestination, message_id: str) -> IndexEntry | None:
        index = self._db.index.lookup(destination)
        return None if index is None else index.find(message_id)

    def _read(self, file_id: int, earlier: list[int]) -> Movable | None:
        begun: set[KahaTransactionInfo] = set()
        commands = self._commands(file_id)
        if any(isinstance(c, KahaCommitCommand | KahaRollbackCommand) for c in commands):
            if len(earlier) > _MAX_TARGETS:
                return None
            for target in earlier:
                begun |= {info for c in self._commands(target) if (info := _info(c)) is not None}
        return movable_acks(commands, begun)

    def _commands(self, file_id: int) -> list[KahaCommand]:
        found: list[KahaCommand] = []
        for record in self._db.journal.records_from(Location(file_id, 0)):
            if record.location.file_id != file_id:
                break
            found.append(decode_command(record.payload))
        return found


def movable_acks(
    commands: Iterable[KahaCommand], begun: set[KahaTransactionInfo]
) -> Movable | None:
    """Return the effects of a segment; None if some of them cannot be moved.

    `begun` contains the transactions that have records in older segments.
    """
    open_removes: dict[KahaTransactionInfo, list[KahaRemoveMessageCommand]] = {}
    movable = Movable()
    for command in commands:
        info = _info(command)
        if info is not None and info in begun:
            return None
        if isinstance(command, KahaAddMessageCommand):
            movable.added.append((command.destination, command.message_id))
        if isinstance(command, KahaCommitCommand):
            movable.removes += open_removes.pop(command.transaction_info, [])
        elif isinstance(command, KahaRollbackCommand):
            open_removes.pop(command.transaction_info, None)
        elif info is not None:
            removes = open_removes.setdefault(info, [])
            if isinstance(command, KahaRemoveMessageCommand):
                removes.append(command)
        elif isinstance(command, KahaRemoveMessageCommand):
            movable.removes.append(command)
        elif isinstance(command, KahaUpdateMessageCommand):
            message = command.message
            if message.transaction_info is not None or message.destination.type in TOPIC_TYPES:
                return None
            movable.removes.append(
                KahaRemoveMessageCommand(message.destination, message.message_id)
            )
        elif isinstance(command, _NEVER_MOVED) or _is_transaction_trace(command):
            return None
    return None if open_removes else movable


def _info(command: KahaCommand) -> KahaTransactionInfo | None:
    if isinstance(
        command,
        KahaAddMessageCommand
        | KahaRemoveMessageCommand
        | KahaPrepareCommand
        | KahaCommitCommand
        | KahaRollbackCommand,
    ):
        return command.transaction_info
    return None


def _is_transaction_trace(command: KahaCommand) -> bool:
    if not isinstance(command, KahaTraceCommand):
        return False
    trace = parse_trace(command.message)
    return trace is not None and trace.kind == TRANSACTION


class SegmentKeeper(NamedTuple):
    """A destination with messages in a segment.

    Args:
        messages: the number of messages.
        oldest: the id of the first one; None if it is far behind the destination's first message.
    """

    destination: Destination
    messages: int
    oldest: str | None


_WORTH_LEAVING: Final = 16384
"""The least bytes of a segment that is left early: a new one begins with a header of its own."""


class SegmentReport(NamedTuple):
    """The reasons for which a segment is kept; if all fields are empty it can be deleted."""

    file_id: int
    current: bool
    """Whether it is being written, or the index on disk ends in it."""
    messages: int
    subscriptions: list[str]
    transactions: bool
    refers_to: list[int]
    """The needed segments to which it refers, because it removes or ends something in them."""
    keepers: Sequence[SegmentKeeper] = ()
    """The destinations with the most messages in it; only for the oldest segments."""

    @property
    def needed(self) -> bool:
        """Whether it must not be deleted."""
        return bool(
            self.current
            or self.messages
            or self.subscriptions
            or self.transactions
            or self.refers_to
        )


def segment_reports(
    index: StoreIndex,
    segments: Iterable[int],
    last: int,
    open_files: Container[int],
    *,
    idle_subscriptions: bool = True,
) -> list[SegmentReport]:
    """Return for each segment the reasons for which it is kept.

    `last` is the segment being written; `open_files` are those with records of open transactions.
    """
    messages = index.segments.message_counts()
    subscriptions: dict[int, list[str]] = {}
    for topic, subscription in _subscriptions(index):
        if idle_subscriptions or subscription.pending_count:
            name = f"{topic.destination.name}/{subscription.key}"
            subscriptions.setdefault(subscription.file_id, []).append(name)
    reports = [
        SegmentReport(
            file_id,
            file_id >= last,
            messages.get(file_id, 0),
            subscriptions.get(file_id, []),
            file_id in open_files,
            [],
        )
        for file_id in segments
    ]
    kept = _with_referring(index, {r.file_id for r in reports if r.needed}, reports)
    targets = index.segments.targets
    return [r._replace(refers_to=sorted(targets(r.file_id) & kept)) for r in reports]


def _with_referring(index: StoreIndex, kept: set[int], reports: list[SegmentReport]) -> set[int]:
    """Add the segments that refer to kept ones, transitively."""
    targets = index.segments.targets
    rest = [r.file_id for r in reports if r.file_id not in kept]
    while True:
        more = {file_id for file_id in rest if not kept.isdisjoint(targets(file_id))}
        if not more:
            return kept
        kept |= more
        rest = [file_id for file_id in rest if file_id not in more]


def _subscriptions(index: StoreIndex) -> list[tuple[TopicIndex, SubscriptionIndex]]:
    return [
        (topic, subscription)
        for topic in index.destinations()
        if isinstance(topic, TopicIndex)
        for subscription in topic.subscriptions.values()
    ]


_SEGMENTS: Final = 50
"""The number of segments examined: the oldest ones, which matter when a disk is full."""
_DESTINATIONS: Final = 5
"""The maximum number of destinations listed for each segment."""
_EXAMINED: Final = 1000
"""The number of a destination's messages searched for the oldest one in a segment."""


def _with_keepers(index: StoreIndex, reports: Iterable[SegmentReport]) -> list[SegmentReport]:
    """Add to the reports of the oldest segments the destinations with the most messages."""
    found = list(reports)
    needed = [report.file_id for report in found if report.messages][:_SEGMENTS]
    by_segment: dict[int, list[DestinationIndex]] = {file_id: [] for file_id in needed}
    for destination in index.destinations():
        for file_id in by_segment.keys() & destination.files.keys():
            by_segment[file_id].append(destination)
    firsts: dict[int, dict[int, str]] = {}
    return [
        report._replace(keepers=_keepers(report.file_id, by_segment[report.file_id], firsts))
        if report.file_id in by_segment
        else report
        for report in found
    ]


def _keepers(
    file_id: int, destinations: list[DestinationIndex], firsts: dict[int, dict[int, str]]
) -> list[SegmentKeeper]:
    destinations.sort(key=lambda each: (-each.files[file_id], each.destination.name))
    keepers = []
    for each in destinations[:_DESTINATIONS]:
        if each.number not in firsts:
            firsts[each.number] = _firsts(each)
        name = from_kaha_destination(each.destination)
        oldest = firsts[each.number].get(file_id)
        keepers.append(SegmentKeeper(name, each.files[file_id], oldest))
    return keepers


def _firsts(destination: DestinationIndex) -> dict[int, str]:
    """Return the first message in each segment, from the destination's first messages."""
    found: dict[int, str] = {}
    for entry in destination.page(None, _EXAMINED):
        found.setdefault(entry.file_id, entry.message_id)
    return found


class Maintenance:
    """The background work on an open store. Use it on the loop."""

    def __init__(
        self,
        db: MessageDatabase,
        transactions: KahaDBTransactionStore,
        settings: KahaDBSettings,
        lock: SharedFileLock,
        on_lock_lost: Callable[[], None],
        on_index_error: Callable[[Exception | None], None],
    ) -> None:
        """Prepare the tasks.

        `on_index_error` is called with the error that makes checkpoints fail, and with None when
        they succeed again.
        """
        self._db = db
        self._settings = settings
        self._store_lock = lock
        self._on_lock_lost = on_lock_lost
        self._on_index_error = on_index_error
        self._transactions = transactions
        self._compaction = AckCompaction(db, settings)
        self._checkpointing = anyio.Lock()
        self._pending: IndexCheckpoint | None = None
        self._done = (-1, -1)
        self._cleaning = anyio.Lock()
        self._tasks: list[BackgroundTask] = []
        self._dirty = anyio.Event()
        self._space_wanted = anyio.Event()

    def start(self) -> None:
        """Start the tasks. On the loop."""
        settings = self._settings
        index = self._db.index
        index.on_dirty = self._request_checkpoint
        if index.dirty >= DIRTY_LIMIT:  # by the transactions that the start has ended
            self._request_checkpoint()
        self._spawn(self._checkpoint_when_dirty, "dirty")
        if settings.checkpoint_interval:
            self._spawn(self._checkpoint_periodically, "checkpoint")
        if settings.cleanup_interval:
            self._spawn(self._clean_up_periodically, "cleanup")
        if settings.use_lock and settings.lock_keep_alive_period:
            self._spawn(self._keep_alive, "lock")

    async def stop(self) -> None:
        """Stop the tasks and write the last checkpoint, with a cleanup if so configured."""
        await end_tasks(*self._tasks)
        journal = self._db.journal
        journal.fail_fast()  # a full disk must not keep the store from stopping
        if journal.state is not StoreState.FAILED:
            with anyio.CancelScope(shield=True):
                await self._attempt(
                    self.clean_up if self._settings.cleanup_on_stop else self._checkpoint
                )

    async def clean_up(self) -> None:
        """Write a checkpoint and delete segments that are no longer needed."""
        async with self._cleaning:
            is_space_wanted = self._space_wanted.is_set()
            if is_space_wanted:
                self._space_wanted = anyio.Event()
            await self._delete_unneeded(is_space_wanted=is_space_wanted)

    def reclaim_soon(self) -> None:
        """Clean up soon, and compact acknowledgements if nothing else frees a segment.

        Without a `cleanup_interval` it has no effect.
        """
        self._space_wanted.set()

    def report(self) -> list[SegmentReport]:
        """Return the reasons for which each segment is kept."""
        return _with_keepers(self._db.index, self._reports())

    def _spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.append(spawn(function, name=f"pyjms kahadb {name}"))

    def _request_checkpoint(self) -> None:
        self._dirty.set()

    async def _checkpoint_when_dirty(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty = anyio.Event()
            if not await self._attempt(self._checkpoint):
                await _clock.sleep(self._settings.journal.resume_check_sleep_period)
                self._dirty.set()

    async def _checkpoint_periodically(self) -> None:
        while True:
            await _clock.sleep(self._settings.checkpoint_interval)
            await self._attempt(self._checkpoint)

    async def _clean_up_periodically(self) -> None:
        while True:
            with _clock.timeout(self._settings.cleanup_interval):
                await self._space_wanted.wait()
            await self._attempt(self.clean_up)

    async def _keep_alive(self) -> None:
        while self._store_lock.keep_alive():
            await _clock.sleep(self._settings.lock_keep_alive_period)
        logger.error("Lost the lock %s: another broker has taken it", self._store_lock.path)
        self._on_lock_lost()

    async def _checkpoint(self, *, sync: bool = False) -> None:
        """Write all changes so far; with `sync` they survive a power failure."""
        async with self._checkpointing:
            if self._pending is not None:
                await self._write_checkpoint(self._pending, sync)
            db = self._db
            db.journal.write_late()
            last = db.journal.last
            if last is None or (last <= self._done and not db.index.dirty and not sync):
                return
            if db.before_checkpoint is not None:
                db.before_checkpoint()
            digest = record_digest(db.journal.read_unchecked(last))
            self._pending = db.index.begin_checkpoint(last, digest)
            await self._write_checkpoint(self._pending, sync)
            self._done = last

    async def _write_checkpoint(self, checkpoint: IndexCheckpoint, sync: bool) -> None:
        await wait_for(self._db.journal.barrier(sync=True))
        with anyio.CancelScope(shield=True):  # a worker thread cannot be cancelled
            index = self._db.index
            await anyio.to_thread.run_sync(lambda: index.write_checkpoint(checkpoint, sync=sync))
            index.complete_checkpoint(checkpoint)
            self._pending = None

    async def _reclaim_backlogs(self) -> None:
        """Remove the backlogs of deleted subscriptions in increments."""
        for topic in self._db.index.destinations():
            while isinstance(topic, TopicIndex) and topic.is_reclaiming:
                topic.reclaim()
                await anyio.lowlevel.checkpoint()

    async def _delete_unneeded(self, *, is_space_wanted: bool) -> None:
        """Delete the segments that are not needed.

        If there are none, `is_space_wanted` makes it compact acknowledgements at once.
        """
        await self._reclaim_backlogs()
        await self._checkpoint(sync=True)
        self._move_idle_subscriptions()
        segments = [report.file_id for report in self._reports() if not report.needed]
        if not segments and self._compaction.is_due(is_space_wanted=is_space_wanted):
            moved = await self._compaction.run(self._ack_only())
            segments = [] if moved is None else [moved]
        if not segments and is_space_wanted:
            segments = await self._leave_current_segment()
        if segments:
            self._rewrite_duplicate_ids(segments)
            # make the rewritten records durable, and an index that needs none of the segments
            await self._checkpoint(sync=True)
            await self._delete(segments)
        self._compaction.note(freed=bool(segments))

    async def _leave_current_segment(self) -> list[int]:
        """Begin a new segment if nothing in the current one is needed; return the unneeded ones.

        Otherwise a limit below the length of a segment would never have space again.
        """
        journal, current = self._db.journal, self._reports()[-1]
        if journal.end.offset < _WORTH_LEAVING:
            return []
        if current.messages or current.subscriptions or current.transactions or current.refers_to:
            return []
        journal.begin_segment()
        journal.append(plain_trace(f"segment {current.file_id} is not needed"))
        await self._checkpoint(sync=True)
        return [report.file_id for report in self._reports() if not report.needed]

    def _reports(self, *, idle_subscriptions: bool = True) -> list[SegmentReport]:
        """Return the reasons for which each segment is kept, oldest segment first."""
        db = self._db
        last = db.journal.written.file_id if db.journal.last is None else db.journal.last.file_id
        return segment_reports(
            db.index,
            db.journal.segments(),
            last,
            self._transactions.open_segments(),
            idle_subscriptions=idle_subscriptions,
        )

    def _ack_only(self) -> list[int]:
        """Return the segments that are kept only by their references to others."""
        return [
            r.file_id
            for r in self._reports()
            if r.refers_to and not (r.current or r.messages or r.subscriptions or r.transactions)
        ]

    def _move_idle_subscriptions(self) -> None:
        """Rewrite the records of idle subscriptions if only they keep the oldest segment."""
        free = [r.file_id for r in self._reports(idle_subscriptions=False) if not r.needed]
        if not free:
            return
        db = self._db
        for topic, subscription in _subscriptions(db.index):
            if subscription.file_id == free[0]:
                info = subscription.info
                command = KahaSubscriptionCommand(
                    topic.destination, subscription.key, retroactive=False, subscription_info=info
                )
                location = db.journal.append(encode_command(command), lazy=True)
                topic.apply_subscription(subscription.key, info, False, location)

    def _rewrite_duplicate_ids(self, segments: list[int]) -> None:
        for destination in self._db.index.destinations():
            files = destination.duplicates.counts_by_segment().keys() & set(segments)
            for file_id in sorted(files):
                self._db.append_duplicate_ids(
                    destination, destination.duplicates.recorded_in(file_id)
                )

    async def _delete(self, segments: list[int]) -> None:
        await wait_for(self._db.journal.barrier(sync=True))
        for file_id in segments:  # oldest first: each one after all segments to which it refers
            await self._db.journal.delete(file_id)
            self._db.index.segments.remove(file_id)
        logger.debug("Deleted segments: %s", segments)

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work`; log a failure and return False."""
        if self._db.journal.state is StoreState.FAILED:
            return True
        error = await run_logged(work, f"A checkpoint of {self._db.journal.directory}")
        index = self._db.index
        if index.damage is not None:
            self._on_index_error(index.damage)
        elif error is None or index.dirty >= DIRTY_LIMIT:
            self._on_index_error(error)
        return error is None
