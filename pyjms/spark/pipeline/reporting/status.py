"""Status files: `pyjms-status.json` beside each checkpoint, for `pyjms pipeline status`.

A file is replaced atomically, so that readers never see a partial one: at each event, at most once
a second for batches, and at each pulse. It contains no body and no password.
"""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._paths import replace_text
from pyjms.spark.pipeline.reporting import events

__all__ = ["STATUS_FILE", "PipelineStatus", "StatusFiles", "read_status", "read_statuses"]

logger: Final = get_logger(__name__)

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
        changed = _updated(self.of(event.pipeline), event, _clock.time_ms())
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


def _updated(status: PipelineStatus, event: events.PipelineEvent, now: int) -> PipelineStatus:
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
                "dead_letters": status.dead_letters + event.dead_letters,
                "offset": {**status.offset, **event.offset},
            }
        case events.PipelinePulse():
            changes |= {"backlog": event.backlog if event.backlog is not None else status.backlog}
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
