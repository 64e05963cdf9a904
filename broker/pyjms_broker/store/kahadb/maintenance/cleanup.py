"""Deletion of journal segments that are no longer needed.

Theory of operation
-------------------

The journal is never rewritten; space is reclaimed by deleting whole segments. A segment is needed
if

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
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from pyjms._logger import get_logger
from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaSubscriptionCommand
from pyjms_broker.api.completion import wait_for
from pyjms_broker.store.kahadb.index import StoreIndex, SubscriptionIndex, TopicIndex
from pyjms_broker.store.kahadb.maintenance.ack_compaction import AckCompaction
from pyjms_broker.store.kahadb.maintenance.checkpoint import Checkpoint
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.kahadb.transactions.transaction_store import KahaDBTransactionStore

__all__ = ["Cleanup", "SegmentKeeper", "SegmentReport", "segment_reports"]

logger = get_logger(__name__)


class SegmentKeeper(NamedTuple):
    """A destination with messages in a segment.

    Args:
        messages: the number of messages.
        oldest: the id of the first one; None if it is far behind the destination's first message.
    """

    destination: Destination
    messages: int
    oldest: str | None


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


class Cleanup:
    """Deletes segments that are no longer needed. Use it on the loop."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        transactions: KahaDBTransactionStore,
        settings: KahaDBSettings,
    ) -> None:
        self._db = db = checkpoint.db
        self._transactions = transactions
        self._checkpoint = checkpoint
        self._compaction = AckCompaction(db, settings)

    async def run(self, *, is_space_wanted: bool = False) -> list[int]:
        """Delete the segments that are not needed, and return their numbers.

        If there are none, `is_space_wanted` makes it compact acknowledgements at once.

        Raises:
            OSError: the index cannot be written.
            ResourceAllocationException: the journal has failed.
        """
        await self._checkpoint.reclaim()
        await self._checkpoint.write(sync=True)
        self._move_idle_subscriptions()
        segments = [report.file_id for report in self.report() if not report.needed]
        if not segments and self._compaction.is_due(is_space_wanted=is_space_wanted):
            moved = await self._compaction.run(self._ack_only())
            segments = [] if moved is None else [moved]
        if segments:
            self._rewrite_duplicate_ids(segments)
            # make the rewritten records durable, and an index that needs none of the segments
            await self._checkpoint.write(sync=True)
            await self._delete(segments)
        self._compaction.note(freed=bool(segments))
        return segments

    def report(self, *, idle_subscriptions: bool = True) -> list[SegmentReport]:
        """Return the reasons for which each segment is kept, oldest segment first."""
        db = self._db
        last = db.journal.written.file_id if db.last is None else db.last.file_id
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
            for r in self.report()
            if r.refers_to and not (r.current or r.messages or r.subscriptions or r.transactions)
        ]

    def _move_idle_subscriptions(self) -> None:
        """Rewrite the records of idle subscriptions if only they keep the oldest segment."""
        free = [r.file_id for r in self.report(idle_subscriptions=False) if not r.needed]
        if not free:
            return
        db = self._db
        for topic, subscription in _subscriptions(db.index):
            if subscription.file_id == free[0]:
                info = subscription.info
                command = KahaSubscriptionCommand(
                    topic.destination, subscription.key, retroactive=False, subscription_info=info
                )
                location = db.append(encode_command(command), lazy=True)
                db.updater.subscribe(topic, subscription.key, info, False, location)

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
