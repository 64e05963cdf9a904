"""Running pipelines: one Spark session, a supervisor per pipeline, signals, and a clean stop.

Theory of operation
===================

`PipelineRunner` starts Spark, or takes a session, and a `Supervisor` for each pipeline, which
starts the pipeline's query, restarts it after failures and drains it. Everything runs on the
runner's loop; blocking calls of Spark run in threads, which are abandoned when a supervisor is
cancelled. SIGTERM and SIGINT drain: the sources report no new data, batches in progress finish, and
queries stop; a second signal ends the process at once. States of a supervisor, and events:

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
- Whether a failure leads to a restart depends on its kind (`FailureKind`): a lost or full broker is
  retried as long as the back-off allows; an error in a batch is retried until the same batch has
  failed `poison_after` times; configuration errors and the end of Spark are final. The delays are
  reset after each finished batch, and after a query that ran for some minutes (an idle query has no
  batches).
- Draining stops the sources first, through the drain flag, which the runner sets; the query is
  stopped when no batch is in progress. So a clean stop leaves no open batch. After `drain_timeout`
  the batch in progress is killed and runs again with the next start.
- What happens is told by Spark's listener (`listener`): batches, idleness, and the end, which it
  tells after the last batch. The reason of the end is what `awaitTermination` raises, also when all
  of Spark has ended, which no listener tells; the supervisor then waits for the listener's last
  report. Batches are counted by number, so a repeated report is counted once.
- A query may end at any moment: failures of other calls because it has ended are ignored.
- Spark ends a query at any error, with the Python traceback in its text. Such a text may contain
  values of messages, so only texts of pyjms and the names of errors become part of a reason, which
  is shown in the status.

(spark-pipeline 3.6, 6.2)
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio
import anyio.to_thread

from pyjms.errors import (
    ConfigurationException,
    ConnectionClosedException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.backoff import ExponentialBackOff
from pyjms.runtime.event_loop import LoopHandle, loop_options, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.signals import stop_on_signals
from pyjms.settings import PyjmsSettings, SparkSettings
from pyjms.settings.spark import RestartSettings
from pyjms.spark import events
from pyjms.spark.checkpoint import PipelineLocation, find_open_batch
from pyjms.spark.checks import (
    BrokerLocation,
    broker_of,
    choose_pipelines,
    find_problems,
    uses_embedded_broker,
)
from pyjms.spark.drain import cleared_drain_flag, set_drain_flag
from pyjms.spark.gateway import jvm_is_running, make_session_active
from pyjms.spark.pipeline import Pipeline
from pyjms.spark.reports import PipelineHealth, PipelineLog, StatusFiles
from pyjms.spark.session import spark_session
from pyjms.support.embedded_broker import embedded_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger: Final = get_logger(__name__)

T = TypeVar("T")

_LINE: Final = re.compile(r"^(?:\S*: )?(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (.+)$", re.MULTILINE)
_PYJMS_ERROR: Final = re.compile(r"\bpyjms\.[\w.]+\.([A-Z]\w*): (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_BROKER: Final = re.compile(
    r"\bpyjms\.[\w.]+\.(?:ConnectionFailedException|ConnectionClosedException|"
    r"RequestTimeoutException|RangesRefused|ResourceAllocationException)\b"
)
"""The last one means a full broker: sending fails until messages are consumed."""
_LOST_WORKER: Final = re.compile(
    r"ExecutorLostFailure[^\n]*|Python worker (?:exited unexpectedly|failed to connect back)[^\n]*"
    r"|SocketTimeoutException: Accept timed out"
)
"""Spark's sentences about a process that has ended, or is slow to start: not the batch's fault."""
_FINAL: Final = re.compile(
    r"\bpyjms\.[\w.]+\.(?:ConfigurationException|JMSSecurityException)\b|"
    r"\bpyjms\.[\w.]+\.LeaseReplaced\b|"
    r"\bpyjms\.[\w.]+\.IllegalStateException: .*(?:failOnDataLoss|checkpoint|spool)"
)
_INVALID_MESSAGE: Final = re.compile(
    r"\[USER_RAISED_EXCEPTION\]\s+"
    r"(Pipeline [\w.-]+: message seq (?:-?\d+|null) \(.*?; dead_letter is `fail`)",
    re.DOTALL,
)
"""The error that `dead_letter: fail` causes in Spark (`schema.parsing`); the plan, which follows in
the text, contains only its pattern."""
_SPARK_ENDED: Final = re.compile(
    r"SparkContext was (?:stopped|shut down)|stopped SparkContext|SparkSession was stopped"
)
_SPARK_ENDED_TYPES: Final = frozenset(("Py4JNetworkError", "ConnectionRefusedError", "Py4JError"))
_FINAL_TYPES: Final = frozenset(("AnalysisException", "ParseException"))
_TAIL: Final = re.compile(r"=== Streaming Query ===|JVM stacktrace:|^\tat ", re.MULTILINE)
_CAUSE: Final = re.compile(r"^Caused by: .+$", re.MULTILINE)
_TRACE: Final = "Traceback (most recent call last)"
_REASON_LENGTH: Final = 300


class FailureKind(Enum):
    """The kinds of failures, by what to do about them."""

    BROKER = "broker"
    """The broker or a worker was lost, or the broker is full: retry as the back-off allows."""
    BATCH = "batch"
    """A problem of the batch: retry, and give up if the same batch fails repeatedly."""
    FINAL = "final"
    """Another attempt would fail the same way."""
    SPARK_ENDED = "spark ended"
    """Spark itself has ended."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that ended a query."""

    kind: FailureKind
    reason: str
    """One line without values of messages, for status and events."""
    detail: str
    """Spark's text for the log: with the Python traceback, without the plan."""


