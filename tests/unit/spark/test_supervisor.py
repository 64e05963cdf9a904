"""One pipeline's life, with queries that end as they are told: restarts, poison, drain."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from pyjms.errors import ConfigurationException, ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import spawn
from pyjms.settings import SparkSettings
from pyjms.spark.events import (
    BatchFinished,
    PipelineDone,
    PipelineDrained,
    PipelineEvent,
    PipelineFailed,
    PipelinePulse,
    PipelineRestarting,
    PipelineStarted,
    PipelineStopped,
    Range,
    batch_event,
)
from pyjms.spark.pipeline import Pipeline
from pyjms.spark.run import Failure, Supervisor
from pyjms.testing.clock import VirtualClock

PIPELINE = Pipeline(name="p", sql="SELECT 1", source="IN", sink="OUT")
BROKER_LOST = "pyjms.errors.ConnectionFailedException: Cannot reach tcp://h:1"
BAD_MESSAGE = "Pipeline p: message seq 5 (ID:1) of queue://IN: n is no int; dead_letter is `fail`"
BROKER_FULL = "pyjms.errors.ResourceAllocationException: Usage Manager Memory Limit reached"
BAD_VALUE = "[PYTHON_EXCEPTION] boom\nValueError: the secret body"


async def at_once(function: Callable[[], Any]) -> Any:
    """Stands for a thread that needs no time."""
    await anyio.lowlevel.checkpoint()
    return function()


def in_thread(function: Callable[[], Any]) -> Awaitable[Any]:
    return anyio.to_thread.run_sync(function, abandon_on_cancel=True)


def progress(batch: int, rows: int = 10, latest: int | None = None) -> Any:
    def offset(seq: int, done: int | None = None) -> str:
        waiting = {} if done is None else {"backlog": seq - done}
        return json.dumps({"v": 1, "queue": "queue://IN", "epoch": 1, "seq": seq, **waiting})

    end = (batch + 1) * 10
    return SimpleNamespace(
        name="p",
        batchId=batch,
        numInputRows=rows,
        durationMs={"triggerExecution": 500, "addBatch": 300},
        sources=[
            SimpleNamespace(
                startOffset=offset(batch * 10),
                endOffset=offset(end),
                latestOffset=offset(end if latest is None else latest, end),
            )
        ],
        observedMetrics={},
    )


def finished(batch: int, rows: int = 10, latest: int | None = None) -> BatchFinished:
    return batch_event("p", progress(batch, rows, latest))


class FakeQuery:
    """A query that ends at once, with an error or without, having finished some batches.

    Its reports come after its end, as they may in Spark.
    """

    id = "the-query"

    def __init__(self, error: Exception | None = None, batches: tuple[int, ...] = ()) -> None:
        self.error = error
        self.reports: list[BatchFinished] = [finished(batch) for batch in batches]
        self.lastProgress: Any = None
        self.status = {"isTriggerActive": False}

    def awaitTermination(self) -> None:
        if self.error is not None:
            raise self.error

    async def report(self, supervisor: Supervisor) -> None:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        for event in self.reports:
            supervisor.on_batch(event)
        supervisor.on_end(self.id)

    def processAllAvailable(self) -> None: ...

    def stop(self) -> None: ...


class Life:
    """A supervisor whose starts are scripted; what it told."""

    def __init__(
        self, folder: Path, *script: Any, once: bool = True, call: Any = at_once, **restart: Any
    ) -> None:
        self.events: list[PipelineEvent] = []
        self.script = list(script)
        self.starts = 0
        settings = SparkSettings.model_validate({"restart": restart, "drain_timeout": "5s"})

        async def call_and_report(function: Callable[[], Any]) -> Any:
            result = await call(function)
            if isinstance(result, FakeQuery):
                spawn(result.report, self.supervisor, name="reports")
            return result

        self.supervisor = Supervisor(
            PIPELINE,
            folder,
            settings,
            self.start,
            self.events.append,
            once=once,
            in_thread=call_and_report,
        )

    def start(self, pipeline: Pipeline) -> Any:
        assert pipeline is PIPELINE
        self.starts += 1
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return step

    def kinds(self) -> list[type[PipelineEvent]]:
        return [type(event) for event in self.events if not isinstance(event, PipelinePulse)]

    def of(self, kind: type[PipelineEvent]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def failing(text: str) -> FakeQuery:
    return FakeQuery(RuntimeError(text))


def write_log(folder: Path, kind: str, batch: int, seq: int = 0) -> None:
    (folder / kind).mkdir(parents=True, exist_ok=True)
    offset = {"v": 1, "queue": "queue://IN", "epoch": 1, "seq": seq}
    (folder / kind / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock(autojump=True) as clock:
        yield clock


async def test_a_run_that_does_all_and_ends(tmp_path: Path, clock: VirtualClock) -> None:
    life = Life(tmp_path, FakeQuery(batches=(0, 1)))
    await life.supervisor.run()
    assert life.kinds() == [
        PipelineStarted, BatchFinished, BatchFinished, PipelineDone, PipelineStopped
    ]  # fmt: skip
    assert not life.supervisor.has_failed
    started, batch = life.events[0], life.events[2]
    assert started == PipelineStarted("p", "IN", "OUT", str(tmp_path), "the-query", 0)
    assert isinstance(batch, BatchFinished)
    assert (batch.rows, batch.seconds, batch.phases) == (10, 0.5, {"addBatch": 0.3})
    assert (batch.rows_per_second, batch.offset, batch.backlog) == (20, {"queue://IN": 20}, 0)


async def test_waits_between_restarts_grow_up_to_the_longest(
    tmp_path: Path, clock: VirtualClock
) -> None:
    life = Life(tmp_path, failing(BROKER_LOST), max_interval="8s", max_attempts=6)
    await life.supervisor.run()
    restarts = life.of(PipelineRestarting)
    assert [event.delay for event in restarts] == [1, 2, 4, 8, 8, 8]
    assert [event.attempt for event in restarts] == [1, 2, 3, 4, 5, 6]
    assert life.starts == 7
    assert life.supervisor.has_failed
    (failed,) = life.of(PipelineFailed)
    assert failed == PipelineFailed("p", "Cannot reach tcp://h:1", {})
    assert life.kinds()[-1] is PipelineStopped


async def test_a_finished_batch_ends_the_row_of_failures(
    tmp_path: Path, clock: VirtualClock
) -> None:
    life = Life(
        tmp_path,
        failing(BROKER_LOST),
        failing(BROKER_LOST),
        FakeQuery(RuntimeError(BROKER_LOST), batches=(0,)),
        failing(BROKER_LOST),
        FakeQuery(batches=(0, 1)),
    )
    await life.supervisor.run()
    assert [event.delay for event in life.of(PipelineRestarting)] == [1, 2, 1, 2]
    assert [event.batch for event in life.of(BatchFinished)] == [0, 1]  # none is told twice
    assert [event.restarts for event in life.of(PipelineStarted)] == [0, 1, 2, 3, 4]
    assert not life.supervisor.has_failed


def lasting(seconds: float) -> Callable[[Callable[[], Any]], Awaitable[Any]]:
    """Stands for a thread in which queries fail after that long."""

    async def call(function: Callable[[], Any]) -> Any:
        result = await at_once(function)
        if isinstance(result, Failure):
            await _clock.sleep(seconds)
        return result

    return call


def idle() -> BatchFinished:
    """What a query says that looked for news and found none."""
    said = progress(0, rows=0)
    said.durationMs = {"triggerExecution": 20, "latestOffset": 20}
    return batch_event("p", said)


@pytest.mark.parametrize(
    ("seconds", "said", "delays"),
    [
        (300, [idle()], [1, 1, 1, 1]),
        (299, [idle()], [1, 2]),
        (900, [], [1, 2]),  # it waited for its broker all the time
    ],
)
async def test_a_query_that_ran_well_for_minutes_ends_the_row_of_failures(
    tmp_path: Path, clock: VirtualClock, seconds: int, said: Any, delays: Any
) -> None:
    queries = [failing(BROKER_LOST) for _ in range(4)]
    for query in queries:
        query.reports = said
    call = lasting(seconds)
    life = Life(tmp_path, *queries, FakeQuery(), call=call, max_attempts=2)
    await life.supervisor.run()
    assert [event.delay for event in life.of(PipelineRestarting)] == delays
    assert life.supervisor.has_failed == (len(delays) == 2)


async def test_a_full_broker_is_not_the_batchs_fault(tmp_path: Path, clock: VirtualClock) -> None:
    write_log(tmp_path, "offsets", 0, 5)
    life = Life(tmp_path, *[failing(BROKER_FULL)] * 5, FakeQuery())
    await life.supervisor.run()
    assert life.starts == 6
    assert not life.supervisor.has_failed


async def test_a_start_that_cannot_reach_the_broker_is_tried_again(
    tmp_path: Path, clock: VirtualClock
) -> None:
    life = Life(tmp_path, ConnectionFailedException("gone"), FakeQuery())
    await life.supervisor.run()
    assert life.kinds() == [PipelineRestarting, PipelineStarted, PipelineDone, PipelineStopped]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (ConfigurationException("no such column"), "no such column"),
        (failing("x\npyjms.errors.ConfigurationException: unknown option"), "unknown option"),
        (failing("pyjms.errors.IllegalStateException: gone; failOnDataLoss=false"), "gone; failOnDataLoss=false"),
        (failing(f"[STREAM_FAILED] [USER_RAISED_EXCEPTION] {BAD_MESSAGE} SQLSTATE: P0001"), BAD_MESSAGE),
        (failing("Job aborted: SparkContext was stopped"), "Spark has ended: RuntimeError"),
    ],
)  # fmt: skip
async def test_what_another_attempt_cannot_mend_is_not_tried_again(
    tmp_path: Path, clock: VirtualClock, step: Any, reason: str
) -> None:
    life = Life(tmp_path, step)
    await life.supervisor.run()
    assert life.starts == 1
    assert life.of(PipelineFailed) == [PipelineFailed("p", reason, {})]


async def test_a_batch_that_fails_repeatedly_ends_the_pipeline_and_is_named(
    tmp_path: Path, clock: VirtualClock
) -> None:
    for batch in (6, 7):
        write_log(tmp_path, "offsets", batch, 120 + 60 * (batch - 6))
    write_log(tmp_path, "commits", 6)
    life = Life(tmp_path, failing(BAD_VALUE), failing(BROKER_LOST), failing(BAD_VALUE))
    await life.supervisor.run()
    assert life.starts == 4  # losing the broker does not count
    (failed,) = life.of(PipelineFailed)
    assert failed.ranges == {"queue://IN": Range(120, 180)}
    assert failed.reason == (
        "batch 7 failed 3 times and is not skipped (message numbers: "
        "queue://IN 120 to 179): PYTHON_EXCEPTION, ValueError"
    )
    assert "secret" not in str(life.events)


async def test_another_batch_has_its_own_count(tmp_path: Path, clock: VirtualClock) -> None:
    write_log(tmp_path, "offsets", 0, 5)

    class Advancing(FakeQuery):
        def awaitTermination(self) -> None:
            batch = max(int(file.name) for file in (tmp_path / "offsets").iterdir())
            write_log(tmp_path, "commits", batch)
            write_log(tmp_path, "offsets", batch + 1, 100)
            raise RuntimeError(BAD_VALUE)

    life = Life(tmp_path, *[Advancing()] * 4, FakeQuery())
    await life.supervisor.run()
    assert life.starts == 5
    assert not life.supervisor.has_failed


async def test_a_stop_cuts_the_wait_for_a_restart_short(tmp_path: Path) -> None:
    life = Life(tmp_path, failing(BROKER_LOST), initial_interval="30s")
    async with VirtualClock() as clock, anyio.create_task_group() as tasks:
        tasks.start_soon(life.supervisor.run)
        await clock.settle()
        assert life.kinds()[-1] is PipelineRestarting
        life.supervisor.stop()
    assert life.starts == 1
    assert life.kinds()[-1] is PipelineStopped
    assert not life.supervisor.has_failed


async def test_it_lives_between_restarts_too(tmp_path: Path) -> None:
    life = Life(tmp_path, failing(BROKER_LOST), initial_interval="35s")
    async with VirtualClock() as clock, anyio.create_task_group() as tasks:
        tasks.start_soon(life.supervisor.run)
        await clock.advance(30)
        assert life.of(PipelinePulse) == [PipelinePulse("p", 0, None)] * 3
        life.supervisor.stop()


class LongQuery(FakeQuery):
    """Runs until it is stopped; has a batch in progress until `idle` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.idle, self.stopped = threading.Event(), threading.Event()
        self.running = threading.Event()

    def awaitTermination(self) -> None:
        self.running.set()
        assert self.stopped.wait(30)

    def processAllAvailable(self) -> None:
        while not self.idle.wait(0.01) and not self.stopped.is_set():
            pass

    def stop(self) -> None:
        self.stopped.set()


