"""The log of pipelines: each batch at DEBUG, a summary every half minute at INFO.

It contains names, numbers and reasons only; the full text of a failure, with its traceback, is
logged by the supervisor.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.spark.pipeline.reporting import events

__all__ = ["PipelineLog"]

logger: Final = get_logger(__name__)

_SUMMARY_INTERVAL: Final = 30.0


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
        match event:
            case events.PipelinesReady():
                logger.info(
                    "Spark %s on %s runs %s; web UI: %s",
                    event.spark,
                    event.master,
                    ", ".join(event.pipelines),
                    event.ui or "off (spark.ui.enabled)",
                )
            case events.PipelineStarted():
                logger.info(
                    "Pipeline %s started: %s -> %s, checkpoint %s",
                    event.pipeline,
                    event.source,
                    event.sink,
                    event.checkpoint,
                )
            case events.BatchFinished():
                self._batch(event)
            case events.PipelinePulse():
                self._summary(event.pipeline)
            case events.PipelineRestarting():
                logger.warning(
                    "Pipeline %s failed, restart %d in %.1f s: %s",
                    event.pipeline,
                    event.attempt,
                    event.delay,
                    event.reason,
                )
            case events.PipelineFailed():
                logger.error("Pipeline %s failed for good: %s", event.pipeline, event.reason)
            case events.PipelineDrained():
                self._drained(event)
            case events.PipelineDone():
                logger.info(
                    "Pipeline %s has processed everything that was available", event.pipeline
                )
            case events.PipelineStopped():
                self._summary(event.pipeline, last=True)

    def _batch(self, event: events.BatchFinished) -> None:
        total = self._sums.setdefault(event.pipeline, _Totals(_clock.now()))
        total.batches += 1
        total.rows += event.rows
        total.dead_letters += event.dead_letters
        total.seconds += event.seconds
        total.backlog = event.backlog
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "Pipeline %s: batch %d, %d messages in %.2f s (%s), %d dead letters, %s",
                event.pipeline,
                event.batch,
                event.rows,
                event.seconds,
                ", ".join(f"{name} {seconds:.2f}" for name, seconds in event.phases.items()),
                event.dead_letters,
                _waiting(event.backlog),
            )
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
            _waiting(total.backlog),
        )

    @staticmethod
    def _drained(event: events.PipelineDrained) -> None:
        if event.is_clean:
            logger.info("Pipeline %s drained in %.1f s", event.pipeline, event.seconds)
        elif event.failure:
            logger.warning(
                "Pipeline %s failed while draining: %s; its batch runs again with the next start",
                event.pipeline,
                event.failure,
            )
        else:
            logger.warning(
                "Pipeline %s was stopped during a batch after %.1f s (spark.drain_timeout); "
                "the batch runs again with the next start",
                event.pipeline,
                event.seconds,
            )


def _waiting(backlog: int | None) -> str:
    return "backlog unknown" if backlog is None else f"{backlog} waiting"
