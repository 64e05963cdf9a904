"""Writes the log of a process as its section `logging` and the options of the command say.

The standard error is written at once: the last line before a crash is the one that is needed. Files
are written by a thread each (`pyjms.configuration.logs`).
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import LINE_FORMAT, WORKER_LINE_FORMAT, LogFormat

if TYPE_CHECKING:
    from pyjms.configuration.logs import FileOutput, LogFileSettings, LoggingSettings

__all__ = ["LogOutput", "log_levels"]

_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_MOST_HELD: Final = 1000
"""Records that are held before the settings are known."""


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


class _Held(logging.Handler):
    """Keeps the first records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.records) < _MOST_HELD:
            self.records.append(record)


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
        self._files: dict[str, FileOutput] = {}
        self._levels: dict[str, str] = {}
        self._held: _Held | None = None
        atexit.register(self.close)

    def hold(self) -> None:
        """Keep what is logged before the settings are known, until `apply` or the exit."""
        if self._is_own:
            self._held = _Held()
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
        from pyjms.configuration.logs import FileOutput

        wanted = {"root": settings.file, **(streams or {})}
        opened: dict[str, FileOutput] = {}
        try:
            for name, file in wanted.items():
                if file is not None:
                    key = f"logging.{'file' if name == 'root' else name.rpartition('.')[2]}"
                    formatter = self._formatter(file.format or self._format or settings.format)
                    opened[name] = FileOutput(key, file, formatter, self._worker)
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
        files: dict[str, FileOutput],
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
        for record in held.records:
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

    def _replace_files(self, opened: dict[str, FileOutput]) -> None:
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


def _close(files: Iterable[FileOutput]) -> None:
    for file in files:
        file.close()
