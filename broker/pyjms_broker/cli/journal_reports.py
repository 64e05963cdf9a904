"""The output of the commands of `pyjms broker journal`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from pyjms.wire.kahadb.journal import segment_name
from pyjms_broker.cli.terminal import in_bytes, plural, table
from pyjms_broker.store.kahadb.tools.inspection import (
    DestinationAudit,
    JournalAudit,
    JournalSummary,
    RecordView,
    SegmentAudit,
    SegmentSummary,
)
from pyjms_broker.store.kahadb.tools.verification import Verification

__all__ = ["show_audit", "show_record", "show_summary", "show_verification"]

_MAX_NAMED: Final = 4
"""Maximum number of destinations listed for a segment; the table below it lists all."""


def show_record(view: RecordView) -> None:
    """Print a record as one line."""
    where = "" if view.destination is None else f" {view.destination}"
    details = "  ".join(view.details)
    line = f"{view.location_text:<12} {view.kind:<12} {view.size:>8}{where}  {details}"
    typer.echo(line.rstrip())


def show_summary(folder: Path, summary: JournalSummary) -> None:
    """Print the contents of a journal."""
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


def _segment_row(segment: SegmentSummary) -> Sequence[object]:
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


def show_verification(folder: Path, found: Verification) -> None:
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


def show_audit(folder: Path, found: JournalAudit) -> None:
    """Print what keeps each segment, then the number of segments that each destination keeps."""
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


def _reasons(segment: SegmentAudit) -> list[str]:
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


def _destination_row(audit: DestinationAudit, sizes: dict[int, int]) -> Sequence[object]:
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