def classify_failure(error: BaseException, *, at_start: bool = False) -> Failure:
    """Classify an error that a query raised. Blocks, as its text may be in the JVM.

    `at_start`: the query has not run yet; errors of Python code at that time, for example of the
    pipeline's function, would be raised again by the next attempt.
    """
    try:
        detail = str(error)
    except Exception as second:  # the text is in the JVM, which may have ended
        detail = f"{type(error).__name__} (its text is unavailable: {type(second).__name__})"
    kind = _kind(error, detail)
    if at_start and kind is FailureKind.BATCH and type(error).__name__ != "Py4JJavaError":
        kind = FailureKind.FINAL
    reason = _reason(error, detail)
    if kind is FailureKind.SPARK_ENDED:
        reason = f"Spark has ended: {reason}"
    return Failure(kind, reason, _without_plan(detail))


def _kind(error: BaseException, detail: str) -> FailureKind:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    has_ended = (
        _SPARK_ENDED_TYPES & kinds and "Py4JJavaError" not in kinds
    )  # an exception from Java: the JVM is running
    if has_ended or _SPARK_ENDED.search(detail):
        return FailureKind.SPARK_ENDED
    if _is_final(error) or _FINAL.search(detail) or _INVALID_MESSAGE.search(detail):
        return FailureKind.FINAL
    if isinstance(error, JMSException) or _BROKER.search(detail) or _LOST_WORKER.search(detail):
        return FailureKind.BROKER
    # in a running query, Spark may wrap an error of a data source in one of these
    if _FINAL_TYPES & kinds and "PYTHON_DATA_SOURCE" not in detail:
        return FailureKind.FINAL
    return FailureKind.BATCH


def _without_plan(detail: str) -> str:
    """Return Spark's text without the plan and the JVM's stack trace, except for its causes."""
    text, *rest = _TAIL.split(detail, maxsplit=1)
    causes = [] if _TRACE in text else dict.fromkeys(_CAUSE.findall("".join(rest)))
    return "\n".join([text.rstrip(), *causes])


def _is_final(error: BaseException) -> bool:
    """Return whether it is a permanent error that was raised in this process."""
    return isinstance(
        error, ConfigurationException | IllegalStateException | JMSSecurityException
    ) and not isinstance(error, ConnectionClosedException)


def _reason(error: BaseException, detail: str) -> str:
    if isinstance(error, JMSException):
        return _short(detail)
    invalid = _INVALID_MESSAGE.search(detail)
    if invalid is not None:
        return _short(invalid[1])
    own = _PYJMS_ERROR.findall(detail)
    if own:
        return _short(own[-1][1])
    lost = _LOST_WORKER.search(detail)
    if lost is not None:
        return _short(lost[0])
    conditions = list(dict.fromkeys(_CONDITION.findall(detail)))
    raised = [name for name, _ in _LINE.findall(detail) if name.endswith(("Error", "Exception"))]
    named = [*conditions, *raised[-1:]] or [type(error).__name__]
    return _short(", ".join(dict.fromkeys(named)))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _REASON_LENGTH else line[: _REASON_LENGTH - 3] + "..."


