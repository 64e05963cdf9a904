"""What is reported of pipelines, as listeners of events: their log, status files and health.

The log has each batch at DEBUG, a summary every half minute at INFO. It contains names, numbers and
reasons only; the full text of a failure, with its traceback, is logged by the supervisor.

Status files, `pyjms-status.json` beside each checkpoint, are for `pyjms pipeline status`. A file is
replaced atomically, so that readers never see a partial one: at each event, at most once a second
for batches, and at each pulse. It contains no body and no password.

A pipeline is DOWN if it failed for good, or if its backlog grows while it reads nothing. One that
is being restarted is UP, as it has attempts left. (spark-pipeline 6.2)
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.runtime.paths import replace_text
from pyjms.spark import events
from pyjms.spark.events import (
    BatchFinished,
    PipelineEvent,
    PipelineFailed,
    PipelinePulse,
    PipelineStarted,
)

logger: Final = get_logger(__name__)

_SUMMARY_INTERVAL: Final = 30.0
_LEVELS: Final[Mapping[type[events.PipelineEvent], int]] = {
    events.BatchFinished: logging.DEBUG,
    events.PipelineRestarting: logging.WARNING,
    events.PipelineFailed: logging.ERROR,
}
"""The levels of events; others have INFO."""


@dataclass(slots=True)
class _Totals:
    since: float
    batches: int = 0
    rows: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    backlog: int | None = None


class PipelineLog:
    """Logs the events of pipelines; a listener."""

    def __init__(self) -> None:
        self._sums: dict[str, _Totals] = {}

    def on_event(self, event: events.PipelineEvent) -> None:
        """Process an event."""
        level = _LEVELS.get(type(event), logging.INFO)
        if isinstance(event, events.PipelineDrained) and not event.is_clean:
            level = logging.WARNING
        match event:
            case events.PipelinePulse():
                self._summary(event.pipeline)
            case events.PipelineStopped():
                self._summary(event.pipeline, last=True)
            case _ if logger.isEnabledFor(level):
                logger.log(level, "%s", event)
        if isinstance(event, events.BatchFinished):
            self._batch(event)

    def _batch(self, event: events.BatchFinished) -> None:
        total = self._sums.setdefault(event.pipeline, _Totals(_clock.now()))
        total.batches += 1
        total.rows += event.rows
        total.dead_letters += event.dead_letters
        total.seconds += event.seconds
        total.backlog = event.backlog
        self._summary(event.pipeline)

    def _summary(self, pipeline: str, *, last: bool = False) -> None:
        total = self._sums.get(pipeline)
        if total is None or not (last or _clock.now() - total.since >= _SUMMARY_INTERVAL):
            return
        del self._sums[pipeline]
        logger.info(
            "Pipeline %s: %d messages in %d batches, %.1f s of work, %d dead letters, %s",
            pipeline,
            total.rows,
            total.batches,
            total.seconds,
            total.dead_letters,
            events.backlog_text(total.backlog),
        )


STATUS_FILE: Final = "pyjms-status.json"

_WRITE_INTERVAL: Final = 1.0
_STALE_AFTER_MS: Final = 35_000
"""After three missed pulses."""
_RUNNING: Final = frozenset(("starting", "running", "restarting"))


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The contents of a status file. Times are milliseconds since 1970."""

    pipeline: str
    state: str = "starting"
    """starting, running, restarting, stopped, done or failed."""
    reason: str = ""
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)
    query_id: str = ""
    started: int = 0
    updated: int = 0
    batch: int | None = None
    batch_finished: int | None = None
    rows: int = 0
    """Messages read since `started`."""
    rows_per_second: float = 0.0
    """In the last batch."""
    backlog: int | None = None
    oldest: int | None = None
    """When the oldest message of the backlog was sent."""
    dead_letters: int = 0
    restarts: int = 0
    offset: Mapping[str, int] = field(default_factory=dict)

    def is_stale(self, now_ms: int) -> bool:
        """Return whether the state is active, but the process has ended or no longer reports."""
        if self.state not in _RUNNING:
            return False
        if self.host == socket.gethostname() and not _is_alive(self.process):
            return True
        return now_ms - self.updated > _STALE_AFTER_MS


class StatusFiles:
    """Writes the status files of pipelines into their folders; a listener."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._statuses: dict[str, PipelineStatus] = {}
        self._written: dict[str, float] = {}

    def of(self, pipeline: str) -> PipelineStatus:
        """Return the current status of a pipeline."""
        return self._statuses.get(pipeline) or PipelineStatus(pipeline, started=_clock.time_ms())

    def on_event(self, event: events.PipelineEvent) -> None:
        """Process an event, and write the file of its pipeline."""
        if isinstance(event, events.PipelinesReady) or event.pipeline not in self._folders:
            return
        changed = _update(self.of(event.pipeline), event, _clock.time_ms())
        self._statuses[event.pipeline] = changed
        if not isinstance(event, events.BatchFinished) or self._is_due(event.pipeline):
            _write(self._folders[event.pipeline] / STATUS_FILE, changed)

    def _is_due(self, pipeline: str) -> bool:
        """Return whether to write after a batch; dozens of short batches may end per second."""
        now = _clock.now()
        is_due = now - self._written.get(pipeline, -math.inf) >= _WRITE_INTERVAL
        if is_due:
            self._written[pipeline] = now
        return is_due


def read_status(file: Path) -> PipelineStatus | None:
    """Read a status file; None: it does not exist, or is not valid."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return PipelineStatus(**values)
    except (OSError, ValueError, TypeError):
        return None


