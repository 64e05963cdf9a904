"""`pyjms-status.json`, beside each checkpoint: what a pipeline does, for `pyjms pipeline status`.

Written whole and put in place in one step, so that a reader never sees half of it: at each event,
at most once a second for batches, and at each pulse. Holds no body and no password.
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

from pyjms import _clock
from pyjms.spark.pipeline.reporting.events import (
    BatchFinished,
    PipelineDone,
    PipelineDrained,
    PipelineEvent,
    PipelineFailed,
    PipelinePulse,
    PipelineRestarting,
    PipelinesReady,
    PipelineStarted,
    PipelineStopped,
)

__all__ = ["STATUS_FILE", "PipelineStatus", "StatusFiles", "read_status", "read_statuses"]

logger = logging.getLogger(__name__)

STATUS_FILE: Final = "pyjms-status.json"

_BETWEEN_WRITES: Final = 1.0
_STALE_AFTER_MS: Final = 35_000
"""Three pulses missed."""
_RUNNING: Final = frozenset(("starting", "running", "restarting"))


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What a status file says. Times are milliseconds since 1970."""

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
    """Of the last batch."""
    backlog: int | None = None
    dead_letters: int = 0
    restarts: int = 0
    offset: Mapping[str, int] = field(default_factory=dict)

    def is_stale(self, now_ms: int) -> bool:
        """Whether it says that a pipeline runs, and the process that wrote it is gone."""
        if self.state not in _RUNNING:
            return False
        if self.host == socket.gethostname() and not _is_alive(self.process):
            return True
        return now_ms - self.updated > _STALE_AFTER_MS


class StatusFiles:
    """Keeps the status files of pipelines, by the folder of each. A listener like others."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._statuses: dict[str, PipelineStatus] = {}
        self._written: dict[str, float] = {}

    def of(self, pipeline: str) -> PipelineStatus:
        """Return what is known of a pipeline."""
        return self._statuses.get(pipeline) or PipelineStatus(pipeline, started=_clock.time_ms())

    def on_event(self, event: PipelineEvent) -> None:
        """Take one event, and write the file of its pipeline."""
        if isinstance(event, PipelinesReady) or event.pipeline not in self._folders:
            return
        changed = _after(self.of(event.pipeline), event, _clock.time_ms())
        self._statuses[event.pipeline] = changed
        if not isinstance(event, BatchFinished) or self._is_due(event.pipeline):
            _write(self._folders[event.pipeline] / STATUS_FILE, changed)

    def _is_due(self, pipeline: str) -> bool:
        """Whether a batch is worth writing: short ones come by the dozen a second."""
        now = _clock.now()
        is_due = now - self._written.get(pipeline, -math.inf) >= _BETWEEN_WRITES
        if is_due:
            self._written[pipeline] = now
        return is_due


def read_status(file: Path) -> PipelineStatus | None:
    """Read one status file; None: it is not there, or no status."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return PipelineStatus(**values)
    except (OSError, ValueError, TypeError):
        return None


def read_statuses(root: Path) -> list[PipelineStatus]:
    """Read all status files below a checkpoint root, by name."""
    found = (read_status(file) for file in root.glob(f"*/{STATUS_FILE}"))
    return sorted((status for status in found if status is not None), key=lambda s: s.pipeline)


def _after(status: PipelineStatus, event: PipelineEvent, now: int) -> PipelineStatus:
    changes: dict[str, Any] = {"updated": now}
    match event:
        case PipelineStarted():
            changes |= {
                "state": "running",
                "reason": "",
                "query_id": event.query_id,
                "restarts": event.restarts,
            }
        case BatchFinished():
            changes |= {
                "batch": event.batch,
                "batch_finished": now,
                "rows": status.rows + event.rows,
                "rows_per_second": round(event.rows_per_second, 1),
                "backlog": event.backlog,
                "dead_letters": status.dead_letters + event.dead_letters,
                "offset": {**status.offset, **event.offset},
            }
        case PipelinePulse():
            changes |= {"backlog": event.backlog if event.backlog is not None else status.backlog}
        case PipelineRestarting():
            changes |= {"state": "restarting", "reason": event.reason}
        case PipelineFailed():
            changes |= {"state": "failed", "reason": event.reason}
        case PipelineDone():
            changes |= {"state": "done"}
        case PipelineDrained():
            unclean = event.failure or "stopped in a batch, which runs again with the next start"
            changes |= {"state": "stopped", "reason": "" if event.is_clean else unclean}
        case PipelineStopped() if status.state in _RUNNING:
            changes |= {"state": "stopped"}
    return replace(status, **changes)


def _write(file: Path, status: PipelineStatus) -> None:
    fresh = file.with_name(f".{STATUS_FILE}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(asdict(status), indent=1) + "\n", encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        logger.warning("The status of pipeline %s is not written: %s", status.pipeline, error)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
