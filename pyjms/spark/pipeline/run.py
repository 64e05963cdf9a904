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
- Whether a failure leads to a restart depends on its kind (`failures`): a lost or full broker is
  retried as long as the back-off allows; an error in a batch is retried until the same batch has
  failed `poison_after` times; configuration errors and the end of Spark are final.
- Draining stops the sources first, through the drain flag, which the runner sets; the query is
  stopped when no batch is in progress. So a clean stop leaves no open batch. After `drain_timeout`
  the batch in progress is killed and runs again with the next start.
- Spark reports batches late, so the end of a query may overtake the report of its last batch: the
  supervisor reads the recent progress once more after the end. Batches are counted by number, so a
  repeated report is counted once.

- A query may end at any moment: `wait_for_end` returns the reason, and failures of other calls
  because it has ended are ignored.

(spark-pipeline 6.2)
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

import anyio
import anyio.to_thread

from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import LoopHandle, loop_options, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.signals import stop_on_signals
from pyjms.settings import PyjmsSettings, SparkSettings
from pyjms.settings.spark import RestartSettings
from pyjms.spark.drain import cleared_drain_flag, set_drain_flag
from pyjms.spark.gateway import jvm_is_running, make_session_active
from pyjms.spark.pipeline import events
from pyjms.spark.pipeline.checks import choose_pipelines, find_problems
from pyjms.spark.pipeline.definition import Pipeline
from pyjms.spark.pipeline.events import (
    PipelineEvent,
    PipelineListener,
    PipelinesReady,
    backlog_of,
    batch_event,
    notify,
)
from pyjms.spark.pipeline.failures import (
    Failure,
    Restarts,
    classify_failure,
    find_open_batch,
)
from pyjms.spark.pipeline.location import (
    BrokerLocation,
    PipelineLocation,
    broker_of,
    running_embedded_broker,
    uses_embedded_broker,
)
from pyjms.spark.pipeline.reports import PipelineHealth, PipelineLog, StatusFiles
from pyjms.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["RUNNER_CONF", "PipelineRunner", "Supervisor", "SupervisorContext"]

logger: Final = get_logger(__name__)


def wait_for_end(query: StreamingQuery) -> Failure | None:
    """Wait for the end of a query and return its failure; None: it was stopped or has finished."""
    try:
        query.awaitTermination()
    except Exception as error:
        return classify_failure(error)
    return None


def ignoring_ended(call: Callable[[], object]) -> None:
    """Call a method of a query, and ignore its failure if the query has ended."""
    try:
        call()
    except Exception as error:
        logger.debug("The query has ended: %s", type(error).__name__)


def is_trigger_active(query: StreamingQuery) -> bool:
    """Return whether a trigger is in progress."""
    try:
        return bool(query.status["isTriggerActive"])
    except Exception as error:
        logger.debug("The query has ended: %s", type(error).__name__)
        return False


def last_progress(query: StreamingQuery) -> StreamingQueryProgress | None:
    """Return its last progress; None: it has none yet."""
    recent = recent_progress(query)
    return recent[-1] if recent else None


def recent_progress(query: StreamingQuery) -> list[StreamingQueryProgress]:
    """Return its recent progress, up to a hundred entries."""
    try:
        return list(query.recentProgress)
    except Exception as error:
        logger.debug("The query has ended: %s", type(error).__name__)
        return []


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
        self._restarts = Restarts(context.restart, checkpoint)

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
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pulse)
            failure = await self._attempt()
            while failure is not None and not self._stopping.is_set():
                delay = self._restarts.next_delay(failure)
                if delay is None:
                    self._give_up(failure)
                    break
                self._report_restart(failure, delay)
                with _clock.timeout(delay):
                    await self._stopping.wait()
                failure = await self._attempt()
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
        self._restarts.reset()
        self._notify(event)

    async def _attempt(self) -> Failure | None:
        """Run the query until it ends; return its failure, unless it was being stopped."""
        if self._stopping.is_set():
            return None
        try:
            query = await self._context.run_in_thread(lambda: self._context.start(self.pipeline))
        except Exception as error:
            return classify_failure(error, at_start=True)
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
            return None
        if failure is None and self._once:
            self._notify(events.PipelineDone(self.name))
        return failure

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
            self._restarts.query_ran_for(_clock.now() - started)

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

    def _give_up(self, failure: Failure) -> None:
        self.has_failed = True
        logger.error("Pipeline %s: %s", self.name, failure.detail)
        self._notify(events.PipelineFailed(self.name, *self._restarts.final_failure(failure)))

    def _report_restart(self, failure: Failure, delay: float) -> None:
        self._restart_count += 1
        logger.warning("Pipeline %s: %s", self.name, failure.detail)
        self._notify(
            events.PipelineRestarting(self.name, self._restarts.in_a_row, delay, failure.reason)
        )

    def _notify(self, event: events.PipelineEvent) -> None:
        self._context.notify(event)


