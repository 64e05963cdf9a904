"""`pyjms broker doctor`: what of the machine keeps a broker from being fast, safe and reachable.

The checks read, but for a file that is written and removed to measure the disk. They take no lock,
so that the broker may be running.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from pyjms.cli.terminal import ExitCode, in_bytes, json_line, one_line_errors, safe_text, table

if TYPE_CHECKING:
    from pyjms_broker.service import BrokerService


class State(StrEnum):
    """What a check says."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


class Finding(NamedTuple):
    """What a check has found, and what to do; without advice all is well."""

    state: State
    text: str
    advice: str = ""


class Examined:
    """The broker of a configuration, its directory, and who runs on it."""

    def __init__(self, service: BrokerService) -> None:
        self.service = service
        self.directory: Path | None = service.stores.directory
        """The store's directory; None: in memory, or a store of another kind."""
        from pyjms_broker.service.usage_limits import existing

        self.place = existing(self.directory or service.data_path)
        """The directory itself or, before the first start, the one in which it will be."""
        self.holder = None if self.directory is None else _holder(self.directory / "lock")
        """The number of the process that holds the store's lock; None: there is none."""


_LOCK: Final = struct.Struct("hhqqi")
"""Linux's struct flock."""


def _holder(lock: Path) -> int | None:
    if sys.platform != "linux":
        return None
    import fcntl

    try:
        with lock.open("r+b") as file:
            asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, process = _LOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return None if kind == fcntl.F_UNLCK else int(process)


# the checks

_SYNCS: Final = 50
_LONGEST: Final = 2.0
"""Seconds after which the disk is not measured further."""
_SLOW: Final = 0.010
_VERY_SLOW: Final = 0.050
_VOLATILE: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_SHARED: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def _file_system(path: Path) -> str:
    """Return the type of the file system of a path; empty: unknown."""
    best, found = -1, ""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, mounted, kind, *_ = line.split(" ")
        where = Path(mounted.replace("\\040", " "))
        if path.is_relative_to(where) and len(where.parts) > best:
            best, found = len(where.parts), kind
    return found


def _directory(e: Examined) -> Iterator[Finding]:
    if e.directory is None:
        yield Finding(State.OK, "the messages are not in a directory")
        return
    if e.place != e.directory.absolute():
        text = f"{e.directory} does not exist, and is created in {e.place}"
        if not os.access(e.place, os.W_OK | os.X_OK):
            hint = f"create it as the broker's user: install -d -m 700 {e.directory}"
            yield Finding(State.FAILED, f"{text}, which cannot be written", hint)
        else:
            yield Finding(State.OK, text)
        return
    status = e.place.stat()
    if not os.access(e.place, os.R_OK | os.W_OK | os.X_OK):
        hint = f"chown -R it to the broker's user, now {status.st_uid}, or run as that user"
        yield Finding(State.FAILED, f"{e.place} cannot be read and written", hint)
    elif status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        text = f"{e.place} has the mode {mode:03o}: others can see the files of messages"
        yield Finding(State.WARNING, text, f"chmod 700 {e.place}")
    else:
        yield Finding(State.OK, f"{e.place} belongs to the broker alone")


def _secrets(e: Examined) -> Iterator[Finding]:
    settings = e.service.settings
    if settings is None:
        return
    files = {} if settings.source is None else {settings.source.file.absolute(): None}
    files |= dict.fromkeys(Path.cwd() / each for each in _named_files(settings.model_dump()))
    for file in files:
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except FileNotFoundError:
            yield Finding(State.FAILED, f"{file} does not exist", "create it, or correct the path")
            continue
        except OSError as error:
            yield Finding(State.FAILED, f"{file} cannot be read: {error.strerror}", "see its owner")
            continue
        if not os.access(file, os.R_OK):
            hint = "chown it to the broker's user"
            yield Finding(State.FAILED, f"{file} cannot be read", hint)
        elif mode & 0o077:
            text = f"{file} has the mode {mode:03o}, and may have passwords or keys"
            yield Finding(State.WARNING, text, f"chmod 600 {file}")
        else:
            yield Finding(State.OK, f"{file} belongs to the broker alone")