_HEALTHY_AFTER: Final = 300.0
"""Seconds after which a running query counts as healthy, with or without messages."""


class Restarts:
    """Counts the failures of one pipeline, and decides about restarts."""

    def __init__(self, settings: RestartSettings, checkpoint: Path) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._poisoned_batch = -1
        self._poison_failures = 0
        self._back_off = ExponentialBackOff(
            settings.initial_interval,
            settings.multiplier,
            max_interval=settings.max_interval,
            max_attempts=settings.max_attempts,
        )
        self._delays = self._back_off.start()
        self.in_a_row = 0
        """Restarts since a batch was finished, or a query was healthy."""

    def reset(self) -> None:
        """Start again with the shortest delay, since a batch was finished."""
        if self.in_a_row:
            self._delays = self._back_off.start()
            self.in_a_row = 0

    def next_delay(self, failure: Failure) -> float | None:
        """Count a failure and return the seconds until the next attempt; None: give up."""
        is_batch = failure.kind is FailureKind.BATCH
        if self._is_poisoned() if is_batch else failure.kind is not FailureKind.BROKER:
            return None
        self.in_a_row += 1
        return self._delays.next_back_off()

    def final_event(self, pipeline: str, failure: Failure) -> events.PipelineFailed:
        """Return the event that says why the pipeline is given up, and in which batch."""
        batch = find_open_batch(self._checkpoint)
        if failure.kind is not FailureKind.BATCH or batch is None:
            return events.PipelineFailed(pipeline, failure.reason, {})
        what = "; ".join(f"{queue} {numbers}" for queue, numbers in batch.ranges.items())
        reason = (
            f"batch {batch.number} failed {self._poison_failures} times and is not skipped "
            f"(message numbers: {what or 'none'}): {failure.reason}"
        )
        return events.PipelineFailed(pipeline, reason, batch.ranges)

    def _is_poisoned(self) -> bool:
        """Count a failure of the open batch, and return whether it has reached the limit."""
        batch = find_open_batch(self._checkpoint)
        if batch is None:
            return False
        if batch.number != self._poisoned_batch:
            self._poisoned_batch, self._poison_failures = batch.number, 0
        self._poison_failures += 1
        return self._poison_failures >= self._settings.poison_after


_PULSE_INTERVAL: Final = 10.0
_SHORT_TRIGGER: Final = 2.0
"""With a trigger interval up to this many seconds, a stop waits for one more trigger, which finds
no new data and makes the source trim the finished messages; otherwise the next start trims them."""
_POLL_INTERVAL: Final = 0.05
_LAST_REPORT_TIMEOUT: Final = 5.0
"""Seconds to wait for the listener's last report, which Spark drops if it has too many."""
_START_POLL_INTERVAL: Final = 0.5
_IDLE: Final = ("Waiting", "Stopped", "Terminated")
"""What the status of a query begins with when it has no batch to finish."""


class RunInThread(Protocol):
    """Runs a blocking function in a thread, which is abandoned on cancellation."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function in a thread, which is abandoned on cancellation.

    Each running pipeline occupies a thread, so the usual limit of threads does not apply.
    """
    return await anyio.to_thread.run_sync(
        function, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(math.inf)
    )


