"""`pyjms broker journal`: look into a KahaDB journal, check it, build its index anew.

What reads only (inspect, verify, audit) takes no lock and changes nothing, so it works on a
running broker's folder, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyjms.jms.destination import Destination
    from pyjms.wire.kahadb.journal import Location

__all__ = ["app", "audit", "inspect", "rebuild", "verify"]

app = typer.Typer(
    name="journal",
    help="Look into a KahaDB journal, check it, build its index anew.",
    no_args_is_help=True,
)

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The KahaDB folder, or the data folder above it.")
]
IndexDirectory = Annotated[
    Path | None,
    typer.Option("--index-directory", help="Where the index lies, if not beside the journal."),
]


@app.command()
def inspect(
    directory: Directory,
    records: Annotated[bool, typer.Option("--records", help="Show each record.")] = False,
    destination: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="Only this destination's: orders.>, topic://news, queue://a."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="N:OFFSET", help="Begin in segment N, at this offset."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
) -> None:
    """Show what is in the segments: batches, records, destinations, sizes, damaged parts.

    Reads only; a running broker's folder is fine. Bodies of messages are not shown.
    """
    from pyjms_broker.cli import journal_reports as reports
    from pyjms_broker.cli.terminal import one_sentence, progress
    from pyjms_broker.store.kahadb.tools.inspection import RecordView, inspect_journal
    from pyjms_broker.store.kahadb.tools.journal_directory import file_sizes, find_journal

    with one_sentence("journal inspect"):
        folder = find_journal(directory)
        patterns = destination_patterns(destination)
        place = parse_place(start)

        def wanted(view: RecordView) -> bool:
            return patterns is None or is_one_of(patterns, view.destination)

        if records:
            summary = inspect_journal(
                folder, place, wanted=wanted, limit=limit, on_record=reports.show_record
            )
            typer.echo()
        else:
            with progress("reading", sum(file_sizes(folder).values()), bytes_=True) as advance:
                summary = inspect_journal(
                    folder, place, wanted=wanted, limit=limit, on_bytes=advance
                )
        reports.show_summary(folder, summary)


@app.command()
def verify(directory: Directory, index_directory: IndexDirectory = None) -> None:
    """Check every batch's checksum, every record, and the index against the journal.

    Reads only. The exit code is 1 if something is wrong; each problem is a line with its place.
    """
    from pyjms_broker.cli import journal_reports as reports
    from pyjms_broker.cli.terminal import FAILED, one_sentence, progress
    from pyjms_broker.store.kahadb.tools.journal_directory import (
        file_sizes,
        find_journal,
        holds_jobs,
    )
    from pyjms_broker.store.kahadb.tools.verification import verify_journal

    with one_sentence("journal verify"):
        folder = find_journal(directory)
        with progress("checking", sum(file_sizes(folder).values()), bytes_=True) as advance:
            found = verify_journal(
                folder,
                index_directory=index_directory,
                with_index=not holds_jobs(folder),
                on_bytes=advance,
            )
        reports.show_verification(folder, found)
        if found.problems:
            raise typer.Exit(FAILED)


@app.command()
def rebuild(directory: Directory, index_directory: IndexDirectory = None) -> None:
    """Build the index anew from the journal. No broker may be running on it.

    What a start of the broker does is done, too: a torn end is cut, transactions that were
    neither committed nor prepared are rolled back, ActiveMQ's index is moved aside.
    """
    import anyio

    from pyjms_broker.cli.terminal import in_bytes, one_sentence, plural, progress
    from pyjms_broker.store.kahadb.tools.journal_directory import (
        file_sizes,
        find_journal,
        lock_journal,
        refuse_jobs,
    )
    from pyjms_broker.store.kahadb.tools.rebuilding import Rebuilt, rebuild_index

    with one_sentence("journal rebuild"):
        folder = find_journal(directory)
        refuse_jobs(folder)
        lock = lock_journal(folder)
        try:
            sizes = file_sizes(folder)
            with progress("reading", sum(sizes.values()), bytes_=True) as advance:
                done = 0

                def on_progress(_records: int, place: Location) -> None:
                    nonlocal done
                    before = sum(size for n, size in sizes.items() if n < place.file_id)
                    advance(before + place.offset - done)
                    done = before + place.offset

                async def work() -> Rebuilt:
                    return await rebuild_index(
                        folder, index_directory=index_directory, on_progress=on_progress
                    )

                built = anyio.run(work)
        finally:
            lock.release()
        typer.echo(
            f"The index of {folder} is new: {plural(built.messages, 'message')} in"
            f" {plural(built.destinations, 'destination')},"
            f" {plural(built.prepared_transactions, 'prepared transaction')},"
            f" from {in_bytes(sum(sizes.values()))} in {plural(len(sizes), 'segment')}"
        )


@app.command()
def audit(directory: Directory, index_directory: IndexDirectory = None) -> None:
    """Show which segment is kept alive by what, and which destination keeps how many.

    A segment stays as long as it holds a message that nobody has taken, a durable subscription,
    a part of an open or prepared transaction, or acknowledgements of messages in older
    segments that stay. Reads only.
    """
    import tempfile

    from pyjms_broker.cli import journal_reports as reports
    from pyjms_broker.cli.terminal import one_sentence, progress
    from pyjms_broker.store.kahadb.tools.audit import audit_journal
    from pyjms_broker.store.kahadb.tools.journal_directory import (
        file_sizes,
        find_journal,
        refuse_jobs,
    )
    from pyjms_broker.store.kahadb.tools.snapshot import open_snapshot

    with one_sentence("journal audit"):
        folder = find_journal(directory)
        refuse_jobs(folder)
        with tempfile.TemporaryDirectory(prefix="pyjms-audit-") as scratch:
            with progress("reading", sum(file_sizes(folder).values()), bytes_=True) as advance:
                snapshot = open_snapshot(
                    folder, Path(scratch), index_directory=index_directory, on_bytes=advance
                )
            try:
                reports.show_audit(folder, audit_journal(folder, snapshot))
            finally:
                snapshot.close()


def parse_place(text: str | None) -> Location | None:
    """Return the place that `N:OFFSET`, or `N`, is.

    Raises:
        ConfigurationException: it is no such text.
    """
    from pyjms.errors import ConfigurationException
    from pyjms.wire.kahadb.journal import Location

    if text is None:
        return None
    number, _, offset = text.removeprefix("db-").partition(":")
    number = number.removesuffix(".log")
    if not (number.isdecimal() and (offset or "0").isdecimal()):
        raise ConfigurationException(f"--from {text}: it is a segment and an offset, as in 3:1024")
    return Location(int(number), int(offset or "0"))


def destination_patterns(text: str | None) -> list[Destination] | None:
    """Return what a destination's text means: a name without its kind is a queue's and a topic's.

    Raises:
        ConfigurationException: the name is empty.
    """
    from pyjms.errors import ConfigurationException, InvalidDestinationException
    from pyjms.jms.destination import Queue, Topic, parse_destination

    if text is None:
        return None
    try:
        if "://" in text:
            return [parse_destination(text)]
        return [Queue(text), Topic(text)]
    except InvalidDestinationException as error:
        raise ConfigurationException(f"--destination {text!r}: {error}") from error


def is_one_of(patterns: list[Destination], destination: Destination | None) -> bool:
    """Whether one of the patterns means the destination."""
    from pyjms_broker.policy.wildcard import matches

    return destination is not None and any(matches(each, destination) for each in patterns)