RUNNER_CONF: Final[Mapping[str, str]] = {
    "spark.log.level": "ERROR",  # pyjms logs what Spark would warn about
    "spark.ui.showConsoleProgress": "false",
    # stored in a checkpoint with state, so a number for a laptop and a small cluster
    "spark.sql.shuffle.partitions": "8",
}
_VARIABLE_PREFIX: Final = "PYJMS_SPARK_PASSWORD_"


class SparkEngine:
    """A Spark session that runs pipelines' queries."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        is_own: bool,
        on_progress: Callable[[StreamingQueryProgress], None],
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._is_own = is_own
        self._secrets = secrets or {}
        self._starting = threading.Lock()
        self._listener = _listener(on_progress)
        spark.streams.addListener(self._listener)

    @classmethod
    def create(
        cls,
        settings: SparkSettings,
        names: Sequence[str],
        brokers: Iterable[BrokerLocation],
        on_progress: Callable[[StreamingQueryProgress], None],
    ) -> Self:
        """Start Spark according to the settings. Blocks for seconds.

        Raises:
            ConfigurationException: there is no suitable Java or pyspark.
        """
        secrets = _hide_passwords(settings.master, brokers)
        spark = spark_session(
            f"pyjms {' '.join(names)}",
            master=settings.master,
            java=settings.java,
            conf={**RUNNER_CONF, **settings.conf},
            aot_cache=settings.aot_cache,
        )
        return cls(spark, is_own=True, on_progress=on_progress, secrets=secrets)

    def ready(self, names: Sequence[str]) -> PipelinesReady:
        """Return the event that announces the session."""
        context = self._spark.sparkContext
        return PipelinesReady(names, str(context.master), context.version, context.uiWebUrl)

    def location(self, broker: BrokerLocation, folder: Path) -> PipelineLocation:
        """Return the location of a pipeline with this broker and folder."""
        variable = None if broker.password is None else self._secrets.get(broker.password)
        return PipelineLocation(
            url=broker.url,
            user=broker.user,
            password=broker.password if variable is None else None,
            password_env=variable,
            folder=folder,
        )

    def start(
        self, pipeline: Pipeline, location: PipelineLocation, *, once: bool
    ) -> StreamingQuery:
        """Start the query of a pipeline.

        Raises:
            ConfigurationException: the pipeline cannot run.
        """
        from pyjms.spark.pipeline.query import start_query
        from pyjms.spark.source import JmsDataSource

        make_session_active(self._spark)  # Spark looks for Python data sources there
        with self._starting:
            # A starting stream writes to variables of its format without a lock, and two at the
            # same time break the format for the session ("Illegal size 5 of collection"). So each
            # query gets a separate registration.
            self._spark.dataSource.register(JmsDataSource)
            query: StreamingQuery = start_query(self._spark, pipeline, location, once=once)
        return query

    def close(self) -> None:
        """Stop Spark, unless the session was passed in."""
        try:
            if self._is_own:
                self._spark.stop()
            else:
                self._spark.streams.removeListener(self._listener)
        except Exception as error:  # Spark has ended before, which its pipelines have reported
            logger.debug("Stopping Spark: %s", type(error).__name__)


def _hide_passwords(master: str, brokers: Iterable[BrokerLocation]) -> dict[str, str]:
    """Put passwords into variables that Spark's local processes inherit; return their names.

    The value of a variable is not part of a plan. The machines of a cluster do not inherit them;
    there the option `passwordEnv` of a pipeline names a variable that is set on all of them.
    """
    if not master.startswith("local") or jvm_is_running():
        return {}
    found = dict.fromkeys(broker.password for broker in brokers if broker.password is not None)
    variables = {password: f"{_VARIABLE_PREFIX}{number}" for number, password in enumerate(found)}
    os.environ.update({name: password for password, name in variables.items()})
    return variables


def _listener(on_progress: Callable[[StreamingQueryProgress], None]) -> Any:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            """Ignore it: the caller that started the query knows."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            on_progress(event.progress)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            """Ignore it: there is no batch."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            """Ignore it: the supervisor waits for the end."""

    return Listener()


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
        listeners: Sequence[PipelineListener] = (),
        *,
        spark: SparkSession | None = None,
    ) -> None:
        self.settings = settings
        self.pipelines: list[Pipeline] = choose_pipelines(pipelines, ())
        self.health: PipelineHealth = PipelineHealth()
        root = Path(settings.spark.checkpoint_root).absolute()
        self._folders = {p.name: root / p.checkpoint_name for p in self.pipelines}
        self.status: StatusFiles = StatusFiles(self._folders)
        self._listeners: list[PipelineListener] = [
            PipelineLog(),
            self.status,
            self.health,
            *listeners,
        ]
        self._session = spark
        self._loop: LoopHandle | None = None
        self._stopping: anyio.Event | None = None
        self._supervisors: dict[str, Supervisor] = {}

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
                brokers = await _in_thread(lambda: self._brokers(embedded))
                if threading.current_thread() is threading.main_thread():
                    signals = stop_on_signals(self._stopping, logger, "the batches in progress")
                    await stack.enter_async_context(signals)
                flag = stack.enter_context(cleared_drain_flag())
                engine = await _in_thread(lambda: self._start_spark(brokers.values()))
                stack.push_async_callback(_in_thread, engine.close)
                self._notify(await _in_thread(lambda: engine.ready([*self._folders])))
                await self._supervise(engine, brokers, flag, once=once)
        finally:
            self._loop = self._stopping = None
        return not any(supervisor.has_failed for supervisor in self._supervisors.values())

    def stop(self) -> None:
        """Make `run` drain the pipelines and return. Thread-safe, idempotent, does not block."""
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            loop.call_soon(stopping.set)

    async def _supervise(
        self, engine: SparkEngine, brokers: Mapping[str, BrokerLocation], flag: Path, *, once: bool
    ) -> None:
        locations = {
            name: engine.location(broker, self._folders[name]) for name, broker in brokers.items()
        }

        def start(pipeline: Pipeline) -> StreamingQuery:
            return engine.start(pipeline, locations[pipeline.name], once=once)

        spark = self.settings.spark
        context = SupervisorContext(
            start, self._notify, spark.restart, spark.drain_timeout, _in_thread
        )
        self._supervisors = {
            p.name: Supervisor(p, locations[p.name].checkpoint, context, once=once)
            for p in self.pipelines
        }
        assert self._stopping is not None
        stopper = spawn(self._stop_on_request, self._stopping, flag, name="pyjms drain")
        try:
            async with anyio.create_task_group() as tasks:
                for supervisor in self._supervisors.values():
                    tasks.start_soon(supervisor.run)
        finally:
            stopper.cancel()

    async def _stop_on_request(self, stopping: anyio.Event, flag: Path) -> None:
        await stopping.wait()
        try:
            await _in_thread(lambda: set_drain_flag(flag))
        finally:  # without the flag they are stopped within a batch, after the drain timeout
            for supervisor in self._supervisors.values():
                supervisor.stop()

    def _brokers(self, embedded: str | None) -> dict[str, BrokerLocation]:
        """Return the broker of each pipeline.

        Raises:
            ConfigurationException: the pipelines cannot run; all problems are listed.
        """
        problems = find_problems(self.settings, self.pipelines, embedded)
        if problems:
            raise ConfigurationException("\n".join(problems))
        return {p.name: broker_of(self.settings, p.broker, embedded) for p in self.pipelines}

    def _start_spark(self, brokers: Iterable[BrokerLocation]) -> SparkEngine:
        if self._session is not None:
            return SparkEngine(self._session, is_own=False, on_progress=self._on_progress)
        spark, names = self.settings.spark, [*self._folders]
        return SparkEngine.create(spark, names, brokers, self._on_progress)

    def _on_progress(self, progress: StreamingQueryProgress) -> None:
        """Pass a report from Spark's thread to the loop."""
        loop = self._loop
        if loop is not None:
            loop.call_soon(partial(self._process_progress, progress))

    def _process_progress(self, progress: StreamingQueryProgress) -> None:
        supervisor = self._supervisors.get(progress.name or "")
        if supervisor is not None:
            supervisor.on_progress(progress)

    def _notify(self, event: PipelineEvent) -> None:
        notify(self._listeners, event)


async def _in_thread(function: Callable[[], T]) -> T:
    # each running pipeline occupies a thread, so the usual limit of threads does not apply
    return await anyio.to_thread.run_sync(
        function, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(math.inf)
    )
