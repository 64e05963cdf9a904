"""What is in a journal: its records, without the bodies of messages, and what keeps its segments.

The latter matters when a disk is full. (activemq-persistence K17, K18)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException, RemoteProtocolError
from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.commands import (
    KahaAckMessageFileMapCommand,
    KahaAddMessageCommand,
    KahaAddScheduledJobCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestroySchedulerCommand,
    KahaPrepareCommand,
    KahaProducerAuditCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRemoveScheduledJobCommand,
    KahaRemoveScheduledJobsCommand,
    KahaRescheduleJobCommand,
    KahaRewrittenDataFileCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTraceCommand,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import (
    STORE_OPENWIRE_VERSION,
    decode_subscription_info,
    from_kaha_destination,
    from_transaction_info,
)
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.segments import JournalRecord, Skipped, read_record
from pyjms_broker.store.kahadb.index import DestinationIndex, TopicIndex
from pyjms_broker.store.kahadb.maintenance import SegmentReport, segment_reports
from pyjms_broker.store.kahadb.records import RecordFormat
from pyjms_broker.store.kahadb.tools.journal_directory import (
    ReadProgress,
    Segment,
    Snapshot,
    file_sizes,
    read_segments,
)

_LONGEST_TRACE: Final = 60

_NAMES: Final[dict[type[KahaCommand], str]] = {
    KahaTraceCommand: "trace",
    KahaAddMessageCommand: "add",
    KahaRemoveMessageCommand: "remove",
    KahaPrepareCommand: "prepare",
    KahaCommitCommand: "commit",
    KahaRollbackCommand: "rollback",
    KahaRemoveDestinationCommand: "remove-destination",
    KahaSubscriptionCommand: "subscribe",
    KahaProducerAuditCommand: "producer-audit",
    KahaAckMessageFileMapCommand: "ack-file-map",
    KahaUpdateMessageCommand: "update",
    KahaAddScheduledJobCommand: "add-job",
    KahaRescheduleJobCommand: "reschedule-job",
    KahaRemoveScheduledJobCommand: "remove-job",
    KahaRemoveScheduledJobsCommand: "remove-jobs",
    KahaDestroySchedulerCommand: "destroy-scheduler",
    KahaRewrittenDataFileCommand: "rewritten-segment",
}


class RecordView(NamedTuple):
    """A record in human-readable form."""

    location: Location
    size: int
    """The size in the file in bytes, including the record header."""
    kind: str
    destination: Destination | None
    details: tuple[str, ...]
    message_size: int = 0
    """The size of the message's frame in an add or update, in bytes."""

    @property
    def location_text(self) -> str:
        """Segment and offset in the form that `--from` accepts."""
        return f"{self.location.file_id}:{self.location.offset}"


@dataclass
class SegmentSummary:
    """The counts of one segment."""

    file_id: int
    size: int
    end: int = 0
    """The end of its last valid batch."""
    batches: int = 0
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass
class DestinationSummary:
    """The counts of one destination."""

    kinds: Counter[str] = field(default_factory=Counter)
    message_bytes: int = 0


@dataclass
class JournalSummary:
    """The counts of all segments."""

    segments: list[SegmentSummary] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    """The size of the records in bytes, by kind."""
    destinations: dict[Destination, DestinationSummary] = field(default_factory=dict)
    limited: bool = False
    """Whether reading stopped at the limit."""

    def count(self, view: RecordView, segment: SegmentSummary) -> None:
        """Count one record."""
        segment.records += 1
        segment.kinds[view.kind] += 1
        self.kinds[view.kind] += 1
        self.sizes[view.kind] += view.size
        if view.destination is not None:
            counted = self.destinations.setdefault(view.destination, DestinationSummary())
            counted.kinds[view.kind] += 1
            counted.message_bytes += view.message_size


def inspect_journal(
    folder: Path,
    start: Location | None = None,
    *,
    wanted: Callable[[RecordView], bool] = lambda _view: True,
    limit: int | None = None,
    on_record: Callable[[RecordView], None] = lambda _view: None,
    on_bytes: Callable[[int], None] = lambda _size: None,
) -> JournalSummary:
    """Read the journal from `start` on and count the wanted records, at most `limit` of them.

    `on_record` is called with each of them, `on_bytes` with the number of bytes read since the last
    call. Blocks.
    """
    summary = JournalSummary()
    left = limit
    progress = ReadProgress(on_bytes)
    for segment in read_segments(folder, start):
        counted = SegmentSummary(segment.file_id, len(segment.data or b""))
        summary.segments.append(counted)
        for record in _records(segment, counted, start):
            progress.report_up_to(record.location.offset)
            view = view_record(record)
            if not wanted(view):
                continue
            if left == 0:
                summary.limited = True
                return summary
            left = None if left is None else left - 1
            summary.count(view, counted)
            on_record(view)
        progress.report_all_of(segment)
    return summary


