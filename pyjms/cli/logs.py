"""Writes the log of a process as its section `logging` and the options of the command say.

The standard error is written at once: the last line before a crash is the one that is needed. Files
are written by a thread each, so that a slow disk holds neither the event loop nor a handler. A
record becomes text before it waits for that thread, while the message that is being handled, and
the span, are known.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from io import TextIOWrapper
from logging.handlers import (
    MemoryHandler,
    QueueHandler,
    QueueListener,
    RotatingFileHandler,
    TimedRotatingFileHandler,
    WatchedFileHandler,
)
from typing import TYPE_CHECKING, Final, TypedDict

from pyjms.errors import ConfigurationException
from pyjms.runtime.clock import stopwatch
from pyjms.runtime.fork import inherits
from pyjms.runtime.logging import LINE_FORMAT, WORKER_LINE_FORMAT, LogFormat

if TYPE_CHECKING:
    from pyjms.configuration.logs import LogFileSettings, LoggingSettings

__all__ = ["LogOutput", "log_levels"]

_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_MOST_WAITING: Final = 10_000
"""Lines that wait for a file's thread; those beyond are left out, and counted."""
_MOST_HELD: Final = 1000
"""Records that are held before the settings are known."""
_QUIET: Final = 60.0
"""Seconds between two lines that say that a file cannot be written."""


def log_levels(texts: Iterable[str]) -> dict[str, str]:
    """Return the levels by logger name that `LEVEL` (root) and `LOGGER=LEVEL` name."""
    levels = {}
    for text in texts:
        name, equals, level = text.rpartition("=")
        if level.upper() not in _LEVELS or (equals and not name):
            raise ConfigurationException(
                f"--log-level {text}: there is no such level",
                hint=f"write one of {', '.join(_LEVELS).lower()}, or LOGGER=LEVEL",
            )
        levels[name or "root"] = level.upper()
    return levels


_MODE: Final = 0o640
"""Who may read and write a new file: it tells users and addresses."""


def _create(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)


class _LogFile(logging.FileHandler):
    """Says on the standard error that a file cannot be written, once a minute."""

    _next_report = 0.0

    def _open(self) -> TextIOWrapper:
        opened = open(  # noqa: SIM115 - `close` closes it
            self.baseFilename, "a", encoding="utf-8", errors=self.errors, opener=_create
        )
        assert isinstance(opened, TextIOWrapper)
        return opened

    def close(self) -> None:
        try:
            super().close()
        except OSError:  # the disk is full: what waits is lost, but other files are closed, too
            self.handleError(logging.makeLogRecord({}))

    def handle(self, record: logging.LogRecord) -> bool:
        try:
            return super().handle(record)
        except OSError:  # of WatchedFileHandler, which would end the thread that writes the file
            self.handleError(record)
            return False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        now = stopwatch()
        if now >= self._next_report and sys.stderr is not None:
            self._next_report = now + _QUIET
            print(f"The log cannot be written: {sys.exc_info()[1]}", file=sys.stderr)


class _Text(TypedDict):
    encoding: str
    errors: str


class _Watched(_LogFile, WatchedFileHandler):
    pass


class _BySize(_LogFile, RotatingFileHandler):
    pass


class _Daily(_LogFile, TimedRotatingFileHandler):
    pass


_TEXT: Final[_Text] = {"encoding": "utf-8", "errors": "backslashreplace"}
"""How files are written, as the standard error: half of a surrogate pair must not lose a line."""


