"""Output of the command line: errors in one line, tables, questions, progress of long operations.

Results go to standard output, everything else to standard error. Progress is a bar on a terminal
and an occasional line otherwise.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

import typer

from pyjms.errors import ConfigurationException, JMSException
from pyjms.runtime.logging import escape_control_characters

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_LINES: Final = 10
_NUMBER: Final = re.compile(r"[0-9.]+( [A-Za-z]+)?")


class ExitCode(IntEnum):
    """The exit codes of commands; 0: success."""

    FAILED = 1
    """The command found problems, or could not be completed."""
    REFUSED = 2
    """The options or the configuration are invalid."""
    FEWER = 3
    """There were fewer messages or objects than requested."""
    INTERRUPTED = 130
    """Ctrl-C; the code of Typer and of shells."""


@contextmanager
def one_line_errors(command: str) -> Iterator[None]:
    """Print a known error as one line and exit: with code 2 on invalid input, otherwise 1."""
    try:
        yield
    except ConfigurationException as error:
        code, text = ExitCode.REFUSED, str(error)
    except BrokenPipeError:  # the reader closed the pipe: typer handles it
        raise
    except (JMSException, OSError) as error:
        code, text = ExitCode.FAILED, str(error)
    else:
        return
    print(f"pyjms {command}: {' '.join(text.split())}", file=sys.stderr)
    raise typer.Exit(code)


def json_line(value: object) -> None:
    """Print a value as one line of JSON in ASCII; values without a JSON type as text."""
    typer.echo(json.dumps(value, default=str))


def safe_text(value: object) -> str:
    """Return untrusted text, such as a message body, with its control characters escaped."""
    return escape_control_characters(str(value))


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, indent: str = "") -> None:
    """Print rows below a header; numbers are right-aligned, and the last column is not padded."""
    lines = [[safe_text(cell) for cell in row] for row in rows]
    if not lines:
        return
    last = len(head) - 1
    numbers = [
        i != last and all(_NUMBER.fullmatch(line[i]) for line in lines) for i in range(len(head))
    ]
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    for line in (head, *lines):
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numbers, strict=True)
        ]
        typer.echo((indent + "  ".join(cells)).rstrip())


def in_bytes(size: int) -> str:
    """Return a readable size: `312 B`, `1.5 MiB`."""
    exponent = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    if exponent == 0:
        return f"{size} B"
    return f"{size / (1 << 10 * exponent):.1f} {_UNITS[exponent]}"


def plural(count: int, word: str) -> str:
    """Return `1 message`, `2 messages`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def time_text(milliseconds: int) -> str:
    """Return a time in milliseconds since 1970 as `2026-01-31 06:00:00`, UTC."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def duration_text(milliseconds: int) -> str:
    """Return a duration as options are written: `250ms`, `90s`, `1h`."""
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


_BROWSABLE: Final = 400
"""The messages of a queue that a broker lets a browser see (maxBrowsePageSize)."""


def browsed_number(count: int, word: str = "message") -> str:
    """Return the number of messages that were found by browsing, of which there may be more."""
    return f"{'at least ' if count >= _BROWSABLE else ''}{plural(count, word)}"


def has_to_tell(*, yes: bool, dry_run: bool) -> bool:
    """Return whether a command must find out and tell with `ask` what it would change."""
    if dry_run or yes:
        return dry_run
    if not sys.stdin.isatty():
        raise ConfigurationException(
            "This needs a confirmation, but standard input is not a terminal",
            hint="add --yes, or --dry-run to see what it would change",
        )
    return True


def ask(change: str, details: Iterable[str] = (), *, dry_run: bool) -> None:
    """Tell what a command would change, with its number, and ask; exit if it must not.

    Every command that changes more than the one thing that it is given calls it.

    Args:
        change: as in `Delete 2 queues with 5 messages`.
        details: lines, such as the queues.
        dry_run: do not ask, and exit with code 0.
    """
    for line in details:
        typer.echo(f"  {line}", err=not dry_run)
    if dry_run:
        typer.echo(f"{change}: not done (--dry-run)")
        raise typer.Exit
    if not typer.confirm(f"{change}?", err=True):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def progress(
    what: str, total: int | None, *, bytes_: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show the progress of an operation; call the returned function with each increment.

    `total` is None if it is unknown. The unit is bytes or items.
    """
    if sys.stderr.isatty():
        with _bar(what, total, bytes_=bytes_) as advance:
            yield advance
    else:
        yield _lines(what, total, bytes_=bytes_)


@contextmanager
def _bar(what: str, total: int | None, *, bytes_: bool) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: tuple[ProgressColumn, ...]
    if total is None:
        columns = (TextColumn("{task.description} {task.completed}"), TimeElapsedColumn())
    else:
        done = DownloadColumn(binary_units=True) if bytes_ else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), done, TimeRemainingColumn())
    # standard output may be redirected: rich must not touch it
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


def _lines(what: str, total: int | None, *, bytes_: bool) -> Callable[[int], None]:
    """Return a function that prints a line for each tenth, or nothing for small operations."""
    least = 64 << 20 if bytes_ else 10_000
    step = max(least, (total or 0) // _LINES)
    done = reported = 0

    def advance(more: int) -> None:
        nonlocal done, reported
        done += more
        if done - reported >= step:
            reported = done
            count = in_bytes(done) if bytes_ else str(done)
            whole = "" if not total else f" of {in_bytes(total) if bytes_ else total}"
            print(f"{what}: {count}{whole}", file=sys.stderr, flush=True)

    return advance


def write_whole_lines() -> None:
    """Write what handlers print as whole lines, at once.

    In a pipe they would wait for others, 8 KiB. With PYTHONUNBUFFERED each part of a line is
    written by itself, and mixes with the log and with other workers.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


class UserCodeFailed(Exception):
    """A module of the user raised while it was imported."""

    def __init__(self, report: str) -> None:
        """Keep the traceback, from the user's first line on, as text."""
        super().__init__(report)
        self.report = report
