"""What happens to pipelines, as values, and who is told: one protocol for logs, metrics, health.

Listeners are called one after the other on the runner's loop, in the order of what happened; they
must not block. One that raises is logged, and the pipeline goes on. No event holds a body.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

__all__ = [
    "BatchFinished",
    "PipelineDone",
    "PipelineDrained",
    "PipelineEvent",
    "PipelineFailed",
    "PipelineListener",
    "PipelinePulse",
    "PipelineRestarting",
    "PipelineStarted",
    "PipelineStopped",
    "PipelinesReady",
    "Range",
    "tell",
]

logger = logging.getLogger(__name__)


class Range(NamedTuple):
    """Numbers of a source's rows, from `start` (None: its beginning) to before `stop`."""

    start: int | None
    stop: int

    def __str__(self) -> str:
        return f"{'the beginning' if self.start is None else self.start} to {self.stop - 1}"


@dataclass(frozen=True, slots=True)
class PipelinesReady:
    """Spark is there, and the pipelines are about to start."""

    pipelines: Sequence[str]
    master: str
    spark: str
    """Its version."""
    ui: str | None
    """Where its pages are; None: nowhere."""


@dataclass(frozen=True, slots=True)
class PipelineStarted:
    """A pipeline's query runs, for the first time or again."""

    pipeline: str
    source: str
    sink: str
    checkpoint: str
    query_id: str
    """The same as long as its checkpoint is."""
    restarts: int


@dataclass(frozen=True, slots=True)
class BatchFinished:
    """A batch is done: what it sent is sent, what it read will not come again."""

    pipeline: str
    batch: int
    rows: int
    """Messages read."""
    seconds: float
    phases: Mapping[str, float]
    """Seconds by Spark's names: latestOffset, queryPlanning, addBatch, walCommit ..."""
    ranges: Mapping[str, Range]
    """What was read, by source."""
    backlog: int | None
    """Messages that wait in the sources; None: they do not say."""
    dead_letters: int

    @property
    def offset(self) -> dict[str, int]:
        """The number of the next row of each source."""
        return {source: numbers.stop for source, numbers in self.ranges.items()}

    @property
    def rows_per_second(self) -> float:
        """The messages read in a second of this batch."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class PipelinePulse:
    """A pipeline lives; told each ten seconds."""

    pipeline: str
    rows: int
    """Messages read since the last one."""
    backlog: int | None


@dataclass(frozen=True, slots=True)
class PipelineRestarting:
    """A pipeline's query failed, and will be started again."""

    pipeline: str
    attempt: int
    """Restarts in a row, this one included."""
    delay: float
    """Seconds until then."""
    reason: str
    """What failed, in a line without anybody's values."""


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """A pipeline failed for good: somebody has to look."""

    pipeline: str
    reason: str
    ranges: Mapping[str, Range]
    """The batch that cannot be done, by source; empty: it was not one batch."""


@dataclass(frozen=True, slots=True)
class PipelineDrained:
    """A pipeline was asked to stop and has done so."""

    pipeline: str
    seconds: float
    is_clean: bool
    """Whether no batch was in progress; else it runs again with the next start."""
    failure: str = ""
    """Why its query failed meanwhile, in a line without anybody's values; empty: it did not."""


@dataclass(frozen=True, slots=True)
class PipelineDone:
    """A pipeline has done all that was there when it started (`--once`)."""

    pipeline: str


@dataclass(frozen=True, slots=True)
class PipelineStopped:
    """A pipeline's query does not run any more, however it ended; the last event of each."""

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
    """Is told what happens. Called on the runner's loop; must not block."""

    def on_event(self, event: PipelineEvent, /) -> None:
        """Take one event."""


def tell(listeners: Sequence[PipelineListener], event: PipelineEvent) -> None:
    """Tell all listeners; whoever raises is logged."""
    for listener in listeners:
        try:
            listener.on_event(event)
        except Exception:
            logger.exception("Pipeline listener %r failed at %s", listener, type(event).__name__)
