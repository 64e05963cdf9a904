"""Events, failures, health, status files and log lines of pipelines; no Spark."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms.errors import (
    ConfigurationException,
    ConnectionClosedException,
    IllegalStateException,
    JMSSecurityException,
)
from pyjms.spark.checkpoint import find_open_batch
from pyjms.spark.events import (
    BatchFinished,
    PipelineDone,
    PipelineDrained,
    PipelineFailed,
    PipelinePulse,
    PipelineRestarting,
    PipelinesReady,
    PipelineStarted,
    PipelineStopped,
    Range,
    Waiting,
    batch_event,
    notify,
    offsets_of,
    waiting_of,
)
from pyjms.spark.listener import JmsQueryListener
from pyjms.spark.reports import (
    STATUS_FILE,
    PipelineHealth,
    PipelineLog,
    PipelineStatus,
    StatusFiles,
    read_status,
    read_statuses,
)
from pyjms.spark.run import FailureKind, classify_failure
from pyjms.testing.clock import VirtualClock
from tests.kit.values import present


def batch(number: int = 0, rows: int = 10, backlog: int | None = 0, dead: int = 0) -> BatchFinished:
    numbers = Range(number * 10, number * 10 + 10)
    return BatchFinished("p", number, rows, 0.5, {"addBatch": 0.4}, {"q": numbers}, backlog, dead)


def started(restarts: int = 0) -> PipelineStarted:
    return PipelineStarted("p", "IN", "OUT", "/c/p", "id", restarts)


class Recorder:
    def __init__(self) -> None:
        self.events: list[object] = []

    def on_event(self, event: object) -> None:
        self.events.append(event)


def test_a_listener_that_raises_is_logged_and_the_others_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def on_event(self, event: object) -> None:
            raise KeyError("x")

    recorder = Recorder()
    notify([Broken(), recorder], PipelineDone("p"))
    assert recorder.events == [PipelineDone("p")]
    assert "failed at PipelineDone" in caplog.text


def source(start: object, end: object, latest: object) -> SimpleNamespace:
    def text(value: object) -> object:
        if not isinstance(value, tuple):
            return value
        queue, epoch, seq, *waits = value
        found = {"v": 1, "queue": queue, "epoch": epoch, "seq": seq}
        return json.dumps({**found, **dict(zip(("backlog", "oldest"), waits, strict=False))})

    return SimpleNamespace(startOffset=text(start), endOffset=text(end), latestOffset=text(latest))


def progress(*sources: SimpleNamespace, **observed: dict[str, int]) -> Any:
    class Row(dict[str, int]):
        def asDict(self) -> dict[str, int]:
            return dict(self)

    rows = {name: Row(values) for name, values in observed.items()}
    return SimpleNamespace(
        name="p",
        runId="r",
        batchId=3,
        numInputRows=20,
        durationMs={"triggerExecution": 250, "addBatch": 200, "walCommit": 20},
        sources=list(sources),
        observedMetrics=rows,
    )


def test_a_progress_becomes_a_batch() -> None:
    event = batch_event(
        "p",
        progress(
            source(("a", 1, 5), ("a", 1, 15), ("a", 1, 20)),
            source("null", ("b", 9, 4), ("b", 9, 4)),
            source(None, "{no json", "[1]"),
            pyjms={"dead_letters": 2},
            pyjms_b={"dead_letters": 1},
            mine={"dead_letters": 9},
        ),
    )
    assert event.ranges == {"a": Range(5, 15), "b": Range(None, 4)}
    assert event.offset == {"a": 15, "b": 4}
    assert (event.rows, event.dead_letters, event.backlog) == (20, 3, None)
    assert event.phases == {"addBatch": 0.2, "walCommit": 0.02}
    assert event.rows_per_second == 80


def test_the_backlog_is_what_waits_in_all_sources() -> None:
    late, early = "2026-11-29T13:00:01.500+00:00", "2026-11-29T13:00:00.250+00:00"
    one = source(("a", 1, 5), ("a", 1, 15), ("a", 1, 20, 5, late))
    two = source(("b", 1, 5), ("b", 1, 5), ("b", 1, 8, 3, early))
    assert waiting_of(progress(one, two)) == Waiting(8, 1795957200_250)
    assert waiting_of(progress(one, one)).number == 5  # one queue, read by two branches
    assert waiting_of(progress(source(None, ("a", 1, 15), None))) == Waiting()
    assert waiting_of(progress(one, source(None, ("s", 1, 15), ("s", 1, 15)))) == Waiting()
    assert waiting_of(progress()) == Waiting()
    assert waiting_of(None) == Waiting()


def test_several_queues_of_a_source_are_read_one_by_one() -> None:
    def several(**numbers: int) -> str:
        queues = {name: [1, seq] for name, seq in numbers.items()}
        return json.dumps({"v": 2, "queue": "queue://>", "queues": queues, "backlog": 4})

    assert offsets_of(several(a=5, b=7)) == {"a": (1, 5), "b": (1, 7)}
    event = batch_event("p", progress(source(several(a=5, b=7), several(a=9, b=7, c=1), several())))
    assert event.ranges == {"a": Range(5, 9)}  # b has nothing new, c was found just now
    assert event.backlog == 4


def test_a_listener_of_queries_tells_batches_idleness_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[object] = []
    listener: Any = JmsQueryListener(told.append, told.append, told.append)
    report = progress(source(("queue://a", 1, 5), ("queue://a", 1, 15), ("queue://a", 1, 20, 5)))
    listener.onQueryStarted(SimpleNamespace(id="q"))
    listener.onQueryProgress(SimpleNamespace(progress=report))
    report.name, report.id = None, "q"
    listener.onQueryProgress(SimpleNamespace(progress=report))
    listener.onQueryIdle(SimpleNamespace(id="q"))
    listener.onQueryTerminated(SimpleNamespace(id="q"))
    first, second, *rest = told
    assert isinstance(first, BatchFinished)
    assert isinstance(second, BatchFinished)
    assert (first.pipeline, second.pipeline, rest) == ("p", "q", ["q", "q"])
    assert (first.ranges, first.backlog) == ({"queue://a": Range(5, 15)}, 5)
    assert str(first) == (
        "Pipeline p: batch 3, 20 messages in 0.25 s (addBatch 0.20, walCommit 0.02), "
        "0 dead letters, 5 waiting"
    )
    broken: Any = JmsQueryListener(lambda event: 1 / 0)  # type: ignore[arg-type]
    broken.onQueryProgress(SimpleNamespace(progress=report))
    broken.onQueryIdle(SimpleNamespace(id="q"))
    assert "A report of query q failed" in caplog.text


def test_what_functions_of_a_listener_raise_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(query: object) -> None:
        raise OSError(f"no room for {query}")

    listener: Any = JmsQueryListener(fail, fail, fail)
    listener.onQueryIdle(SimpleNamespace(id="idle"))
    listener.onQueryTerminated(SimpleNamespace(id="ended"))
    assert "A report of query idle failed" in caplog.text
    assert "A report of query ended failed" in caplog.text
    assert caplog.text.count("OSError: no room for") == 2


SENTENCE = (
    "Pipeline my-p.1: message seq 5 (ID:h:1) of queue://IN: n is missing or null; "
    "dead_letter is `fail`"
)
BAD_MESSAGE = f"[STREAM_FAILED] Query terminated with exception: {{}} {SENTENCE} SQLSTATE: P0001"


class Py4JNetworkError(Exception):
    """As py4j's, told by its name."""


