"""`pyjms broker journal`: inspect and verify a KahaDB journal, and rebuild its index.

The read-only commands (inspect, verify, audit) take no lock, so they also work on the directory of
a running broker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyjms.cli.terminal import ExitCode, in_bytes, one_line_errors, plural, progress, table
from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination, Queue, Topic, parse_destination

if TYPE_CHECKING:
    from collections import Counter

    from pyjms.wire.kahadb.journal import Location
    from pyjms_broker.store.kahadb.tools import inspection
    from pyjms_broker.store.kahadb.tools.verification import Verification

_MAX_NAMED: Final = 4
"""Maximum number of destinations listed for a segment; the table below it lists all."""

app = typer.Typer(
    name="journal",
    help="Inspect and verify a KahaDB journal, and rebuild its index.",
    no_args_is_help=True,
)

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The KahaDB directory, or the data directory above it."),
]
IndexDirectory = Annotated[
    Path | None,
    typer.Option("--index-directory", help="Directory of the index, if not the journal's."),
]


@app.command()
def inspect(
    directory: Directory,
    records: Annotated[bool, typer.Option("--records", help="List each record.")] = False,
    destination: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Only records of these destinations, such as orders.> or topic://news.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="N:OFFSET", help="Start in segment N, at this offset."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of records.")] = None,
) -> None:
    """Summarize the segments: batches, records, destinations, sizes, damaged parts.

    Reads only; the broker may be running. Bodies of messages are not shown.
    """
    from pyjms_broker.store.kahadb.tools import inspection
    from pyjms_broker.store.kahadb.tools.journal_directory import file_sizes, find_journal

    with one_line_errors("broker journal inspect"):
        folder = find_journal(directory)
        patterns = destination_patterns(destination)
        location = parse_location(start)

        def is_wanted(view: inspection.RecordView) -> bool:
            return patterns is None or matches_any(patterns, view.destination)

        if records:
            summary = inspection.inspect_journal(
                folder, location, wanted=is_wanted, limit=limit, on_record=_show_record
            )
            typer.echo()
        else:
            with progress("reading", sum(file_sizes(folder).values()), bytes_=True) as advance:
                summary = inspection.inspect_journal(
                    folder, location, wanted=is_wanted, limit=limit, on_bytes=advance
                )
        _show_summary(folder, summary)


@app.command()
def verify(directory: Directory, index_directory: IndexDirectory = None) -> None:
    """Check the checksum of every batch, every record, and the index against the journal.

    Reads only; the broker may be running. Prints a line with the location of each problem; if
    there are any, the exit code is 1.
    """
    from pyjms_broker.store.kahadb.tools.journal_directory import (
        file_sizes,
        find_journal,
        holds_jobs,
    )
    from pyjms_broker.store.kahadb.tools.verification import verify_journal

    with one_line_errors("broker journal verify"):
        folder = find_journal(directory)
        with progress("checking", sum(file_sizes(folder).values()), bytes_=True) as advance:
            found = verify_journal(
                folder,
                index_directory=index_directory,
                with_index=not holds_jobs(folder),
                on_bytes=advance,
            )
        _show_verification(folder, found)
        if found.problems:
            raise typer.Exit(ExitCode.FAILED)


@app.command()
def rebuild(directory: Directory, index_directory: IndexDirectory = None) -> None:
    """Rebuild the index from the journal. No broker may be running on it.

    As when the broker starts, a torn end of the journal is cut off, transactions that were neither
    committed nor prepared are rolled back, and ActiveMQ's index is renamed.
    """
    import anyio

    from pyjms_broker.store.kahadb.tools.journal_directory import (
        Rebuilt,
        file_sizes,
        find_journal,
        lock_journal,
        rebuild_index,
        refuse_jobs,
    )

    with one_line_errors("broker journal rebuild"):
        folder = find_journal(directory)
        refuse_jobs(folder)
        lock = lock_journal(folder)
        try:
            sizes = file_sizes(folder)
            with progress("reading", sum(sizes.values()), bytes_=True) as advance:
                done = 0

                def on_progress(_records: int, location: Location) -> None:
                    nonlocal done
                    before = sum(size for n, size in sizes.items() if n < location.file_id)
                    advance(before + location.offset - done)
                    done = before + location.offset

                async def work() -> Rebuilt:
                    return await rebuild_index(
                        folder, index_directory=index_directory, on_progress=on_progress
                    )

                built = anyio.run(work)
        finally:
            lock.release()
        typer.echo(
            f"Rebuilt the index of {folder}: {plural(built.messages, 'message')} in"
            f" {plural(built.destinations, 'destination')},"
            f" {plural(built.prepared_transactions, 'prepared transaction')},"
            f" from {in_bytes(sum(sizes.values()))} in {plural(len(sizes), 'segment')}"
        )


@app.command()
def audit(directory: Directory, index_directory: IndexDirectory = None) -> None:
    """Show what keeps each segment from being removed, and the number of segments per destination.

    A segment is kept as long as it holds a message that is not acknowledged, a durable
    subscription, a part of an open or prepared transaction, or acknowledgements of messages in
    older segments that are kept. Reads only; the broker may be running.
    """
    from pyjms_broker.store.kahadb.tools import inspection
    from pyjms_broker.store.kahadb.tools.journal_directory import (
        file_sizes,
        find_journal,
        open_snapshot,
        refuse_jobs,
    )

    with one_line_errors("broker journal audit"):
        folder = find_journal(directory)
        refuse_jobs(folder)
        with tempfile.TemporaryDirectory(prefix="pyjms-audit-") as scratch:
            with progress("reading", sum(file_sizes(folder).values()), bytes_=True) as advance:
                snapshot = open_snapshot(
                    folder, Path(scratch), index_directory=index_directory, on_bytes=advance
                )
            try:
                _show_audit(folder, inspection.audit_journal(folder, snapshot))
            finally:
                snapshot.close()


def parse_location(text: str | None) -> Location | None:
    """Parse a location: `N:OFFSET`, or `N` for the start of segment N."""
    from pyjms.wire.kahadb.journal import Location

    if text is None:
        return None
    number, _, offset = text.removeprefix("db-").partition(":")
    number = number.removesuffix(".log")
    if not (number.isdecimal() and (offset or "0").isdecimal()):
        raise ConfigurationException(
            f"--from {text}: not a segment and an offset", hint="write them as in 3:1024"
        )
    return Location(int(number), int(offset or "0"))


def destination_patterns(text: str | None) -> list[Destination] | None:
    """Parse a destination or pattern; without queue:// or topic:// it matches both kinds."""
    if text is None:
        return None
    try:
        if "://" in text:
            return [parse_destination(text)]
        return [Queue(text), Topic(text)]
    except InvalidDestinationException as error:
        raise ConfigurationException(f"--destination {text!r}: {error}") from error