class Supervisor:
    """Runs one pipeline, on the runner's loop.

    Args:
        pipeline: the pipeline.
        checkpoint: the folder of its checkpoint.
        settings: the drain timeout, and the delays of restarts.
        start: starts the query of a pipeline. Blocks.
        notify: reports an event to all listeners.
        once: whether the query ends by itself when everything available is processed.
        in_thread: runs blocking calls.

    """

    def __init__(
        self,
        pipeline: Pipeline,
        checkpoint: Path,
        settings: SparkSettings,
        start: Callable[[Pipeline], StreamingQuery],
        notify: Callable[[events.PipelineEvent], None],
        *,
        once: bool,
        in_thread: RunInThread = run_in_thread,
    ) -> None:
        self.has_failed: bool = False
        self._pipeline = pipeline
        self._name = pipeline.name
        self._checkpoint = checkpoint
        self._start = start
        self._notify = notify
        self._in_thread = in_thread
        self._drain_timeout = settings.drain_timeout
        self._once = once
        self._stopping = anyio.Event()
        self._stop_requested: float | None = None
        self._restart_count = 0
        self._last_batch = -1
        self._rows = 0
        self._waiting = events.Waiting()
        self._query: StreamingQuery | None = None
        self._query_id: str | None = None
        self._ended_ids: set[str] = set()
        self._has_ended = anyio.Event()
        self._is_idle = self._has_reported = False
        self._restarts = Restarts(settings.restart, checkpoint)

    def stop(self) -> None:
        """Make `run` drain the pipeline and return. Call it on the loop; idempotent."""
        if self._stop_requested is None:
            self._stop_requested = _clock.now()
        self._stopping.set()

    async def run(self) -> None:
        """Run the pipeline until it is stopped, is done (`once`), or has failed for good."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pulse)
            failure = await self._attempt()
            while failure is not None and not self._stopping.is_set():
                delay = self._restarts.next_delay(failure)
                if delay is None:
                    self.has_failed = True
                    logger.error("Pipeline %s: %s", self._name, failure.detail)
                    self._notify(self._restarts.final_event(self._name, failure))
                    break
                self._restart_count += 1
                logger.warning("Pipeline %s: %s", self._name, failure.detail)
                attempt = self._restarts.in_a_row
                self._notify(events.PipelineRestarting(self._name, attempt, delay, failure.reason))
                with _clock.timeout(delay):
                    await self._stopping.wait()
                failure = await self._attempt()
            tasks.cancel_scope.cancel()
        self._notify(events.PipelineStopped(self._name))

    def on_batch(self, event: events.BatchFinished) -> None:
        """Process Spark's report of a batch, which may come twice. Call it on the loop."""
        self._has_reported = True
        self._waiting = events.Waiting(event.backlog, event.oldest)
        if event.batch <= self._last_batch or not (event.phases.get("addBatch") or event.rows):
            return  # known, or a trigger without new data
        self._last_batch = event.batch
        self._rows += event.rows
        self._restarts.reset()
        self._notify(event)

    def on_idle(self, query_id: str) -> None:
        """Process Spark's report that a query has nothing to do. Call it on the loop."""
        if query_id == self._query_id:
            self._has_reported = self._is_idle = True

    def on_end(self, query_id: str) -> None:
        """Process Spark's report that a query has ended. Call it on the loop."""
        self._ended_ids.add(query_id)
        if query_id == self._query_id:
            self._has_ended.set()

    async def _attempt(self) -> Failure | None:
        """Run the query until it ends; return its failure, unless it was being stopped."""
        if self._stopping.is_set():
            return None
        self._ended_ids.clear()
        try:
            query = await self._in_thread(lambda: self._start(self._pipeline))
        except Exception as error:
            return classify_failure(error, at_start=True)
        self._notify(
            events.PipelineStarted(
                self._name,
                ", ".join(self._pipeline.sources.values()),
                self._pipeline.sink,
                str(self._checkpoint),
                str(query.id),
                self._restart_count,
            )
        )
        self._query, self._query_id, started = query, str(query.id), _clock.now()
        self._has_ended, self._has_reported = anyio.Event(), False
        if self._query_id in self._ended_ids:  # it has ended before its start has returned
            self._has_ended.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._drain_on_request, query)
            tasks.start_soon(self._report_start, query)
            failure = await self._in_thread(lambda: _wait_for_end(query))
            tasks.cancel_scope.cancel()
        self._query = None
        if failure is None or failure.kind is not FailureKind.SPARK_ENDED:
            with _clock.timeout(_LAST_REPORT_TIMEOUT):
                await self._has_ended.wait()
        self._query_id, self._waiting = None, events.Waiting()
        # an idle query has reported; one that never reached its broker has not
        if self._has_reported and _clock.now() - started >= _HEALTHY_AFTER:
            self._restarts.reset()
        if self._stop_requested is not None:
            await self._report_drained(failure, self._stop_requested)
            return None
        if failure is None and self._once:
            self._notify(events.PipelineDone(self._name))
        return failure

    async def _report_start(self, query: StreamingQuery) -> None:
        """Log what Spark is doing until the first batch is finished, which takes its longest."""
        began, last_text, batch = _clock.now(), "", self._last_batch
        while batch == self._last_batch:
            found: str = await self._ask(lambda: str(query.status["message"]), "")
            text = found.partition(" from ")[0]  # what follows is a Java object
            if not text or text.startswith(_IDLE):
                return
            if text != last_text:
                seconds = _clock.now() - began
                logger.info("Pipeline %s: Spark: %s (%.0f s)", self._name, text, seconds)
                last_text = text
            await _clock.sleep(_START_POLL_INTERVAL)

    async def _pulse(self) -> None:
        """Report every ten seconds that the pipeline is alive, between restarts too."""
        while True:
            await _clock.sleep(_PULSE_INTERVAL)
            query, is_idle, self._is_idle = self._query, self._is_idle, False
            if is_idle and query is not None:  # such a report has no numbers
                last = await self._ask(lambda q=query: q.lastProgress, None)  # type: ignore[misc]
                self._waiting = events.waiting_of(last)
            rows, self._rows = self._rows, 0
            self._notify(events.PipelinePulse(self._name, rows, *self._waiting))

    async def _ask(self, call: Callable[[], T], default: T) -> T:
        """Call a method of a query in a thread; return `default` if the query has ended."""

        def attempt() -> T:
            try:
                return call()
            except Exception as error:
                logger.debug("The query has ended: %s", type(error).__name__)
                return default

        return await self._in_thread(attempt)

    async def _drain_on_request(self, query: StreamingQuery) -> None:
        """Wait for the batch in progress, up to the drain timeout, then stop the query."""
        await self._stopping.wait()
        with _clock.timeout(self._drain_timeout):
            await self._until_idle(query)
        with anyio.CancelScope(shield=True):
            await self._ask(query.stop, None)

    async def _until_idle(self, query: StreamingQuery) -> None:
        """Wait until no batch is in progress; the sources report no new data by now."""
        if self._once:
            await self._ask(query.awaitTermination, None)
        elif self._pipeline.trigger <= _SHORT_TRIGGER:
            await self._ask(query.processAllAvailable, None)
        else:
            while await self._ask(lambda: query.status["isTriggerActive"], default=False):
                await _clock.sleep(_POLL_INTERVAL)

    async def _report_drained(self, failure: Failure | None, requested: float) -> None:
        if failure is not None:
            logger.warning(
                "Pipeline %s failed while it was being stopped: %s", self._name, failure.detail
            )
        open_batch = await self._in_thread(lambda: find_open_batch(self._checkpoint))
        seconds = _clock.now() - requested
        reason = "" if failure is None else failure.reason
        is_clean = failure is None and open_batch is None
        self._notify(events.PipelineDrained(self._name, seconds, is_clean, reason))