def read_statuses(root: Path) -> list[PipelineStatus]:
    """Read all status files below a checkpoint root, sorted by pipeline."""
    found = (read_status(file) for file in root.glob(f"*/{STATUS_FILE}"))
    return sorted((status for status in found if status is not None), key=lambda s: s.pipeline)


def _update(status: PipelineStatus, event: events.PipelineEvent, now: int) -> PipelineStatus:
    changes: dict[str, Any] = {"updated": now}
    match event:
        case events.PipelineStarted():
            changes |= {
                "state": "running",
                "reason": "",
                "query_id": event.query_id,
                "restarts": event.restarts,
            }
        case events.BatchFinished():
            changes |= {
                "batch": event.batch,
                "batch_finished": now,
                "rows": status.rows + event.rows,
                "rows_per_second": round(event.rows_per_second, 1),
                "backlog": event.backlog,
                "oldest": event.oldest,
                "dead_letters": status.dead_letters + event.dead_letters,
                "offset": {**status.offset, **event.offset},
            }
        case events.PipelinePulse():
            if event.backlog is not None:
                changes |= {"backlog": event.backlog, "oldest": event.oldest}
        case events.PipelineRestarting():
            changes |= {"state": "restarting", "reason": event.reason}
        case events.PipelineFailed():
            changes |= {"state": "failed", "reason": event.reason}
        case events.PipelineDone():
            changes |= {"state": "done"}
        case events.PipelineDrained():
            unclean = (
                event.failure or "stopped during a batch, which runs again with the next start"
            )
            changes |= {"state": "stopped", "reason": "" if event.is_clean else unclean}
        case events.PipelineStopped() if status.state in _RUNNING:
            changes |= {"state": "stopped"}
    return replace(status, **changes)


def _write(file: Path, status: PipelineStatus) -> None:
    try:
        replace_text(file, json.dumps(asdict(status), indent=1) + "\n")
    except OSError as error:
        logger.warning("Cannot write the status of pipeline %s: %s", status.pipeline, error)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


_STUCK_AFTER: Final = 3
"""Number of successive pulses, ten seconds apart, with a growing backlog and nothing read."""


@dataclass(frozen=True, slots=True)
class Health:
    """UP, or DOWN with a reason."""

    is_up: bool
    reason: str = ""

    def __str__(self) -> str:
        return "UP" if self.is_up else f"DOWN ({self.reason})"


_UP: Final = Health(is_up=True)


class PipelineHealth:
    """The health of each pipeline, and of all pipelines together."""

    def __init__(self) -> None:
        self._pipelines: dict[str, Health] = {}
        self._backlogs: dict[str, list[int]] = {}

    def of(self, pipeline: str) -> Health:
        """Return the health of a pipeline; UP before its first event."""
        return self._pipelines.get(pipeline, _UP)

    @property
    def all(self) -> Health:
        """UP if all pipelines are; otherwise DOWN with the reasons."""
        down = [f"{name}: {h.reason}" for name, h in self._pipelines.items() if not h.is_up]
        return Health(is_up=False, reason="; ".join(down)) if down else _UP

    def on_event(self, event: PipelineEvent) -> None:
        """Process an event."""
        match event:
            case PipelineFailed():
                self._pipelines[event.pipeline] = Health(is_up=False, reason=event.reason)
            case PipelineStarted() | BatchFinished():
                self._recover(event.pipeline)
            case PipelinePulse():
                self._check_backlog(event)

    def _recover(self, name: str) -> None:
        self._pipelines[name] = _UP
        self._backlogs[name] = []

    def _check_backlog(self, pulse: PipelinePulse) -> None:
        backlogs = self._backlogs.setdefault(pulse.pipeline, [])
        if pulse.rows or pulse.backlog is None or (backlogs and pulse.backlog <= backlogs[-1]):
            self._recover(pulse.pipeline)
            backlogs = self._backlogs[pulse.pipeline]
        if pulse.backlog is not None:
            backlogs.append(pulse.backlog)
        if len(backlogs) > _STUCK_AFTER:
            del backlogs[0]
            self._pipelines[pulse.pipeline] = Health(
                is_up=False,
                reason=f"{pulse.backlog} messages wait, their number grows, and none is read",
            )