def _records(
    segment: Segment, counted: SegmentSummary, start: Location | None
) -> Iterator[JournalRecord]:
    if segment.data is None:
        counted.skipped = [Skipped(segment.file_id, 0, 0, "deleted")]
        return
    offset = start.offset if start is not None and start.file_id == segment.file_id else 0
    reader = segment.reader(offset)
    view = memoryview(segment.data)
    for batch in reader.batches():
        counted.batches += 1
        counted.end = batch.end
        counted.skipped = reader.skipped
        for at in batch.offsets:
            if at >= offset:
                yield read_record(view, Location(segment.file_id, at))
    counted.end, counted.skipped = reader.end, reader.skipped


def view_record(record: JournalRecord) -> RecordView:
    """Return a record in human-readable form, or the reason why it cannot be decoded."""
    try:
        command = record.command()
        kind, destination, details = _describe(command)
    except JMSException as error:
        return RecordView(record.location, record.size, "damaged", None, (str(error),))
    message = command.message if isinstance(command, KahaUpdateMessageCommand) else command
    size = len(message.message) if isinstance(message, KahaAddMessageCommand) else 0
    return RecordView(record.location, record.size, kind, destination, details, size)


def _describe(command: KahaCommand) -> tuple[str, Destination | None, tuple[str, ...]]:
    kind = _NAMES[type(command)]
    destination = getattr(command, "destination", None)
    details = _DETAILS.get(type(command), _job_details)(command)
    if isinstance(command, KahaUpdateMessageCommand):
        destination = command.message.destination
    elif isinstance(command, KahaRemoveMessageCommand) and command.subscription_key is not None:
        kind = "acknowledge"
    elif isinstance(command, KahaSubscriptionCommand) and command.subscription_info is None:
        kind = "unsubscribe"
    info = getattr(command, "transaction_info", None)
    if info is not None:
        details = (*details, f"tx={from_transaction_info(info)}")
    where = None if destination is None else from_kaha_destination(destination)
    return kind, where, details


def _add_details(command: KahaAddMessageCommand) -> tuple[str, ...]:
    priority = 4 if command.priority is None else command.priority
    return (
        command.message_id,
        f"priority={priority}{' (counts)' if command.priority_supported else ''}",
        *_message_details(command.message),
    )


def _message_details(frame: bytes) -> tuple[str, ...]:
    try:
        message = RecordFormat(STORE_OPENWIRE_VERSION).decode(frame)
    except RemoteProtocolError as error:
        return (f"message cannot be read: {error}",)
    kind = type(message).__name__.removeprefix("ActiveMQ")
    found = [f"{kind} of {len(message.content or b'')} bytes"]
    if message.expiration:
        found.append(f"expires={message.expiration}")
    if message.group_id is not None:
        found.append(f"group={message.group_id}")
    return tuple(found)


def _remove_details(command: KahaRemoveMessageCommand) -> tuple[str, ...]:
    if command.subscription_key is None:
        return (command.message_id,)
    return command.message_id, f"subscription={command.subscription_key}"


def _subscription_details(command: KahaSubscriptionCommand) -> tuple[str, ...]:
    found = [f"subscription={command.subscription_key}"]
    if command.subscription_info is not None:
        info = decode_subscription_info(command.subscription_info)
        if info.selector:
            found.append(f"selector={info.selector!r}")
        if info.no_local:
            found.append("no local")
    if command.retroactive:
        found.append("retroactive")
    return tuple(found)


def _trace_details(command: KahaTraceCommand) -> tuple[str, ...]:
    text = command.message
    cut = len(text) > _LONGEST_TRACE
    return (f"{text[:_LONGEST_TRACE]!r}{f'... ({len(text)} characters)' if cut else ''}",)


def _rewritten_details(command: KahaRewrittenDataFileCommand) -> tuple[str, ...]:
    return (f"source=db-{command.source_data_file_id}.log",)


def _job_details(command: KahaCommand) -> tuple[str, ...]:
    names = ("scheduler", "job_id", "next_execution_time", "start_time", "end_time", "cron_entry")
    values = ((name, getattr(command, name, None)) for name in names)
    return tuple(f"{name}={value}" for name, value in values if value not in (None, ""))


_DETAILS: Final[dict[type[KahaCommand], Callable[[Any], tuple[str, ...]]]] = {
    KahaAddMessageCommand: _add_details,
    KahaUpdateMessageCommand: lambda command: _add_details(command.message),
    KahaRemoveMessageCommand: _remove_details,
    KahaSubscriptionCommand: _subscription_details,
    KahaTraceCommand: _trace_details,
    KahaRewrittenDataFileCommand: _rewritten_details,
}


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
    """Return the reasons for keeping each segment, and the segments that each destination keeps."""
    index = snapshot.index
    sizes = file_sizes(folder)
    last = max(sizes, default=0) if snapshot.last is None else snapshot.last.file_id
    reports = segment_reports(index, sizes, last, snapshot.open_files())
    destinations = [d for d in index.destinations() if d.count]
    segments = [
        SegmentAudit(
            report,
            sizes[report.file_id],
            {_name(d): d.files[report.file_id] for d in destinations if report.file_id in d.files},
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
        _name(destination),
        destination.count,
        sorted(destination.files),
        sorted(kept),
        waiting,
    )


def _name(destination: DestinationIndex) -> Destination:
    return from_kaha_destination(destination.destination)
