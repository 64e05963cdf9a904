"""What Spark says of a batch, read as one of our events. Needs no Spark.

Backlog is the only measure that a Python source gives: what it could read less what was read.
(spark-pipeline 3.3)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from pyjms.spark.pipeline.reporting.events import BatchFinished, Range

__all__ = ["Progress", "Source", "backlog_of", "batch_event"]

OBSERVED: Final = "pyjms"
"""How the names of our observed metrics begin."""


class Source(Protocol):
    """Part of pyspark's SourceProgress. Offsets are JSON; None or 'null': there is none yet."""

    @property
    def startOffset(self) -> str | None: ...
    @property
    def endOffset(self) -> str | None: ...
    @property
    def latestOffset(self) -> str | None: ...


class Progress(Protocol):
    """Part of pyspark's StreamingQueryProgress."""

    @property
    def name(self) -> str | None: ...
    @property
    def runId(self) -> Any: ...
    @property
    def batchId(self) -> int: ...
    @property
    def numInputRows(self) -> int: ...
    @property
    def durationMs(self) -> Mapping[str, int]: ...
    @property
    def sources(self) -> Sequence[Source]: ...
    @property
    def observedMetrics(self) -> Mapping[str, Any]: ...


def batch_event(pipeline: str, progress: Progress) -> BatchFinished:
    """Return the batch that a progress tells of."""
    durations = progress.durationMs
    ranges: dict[str, Range] = {}
    for source in progress.sources:
        end = _offset(source.endOffset)
        if end is not None:
            ranges[end["queue"]] = Range(_start(source.startOffset, end["epoch"]), end["seq"])
    return BatchFinished(
        pipeline=pipeline,
        batch=progress.batchId,
        rows=_observed(progress, "messages", progress.numInputRows),
        seconds=durations.get("triggerExecution", 0) / 1000,
        phases={name: ms / 1000 for name, ms in durations.items() if name != "triggerExecution"},
        ranges=ranges,
        backlog=backlog_of(progress),
        dead_letters=_observed(progress, "dead_letters", 0),
    )


def backlog_of(progress: Progress) -> int | None:
    """Return how many messages wait in the sources; None: one of them does not say."""
    waiting: dict[str, int] = {}
    for source in progress.sources:
        end, latest = _offset(source.endOffset), _offset(source.latestOffset)
        if end is None or latest is None or end["epoch"] != latest["epoch"]:
            return None
        waiting[end["queue"]] = max(0, latest["seq"] - end["seq"])
    return sum(waiting.values()) if waiting else None


def _observed(progress: Progress, field: str, otherwise: int) -> int:
    """Return the sum of a field of our observed metrics."""
    found = [
        row[field]
        for name, row in progress.observedMetrics.items()
        if name.startswith(OBSERVED) and field in row.asDict()
    ]
    return sum(number or 0 for number in found) if found else otherwise


def _start(text: str | None, epoch: int) -> int | None:
    start = _offset(text)
    return start["seq"] if start is not None and start["epoch"] == epoch else None


def _offset(text: str | None) -> dict[str, Any] | None:
    """Read an offset of the format `jms`; None: it is another format's, or none."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    is_ours = isinstance(value, dict) and {"queue", "epoch", "seq"} <= value.keys()
    return value if is_ours else None
