"""`pyjms broker export` and `import`: write messages to a file and read them back.

Between a file and the directory of a stopped broker, messages are copied unchanged. With a running
broker, a client browses and sends them. `pyjms_broker.cli.message_file` documents the
format.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from pyjms.cli.options import PasswordFile, User, default_url, factory_for, refuse_login
from pyjms.cli.terminal import ExitCode, one_line_errors, plural, progress
from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.transport.uri import TransportURI

if TYPE_CHECKING:
    from pyjms.client.factory import ConnectionFactory
    from pyjms_broker.cli.message_file import MessageFileReader, MessageFileWriter
    from pyjms_broker.cli.message_transfer import Imported

_STANDARD_OUTPUT: Final = Path("-")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL

Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The URL of a running broker, such as tcp://localhost:61616."),
]


def _pattern_option(text: str) -> Any:
    return typer.Option(metavar="PATTERN", help=text)


def export_messages(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            "--file",
            metavar="FILE",
            help="A new file; - is standard output. (--file: ActiveMQ's option)",
            allow_dash=True,
        ),
    ],
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="The KahaDB directory of a stopped broker, or its data directory."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The configuration of a stopped broker instead of DIR: broker.yaml, or ActiveMQ's "
            "activemq.xml, xbean:FILE or broker: URI.",
        ),
    ] = None,
    url: Url = None,
    queue: Annotated[
        list[str] | None,
        _pattern_option("Only the queues that match, as in orders.>; may be repeated."),
    ] = None,
    topic: Annotated[
        list[str] | None, _pattern_option("Only the topics that match; may be repeated.")
    ] = None,
    user: User = None,
    password_file: PasswordFile = None,
) -> None:
    """Write messages with all headers, properties and bodies to a file of JSON lines.

    From a directory: all queues, and topics with their durable subscriptions; the directory is not
    changed. From a running broker: the messages of its queues that a browser receives. Only the
    file's owner may read it.
    """
    from pyjms_broker.cli.message_file import MessageFileWriter

    with one_line_errors("broker export"):
        _refuse_archive(output)
        if config is not None:
            if directory is not None or url is not None:
                other = "--url" if directory is None else "DIR"
                raise ConfigurationException(
                    f"--config and {other} contradict each other", hint="leave one of them out"
                )
            from pyjms_broker.cli.start import store_directory_of

            directory = store_directory_of(config)
        if directory is None:
            url = default_url(url)
        _one_of(directory, url, "DIR, --config")
        if url is None:
            refuse_login(user, password_file, str(directory))
        queues, topics = _patterns(queue or [], topic or [])
        if url is not None and topics:
            raise ConfigurationException(
                "--topic with --url: topics cannot be browsed", hint="export from the directory"
            )
        problems: list[str]
        if url is not None:
            work = _browser(factory_for(url, user, password_file), queues)
            source = str(TransportURI.parse(url).without_options())
        else:
            assert directory is not None, "one of them is given"
            work, source = _reader_of(directory, [*queues, *topics]), str(directory)
        with _open_output(output) as file:
            writer = MessageFileWriter(file, source)
            problems = work(writer)
            writer.finish()
        _report_export(output, writer, problems)


def import_messages(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that was written by `export`.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The data or KahaDB directory of a stopped broker; created if missing.",
        ),
    ] = None,
    url: Url = None,
    user: User = None,
    password_file: PasswordFile = None,
) -> None:
    """Import the messages of a file into a stopped broker's directory, or send them to a broker.

    In a directory, messages keep their ids and timestamps, and those already stored are skipped.
    Sent to a running broker, they get new ids and timestamps. Invalid lines are reported and
    skipped; the exit code is then 1.
    """
    from pyjms_broker.cli.message_file import MessageFileReader

    with one_line_errors("broker import"):
        if data is None:
            url = default_url(url)
        _one_of(data, url, "--data")
        if data is not None:
            refuse_login(user, password_file, str(data))
        try:
            opened = file.open("rb")
        except OSError as error:
            raise ConfigurationException(f"{file} cannot be read: {error}") from error
        with opened as lines:
            reader = MessageFileReader(lines, str(file))
            if data is not None:
                found = _into_folder(data, reader)
            else:
                import anyio

                from pyjms_broker.cli.message_transfer import import_into_broker

                factory = factory_for(url, user, password_file)
                with progress("sending", None) as advance:
                    found = anyio.run(import_into_broker, factory, reader, advance)
        _report_import(file, found, ended=reader.ended)


# -- export


def _refuse_archive(output: Path) -> None:
    """Refuse ActiveMQ's archive in Apollo's format, which no current broker reads."""
    if output.name.lower().endswith((".tgz", ".tar.gz")):
        raise ConfigurationException(
            f"--file: {output} would not be an archive: the messages are written as JSON lines",
            hint=f"name it {output.name.removesuffix('.gz').rpartition('.')[0]}.jsonl",
        )


@contextmanager
def _open_output(output: Path) -> Iterator[IO[str]]:
    """Open the new file, and delete it if the export fails; `-` is standard output."""
    if output == _STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        file = os.fdopen(os.open(output, _NEW, 0o600), "w", encoding="ascii", newline="\n")
    except FileExistsError as error:
        raise ConfigurationException(
            f"--output: {output} exists already", hint="name a new file, or - for standard output"
        ) from error
    except OSError as error:
        raise ConfigurationException(f"{output} cannot be written: {error}") from error
    try:
        with file:
            yield file
    except BaseException:
        output.unlink(missing_ok=True)
        raise


_Write: TypeAlias = "Callable[[MessageFileWriter], list[str]]"
"""Writes the messages, and returns the problems."""


def _browser(factory: ConnectionFactory, queues: list[Destination]) -> _Write:
    import anyio

    from pyjms_broker.cli.message_transfer import export_broker

    wanted = [each for each in queues if isinstance(each, Queue)] or [Queue(">")]

    def browse(writer: MessageFileWriter) -> list[str]:
        with progress("browsing", None) as advance:
            return anyio.run(export_broker, factory, wanted, writer, advance)

    return browse


def _reader_of(directory: Path, patterns: list[Destination]) -> _Write:
    from pyjms_broker.store.kahadb.tools.journal_directory import find_journal, refuse_jobs

    folder = find_journal(directory)
    refuse_jobs(folder)
    return lambda writer: _from_folder(folder, patterns, writer)


def _from_folder(folder: Path, patterns: list[Destination], writer: MessageFileWriter) -> list[str]:
    from pyjms_broker.cli.message_transfer import export_folder, message_count
    from pyjms_broker.policy.wildcard import matches
    from pyjms_broker.store.kahadb.tools.journal_directory import (
        file_sizes,
        job_folders_beside,
        lock_journal,
        open_snapshot,
    )

    def is_selected(destination: Destination) -> bool:
        return not patterns or any(matches(pattern, destination) for pattern in patterns)

    lock = lock_journal(folder, "stop it, or export with --url")
    try:
        with tempfile.TemporaryDirectory(prefix="pyjms-export-") as scratch:
            with progress("reading", sum(file_sizes(folder).values()), bytes_=True) as advance:
                snapshot = open_snapshot(folder, Path(scratch), on_bytes=advance)
            try:
                with progress("exporting", message_count(snapshot, is_selected)) as advance:
                    found = export_folder(
                        folder, snapshot, writer, is_selected=is_selected, on_messages=advance
                    )
            finally:
                snapshot.close()
    finally:
        lock.release()
    if found.prepared:
        typer.echo(
            f"note: {plural(found.prepared, 'prepared transaction')} may still change this:"
            " the file has the messages that they acknowledge, and not those that they add",
            err=True,
        )
    for jobs in job_folders_beside(folder):
        typer.echo(f"note: scheduled messages in {jobs} are not in the file", err=True)
    return found.problems


def _report_export(output: Path, writer: MessageFileWriter, problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"not exported: {problem}", err=True)
    to_standard_output = output == _STANDARD_OUTPUT
    typer.echo(
        f"{'exported' if to_standard_output else output}: {plural(writer.messages, 'message')},"
        f" {plural(writer.subscriptions, 'durable subscription')}",
        err=to_standard_output,
    )
    if problems:
        raise typer.Exit(ExitCode.FAILED)


# -- import


def _into_folder(data: Path, reader: MessageFileReader) -> Imported:
    import anyio

    from pyjms_broker.cli.message_transfer import import_into_folder
    from pyjms_broker.store.kahadb.tools.journal_directory import lock_journal, refuse_jobs

    folder = _folder_for(data)
    if folder.is_dir():
        refuse_jobs(folder)
    lock = lock_journal(folder, "stop it, or import with --url")
    try:
        with progress("importing", None) as advance:
            return anyio.run(import_into_folder, folder, reader, advance)
    finally:
        lock.release()


def _folder_for(data: Path) -> Path:
    """Return the journal's directory in `data`, or the one that a broker would create."""
    from pyjms_broker.store.kahadb.tools.journal_directory import find_journal, journals_in

    if not data.parent.is_dir():
        raise ConfigurationException(
            f"--data: the directory {data.parent} does not exist", hint="create it first"
        )
    if data.is_dir() and journals_in(data):
        return find_journal(data)
    return data if data.name.lower() == "kahadb" else data / "kahadb"