class AnalysisException(Exception):
    """As pyspark's, told by its name."""


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (RuntimeError("[STREAM_FAILED] [PYTHON_EXCEPTION] File x\nValueError: body"), FailureKind.BATCH, "STREAM_FAILED, PYTHON_EXCEPTION, ValueError"),
        (RuntimeError("[CAST_INVALID_INPUT] The value 'body' of the type"), FailureKind.BATCH, "CAST_INVALID_INPUT"),
        (RuntimeError("pyjms.errors.ConnectionClosedException: closed"), FailureKind.BROKER, "closed"),
        (RuntimeError("pyjms.errors.ResourceAllocationException: OUT is full"), FailureKind.BROKER, "OUT is full"),
        (RuntimeError("pyjms.errors.ResourceAllocationException: full\n\nThe above\npyjms.errors.TransactionRolledBackException: undone"), FailureKind.BROKER, "undone"),
        (RuntimeError(BAD_MESSAGE.format("[USER_RAISED_EXCEPTION]")), FailureKind.FINAL, SENTENCE),
        (RuntimeError(BAD_MESSAGE.format("[FOREACH_BATCH_USER_FUNCTION_ERROR] Traceback\nbody\npyspark.errors.X: [USER_RAISED_EXCEPTION]")), FailureKind.FINAL, SENTENCE),
        (RuntimeError("[USER_RAISED_EXCEPTION] body"), FailureKind.BATCH, "USER_RAISED_EXCEPTION"),
        (RuntimeError("[STREAM_FAILED] [CAST] x raise_error([USER_RAISED_EXCEPTION] Pipeline p: message seq %d (%s) of %s: %s; dead_letter is `fail`)"), FailureKind.BATCH, "STREAM_FAILED, CAST, USER_RAISED_EXCEPTION"),
        (RuntimeError("x: pyjms.spark.ranges.RangesRefused: IN is leased"), FailureKind.BROKER, "IN is leased"),
        (RuntimeError("x: pyjms.spark.ranges.LeaseReplaced: A newer lease of"), FailureKind.FINAL, "A newer lease of"),
        (
            RuntimeError("job: ExecutorLostFailure (executor 1 exited)\nbody"),
            FailureKind.BROKER,
            "ExecutorLostFailure (executor 1 exited)",
        ),
        (
            RuntimeError("x: org.apache.spark.SparkException: Python worker failed to connect back.\nbody"),
            FailureKind.BROKER,
            "Python worker failed to connect back.",
        ),
        (
            RuntimeError("Caused by: java.net.SocketTimeoutException: Accept timed out\nbody"),
            FailureKind.BROKER,
            "SocketTimeoutException: Accept timed out",
        ),
        (RuntimeError("pyjms.errors.JMSSecurityException: wrong"), FailureKind.FINAL, "wrong"),
        (AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] a column `dely`"), FailureKind.FINAL, "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        (ConfigurationException("bad", hint="do this"), FailureKind.FINAL, "bad (do this)"),
        (JMSSecurityException("who are you"), FailureKind.FINAL, "who are you"),
        (IllegalStateException("another pipeline's"), FailureKind.FINAL, "another pipeline's"),
        (ConnectionClosedException("closed"), FailureKind.BROKER, "closed"),
        (Py4JNetworkError("no answer"), FailureKind.SPARK_ENDED, "Spark has ended: Py4JNetworkError"),
        (RuntimeError("Cannot call methods on a stopped SparkContext."), FailureKind.SPARK_ENDED, "Spark has ended: RuntimeError"),
    ],
)  # fmt: skip
def test_failures_are_sorted_and_give_no_values_away(
    error: Any, kind: FailureKind, reason: str
) -> None:
    failure = classify_failure(error)
    assert failure.kind is kind
    assert failure.reason == reason
    assert "body" not in failure.reason
    assert failure.detail == str(error)