async def run_and_stop(life: Life, query: LongQuery, then: Callable[[], Any]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(life.supervisor.run)
        assert await anyio.to_thread.run_sync(query.running.wait, 10)
        life.supervisor.stop()
        life.supervisor.stop()
        await then()


async def test_a_stop_waits_for_the_batch_in_progress(tmp_path: Path) -> None:
    query = LongQuery()
    life = Life(tmp_path, query, once=False, call=in_thread)

    async def finish() -> None:
        await anyio.wait_all_tasks_blocked()
        assert not query.stopped.is_set()
        query.idle.set()

    await run_and_stop(life, query, finish)
    assert life.kinds() == [PipelineStarted, PipelineDrained, PipelineStopped]
    (drained,) = life.of(PipelineDrained)
    assert drained.is_clean


async def test_a_stop_ends_at_the_drain_time_out_and_says_so(tmp_path: Path) -> None:
    write_log(tmp_path, "offsets", 0, 5)  # the batch in progress
    query = LongQuery()
    life = Life(tmp_path, query, once=False, call=in_thread)
    async with VirtualClock() as clock:

        async def wait() -> None:
            await clock.advance(4.9)
            assert not query.stopped.is_set()
            await clock.advance(0.2)

        await run_and_stop(life, query, wait)
    (drained,) = life.of(PipelineDrained)
    assert not drained.is_clean
    assert drained.seconds == pytest.approx(5, abs=0.2)


class DyingQuery(LongQuery):
    """Fails in the batch that is in progress when the stop comes."""

    def awaitTermination(self) -> None:
        self.running.set()
        assert self.idle.wait(30)
        raise ConnectionFailedException("no broker")


async def test_a_query_that_fails_while_it_drains_says_why_and_is_not_restarted(
    tmp_path: Path,
) -> None:
    query = DyingQuery()
    life = Life(tmp_path, query, once=False, call=in_thread)

    async def die() -> None:
        query.idle.set()

    await run_and_stop(life, query, die)
    assert life.kinds() == [PipelineStarted, PipelineDrained, PipelineStopped]
    (drained,) = life.of(PipelineDrained)
    assert (drained.is_clean, drained.failure) == (False, "no broker")


async def test_pulses_tell_of_rows_and_backlog(tmp_path: Path) -> None:
    query = LongQuery()
    life = Life(tmp_path, query, once=False, call=in_thread)
    query.idle.set()
    async with VirtualClock() as clock, anyio.create_task_group() as tasks:
        tasks.start_soon(life.supervisor.run)
        assert await anyio.to_thread.run_sync(query.running.wait, 10)
        await clock.settle()
        life.supervisor.on_batch(finished(0))
        life.supervisor.on_batch(finished(0, latest=13))
        while not life.of(PipelinePulse):
            await clock.advance(10)
            await anyio.sleep(0.01)
        life.supervisor.stop()
        first = life.of(PipelinePulse)[0]
    assert first == PipelinePulse("p", 10, 3)
    assert len(life.of(BatchFinished)) == 1


async def test_the_backlog_of_an_idle_query_is_asked_once_after_its_report(tmp_path: Path) -> None:
    query = FakeQuery()
    query.lastProgress = progress(0, latest=17)

    async def never_ends(function: Callable[[], Any]) -> Any:
        result = await at_once(function)
        if result is None:
            await anyio.sleep_forever()
        return result

    life = Life(tmp_path, query, once=False, call=never_ends)
    async with VirtualClock() as clock, anyio.create_task_group() as tasks:
        tasks.start_soon(life.supervisor.run)
        await clock.advance(10)
        life.supervisor.on_idle("another")
        await clock.advance(10)
        life.supervisor.on_idle(query.id)
        await clock.advance(10)
        query.lastProgress = None
        await clock.advance(10)
        tasks.cancel_scope.cancel()
    assert [pulse.backlog for pulse in life.of(PipelinePulse)] == [None, None, 7, 7]


async def test_polling_for_new_data_is_not_a_batch(tmp_path: Path, clock: VirtualClock) -> None:
    query = FakeQuery()
    query.reports = [idle()]
    life = Life(tmp_path, query)
    await life.supervisor.run()
    assert not life.of(BatchFinished)