def _open(key: str, settings: LogFileSettings, worker: int | None) -> logging.Handler:
    """Open a log file; worker processes that rotate by themselves have a file each."""
    path = settings.path
    if worker is not None and settings.rotate != "never":
        path = path.with_stem(f"{path.stem}-{worker}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        match settings.rotate:
            case "size":
                size, keep = settings.maximum_size, settings.keep
                return _BySize(path, maxBytes=size, backupCount=keep, **_TEXT)
            case "daily":
                return _Daily(path, "midnight", backupCount=settings.keep, **_TEXT)
            case "never":
                return _Watched(path, **_TEXT)
    except OSError as error:
        raise ConfigurationException(
            f"{key}: {path} cannot be written: {error.strerror}",
            hint="name another file, or make its directory writable for this user",
        ) from error


class _FileOutput(QueueHandler):
    """Formats records, and hands their text to the thread that writes a file."""

    def __init__(self, file: logging.Handler, formatter: logging.Formatter) -> None:
        super().__init__(queue.Queue())
        self.setFormatter(formatter)
        self._file = file
        self._left_out = 0
        self._is_open = True
        self.on_fork()
        self._inheritance = inherits(self)

    def on_fork(self) -> None:
        """Write with a thread of this process: a child has not its parent's."""
        # `enqueue` limits it, so that the end of the thread always fits
        self.queue = self._lines = queue.Queue[logging.LogRecord]()
        self._writer = QueueListener(self.queue, self._file)
        self._writer.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return logging.makeLogRecord({"msg": self.format(record)})

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() >= _MOST_WAITING:
            self._left_out += 1
            return
        if self._left_out:
            text = f"{self._left_out} lines are left out: the file is written too slowly"
            entry = {"name": __name__, "levelname": "WARNING", "msg": text}
            self._lines.put_nowait(self.prepare(logging.makeLogRecord(entry)))
            self._left_out = 0
        self._lines.put_nowait(record)

    def close(self) -> None:
        """Write what waits, and close the file. Blocks. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._writer.stop()
            self._file.close()
        super().close()


class LogOutput:
    """The log of this process. `apply` may be called again, with changed settings.

    Args:
        text: the formatter of the format `text`; None: the usual one.
        log_format: the format that a command's option demands; None: that of the settings.
        levels: the levels by logger name (`root`: all) of options, before those of the settings.
        worker: the number of this process, if others have the same settings; its lines tell it.
    """

    def __init__(
        self,
        *,
        text: logging.Formatter | None = None,
        log_format: LogFormat | None = None,
        levels: Mapping[str, str] | None = None,
        worker: int | None = None,
    ) -> None:
        usual = LINE_FORMAT if worker is None else WORKER_LINE_FORMAT
        self._text = text or logging.Formatter(usual)
        self._format = log_format
        self._given = levels or {}
        self._worker = worker
        self._stderr: logging.Handler | None = None
        self._is_own = not logging.getLogger().handlers
        self._files: dict[str, _FileOutput] = {}
        self._levels: dict[str, str] = {}
        self._held: MemoryHandler | None = None
        atexit.register(self.close)

    def hold(self) -> None:
        """Keep what is logged before the settings are known, until `apply` or the exit."""
        if self._is_own:
            self._held = MemoryHandler(_MOST_HELD, flushLevel=logging.CRITICAL + 1)
            logging.root.addHandler(self._held)
            logging.root.setLevel(self._given.get("root", "INFO"))

    def apply(
        self, settings: LoggingSettings, streams: Mapping[str, LogFileSettings | None] | None = None
    ) -> None:
        """Write the log as `settings` say; blocks while files are opened.

        Handlers that the application has set up stay, and then the standard error gets nothing.

        Args:
            settings: the section.
            streams: loggers whose records go to a file of their own, and only there.

        Raises:
            ConfigurationException: a file cannot be opened; nothing is changed.
        """
        wanted = {"root": settings.file, **(streams or {})}
        opened: dict[str, _FileOutput] = {}
        try:
            for name, file in wanted.items():
                if file is not None:
                    key = f"logging.{'file' if name == 'root' else name.rpartition('.')[2]}"
                    formatter = self._formatter(file.format or self._format or settings.format)
                    opened[name] = _FileOutput(_open(key, file, self._worker), formatter)
        except ConfigurationException:
            _close(opened.values())
            raise
        levels = {**dict.fromkeys(opened, "INFO"), **settings.levels}
        self._write(settings.format, opened, levels, stderr=settings.stderr)

    def apply_defaults(self) -> None:
        """Write the log as an empty section says, without the section's models in memory."""
        self._write("text", {}, {}, stderr=True)

    def _write(
        self,
        log_format: LogFormat,
        files: dict[str, _FileOutput],
        levels: dict[str, str],
        *,
        stderr: bool,
    ) -> None:
        self._replace_files(files)
        self._change_stderr(self._format or log_format, used=stderr)
        self._change_levels({**levels, **self._given})
        self._release()

    def close(self) -> None:
        """Write what waits, and close the files. Blocks. Idempotent."""
        self._release()
        self._replace_files({})

    def _release(self) -> None:
        """Log what was held."""
        held, self._held = self._held, None
        if held is None:
            return
        logging.root.removeHandler(held)
        for record in held.buffer:
            logger = logging.getLogger(record.name)
            if logger.isEnabledFor(record.levelno):
                logger.callHandlers(record)

    def _formatter(self, log_format: LogFormat) -> logging.Formatter:
        if log_format == "text":
            return self._text
        from pyjms.observability.logs import JsonFormatter

        return JsonFormatter()

    def _mark(self, handler: logging.Handler) -> None:
        """Make the lines of a handler tell the number and the process id of a worker."""
        if self._worker is not None:
            handler.addFilter(partial(_add_worker, self._worker, os.getpid()))

    def _replace_files(self, opened: dict[str, _FileOutput]) -> None:
        for name, file in opened.items():
            self._mark(file)
            _logger(name).addHandler(file)
        for name, file in self._files.items():
            _logger(name).removeHandler(file)
        former, self._files = self._files, opened
        for name in former.keys() | opened.keys():
            _logger(name).propagate = name not in opened
        _close(former.values())

    def _change_stderr(self, log_format: LogFormat, *, used: bool) -> None:
        if not self._is_own:
            return
        if self._stderr is None:
            self._stderr = logging.StreamHandler()
            self._mark(self._stderr)
        self._stderr.setFormatter(self._formatter(log_format))
        change = logging.root.addHandler if used else logging.root.removeHandler
        change(self._stderr)

    def _change_levels(self, levels: dict[str, str]) -> None:
        for name in self._levels.keys() - levels.keys():
            _logger(name).setLevel(logging.NOTSET)
        if self._is_own:
            logging.root.setLevel("INFO")
        for name, level in levels.items():
            if name != "root" or self._is_own:
                _logger(name).setLevel(level)
        self._levels = levels


def _add_worker(worker: int, pid: int, record: logging.LogRecord) -> bool:
    record.worker, record.pid = worker, pid
    return True


def _logger(name: str) -> logging.Logger:
    return logging.root if name == "root" else logging.getLogger(name)


def _close(files: Iterable[_FileOutput]) -> None:
    for file in files:
        file.close()