def matches_any(patterns: list[Destination], destination: Destination | None) -> bool:
    """Return whether one of the patterns matches the destination."""
    from pyjms_broker.policy.wildcard import matches

    return destination is not None and any(matches(each, destination) for each in patterns)


def _show_record(view: inspection.RecordView) -> None:
    """Print a record as one line."""
    where = "" if view.destination is None else f" {view.destination}"
    details = "  ".join(view.details)
    line = f"{view.location_text:<12} {view.kind:<12} {view.size:>8}{where}  {details}"
    typer.echo(line.rstrip())


def _show_summary(folder: Path, summary: inspection.JournalSummary) -> None:
    """Print the contents of a journal."""
    from pyjms.wire.kahadb.journal import segment_name

    size = sum(segment.size for segment in summary.segments)
    records = sum(segment.records for segment in summary.segments)
    typer.echo(
        f"{folder}: {plural(len(summary.segments), 'segment')}, {in_bytes(size)},"
        f" {plural(records, 'record')}{' (stopped at the limit)' if summary.limited else ''}"
    )
    typer.echo()
    table(
        ("segment", "size", "used", "batches", "records", "holds"),
        [_segment_row(segment) for segment in summary.segments],
    )
    if summary.kinds:
        typer.echo()
        table(
            ("records", "count", "size"),
            [
                (kind, count, in_bytes(summary.sizes[kind]))
                for kind, count in summary.kinds.most_common()
            ],
        )
    if summary.destinations:
        typer.echo()
        table(
            ("destination", "added", "removed", "size of messages", "other records"),
            [
                (
                    destination,
                    counted.kinds["add"],
                    counted.kinds["remove"] + counted.kinds["acknowledge"],
                    in_bytes(counted.message_bytes),
                    _kinds(counted.kinds, without=("add", "remove", "acknowledge")),
                )
                for destination, counted in sorted(
                    summary.destinations.items(), key=lambda item: str(item[0])
                )
            ],
        )
    damaged = [each for segment in summary.segments for each in segment.skipped]
    if damaged:
        typer.echo()
        for each in damaged:
            where = f"{segment_name(each.file_id)}:{each.start}"
            typer.echo(f"damaged: {where}, {each.end - each.start} bytes ({each.reason})")


