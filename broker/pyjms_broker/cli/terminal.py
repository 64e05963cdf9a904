"""What the tools' commands share: errors as one sentence, tables, progress on long work.

Results go to standard output, everything else to standard error. Progress is a bar on a
terminal, elsewhere a line now and then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer

from pyjms.errors import ConfigurationException, JMSException

__all__ = ["FAILED", "REFUSED", "in_bytes", "one_sentence", "plural", "progress", "table"]

FAILED: Final = 1
"""The exit code where the work was done and something is wrong, or it could not be done."""
REFUSED: Final = 2
"""The exit code where what was asked for makes no sense."""

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_LINES: Final = 10
_NUMBER: Final = re.compile(r"[0-9.]+( [A-Za-z]+)?")


@contextmanager
def one_sentence(command: str) -> Iterator[None]:
    """End with exit code 2 for bad input, 1 for other known errors, and say why in one line."""
    try:
        yield
    except ConfigurationException as error:
        code, text = REFUSED, str(error)
    except BrokenPipeError:  # the reader had enough: typer knows what to do
        raise
    except (JMSException, OSError) as error:
        code, text = FAILED, str(error)
    else:
        return
    print(f"pyjms broker {command}: {' '.join(text.split())}", file=sys.stderr)
    raise typer.Exit(code)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, indent: str = "") -> None:
    """Print rows under a head; columns of numbers are to the right, the last one is not padded."""
    lines = [[str(cell) for cell in row] for row in rows]
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
    """Return a size for people: `312 B`, `1.5 MiB`."""
    exponent = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    if exponent == 0:
        return f"{size} B"
    return f"{size / (1 << 10 * exponent):.1f} {_UNITS[exponent]}"


def plural(count: int, word: str) -> str:
    """Return `1 message`, `2 messages`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


@contextmanager
def progress(
    what: str, total: int | None, *, bytes_: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show how far some work is; call what comes with how much more is done.

    `total` is None where nobody knows it. Units are bytes or things.
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
    # Standard output is left alone: it may go elsewhere.
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as shown:
        task = shown.add_task(what, total=total)
        yield lambda more: shown.advance(task, more)


def _lines(what: str, total: int | None, *, bytes_: bool) -> Callable[[int], None]:
    """Return what prints a line each tenth, and none for what is done soon."""
    least = 64 << 20 if bytes_ else 10_000
    step = max(least, (total or 0) // _LINES)
    done = said = 0

    def advance(more: int) -> None:
        nonlocal done, said
        done += more
        if done - said >= step:
            said = done
            count = in_bytes(done) if bytes_ else str(done)
            whole = "" if not total else f" of {in_bytes(total) if bytes_ else total}"
            print(f"{what}: {count}{whole}", file=sys.stderr, flush=True)

    return advance