def _report_import(file: Path, found: Imported, *, ended: bool) -> None:
    for problem in found.problems:
        typer.echo(f"{file}:{problem.line}: {problem.reason}", err=True)
    if not ended:
        typer.echo(f"{file}: the end line is missing: the file is incomplete", err=True)
    left_out = [
        f"{count} {why}"
        for count, why in (
            (found.duplicates, "already stored"),
            (found.unwanted, "of topics without durable subscriptions"),
            (found.expired, "expired"),
            (len(found.problems), "invalid lines"),
        )
        if count
    ]
    typer.echo(
        f"{plural(found.messages, 'message')} imported,"
        f" {plural(found.subscriptions, 'durable subscription')} created"
        + (f"; left out: {', '.join(left_out)}" if left_out else "")
    )
    if found.problems or not ended:
        raise typer.Exit(ExitCode.FAILED)


# -- both


def _one_of(directory: Path | None, url: str | None, name: str) -> None:
    if (directory is None) == (url is None):
        raise ConfigurationException(f"Name either {name} or --url")


def _patterns(queues: list[str], topics: list[str]) -> tuple[list[Destination], list[Destination]]:
    try:
        return [Queue(name) for name in queues], [Topic(name) for name in topics]
    except InvalidDestinationException as error:
        raise ConfigurationException(str(error)) from error