def _segment_row(segment: inspection.SegmentSummary) -> Sequence[object]:
    from pyjms.wire.kahadb.journal import segment_name

    return (
        segment_name(segment.file_id),
        in_bytes(segment.size),
        in_bytes(segment.end),
        segment.batches,
        segment.records,
        _kinds(segment.kinds),
    )


def _kinds(kinds: Counter[str], without: Sequence[str] = ()) -> str:
    return ", ".join(
        f"{count} {kind}" for kind, count in kinds.most_common() if kind not in without
    )


def _show_verification(folder: Path, found: Verification) -> None:
    """Print the problems and a summary."""
    for problem in found.problems:
        typer.echo(f"{problem.location}: {problem.text}")
    for note in found.notes:
        typer.echo(f"note: {note}")
    messages = "" if found.messages is None else f", {plural(found.messages, 'message')}"
    batches = "1 batch" if found.batches == 1 else f"{found.batches} batches"
    typer.echo(
        f"{folder}: {plural(found.segments, 'segment')}, {batches},"
        f" {plural(found.records, 'record')}{messages};"
        f" {plural(len(found.problems), 'problem') if found.problems else 'no problems'}"
    )


def _show_audit(folder: Path, found: inspection.JournalAudit) -> None:
    """Print what keeps each segment, then the number of segments that each destination keeps."""
    from pyjms.wire.kahadb.journal import segment_name

    size = sum(segment.size for segment in found.segments)
    free = [s for s in found.segments if not s.report.needed]
    typer.echo(
        f"{folder}: {plural(len(found.segments), 'segment')}, {in_bytes(size)};"
        f" {len(free)} can be removed by the next cleanup"
    )
    typer.echo()
    table(
        ("segment", "size", "kept by"),
        [
            (segment_name(s.report.file_id), in_bytes(s.size), "; ".join(_reasons(s)) or "nothing")
            for s in found.segments
        ],
    )
    if found.destinations:
        sizes = {s.report.file_id: s.size for s in found.segments}
        typer.echo()
        table(
            ("destination", "messages", "in segments", "keeps", "of", "waiting for"),
            [_destination_row(each, sizes) for each in found.destinations],
        )
    if found.transactions:
        typer.echo()
        table(
            ("open transaction", "state", "segments"),
            [
                (each.name, "prepared" if each.prepared else "open", _numbers(each.segments))
                for each in found.transactions
            ],
        )


def _reasons(segment: inspection.SegmentAudit) -> list[str]:
    report = segment.report
    by_count = sorted(segment.messages.items(), key=lambda item: (-item[1], str(item[0])))
    reasons = [f"{plural(count, 'message')} of {where}" for where, count in by_count[:_MAX_NAMED]]
    if len(by_count) > _MAX_NAMED:
        rest = by_count[_MAX_NAMED:]
        reasons.append(
            f"{plural(sum(count for _, count in rest), 'message')} of"
            f" {plural(len(rest), 'other destination')}"
        )
    if report.subscriptions:
        names = ", ".join(report.subscriptions)
        reasons.append(f"durable subscription {names}")
    if report.transactions:
        reasons.append("an open or prepared transaction")
    if report.refers_to:
        reasons.append(f"acknowledgements or transaction outcomes for {_numbers(report.refers_to)}")
    if report.current:
        reasons.append("being written")
    return reasons


def _destination_row(audit: inspection.DestinationAudit, sizes: dict[int, int]) -> Sequence[object]:
    kept = sum(sizes.get(file_id, 0) for file_id in audit.kept)
    waiting = ", ".join(f"{key} ({count})" for key, count in audit.waiting_for.items())
    return (
        audit.destination,
        audit.messages,
        _numbers(audit.segments),
        plural(len(audit.kept), "segment"),
        in_bytes(kept),
        waiting,
    )


def _numbers(segments: Sequence[int]) -> str:
    """Return `1-3, 7` for segments 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for number in segments:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
