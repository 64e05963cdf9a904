"""The supervisor of one pipeline: starts its query, restarts it after failures, drains it.

Theory of operation
===================

Everything runs on the runner's loop; blocking calls of Spark run in threads, which are abandoned
when the supervisor is cancelled. States and events:

    state        event                                         next state   reports
    STARTING     the query starts                              RUNNING      PipelineStarted
    STARTING     starting fails                                FAILED or RESTARTING
    RUNNING      a batch is finished                           RUNNING      BatchFinished
    RUNNING      the query fails and can be restarted          RESTARTING   PipelineRestarting
    RUNNING      the query fails for good                      FAILED       PipelineFailed
    RUNNING      the query ends (`once`)                       DONE         PipelineDone
    RUNNING      stop()                                        DRAINING
    RESTARTING   the delay is over                             STARTING
    RESTARTING   stop()                                        STOPPED
    DRAINING     no batch in progress, or the timeout is over  STOPPED      PipelineDrained
    any end                                                                 PipelineStopped

While it runs it reports a PipelinePulse every ten seconds, between restarts too.

Invariants:

- Nothing is skipped: a restarted query continues from its checkpoint and repeats the open batch.
- Whether a failure leads to a restart depends on its kind (`failures`): a lost or full broker is
  retried as long as the back-off allows; an error in a batch is retried until the same batch has
  failed `poison_after` times; configuration errors and the end of Spark are final.
- Draining stops the sources first, through the drain flag, which the runner sets; the query is
  stopped when no batch is in progress. So a clean stop leaves no open batch. After `drain_timeout`
  the batch in progress is killed and runs again with the next start.
- Spark reports batches late, so the end of a query may overtake the report of its last batch: the
  supervisor reads the recent progress once more after the end. Batches are counted by number, so a
  repeated report is counted once.

(spark-pipeline 6.2)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import anyio
from tenacity import RetryCallState, retry_if_exception

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.settings.spark import RestartSettings
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.execution.failures import Failure, classify_failure, find_open_batch
from pyjms.spark.pipeline.execution.restarts import QueryFailedError, Restarts
from pyjms.spark.pipeline.execution.running_query import (
    ignoring_ended,
    is_trigger_active,
    last_progress,
    recent_progress,
    wait_for_end,
)
from pyjms.spark.pipeline.reporting import events
from pyjms.spark.pipeline.reporting.progress import backlog_of, batch_event

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["RunInThread", "Supervisor", "SupervisorContext"]

logger: Final = get_logger(__name__)

T = TypeVar("T")

_PULSE_INTERVAL: Final = 10.0
_SHORT_TRIGGER: Final = 2.0
"""With a trigger interval up to this many seconds, a stop waits for one more trigger, which finds
no new data and makes the source trim the finished messages; otherwise the next start trims them."""
_POLL_INTERVAL: Final = 0.05


class RunInThread(Protocol):
    """Runs a blocking function in a thread, which is abandoned on cancellation."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True)
class SupervisorContext:
    """The context that the supervisors of a runner share."""

    start: Callable[[Pipeline], StreamingQuery]
    """Starts the query of a pipeline. Blocks."""
    notify: Callable[[events.PipelineEvent], None]
    """Reports an event to all listeners."""
    restart: RestartSettings
    drain_timeout: float
    """Seconds that a stop waits for the batch in progress."""
    run_in_thread: RunInThread


