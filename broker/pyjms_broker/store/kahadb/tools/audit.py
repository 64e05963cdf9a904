"""Analysis of what keeps each segment from being deleted, for example when a disk is full.

(activemq-persistence K17, K18)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.frames import from_kaha_destination
from pyjms_broker.store.kahadb.index import DestinationIndex, TopicIndex
from pyjms_broker.store.kahadb.maintenance.cleanup import SegmentReport, segment_reports
from pyjms_broker.store.kahadb.tools.journal_directory import file_sizes
from pyjms_broker.store.kahadb.tools.snapshot import Snapshot

__all__ = ["DestinationAudit", "JournalAudit", "SegmentAudit", "TransactionAudit", "audit_journal"]


class SegmentAudit(NamedTuple):
    """A segment: the reasons for keeping it, its length in bytes, and its messages."""

    report: SegmentReport
    size: int
    messages: dict[Destination, int]
    """The number of messages by destination."""


class DestinationAudit(NamedTuple):
    """A destination with messages, and the segments that its messages keep."""

    destination: Destination
    messages: int
    segments: list[int]
    """The segments that contain its messages."""
    kept: list[int]
    """Those segments and all others that are kept because of them."""
    waiting_for: dict[str, int]
    """For a topic: the durable subscriptions with pending messages, and the numbers of these."""


class TransactionAudit(NamedTuple):
    """An open transaction."""

    name: str
    prepared: bool
    segments: list[int]


class JournalAudit(NamedTuple):
    """The reasons for which a journal's segments are kept."""

    segments: list[SegmentAudit]
    destinations: list[DestinationAudit]
    """Destinations that keep the most segments come first."""
    transactions: list[TransactionAudit]


def audit_journal(folder: Path, snapshot: Snapshot) -> JournalAudit:
    """Return the reasons for keeping each segment, and the segments that each destination keeps.

    Raises:
        OSError: the directory cannot be read.
    """
    index = snapshot.index
    sizes = file_sizes(folder)
    last = max(sizes, default=0) if snapshot.last is None else snapshot.last.file_id
    reports = segment_reports(index, sizes, last, snapshot.open_files())
    destinations = [d for d in index.destinations() if d.count]
    segments = [
        SegmentAudit(
            report,
            sizes[report.file_id],
            {_named(d): d.files[report.file_id] for d in destinations if report.file_id in d.files},
        )
        for report in reports
    ]
    audits = [_destination_audit(destination, reports) for destination in destinations]
    audits.sort(key=lambda audit: (-len(audit.kept), -audit.messages, str(audit.destination)))
    transactions = [
        TransactionAudit(str(xid), transaction.prepared, sorted(transaction.files))
        for xid, transaction in snapshot.replay.transactions.items()
    ]
    return JournalAudit(segments, audits, transactions)


def _destination_audit(
    destination: DestinationIndex, reports: Iterable[SegmentReport]
) -> DestinationAudit:
    waiting = {}
    if isinstance(destination, TopicIndex):
        waiting = {
            key: subscription.pending_count
            for key, subscription in sorted(destination.subscriptions.items())
            if subscription.pending_count
        }
    kept = set(destination.files)
    grown = True
    while grown:
        more = {r.file_id for r in reports if not kept.isdisjoint(r.refers_to)} - kept
        kept |= more
        grown = bool(more)
    return DestinationAudit(
        _named(destination), destination.count, sorted(destination.files), sorted(kept), waiting
    )


def _named(destination: DestinationIndex) -> Destination:
    return from_kaha_destination(destination.destination)
