"""Keeps one pipeline running: starts its query, starts it again when it failed, drains it.

All on the runner's loop; what blocks is called in threads. Nothing is ever skipped.
(spark-pipeline 6.2)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
from tenacity import RetryCallState, retry_if_exception

from pyjms import _clock
from pyjms.settings.spark import RestartSettings
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.execution.failures import Failure, classify_failure, find_open_batch
from pyjms.spark.pipeline.execution.restarts import QueryFailedError, Restarts
from pyjms.spark.pipeline.execution.running_query import (
    Query,
    ignoring_ended,
    is_trigger_active,
    last_progress,
    recent_progress,
    wait_for_end,
)
from pyjms.spark.pipeline.reporting.events import (
    PipelineDone,
    PipelineDrained,
    PipelineEvent,
    PipelineFailed,
    PipelinePulse,
    PipelineRestarting,
    PipelineStarted,
    PipelineStopped,
)
from pyjms.spark.pipeline.reporting.progress import Progress, backlog_of, batch_event

__all__ = ["Call", "Supervisor", "SupervisorContext"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PULSE: Final = 10.0
_SHORT_TRIGGER: Final = 2.0
"""Up to this many seconds, a stop waits for one more trigger, which finds nothing new and has the
source remove what is done; else that is removed with the next start."""
_BETWEEN_LOOKS: Final = 0.05


class Call(Protocol):
    """Runs what blocks, in a thread; given up when cancelled."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True)
class SupervisorContext:
    """What supervisors share."""

    start: Callable[[Pipeline], Query]
    """Starts a pipeline's query. Blocks."""
    tell: Callable[[PipelineEvent], None]
    restart: RestartSettings
    drain_timeout: float
    call: Call