class Supervisor:
    """Runs one pipeline, on the runner's loop."""

    def __init__(
        self, pipeline: Pipeline, checkpoint: Path, context: SupervisorContext, *, once: bool
    ) -> None:
        self.pipeline = pipeline
        self.has_failed: bool = False
        self._checkpoint = checkpoint
        self._context = context
        self._once = once
        self._stopping = anyio.Event()
        self._stop_requested: float | None = None
        self._restart_count = 0
        self._last_batch = -1
        self._rows = 0
        self._query: StreamingQuery | None = None
        self._restart_policy = Restarts(context.restart, checkpoint)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.name

    def stop(self) -> None:
        """Make `run` drain the pipeline and return. Call it on the loop; idempotent."""
        if self._stop_requested is None:
            self._stop_requested = _clock.now()
        self._stopping.set()

    async def run(self) -> None:
        """Run the pipeline until it is stopped, is done (`once`), or has failed for good."""
        retrying = self._restart_policy.retrying(
            sleep=self._sleep,
            retry=retry_if_exception(self._should_restart),
            before_sleep=self._report_restart,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pulse)
            try:
                await retrying(self._attempt)
            except QueryFailedError as error:
                self._give_up(error.failure)
            tasks.cancel_scope.cancel()
        self._notify(events.PipelineStopped(self.name))

    def on_progress(self, progress: StreamingQueryProgress) -> None:
        """Process Spark's report of a batch; the same report may come twice."""
        if progress.batchId <= self._last_batch:
            return
        event = batch_event(self.name, progress)
        if not event.phases.get("addBatch") and not event.rows:
            return  # a trigger without new data
        self._last_batch = progress.batchId
        self._rows += event.rows
        self._restart_policy.batch_finished()
        self._notify(event)

    async def _attempt(self) -> None:
        """Run the query until it ends.

        Raises:
            QueryFailedError: it failed, and was not being stopped.
        """
        if self._stopping.is_set():
            return
        try:
            query = await self._context.run_in_thread(lambda: self._context.start(self.pipeline))
        except Exception as error:
            raise QueryFailedError(classify_failure(error, at_start=True)) from None
        self._notify(
            events.PipelineStarted(
                self.name,
                ", ".join(self.pipeline.sources.values()),
                self.pipeline.sink,
                str(self._checkpoint),
                str(query.id),
                self._restart_count,
            )
        )
        self._query, started = query, _clock.now()
        failure = await self._watch(query)
        self._query = None
        await self._read_last_progress(query, started)
        if self._stop_requested is not None:
            await self._report_drained(failure, self._stop_requested)
        elif failure is not None:
            raise QueryFailedError(failure)
        elif self._once:
            self._notify(events.PipelineDone(self.name))

    async def _watch(self, query: StreamingQuery) -> Failure | None:
        """Wait for the end of the query, draining it on request; return its failure."""
        failure: Failure | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._drain_on_request, query)
            failure = await self._context.run_in_thread(lambda: wait_for_end(query))
            tasks.cancel_scope.cancel()
        return failure

    async def _pulse(self) -> None:
        """Report every ten seconds that the pipeline is alive, between restarts too."""
        while True:
            await _clock.sleep(_PULSE_INTERVAL)
            query = self._query
            progress = None
            if query is not None:
                progress = await self._context.run_in_thread(lambda: last_progress(query))  # noqa: B023
            rows, self._rows = self._rows, 0
            backlog = None if progress is None else backlog_of(progress)
            self._notify(events.PipelinePulse(self.name, rows, backlog))

    async def _drain_on_request(self, query: StreamingQuery) -> None:
        """Wait for the batch in progress, up to the drain timeout, then stop the query."""
        await self._stopping.wait()
        with _clock.timeout(self._context.drain_timeout):
            await self._until_idle(query)
        with anyio.CancelScope(shield=True):
            await self._context.run_in_thread(lambda: ignoring_ended(query.stop))

    async def _until_idle(self, query: StreamingQuery) -> None:
        """Wait until no batch is in progress; the sources report no new data by now."""
        if self._once:
            await self._context.run_in_thread(lambda: ignoring_ended(query.awaitTermination))
        elif self.pipeline.trigger <= _SHORT_TRIGGER:
            await self._context.run_in_thread(lambda: ignoring_ended(query.processAllAvailable))
        else:
            while await self._context.run_in_thread(lambda: is_trigger_active(query)):
                await _clock.sleep(_POLL_INTERVAL)

    async def _read_last_progress(self, query: StreamingQuery, started: float) -> None:
        """Process reports of batches that arrive only after the end of the query."""
        recent = await self._context.run_in_thread(lambda: recent_progress(query))
        for progress in recent:
            self.on_progress(progress)
        if recent:  # an idle query has progress; one that never reached its broker has none
            self._restart_policy.query_ran_for(_clock.now() - started)

    async def _report_drained(self, failure: Failure | None, requested: float) -> None:
        if failure is not None:
            logger.warning(
                "Pipeline %s failed while it was being stopped: %s", self.name, failure.detail
            )
        is_open = (
            await self._context.run_in_thread(lambda: find_open_batch(self._checkpoint)) is not None
        )
        seconds = _clock.now() - requested
        reason = "" if failure is None else failure.reason
        is_clean = failure is None and not is_open
        self._notify(events.PipelineDrained(self.name, seconds, is_clean, reason))

    def _should_restart(self, error: BaseException) -> bool:
        if not isinstance(error, QueryFailedError) or self._stopping.is_set():
            return False
        return self._restart_policy.should_restart(error.failure)

    def _give_up(self, failure: Failure) -> None:
        if self._stopping.is_set():
            return
        self.has_failed = True
        logger.error("Pipeline %s: %s", self.name, failure.detail)
        self._notify(events.PipelineFailed(self.name, *self._restart_policy.final_failure(failure)))

    def _report_restart(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, QueryFailedError) or state.next_action is None:
            return
        self._restart_count += 1
        logger.warning("Pipeline %s: %s", self.name, error.failure.detail)
        event = events.PipelineRestarting(
            self.name, self._restart_policy.in_a_row, state.next_action.sleep, error.failure.reason
        )
        self._notify(event)

    async def _sleep(self, seconds: float) -> None:
        with _clock.timeout(seconds):
            await self._stopping.wait()

    def _notify(self, event: events.PipelineEvent) -> None:
        self._context.notify(event)