def test_the_log_gets_no_plan() -> None:
    python = "[STREAM_FAILED] Traceback (most recent call last)\nValueError: x"
    plan = "\n=== Streaming Query ===\nLogical Plan:\nProject\n\nJVM stacktrace:\njava.lang.E: x\n\tat a"
    assert classify_failure(RuntimeError(python + plan)).detail == python
    java = "An error occurred while calling o1.start.\n: java.io.IOException: full\n\tat a.b(C.java:1)\n"
    assert classify_failure(RuntimeError(java + "Caused by: java.E: disk\n\tat d")).detail == (
        "An error occurred while calling o1.start.\n: java.io.IOException: full\nCaused by: java.E: disk"
    )


def test_what_a_function_raises_before_anything_runs_is_final() -> None:
    class Py4JError(Exception):
        """As py4j's: Java was not reached."""

    class Py4JJavaError(Py4JError):
        """As py4j's: Spark could not, this time."""

    assert classify_failure(TypeError("x"), at_start=True).kind is FailureKind.FINAL
    assert (
        classify_failure(ConnectionClosedException("x"), at_start=True).kind is FailureKind.BROKER
    )
    assert classify_failure(Py4JJavaError("no space"), at_start=True).kind is FailureKind.BATCH


def test_a_failure_without_a_text_is_one_still() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise Py4JNetworkError

    assert classify_failure(Mute()).detail == "Mute (its text is unavailable: Py4JNetworkError)"
    assert len(classify_failure(ConfigurationException("x" * 1000)).reason) == 300