def _wait_for_end(query: StreamingQuery) -> Failure | None:
    """Wait for the end of a query and return its failure; None: it was stopped or has finished."""
    try:
        query.awaitTermination()
    except Exception as error:
        return classify_failure(error)
    return None


RUNNER_CONF: Final[Mapping[str, str]] = {
    "spark.log.level": "ERROR",  # pyjms logs what Spark would warn about
    "spark.ui.showConsoleProgress": "false",
    # stored in a checkpoint with state, so a number for a laptop and a small cluster
    "spark.sql.shuffle.partitions": "8",
}
_VARIABLE_PREFIX: Final = "PYJMS_SPARK_PASSWORD_"


class PipelineRunner:
    """Runs pipelines until they are stopped or finished.

    Args:
        settings: the brokers, and the section `spark`.
        pipelines: all or some of the result of `collect_pipelines`.
        listeners: receive events, in addition to the log, the status files and `health`.
        spark: a session to run on, which is left running. By default the runner starts one
            according to `settings.spark`, and stops it at the end.

    Raises:
        ConfigurationException: there are no pipelines.

    """

    def __init__(
        self,
        settings: PyjmsSettings,
        pipelines: Sequence[Pipeline],
        listeners: Sequence[events.PipelineListener] = (),
        *,
        spark: SparkSession | None = None,
    ) -> None:
        self.settings = settings
        self.pipelines: list[Pipeline] = choose_pipelines(pipelines, ())
        self.health: PipelineHealth = PipelineHealth()
        root = Path(settings.spark.checkpoint_root).absolute()
        self._folders = {p.name: root / p.checkpoint_name for p in self.pipelines}
        self.status: StatusFiles = StatusFiles(self._folders)
        self._listeners: list[events.PipelineListener] = [
            PipelineLog(),
            self.status,
            self.health,
            *listeners,
        ]
        self._session = spark
        self._listener: Any = None
        self._loop: LoopHandle | None = None
        self._stopping: anyio.Event | None = None
        self._supervisors: dict[str, Supervisor] = {}
        self._starting_query = threading.Lock()

    def run(self, once: bool = False, **backend_options: Any) -> bool:
        """Run the pipelines. Blocks; in the main thread, SIGTERM and SIGINT drain them.

        Args:
            once: process what is available now, then return; by default run until stopped.
            backend_options: options of anyio's backend, for example `use_uvloop`.

        Returns:
            True unless a pipeline failed for good; `health` says which one, and why.

        Raises:
            ConfigurationException: the pipelines cannot run (all problems are listed), or Spark
                cannot start.

        """
        options = backend_options or loop_options()
        return anyio.run(partial(self.run_async, once=once), backend_options=options)

    async def run_async(self, *, once: bool = False) -> bool:
        """Run the pipelines on the current event loop; see `run`.

        Cancelling it stops the queries without draining them: their open batches run again with the
        next start.

        Raises:
            ConfigurationException: as for `run`.
            IllegalStateException: the runner is running already.

        """
        if self._loop is not None:
            raise IllegalStateException("The pipelines are running already; stop() them first")
        self._loop, self._stopping = LoopHandle(), anyio.Event()
        try:
            async with AsyncExitStack() as stack:
                embedded: str | None = None
                if uses_embedded_broker(self.settings, self.pipelines, once=once):
                    embedded = await stack.enter_async_context(running_embedded_broker())
                brokers = await run_in_thread(lambda: self._find_brokers(embedded))
                if threading.current_thread() is threading.main_thread():
                    signals = stop_on_signals(self._stopping, logger, "the batches in progress")
                    await stack.enter_async_context(signals)
                flag = stack.enter_context(cleared_drain_flag())
                variables = self._hide_passwords(brokers.values())
                spark = await run_in_thread(self._open_session)
                stack.push_async_callback(run_in_thread, lambda: self._close_session(spark))
                self._notify(await run_in_thread(lambda: self._ready_event(spark)))
                locations = {
                    name: PipelineLocation(
                        url=broker.url,
                        user=broker.user,
                        password=broker.password,
                        password_env=variables.get(broker.password or ""),
                        folder=self._folders[name],
                    )
                    for name, broker in brokers.items()
                }
                await self._supervise(spark, locations, self._stopping, flag, once=once)
        finally:
            self._loop = self._stopping = None
        return not any(supervisor.has_failed for supervisor in self._supervisors.values())

    def stop(self) -> None:
        """Make `run` drain the pipelines and return. Thread-safe, idempotent, does not block."""
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            loop.call_soon(stopping.set)

    def _find_brokers(self, embedded: str | None) -> dict[str, BrokerLocation]:
        """Return the broker of each pipeline.

        Raises:
            ConfigurationException: the pipelines cannot run; all problems are listed.
        """
        problems = find_problems(self.settings, self.pipelines, embedded)
        if problems:
            raise ConfigurationException("\n".join(problems))
        return {p.name: broker_of(self.settings, p.broker, embedded) for p in self.pipelines}

    def _hide_passwords(self, brokers: Iterable[BrokerLocation]) -> dict[str, str]:
        """Put passwords into variables that Spark's local processes inherit; return their names.

        The value of a variable is not part of a plan. The machines of a cluster do not inherit
        them; there the option `passwordEnv` of a pipeline names a variable that is set on all of
        them.
        """
        is_local = self.settings.spark.master.startswith("local")
        if self._session is not None or not is_local or jvm_is_running():
            return {}
        passwords = dict.fromkeys(b.password for b in brokers if b.password is not None)
        variables = {text: f"{_VARIABLE_PREFIX}{n}" for n, text in enumerate(passwords)}
        os.environ.update({name: password for password, name in variables.items()})
        return variables

    def _open_session(self) -> SparkSession:
        """Return the session that was passed in, or start Spark, which takes seconds."""
        settings = self.settings.spark
        spark = self._session or spark_session(
            f"pyjms {' '.join(self._folders)}",
            master=settings.master,
            java=settings.java,
            conf={**RUNNER_CONF, **settings.conf},
            aot_cache=settings.aot_cache,
            linked_home=settings.linked_home,
        )
        from pyjms.spark.listener import JmsQueryListener

        self._listener = JmsQueryListener(self._on_batch, self._on_idle, self._on_end)
        spark.streams.addListener(self._listener)
        return spark

    def _close_session(self, spark: SparkSession) -> None:
        """Stop Spark, unless the session was passed in."""
        try:
            if self._session is None:
                spark.stop()
            else:
                spark.streams.removeListener(self._listener)
        except Exception as error:  # Spark has ended before, which its pipelines have reported
            logger.debug("Stopping Spark: %s", type(error).__name__)

    def _ready_event(self, spark: SparkSession) -> events.PipelinesReady:
        context = spark.sparkContext
        names = [*self._folders]
        return events.PipelinesReady(names, str(context.master), context.version, context.uiWebUrl)

    async def _supervise(
        self,
        spark: SparkSession,
        locations: Mapping[str, PipelineLocation],
        stopping: anyio.Event,
        flag: Path,
        *,
        once: bool,
    ) -> None:
        def start(pipeline: Pipeline) -> StreamingQuery:
            return self._start_query(spark, pipeline, locations[pipeline.name], once=once)

        self._supervisors = {
            p.name: Supervisor(
                p,
                locations[p.name].checkpoint,
                self.settings.spark,
                start,
                self._notify,
                once=once,
            )
            for p in self.pipelines
        }
        stopper = spawn(self._stop_on_request, stopping, flag, name="pyjms drain")
        try:
            async with anyio.create_task_group() as tasks:
                for supervisor in self._supervisors.values():
                    tasks.start_soon(supervisor.run)
        finally:
            stopper.cancel()

    def _start_query(
        self, spark: SparkSession, pipeline: Pipeline, location: PipelineLocation, *, once: bool
    ) -> StreamingQuery:
        """Start the query of a pipeline. Blocks.

        Raises:
            ConfigurationException: the pipeline cannot run.
        """
        from pyjms.spark.query import start_query

        make_session_active(spark)  # Spark looks for Python data sources there
        with self._starting_query:
            query: StreamingQuery = start_query(spark, pipeline, location, once=once)
        return query

    async def _stop_on_request(self, stopping: anyio.Event, flag: Path) -> None:
        await stopping.wait()
        try:
            await run_in_thread(lambda: set_drain_flag(flag))
        finally:  # without the flag they are stopped within a batch, after the drain timeout
            for supervisor in self._supervisors.values():
                supervisor.stop()

    def _on_batch(self, event: events.BatchFinished) -> None:
        supervisor = self._supervisors.get(event.pipeline)
        if supervisor is not None:
            self._tell(partial(supervisor.on_batch, event))

    def _on_idle(self, query_id: str) -> None:
        for supervisor in self._supervisors.values():
            self._tell(partial(supervisor.on_idle, query_id))

    def _on_end(self, query_id: str) -> None:
        for supervisor in self._supervisors.values():
            self._tell(partial(supervisor.on_end, query_id))

    def _tell(self, call: Callable[[], None]) -> None:
        """Pass a report from Spark's thread to the loop."""
        loop = self._loop
        if loop is not None:
            loop.call_soon(call)

    def _notify(self, event: events.PipelineEvent) -> None:
        events.notify(self._listeners, event)


@asynccontextmanager
async def running_embedded_broker() -> AsyncIterator[str]:
    """Run an in-memory broker while the block runs; yields its tcp:// URL."""
    broker = embedded_broker()
    await broker.start()
    try:
        url = await broker.tcp_url()
        logger.warning(
            "Running on an empty in-memory broker, %s; its messages are lost at the end", url
        )
        yield url
    finally:
        with anyio.CancelScope(shield=True):
            await broker.stop()