_FILES: Final = ("users_file", "groups_file", "login_config", "key_store", "key_file")


def _named_files(values: object) -> Iterator[str]:
    if isinstance(values, Mapping):
        for key, value in values.items():
            if key in _FILES and isinstance(value, str | Path) and str(value):
                yield str(value)
            yield from _named_files(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _named_files(value)


def _sync_times(directory: Path) -> list[float]:
    from pyjms.runtime import clock as _clock

    times: list[float] = []
    block = bytes(4096)
    with tempfile.TemporaryFile(dir=directory, prefix="doctor-") as file:
        end = _clock.stopwatch() + _LONGEST
        while len(times) < _SYNCS and _clock.stopwatch() < end:
            before = _clock.stopwatch()
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            times.append(_clock.stopwatch() - before)
    return times


def _disk(e: Examined) -> Iterator[Finding]:
    if e.directory is None:
        return
    kind = _file_system(e.place)
    if kind in _VOLATILE:
        text = f"{e.place} is in memory ({kind}): a restart of the machine loses all messages"
        yield Finding(State.WARNING, text, "set data_directory to a disk")
    elif kind in _SHARED:
        text = f"{e.place} is on a network ({kind})"
        hint = "each persistent send waits for the network; locks must work between the hosts"
        yield Finding(State.WARNING, text, hint)
    try:
        times = _sync_times(e.place)
    except OSError as error:
        yield Finding(
            State.FAILED,
            f"nothing can be written to {e.place}: {error.strerror}",
            "see the permissions, and whether the disk is full or read-only",
        )
        return
    middle, longest = sorted(times)[len(times) // 2], max(times)
    text = (
        f"a sync takes {middle * 1000:.2f} ms ({longest * 1000:.1f} ms at most, of {len(times)});"
        f" one client sends at most {1 / middle:,.0f} persistent messages a second"
    )
    if middle >= _SLOW:
        hint = "use a local SSD, or one with a cache that survives a loss of power"
        yield Finding(State.WARNING, text, hint)
    elif longest >= _VERY_SLOW:
        yield Finding(State.WARNING, text, "see what else writes to this disk (iostat -x 1)")
    else:
        yield Finding(State.OK, text)


_LEAST_FREE: Final = 1 << 30
_LEAST_FILES: Final = 1000


def _space(e: Examined) -> Iterator[Finding]:
    if e.directory is None:
        return
    usage, files = shutil.disk_usage(e.place), os.statvfs(e.place)
    text = f"{in_bytes(usage.free)} of {in_bytes(usage.total)} are free in {e.place}"
    hint = "free space or enlarge the disk: a broker whose disk is full stops"
    if usage.free < _LEAST_FREE // 10:
        yield Finding(State.FAILED, text, hint)
    elif usage.free < _LEAST_FREE:
        yield Finding(State.WARNING, text, hint)
    else:
        yield Finding(State.OK, text)
    if files.f_files and files.f_favail < _LEAST_FILES:
        text = f"the file system can have only {files.f_favail:,} more files"
        yield Finding(State.WARNING, text, "remove files, or make it anew with more inodes")


def _index(e: Examined) -> Iterator[Finding]:
    from pyjms_broker.store.kahadb.index import IndexCorrupt
    from pyjms_broker.store.kahadb.recovery import OUR_INDEX
    from pyjms_broker.store.kahadb.tools import journal_directory as journals

    folder = e.directory
    if folder is None or e.place != folder.absolute() or e.holder is not None:
        return
    sizes = journals.file_sizes(folder)
    if not sizes:
        return
    whole = f"the start reads the whole journal, {in_bytes(sum(sizes.values()))}, once"
    if journals.has_activemq_index(folder):
        yield Finding(
            State.WARNING,
            f"ActiveMQ has used this store last: {whole}",
            f"make the index before: pyjms broker journal rebuild {folder}",
        )
        return
    with tempfile.TemporaryDirectory() as scratch:
        try:
            index = journals.copy_index(folder / OUR_INDEX, Path(scratch))
        except IndexCorrupt as error:
            index, whole = None, f"{whole} ({error})"
        covered = None if index is None else journals.trusted_location(folder, index)
        if index is not None:
            index.close()
    if covered is None:
        yield Finding(
            State.WARNING,
            f"there is no index that belongs to the journal: {whole}",
            f"make the index before: pyjms broker journal rebuild {folder}",
        )
        return
    end = journals.journal_end(folder)
    behind = sum(size for file_id, size in sizes.items() if covered.file_id < file_id < end.file_id)
    behind += end.offset - (covered.offset if end.file_id == covered.file_id else 0)
    if behind > _CLEAN:
        yield Finding(
            State.OK,
            f"the broker was not stopped: its start reads the last"
            f" {in_bytes(behind)} of the journal",
        )
    else:
        yield Finding(State.OK, "the index is as new as the journal")


_CLEAN: Final = 1 << 20
"""The bytes of the last records that an index covers, at most."""


def _handles(e: Examined) -> Iterator[Finding]:
    from pyjms.runtime.machine import most_files

    limit = most_files()
    clients = sum(each.maximum_connections for each in e.service.connectors)
    web = e.service.web
    clients += web.maximum_connections if web is not None and web.enabled else 0
    wanted = clients + e.service.reserved_file_handles
    if limit is None or limit >= wanted:
        of = "unlimited" if limit is None else f"{limit:,}"
        yield Finding(State.OK, f"file handles: {of}, for {clients:,} connections and the stores")
        return
    text = f"file handles: {limit:,}, and {clients:,} connections are allowed"
    hint = f"ulimit -n {wanted}, LimitNOFILE={wanted} of its systemd unit, or fewer connections"
    yield Finding(State.WARNING, text, hint)


def _memory(e: Examined) -> Iterator[Finding]:
    from pyjms.runtime.machine import available_memory, machine_memory

    limit, available = e.service.system_usage.memory.limit, available_memory()
    where = "the machine's" if available == machine_memory() else "the container's or the process's"
    text = f"memory_limit is {in_bytes(limit)}, {where} {in_bytes(available)}"
    if limit > available * _MOST_OF_MEMORY:
        share = f"system_usage: memory_limit: {int(_MOST_OF_MEMORY * 100)}%, or less"
        hint = f"{share}: the process needs memory beside the messages"
        yield Finding(State.WARNING, text, hint)
    else:
        yield Finding(State.OK, text)


_MOST_OF_MEMORY: Final = 0.7


def _ports(e: Examined) -> Iterator[Finding]:
    addresses = [
        (each.name, each.uri.host, each.uri.port)
        for each in e.service.connectors
        if each.uri.scheme != "vm" and each.uri.host and each.uri.port
    ]
    web = e.service.web
    if web is not None and web.enabled and web.port:
        addresses.append(("web", web.host, web.port))
    for name, host, port in addresses:
        where = f"{name}: {host}:{port}"
        error = _bind_error(host, port)
        if error is None:
            yield Finding(State.OK, f"{where} is free")
        elif e.holder is not None and error.errno == errno.EADDRINUSE:
            yield Finding(State.OK, f"{where} is in use, and a broker runs (process {e.holder})")
        else:
            hint = "stop the other program (ss -ltnp), or change the port of the connector"
            yield Finding(State.FAILED, f"{where}: {error.strerror or error}", hint)


def _bind_error(host: str, port: int) -> OSError | None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
    except OSError as error:
        return error
    return None


_EARLIEST: Final = 1_735_689_600
"""2025-01-01: no broker of this version has run before."""
_TOLERANCE: Final = 60.0


def _clock_state(e: Examined) -> Iterator[Finding]:
    from pyjms.runtime import clock as _clock

    now = _clock.time_ms() / 1000
    newest = max((each.stat().st_mtime for each in _segments(e)), default=0.0)
    if now < _EARLIEST or newest > now + _TOLERANCE:
        text = f"the clock shows {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(now))}"
        if newest > now + _TOLERANCE:
            text += f", {newest - now:,.0f} s before the last change of the store"
        hint = "set the clock: expirations and delays are wrong until then"
        yield Finding(State.FAILED, text, hint)
        return
    synchronized = _is_synchronized()
    if synchronized is False:
        hint = "run chrony or systemd-timesyncd: messages expire by the clocks of all hosts"
        yield Finding(State.WARNING, "the clock is not synchronized with others", hint)
    else:
        yield Finding(State.OK, "the clock is synchronized" if synchronized else "the clock goes")


def _segments(e: Examined) -> Iterator[Path]:
    if e.directory is not None and e.directory.is_dir():
        yield from e.directory.glob("db-*.log")


_UNSYNCHRONIZED: Final = 5  # TIME_ERROR of adjtimex(2)


def _is_synchronized() -> bool | None:
    """Ask Linux's kernel; None: it does not tell, as in some containers."""
    if sys.platform != "linux":
        return None
    import ctypes

    request = ctypes.create_string_buffer(512)  # struct timex; modes 0 changes nothing
    try:
        state = ctypes.CDLL(None).adjtimex(request)
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONIZED


def _versions(e: Examined) -> Iterator[Finding]:
    from importlib.metadata import version

    from pyjms.runtime.distribution import DISTRIBUTION

    holder = "" if e.holder is None else f"; process {e.holder} runs on its store"
    yield Finding(
        State.OK,
        f"broker {e.service.broker_name}, {DISTRIBUTION} {version(DISTRIBUTION)}, Python"
        f" {platform.python_version()}, {platform.system()} {platform.release()}{holder}",
    )


CHECKS: Final[Mapping[str, Callable[[Examined], Iterator[Finding]]]] = {
    "broker": _versions,
    "directory": _directory,
    "secrets": _secrets,
    "disk": _disk,
    "space": _space,
    "index": _index,
    "memory": _memory,
    "handles": _handles,
    "ports": _ports,
    "clock": _clock_state,
}
"""All checks by name, in the order in which they are told."""


def _findings(name: str, examined: Examined) -> Iterator[Finding]:
    """Make a check; that its files cannot be read must not hide what the others find."""
    try:
        yield from CHECKS[name](examined)
    except OSError as error:
        hint = "run it as the broker's user"
        yield Finding(State.FAILED, f"{error.filename}: {error.strerror or error}", hint)


def doctor(
    config: Annotated[Path | None, typer.Option(help="The configuration, broker.yaml.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data directory, as for start.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each finding.")] = False,
) -> None:
    """Examine the machine for the broker of a configuration, which may be running or not.

    Run it as the broker's user, with the limits of its service. The exit code is 1 if a check
    FAILED, so that the broker would not start or would lose messages, and 2 if the configuration
    is wrong; warnings do not change it.
    """
    from pyjms_broker.cli.start import Source, make_service

    with one_line_errors("broker doctor"):
        examined = Examined(make_service(Source(config=config), data))
    findings = [(name, each) for name in CHECKS for each in _findings(name, examined)]
    if json:
        for name, each in findings:
            json_line({"check": name, **each._asdict()})
    else:
        table(
            ("state", "check", "found"), [(each.state, name, each.text) for name, each in findings]
        )
        advice = [(name, each.advice) for name, each in findings if each.advice]
        if advice:
            typer.echo("\nWhat to do:")
        for name, text in advice:
            typer.echo(f"  {name}: {safe_text(text)}")
    if any(each.state is State.FAILED for _, each in findings):
        raise typer.Exit(ExitCode.FAILED)
