"""The section `logging` of both YAML files: format, levels by logger, and files.

Files are written by a thread each.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
from io import TextIOWrapper
from logging.handlers import (
    QueueHandler,
    QueueListener,
    RotatingFileHandler,
    TimedRotatingFileHandler,
    WatchedFileHandler,
)
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias, TypedDict

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from pyjms.configuration.section import Bytes, DescribedModel, Section
from pyjms.errors import ConfigurationException
from pyjms.runtime.clock import stopwatch
from pyjms.runtime.fork import inherits
from pyjms.runtime.logging import LogFormat

LevelName = Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET"]
Level = Annotated[
    LevelName,
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
]


class LogFileSettings(Section):
    """A file of the log."""

    path: Path
    """The file; its directory is created. Relative paths begin in the working directory."""
    format: LogFormat | None = None
    """text or json; not set: that of the section logging."""
    rotate: Literal["size", "daily", "never"] = "size"
    """When the file is renamed: size, daily, or never: others do it, and a new one is opened."""
    maximum_size: Bytes = Field(default=10 * 1024 * 1024, ge=1024)
    """Size at which the file is renamed, with rotate: size."""
    keep: int = Field(default=7, ge=1)
    """Number of renamed files that are kept, with rotate: size or daily."""


def _with_path(value: object) -> object:
    """Return the settings of a file that is given as its path alone."""
    return {"path": value} if isinstance(value, str) else value


LogFile: TypeAlias = Annotated[
    LogFileSettings, BeforeValidator(_with_path, json_schema_input_type=str | LogFileSettings)
]


class LoggingSettings(DescribedModel):
    """The log (`logging`); all other keys are logger names with their levels."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Level] = Field(init=False)

    format: LogFormat = "text"
    """text, or json: one object per line, with the message, destination or client as fields."""
    stderr: bool = True
    """Whether the log is written to the standard error; false needs a file."""
    file: LogFile | None = None
    """A file to which the log is written as well: its path, or a section."""

    @property
    def levels(self) -> dict[str, str]:
        """The levels by logger name; root: all loggers."""
        return dict(self.__pydantic_extra__)

    def formats(self, given: LogFormat | None = None) -> set[LogFormat]:
        """Return the formats in use; `given` is that of a command's option."""
        own = given or self.format
        return {own} if self.file is None else {own, self.file.format or own}

    @model_validator(mode="after")
    def _check_outputs(self) -> Self:
        if not self.stderr and self.file is None:
            raise ValueError("stderr is false and there is no file: the log would be lost")
        return self


_MOST_WAITING: Final = 10_000
"""Lines that wait for a file's thread; those beyond are left out, and counted."""
_QUIET: Final = 60.0
"""Seconds between two lines that say that a file cannot be written."""
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
            sys.stderr.write(f"The log cannot be written: {sys.exc_info()[1]}\n")


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


class FileOutput(QueueHandler):
    """Formats records, and hands their text to the thread that writes a file.

    A slow disk then holds neither the event loop nor a handler. A record becomes text before it
    waits, while the message that is being handled, and the span, are known.

    Args:
        key: that of the section, for the report of an error.
        settings: the section.
        formatter: the formatter of the records.
        worker: the number of this process, if others write files of the same settings.

    Raises:
        ConfigurationException: the file cannot be opened.
    """

    def __init__(
        self, key: str, settings: LogFileSettings, formatter: logging.Formatter, worker: int | None
    ) -> None:
        super().__init__(queue.Queue())
        self.setFormatter(formatter)
        self._file = _open(key, settings, worker)
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
