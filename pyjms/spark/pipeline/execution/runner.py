"""The runner: one Spark session, a supervisor per pipeline, signals, and a clean stop.

SIGTERM and SIGINT drain: the sources report no new data, batches in progress finish, and queries
stop. A second signal ends the process at once. Blocking calls of Spark run in threads; everything
else runs on one loop. (spark-pipeline 6.2)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread

from pyjms._logger import get_logger
from pyjms._signals import stop_on_signals
from pyjms._wakeup import LoopHandle, loop_options, spawn
from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.settings import PyjmsSettings
from pyjms.spark.jms.drain import cleared_drain_flag, set_drain_flag
from pyjms.spark.pipeline.definition.brokers import (
    BrokerLocation,
    broker_of,
    running_embedded_broker,
    uses_embedded_broker,
)
from pyjms.spark.pipeline.definition.collection import choose_pipelines, find_problems
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.execution.engine import SparkEngine
from pyjms.spark.pipeline.execution.supervisor import Supervisor, SupervisorContext
from pyjms.spark.pipeline.reporting.events import PipelineEvent, PipelineListener, notify
from pyjms.spark.pipeline.reporting.health import PipelineHealth
from pyjms.spark.pipeline.reporting.logs import PipelineLog
from pyjms.spark.pipeline.reporting.status import StatusFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["PipelineRunner"]

logger: Final = get_logger(__name__)

T = TypeVar("T")


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