def test_the_open_batch_of_a_checkpoint(tmp_path: Path) -> None:
    assert find_open_batch(tmp_path) is None

    def write(kind: str, number: int, *offsets: tuple[str, int, int]) -> None:
        (tmp_path / kind).mkdir(exist_ok=True)
        lines = [json.dumps({"v": 1, "queue": q, "epoch": e, "seq": s}) for q, e, s in offsets]
        (tmp_path / kind / str(number)).write_text("\n".join(["v1", '{"batch": 0}', *lines]))

    write("offsets", 0, ("a", 1, 10))
    (tmp_path / "offsets" / ".0.crc").write_bytes(b"x")
    assert find_open_batch(tmp_path) == (0, {"a": Range(None, 10)})
    assert str(present(find_open_batch(tmp_path)).ranges["a"]) == "the beginning to 9"
    write("commits", 0)
    assert find_open_batch(tmp_path) is None
    write("offsets", 1, ("a", 1, 30), ("b", 1, 7))
    assert find_open_batch(tmp_path) == (1, {"a": Range(10, 30), "b": Range(None, 7)})
    write("commits", 1)
    write("offsets", 2, ("a", 2, 5), ("b", 1, 7))  # a was purged; b has nothing new
    assert find_open_batch(tmp_path) == (2, {"a": Range(None, 5)})


def test_health() -> None:
    health = PipelineHealth()
    assert health.of("p").is_up
    for event in (PipelinesReady((), "local", "4", None), started(), batch()):
        health.on_event(event)
    assert health.all.is_up
    for backlog in (5, 6, 7):
        health.on_event(PipelinePulse("p", 0, backlog))
    assert health.of("p").is_up
    health.on_event(PipelinePulse("p", 0, 9))
    assert str(health.of("p")) == "DOWN (9 messages wait, their number grows, and none is read)"
    health.on_event(PipelinePulse("p", 0, 8))
    assert health.of("p").is_up
    for waiting in (9, 10, None, 11, 12, 13):
        health.on_event(PipelinePulse("p", 0, waiting))
    assert health.of("p").is_up
    for backlog in (14, 15):
        health.on_event(PipelinePulse("p", 4, backlog))  # it is slow, and it reads
    assert health.of("p").is_up
    health.on_event(PipelineRestarting("p", 1, 1.0, "x"))
    assert health.of("p").is_up
    health.on_event(PipelineFailed("p", "batch 7 failed", {}))
    health.on_event(PipelineStopped("p"))
    health.on_event(PipelineStarted("other", "A", "B", "c", "id", 0))
    assert str(health.all) == "DOWN (p: batch 7 failed)"
    assert str(health.of("other")) == "UP"


async def test_the_status_file(tmp_path: Path) -> None:
    file = tmp_path / "p" / STATUS_FILE
    async with VirtualClock() as clock:
        files = StatusFiles({"p": file.parent})
        files.on_event(PipelinesReady(("p",), "local", "4", None))
        assert not file.exists()
        files.on_event(started())
        status = read_status(file)
        assert status is not None
        assert (status.state, status.query_id, status.batch) == ("running", "id", None)
        assert (status.host, status.process) == (socket.gethostname(), os.getpid())
        files.on_event(batch(0, dead=2))
        assert present(read_status(file)).batch == 0
        files.on_event(batch(1, backlog=4))  # within the second
        assert present(read_status(file)).batch == 0
        await clock.advance(10)
        files.on_event(PipelinePulse("p", 10, 5))
        status = read_status(file)
        assert status is not None
        assert (status.batch, status.rows, status.dead_letters, status.backlog) == (1, 20, 2, 5)
        assert status is not None
        assert (status.offset, status.rows_per_second) == ({"q": 20}, 20.0)
        assert status is not None
        assert status.updated - status.started == 10_000
        assert status is not None
        assert not status.is_stale(status.updated + 30_000)
        assert status is not None
        assert status.is_stale(status.updated + 40_000)
        files.on_event(PipelineRestarting("p", 1, 1.0, "no broker"))
        assert (present(read_status(file)).state, present(read_status(file)).reason) == (
            "restarting",
            "no broker",
        )
        files.on_event(started(restarts=1))
        files.on_event(PipelineFailed("p", "bad batch", {}))
        files.on_event(PipelineStopped("p"))
        files.on_event(PipelineStopped("nobody's"))
    status = read_status(file)
    assert status is not None
    assert (status.state, status.reason, status.restarts) == ("failed", "bad batch", 1)
    assert status is not None
    assert not status.is_stale(status.updated + 10**9)
    assert [f.name for f in file.parent.iterdir()] == [STATUS_FILE]
    assert read_statuses(tmp_path) == [status]