class Supervisor:
    """One pipeline's life, on the runner's loop."""

    def __init__(
        self, pipeline: Pipeline, checkpoint: Path, surroundings: SupervisorContext, *, once: bool
    ) -> None:
        self.pipeline = pipeline
        self.has_failed = False
        self._checkpoint = checkpoint
        self._around = surroundings
        self._once = once
        self._stopping = anyio.Event()
        self._stop_asked: float | None = None
        self._restarts = 0
        self._batch_seen = -1
        self._rows = 0
        self._query: Query | None = None
        self._failures = Restarts(surroundings.restart, checkpoint)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.name

    def stop(self) -> None:
        """Have `run` drain the pipeline and return. Call it on the loop. Idempotent."""
        if self._stop_asked is None:
            self._stop_asked = _clock.now()
        self._stopping.set()

    async def run(self) -> None:
        """Run the pipeline until it is stopped, has done all (`once`), or failed for good."""
        retrying = self._failures.retrying(
            sleep=self._sleep,
            retry=retry_if_exception(self._is_worth_a_restart),
            before_sleep=self._tell_restart,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pulse)
            try:
                await retrying(self._attempt)
            except QueryFailedError as error:
                self._give_up(error.failure)
            tasks.cancel_scope.cancel()
        self._tell(PipelineStopped(self.name))

    def on_progress(self, progress: Progress) -> None:
        """Take what Spark says of a batch; the same may come twice."""
        if progress.batchId <= self._batch_seen:
            return
        event = batch_event(self.name, progress)
        if not event.phases.get("addBatch") and not event.rows:
            return  # it looked for news and found none
        self._batch_seen = progress.batchId
        self._rows += event.rows
        self._failures.batch_finished()
        self._tell(event)

    async def _attempt(self) -> None:
        """Run the query until it ends. Raises: it failed."""
        if self._stopping.is_set():
            return
        try:
            query = await self._around.call(lambda: self._around.start(self.pipeline))
        except Exception as error:
            raise QueryFailedError(classify_failure(error, at_start=True)) from None
        self._tell(
            PipelineStarted(
                self.name,
                ", ".join(self.pipeline.sources.values()),
                self.pipeline.sink,
                str(self._checkpoint),
                str(query.id),
                self._restarts,
            )
        )
        self._query, begun = query, _clock.now()
        failure = await self._watch(query)
        self._query = None
        await self._catch_up(query, begun)
        if self._stop_asked is not None:
            await self._tell_drained(failure, self._stop_asked)
        elif failure is not None:
            raise QueryFailedError(failure)
        elif self._once:
            self._tell(PipelineDone(self.name))

    async def _watch(self, query: Query) -> Failure | None:
        """Wait for the end of the query; drain it when asked. Return why it failed."""
        failure: Failure | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._drain_when_asked, query)
            failure = await self._around.call(lambda: wait_for_end(query))
            tasks.cancel_scope.cancel()
        return failure

    async def _pulse(self) -> None:
        """Tell each ten seconds that the pipeline lives, between restarts, too."""
        while True:
            await _clock.sleep(_PULSE)
            query = self._query
            progress = None
            if query is not None:
                progress = await self._around.call(lambda: last_progress(query))  # noqa: B023
            rows, self._rows = self._rows, 0
            backlog = None if progress is None else backlog_of(progress)
            self._tell(PipelinePulse(self.name, rows, backlog))

    async def _drain_when_asked(self, query: Query) -> None:
        """Let the batch in progress end, then stop; at the latest after the drain time-out."""
        await self._stopping.wait()
        with _clock.timeout(self._around.drain_timeout):
            await self._until_idle(query)
        with anyio.CancelScope(shield=True):
            await self._around.call(lambda: ignoring_ended(query.stop))

    async def _until_idle(self, query: Query) -> None:
        """Wait until no batch is in progress. The sources give nothing new by now."""
        if self._once:
            await self._around.call(lambda: ignoring_ended(query.awaitTermination))
        elif self.pipeline.trigger <= _SHORT_TRIGGER:
            await self._around.call(lambda: ignoring_ended(query.processAllAvailable))
        else:
            while await self._around.call(lambda: is_trigger_active(query)):
                await _clock.sleep(_BETWEEN_LOOKS)

    async def _catch_up(self, query: Query, begun: float) -> None:
        """Take what the end of the query overtook: Spark tells of batches a little later."""
        recent = await self._around.call(lambda: recent_progress(query))
        for progress in recent:
            self.on_progress(progress)
        if recent:  # an idle one says so; one that never got to its broker has said nothing
            self._failures.query_ran_for(_clock.now() - begun)

    async def _tell_drained(self, failure: Failure | None, begun: float) -> None:
        if failure is not None:
            logger.warning("Pipeline %s failed while it ended: %s", self.name, failure.detail)
        is_open = await self._around.call(lambda: find_open_batch(self._checkpoint)) is not None
        seconds = _clock.now() - begun
        reason = "" if failure is None else failure.reason
        is_clean = failure is None and not is_open
        self._tell(PipelineDrained(self.name, seconds, is_clean, reason))

    def _is_worth_a_restart(self, error: BaseException) -> bool:
        if not isinstance(error, QueryFailedError) or self._stopping.is_set():
            return False
        return self._failures.should_restart(error.failure)

    def _give_up(self, failure: Failure) -> None:
        if self._stopping.is_set():
            return
        self.has_failed = True
        logger.error("Pipeline %s: %s", self.name, failure.detail)
        self._tell(PipelineFailed(self.name, *self._failures.final_failure(failure)))

    def _tell_restart(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, QueryFailedError) or state.next_action is None:
            return
        self._restarts += 1
        logger.warning("Pipeline %s: %s", self.name, error.failure.detail)
        event = PipelineRestarting(
            self.name, self._failures.in_a_row, state.next_action.sleep, error.failure.reason
        )
        self._tell(event)

    async def _sleep(self, seconds: float) -> None:
        with _clock.timeout(seconds):
            await self._stopping.wait()

    def _tell(self, event: PipelineEvent) -> None:
        self._around.tell(event)
