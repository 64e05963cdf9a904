"""The events of pipelines, and the interface of their listeners (log, metrics, health).

Listeners are called one after the other on the runner's loop, in the order of the events; they must
not block. An exception that one raises is logged, and the pipeline continues. No event contains a
body.

Spark's progress reports become events here, without Spark. The latest offset of a source is the
only metric that a Python source can give: it has the backlog and its oldest time, too.
(spark-pipeline 3.3)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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

    def __str__(self) -> str:
        names, ui = ", ".join(self.pipelines), self.ui or "off (spark.ui.enabled)"
        return f"Spark {self.spark} on {self.master} runs {names}; web UI: {ui}"


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

    def __str__(self) -> str:
        flow = f"{self.source} -> {self.sink}"
        return f"Pipeline {self.pipeline} started: {flow}, checkpoint {self.checkpoint}"


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
    oldest: int | None = None
    """When the oldest of them was sent (ms since 1970); None: none remains, or it is unknown."""

    @property
    def offset(self) -> dict[str, int]:
        """The number of the next row of each source."""
        return {source: numbers.stop for source, numbers in self.ranges.items()}

    @property
    def rows_per_second(self) -> float:
        """The messages read per second in this batch."""
        return self.rows / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.phases.items())
        return (
            f"Pipeline {self.pipeline}: batch {self.batch}, {self.rows} messages in "
            f"{self.seconds:.2f} s ({phases}), {self.dead_letters} dead letters, "
            f"{backlog_text(self.backlog)}"
        )


def backlog_text(backlog: int | None) -> str:
    """Return a backlog in words."""
    return "backlog unknown" if backlog is None else f"{backlog} waiting"


@dataclass(frozen=True, slots=True)
class PipelinePulse:
    """A pipeline is alive; reported every ten seconds."""

    pipeline: str
    rows: int
    """Messages read since the last pulse."""
    backlog: int | None
    oldest: int | None = None


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

    def __str__(self) -> str:
        when = f"restart {self.attempt} in {self.delay:.1f} s"
        return f"Pipeline {self.pipeline} failed, {when}: {self.reason}"


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """A pipeline failed for good, and needs attention."""

    pipeline: str
    reason: str
    ranges: Mapping[str, Range]
    """The ranges of the batch that fails, by source; empty: the failure is not due to a batch."""

    def __str__(self) -> str:
        return f"Pipeline {self.pipeline} failed for good: {self.reason}"


@dataclass(frozen=True, slots=True)
class PipelineDrained:
    """A pipeline was stopped on request."""

    pipeline: str
    seconds: float
    is_clean: bool
    """Whether no batch was in progress; an open batch runs again with the next start."""
    failure: str = ""
    """The failure of its query while it was drained, in one line without values; empty: none."""

    def __str__(self) -> str:
        again = "its batch runs again with the next start"
        if self.is_clean:
            return f"Pipeline {self.pipeline} drained in {self.seconds:.1f} s"
        if self.failure:
            return f"Pipeline {self.pipeline} failed while draining: {self.failure}; {again}"
        return (
            f"Pipeline {self.pipeline} was stopped during a batch after {self.seconds:.1f} s "
            f"(spark.drain_timeout); the batch runs again with the next start"
        )


@dataclass(frozen=True, slots=True)
class PipelineDone:
    """A pipeline has processed everything that was available when it started (`--once`)."""

    pipeline: str

    def __str__(self) -> str:
        return f"Pipeline {self.pipeline} has processed everything that was available"


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
    waiting = waiting_of(progress)
    ranges: dict[str, Range] = {}
    for source in progress.sources:
        before, ends = offsets_of(source.startOffset), offsets_of(source.endOffset)
        for queue, (epoch, stop) in ends.items():
            known = before.get(queue)
            if len(ends) > 1 and known in (None, (epoch, stop)):
                continue  # it was not read in this batch
            start = known[1] if known is not None and known[0] == epoch else None
            ranges[queue] = Range(start, stop)
    return BatchFinished(
        pipeline=pipeline,
        batch=progress.batchId,
        rows=_sum_observed(progress, "messages", progress.numInputRows),
        seconds=durations.get("triggerExecution", 0) / 1000,
        phases={name: ms / 1000 for name, ms in durations.items() if name != "triggerExecution"},
        ranges=ranges,
        backlog=waiting.number,
        dead_letters=_sum_observed(progress, "dead_letters", 0),
        oldest=waiting.oldest,
    )


class Waiting(NamedTuple):
    """The messages that remain in the sources (None: unknown), and when the oldest was sent."""

    number: int | None = None
    oldest: int | None = None


def waiting_of(progress: StreamingQueryProgress | None) -> Waiting:
    """Return what remains in the sources; the number is unknown if it is for one of them."""
    latest = [] if progress is None else [_json(each.latestOffset) for each in progress.sources]
    found = {value.get("queue"): value.get("backlog") for value in latest}
    numbers = [number for number in found.values() if isinstance(number, int)]
    if not numbers or len(numbers) < len(found):
        return Waiting()
    times = [value["oldest"] for value in latest if value.get("oldest")]
    oldest = min(map(datetime.fromisoformat, times), default=None)
    return Waiting(sum(numbers), None if oldest is None else round(oldest.timestamp() * 1000))


def _sum_observed(progress: StreamingQueryProgress, field: str, default: int) -> int:
    """Return the sum of a field of the observed metrics."""
    found = [
        row[field]
        for name, row in progress.observedMetrics.items()
        if name.startswith(OBSERVED) and field in row.asDict()
    ]
    return sum(number or 0 for number in found) if found else default


def offsets_of(text: str | None) -> dict[str, tuple[int, int]]:
    """Return the epoch and next number of each queue in an offset of the format `jms`.

    Empty: it is unset, or another format's.
    """
    value = _json(text)
    if {"queue", "epoch", "seq"} <= value.keys():
        return {value["queue"]: (value["epoch"], value["seq"])}
    return {queue: (epoch, seq) for queue, (epoch, seq) in value.get("queues", {}).items()}


def _json(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "null")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