@pytest.mark.parametrize(
    ("events", "state", "reason"),
    [
        ([PipelineDone("p"), PipelineStopped("p")], "done", ""),
        ([PipelineDrained("p", 0.1, is_clean=True), PipelineStopped("p")], "stopped", ""),
        ([PipelineDrained("p", 30, is_clean=False)], "stopped", "stopped during a batch, which runs again with the next start"),
        ([PipelineDrained("p", 1, is_clean=False, failure="no broker")], "stopped", "no broker"),
        ([PipelineStopped("p")], "stopped", ""),
    ],
)  # fmt: skip
def test_how_a_status_ends(tmp_path: Path, events: Any, state: str, reason: str) -> None:
    files = StatusFiles({"p": tmp_path})
    for event in (started(), *events):
        files.on_event(event)
    assert (files.of("p").state, files.of("p").reason) == (state, reason)


def test_a_status_is_stale_once_its_process_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert PipelineStatus("p", "running", process=child.pid, updated=10).is_stale(20)
    assert not PipelineStatus("p", "running", process=os.getpid(), updated=10).is_stale(20)
    assert not PipelineStatus("p", "running", host="far", process=child.pid, updated=10).is_stale(
        20
    )
    assert PipelineStatus("p", "starting", process=child.pid, updated=10).is_stale(20)
    assert not PipelineStatus("p", "done", process=child.pid, updated=10).is_stale(20)
    for text in ("", "[]", '{"other": 1}'):
        (tmp_path / STATUS_FILE).write_text(text)
        assert read_status(tmp_path / STATUS_FILE) is None
    assert read_statuses(tmp_path / "absent") == []


def test_a_status_that_cannot_be_written_is_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    StatusFiles({"p": tmp_path / "file" / "p"}).on_event(started())
    assert "Cannot write the status of pipeline p" in caplog.text


async def test_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pyjms.spark.reports")
    log = PipelineLog()
    async with VirtualClock() as clock:
        log.on_event(PipelinesReady(("p", "o"), "local[2]", "4.3.0", "http://h:4040"))
        log.on_event(started())
        log.on_event(batch(0))
        await clock.advance(29)
        log.on_event(PipelinePulse("p", 0, 0))
        assert "messages in" not in caplog.text
        await clock.advance(1)
        log.on_event(batch(1, backlog=None, dead=3))
        caplog.set_level(logging.DEBUG, "pyjms.spark.reports")
        log.on_event(batch(2))
    for event in (
        PipelineRestarting("p", 2, 4.0, "no broker"),
        PipelineFailed("p", "bad batch", {}),
        PipelineDrained("p", 0.25, is_clean=True),
        PipelineDrained("p", 30, is_clean=False),
        PipelineDrained("p", 1, is_clean=False, failure="no broker"),
        PipelineDone("p"),
        PipelineStopped("p"),
        PipelineStopped("p"),
    ):
        log.on_event(event)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", "Spark 4.3.0 on local[2] runs p, o; web UI: http://h:4040"),
        ("INFO", "Pipeline p started: IN -> OUT, checkpoint /c/p"),
        ("INFO", "Pipeline p: 20 messages in 2 batches, 1.0 s of work, 3 dead letters, backlog unknown"),
        ("DEBUG", "Pipeline p: batch 2, 10 messages in 0.50 s (addBatch 0.40), 0 dead letters, 0 waiting"),
        ("WARNING", "Pipeline p failed, restart 2 in 4.0 s: no broker"),
        ("ERROR", "Pipeline p failed for good: bad batch"),
        ("INFO", "Pipeline p drained in 0.2 s"),
        ("WARNING", "Pipeline p was stopped during a batch after 30.0 s (spark.drain_timeout); the batch runs again with the next start"),
        ("WARNING", "Pipeline p failed while draining: no broker; its batch runs again with the next start"),
        ("INFO", "Pipeline p has processed everything that was available"),
        ("INFO", "Pipeline p: 10 messages in 1 batches, 0.5 s of work, 0 dead letters, 0 waiting"),
    ]  # fmt: skip
