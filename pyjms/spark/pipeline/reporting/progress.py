"""Spark's progress reports as events. Needs no Spark.

The backlog is the only metric that a Python source provides: its latest offset minus the end of the
batch. (spark-pipeline 3.3)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyjms.spark.pipeline.reporting.events import BatchFinished, Range

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

__all__ = ["backlog_of", "batch_event"]

OBSERVED: Final = "pyjms"
"""The prefix of the observed metrics of a pipeline: `messages` read, `dead_letters` among them."""


def batch_event(pipeline: str, progress: StreamingQueryProgress) -> BatchFinished:
    """Return the event for a finished batch."""
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


def backlog_of(progress: StreamingQueryProgress) -> int | None:
    """Return the number of messages that remain in the sources; None: unknown for one of them."""
    waiting: dict[str, int] = {}
    for source in progress.sources:
        end, latest = _offset(source.endOffset), _offset(source.latestOffset)
        if end is None or latest is None or end["epoch"] != latest["epoch"]:
            return None
        waiting[end["queue"]] = max(0, latest["seq"] - end["seq"])
    return sum(waiting.values()) if waiting else None


def _observed(progress: StreamingQueryProgress, field: str, default: int) -> int:
    """Return the sum of a field of the observed metrics."""
    found = [
        row[field]
        for name, row in progress.observedMetrics.items()
        if name.startswith(OBSERVED) and field in row.asDict()
    ]
    return sum(number or 0 for number in found) if found else default


def _start(text: str | None, epoch: int) -> int | None:
    start = _offset(text)
    return start["seq"] if start is not None and start["epoch"] == epoch else None


def _offset(text: str | None) -> dict[str, Any] | None:
    """Return an offset of the format `jms`; None if it is unset, or of another format."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    is_ours = isinstance(value, dict) and {"queue", "epoch", "seq"} <= value.keys()
    return value if is_ours else None
