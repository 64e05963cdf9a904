"""The events of pipelines, and the interface of their listeners (log, metrics, health).

Listeners are called one after the other on the runner's loop, in the order of the events; they must
not block. An exception that one raises is logged, and the pipeline continues. No event contains a
body.

Spark's progress reports become events here, without Spark. The backlog is the only metric that a
Python source provides: its latest offset minus the end of the batch. (spark-pipeline 3.3)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from pyjms.runtime.logging import get_logger

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

logger: Final = get_logger(__name__)


class Range(NamedTuple):
    """A range of row numbers of a source, from `start` (None: its beginning) to before `stop`."""

    start: int | None
    stop: int

    def __str__(self) -> str:
        return f"{'the beginning' if self.start is None else self.start} to {self.stop - 1}"


@dataclass(frozen=True, slots=True)
class PipelinesReady:
    """Spark is running, and the pipelines are about to start."""

    pipelines: Sequence[str]
    master: str
    spark: str
    """The version of Spark."""
    ui: str | None
    """The URL of its web UI; None: it is off."""


@dataclass(frozen=True, slots=True)
class PipelineStarted:
    """The query of a pipeline was started or restarted."""

    pipeline: str
    source: str
    sink: str
    checkpoint: str
    query_id: str
    """The id of the query, which belongs to the checkpoint."""
    restarts: int


@dataclass(frozen=True, slots=True)
class BatchFinished:
    """A batch is finished: its result is sent, and its messages will not be read again."""

    pipeline: str
    batch: int
    rows: int
    """The number of messages that were read."""
    seconds: float
    phases: Mapping[str, float]
    """Seconds by phase, as named by Spark: latestOffset, queryPlanning, addBatch, walCommit ..."""
    ranges: Mapping[str, Range]
    """The rows that were read, by source."""
    backlog: int | None
    """Messages that remain in the sources; None: unknown."""
    dead_letters: int

    @property
    def offset(self) -> dict[str, int]:
        """The number of the next row of each source."""
        return {source: numbers.stop for source, numbers in self.ranges.items()}

    @property
    def rows_per_second(self) -> float:
        """The messages read per second in this batch."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class PipelinePulse:
    """A pipeline is alive; reported every ten seconds."""

    pipeline: str
    rows: int
    """Messages read since the last pulse."""
    backlog: int | None


@dataclass(frozen=True, slots=True)
class PipelineRestarting:
    """The query of a pipeline failed, and will be restarted."""

    pipeline: str
    attempt: int
    """The number of successive restarts, including this one."""
    delay: float
    """Seconds until the restart."""
    reason: str
    """The failure, in one line without values of messages."""


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """A pipeline failed for good, and needs attention."""

    pipeline: str
    reason: str
    ranges: Mapping[str, Range]
    """The ranges of the batch that fails, by source; empty: the failure is not due to a batch."""


@dataclass(frozen=True, slots=True)
class PipelineDrained:
    """A pipeline was stopped on request."""

    pipeline: str
    seconds: float
    is_clean: bool
    """Whether no batch was in progress; an open batch runs again with the next start."""
    failure: str = ""
    """The failure of its query while it was drained, in one line without values; empty: none."""


@dataclass(frozen=True, slots=True)
class PipelineDone:
    """A pipeline has processed everything that was available when it started (`--once`)."""

    pipeline: str


@dataclass(frozen=True, slots=True)
class PipelineStopped:
    """A pipeline has ended, for whatever reason; the last event of each pipeline."""

    pipeline: str


PipelineEvent: TypeAlias = (
    PipelinesReady
    | PipelineStarted
    | BatchFinished
    | PipelinePulse
    | PipelineRestarting
    | PipelineFailed
    | PipelineDrained
    | PipelineDone
    | PipelineStopped
)


class PipelineListener(Protocol):
    """Receives the events of pipelines, on the runner's loop; must not block."""

    def on_event(self, event: PipelineEvent, /) -> None:
        """Process an event."""


def notify(listeners: Sequence[PipelineListener], event: PipelineEvent) -> None:
    """Pass an event to all listeners; log the exceptions that they raise."""
    for listener in listeners:
        try:
            listener.on_event(event)
        except Exception:
            logger.exception("Pipeline listener %r failed at %s", listener, type(event).__name__)


OBSERVED: Final = "pyjms"
"""The prefix of the observed metrics of a pipeline: `messages` read, `dead_letters` among them."""


def batch_event(pipeline: str, progress: StreamingQueryProgress) -> BatchFinished:
    """Return the event for a finished batch."""
    durations = progress.durationMs
    ranges: dict[str, Range] = {}
    for source in progress.sources:
        end = offset_of(source.endOffset)
        if end is not None:
            ranges[end["queue"]] = Range(_start(source.startOffset, end["epoch"]), end["seq"])
    return BatchFinished(
        pipeline=pipeline,
        batch=progress.batchId,
        rows=_sum_observed(progress, "messages", progress.numInputRows),
        seconds=durations.get("triggerExecution", 0) / 1000,
        phases={name: ms / 1000 for name, ms in durations.items() if name != "triggerExecution"},
        ranges=ranges,
        backlog=backlog_of(progress),
        dead_letters=_sum_observed(progress, "dead_letters", 0),
    )


def backlog_of(progress: StreamingQueryProgress) -> int | None:
    """Return the number of messages that remain in the sources; None: unknown for one of them."""
    waiting: dict[str, int] = {}
    for source in progress.sources:
        end, latest = offset_of(source.endOffset), offset_of(source.latestOffset)
        if end is None or latest is None or end["epoch"] != latest["epoch"]:
            return None
        waiting[end["queue"]] = max(0, latest["seq"] - end["seq"])
    return sum(waiting.values()) if waiting else None


def _sum_observed(progress: StreamingQueryProgress, field: str, default: int) -> int:
    """Return the sum of a field of the observed metrics."""
    found = [
        row[field]
        for name, row in progress.observedMetrics.items()
        if name.startswith(OBSERVED) and field in row.asDict()
    ]
    return sum(number or 0 for number in found) if found else default


def _start(text: str | None, epoch: int) -> int | None:
    start = offset_of(text)
    return start["seq"] if start is not None and start["epoch"] == epoch else None


def offset_of(text: str | None) -> dict[str, Any] | None:
    """Return the fields of an offset of the format `jms`; None: it is unset, or another one's."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    is_ours = isinstance(value, dict) and {"queue", "epoch", "seq"} <= value.keys()
    return value if is_ours else None
