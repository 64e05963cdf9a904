"""Pipelines run by the runner and by `pyjms pipeline`: drain, restart, poison, status, fixtures."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pyjms.jms.message import TextMessage
from pyjms.settings import PyjmsSettings
from pyjms.spark import Pipeline, jms_pipeline
from pyjms.spark.checkpoint import find_open_batch
from pyjms.spark.events import (
    BatchFinished,
    PipelineDrained,
    PipelineEvent,
    PipelineFailed,
    PipelineRestarting,
    PipelineStarted,
    Range,
)
from pyjms.spark.reports import STATUS_FILE, read_status
from pyjms.spark.run import PipelineRunner
from pyjms.testing.spark import PipelineRun
from tests.kit.clients.messages import text_of
from tests.kit.runs.parallel import SPARK_DRIVERS
from tests.kit.spark.brokers import SparkBroker
from tests.kit.values import present

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

MODULE = """
import time
from pyspark.sql import DataFrame, functions as F
from pyjms.spark import jms_pipeline

from pyspark.sql.types import StringType

def wait(text):
    time.sleep(0.05)
    return text

slowly = F.udf(wait, StringType(), useArrow=False)

@jms_pipeline("IN", sink="OUT", trigger="{trigger}", max_messages_per_trigger=40)
def copy(messages: DataFrame) -> DataFrame:
    return messages.select(slowly("text").alias("text"))
"""
SETTINGS = """
activemq: {{broker_url: "{url}", user: me, password: s3cret}}
spark: {{master: "local[2]", drain_timeout: 60s}}
pipelines:
  other: {{source: ELSEWHERE, sink: OUT, sql: SELECT text FROM messages}}
"""


@contextlib.contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`pyjms pipeline ...` in a separate process group; its output goes to run.log."""
    with (folder / "run.log").open("a") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", "from pyjms.cli.main import main; main()", "pipeline", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield child
        except AssertionError as error:
            error.add_note(say(folder))
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def until(true: Callable[[], Any], seconds: float = 120) -> Any:
    """Wait for something that another process does."""
    for _ in range(int(seconds / 0.02)):
        found = true()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def say(folder: Path) -> str:
    return (folder / "run.log").read_text()


@pytest.mark.xdist_group(SPARK_DRIVERS)
def test_sigterm_lets_the_batch_end_and_leaves_none_to_replay(
    spark: SparkSession, broker: SparkBroker, settings: PyjmsSettings, tmp_path: Path
) -> None:
    drain_round(spark, broker, settings, tmp_path, "0")


@pytest.mark.nightly
@pytest.mark.parametrize("trigger", ["0", "5s", "1h"])
@pytest.mark.parametrize("number", range(3))
def test_sigterm_rounds(
    spark: SparkSession,
    broker: SparkBroker,
    settings: PyjmsSettings,
    tmp_path: Path,
    trigger: str,
    number: int,
) -> None:
    drain_round(spark, broker, settings, tmp_path, trigger)


@contextlib.contextmanager
def in_a_batch(
    broker: SparkBroker, folder: Path, trigger: str = "0"
) -> Iterator[subprocess.Popen[bytes]]:
    """`pyjms pipeline run` with a batch in progress; 200 messages are there, 40 in a batch.

    While it runs, the broker accepts the login of its settings only.
    """
    (folder / "copies.py").write_text(MODULE.format(trigger=trigger))
    (folder / "application.yaml").write_text(SETTINGS.format(url=broker.url))
    broker.send("IN", [f"m{number}" for number in range(200)])
    checkpoint = folder / "checkpoints" / "copy" / "checkpoint"
    broker.guard("me", "s3cret")
    with running(folder, "run", "copies") as child:
        until(lambda: child.poll() is not None or find_open_batch(checkpoint))
        assert child.poll() is None, say(folder)
        yield child
    broker.unguard()


def java_of(group: int) -> int | None:
    """The process of the JVM in a process group."""
    found = subprocess.run(
        ["pgrep", "-g", str(group), "java"], capture_output=True, text=True, check=False
    )
    return int(found.stdout.split()[0]) if found.stdout else None


@pytest.mark.nightly
def test_a_second_signal_ends_the_run_at_once_and_loses_nothing(
    spark: SparkSession, broker: SparkBroker, settings: PyjmsSettings, tmp_path: Path
) -> None:
    with in_a_batch(broker, tmp_path) as child:
        child.send_signal(signal.SIGTERM)
        until(lambda: "SIGTERM: finishing" in say(tmp_path))
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == -signal.SIGTERM, say(tmp_path)
        until(lambda: java_of(child.pid) is None)
    assert "SIGTERM again: stopping now" in say(tmp_path)
    assert PipelineRunner(settings, [copies("IN", "OUT", name="copy")], spark=spark).run(True)
    assert sorted(broker.texts("OUT")) == sorted(f"m{number}" for number in range(200))


@pytest.mark.nightly
def test_the_end_of_spark_is_the_end_of_the_run(broker: SparkBroker, tmp_path: Path) -> None:
    with in_a_batch(broker, tmp_path) as child:
        java = java_of(child.pid)
        assert java is not None
        os.kill(java, signal.SIGKILL)
        assert child.wait(60) == 1, say(tmp_path)
    assert "Pipeline copy failed for good: Spark has ended" in say(tmp_path)


def drain_round(
    spark: SparkSession, broker: SparkBroker, settings: PyjmsSettings, tmp_path: Path, trigger: str
) -> None:
    texts = [f"m{number}" for number in range(200)]
    folder = tmp_path / "checkpoints" / "copy"
    with in_a_batch(broker, tmp_path, trigger) as child:
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 0, say(tmp_path)
    said = say(tmp_path)
    assert "SIGTERM: finishing the batches in progress" in said, said
    assert "Pipeline copy drained in" in said, said
    assert "Pipeline other drained in" in said, said
    assert "s3cret" not in said
    assert find_open_batch(folder / "checkpoint") is None
    status = read_status(folder / STATUS_FILE)
    assert status is not None
    assert (status.state, status.reason, status.rows) == ("stopped", "", broker.count("OUT"))
    assert 0 < status.rows < len(texts)
    if trigger == "0":  # else what the last batch read is removed with the next start
        assert status.rows + broker.count("IN") == len(texts)
    assert "s3cret" not in (folder / STATUS_FILE).read_text()
    seen = Recorder()
    assert PipelineRunner(settings, [copies("IN", "OUT", name="copy")], [seen], spark=spark).run(
        True
    )
    assert sum(batch.rows for batch in seen.of(BatchFinished, "copy")) == len(texts) - status.rows
    assert sorted(broker.texts("OUT")) == sorted(texts)
    with running(tmp_path, "status", "copy") as child:
        assert child.wait(60) == 0
    (line,) = [line for line in say(tmp_path).splitlines() if line.startswith("copy  ")]
    assert line.split()[1] == "done"


@pytest.mark.nightly
@pytest.mark.parametrize("password", ["s3cret", "wr0ng"])
def test_a_broker_with_passwords(broker: SparkBroker, tmp_path: Path, password: str) -> None:
    """Driver and executors, source and sink use the login of the settings; a wrong one is an error.

    The right one is in every run, with `in_a_batch`.
    """
    (tmp_path / "copies.py").write_text(MODULE.format(trigger="0"))
    settings = SETTINGS.format(url=broker.url).replace("s3cret", password)
    (tmp_path / "application.yaml").write_text(settings.partition("pipelines:")[0])
    broker.send("IN", ["a", "b"])
    broker.guard("me", "s3cret")
    with running(tmp_path, "run", "--once", "copies") as child:
        code = child.wait(120)
    broker.unguard()
    said = say(tmp_path)
    assert password not in said
    if password == "s3cret":
        assert code == 0, said
        assert sorted(broker.texts("OUT")) == ["a", "b"]
    else:
        assert code == 1, said
        assert "User name [me] or password is invalid." in said
        assert (broker.count("IN"), broker.count("OUT")) == (2, 0)


class Recorder:
    """Keeps events, and lets a test wait for one."""

    def __init__(self) -> None:
        self.events: list[PipelineEvent] = []
        self._changed = threading.Condition()

    def on_event(self, event: PipelineEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def of(self, kind: type[PipelineEvent], pipeline: str) -> list[Any]:
        return [
            e
            for e in self.events
            if isinstance(e, kind) and getattr(e, "pipeline", None) == pipeline
        ]

    def wait(self, kind: type[PipelineEvent], pipeline: str) -> Any:
        with self._changed:
            assert self._changed.wait_for(lambda: self.of(kind, pipeline), 120), self.events
        return self.of(kind, pipeline)[0]


def careful() -> Any:
    """Fails at a text; inside a function, so that Spark's workers get it by value."""

    def check(text: str) -> str:
        if text == "bad":
            raise ValueError("the body of bad")
        return text

    return F.udf(check, "string", useArrow=False)


def blinking() -> Any:
    """Fails for each file in a folder: a task is tried four times before its query fails."""

    def check(text: str) -> str:
        left = sorted(Path(text).glob("*")) if text.startswith("/") else []
        if left:
            left[0].unlink()
            raise OSError("for once")
        return text

    return F.udf(check, "string", useArrow=False)


def copies(source: str, sink: str, udf: Any = None, name: str | None = None) -> Pipeline:
    def copy(messages: DataFrame) -> DataFrame:
        return messages.select((udf()("text") if udf else F.col("text")).alias("text"))

    return Pipeline(name=name or f"from_{source}", function=copy, source=source, sink=sink)


@pytest.fixture
def settings(broker: SparkBroker, tmp_path: Path) -> PyjmsSettings:
    return PyjmsSettings.model_validate(
        {
            "activemq": {"broker_url": broker.url},
            "spark": {
                "checkpoint_root": str(tmp_path / "checkpoints"),
                "restart": {"initial_interval": "50ms", "max_interval": "100ms", "poison_after": 2},
            },
        }
    )


@contextlib.contextmanager
def in_background(runner: PipelineRunner) -> Iterator[list[bool]]:
    """Run in a thread, and drain at the end; the list gets what `run` returned."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(runner.run()))
    thread.start()
    try:
        yield results
    finally:
        runner.stop()
        thread.join(120)
        assert not thread.is_alive()


def test_a_poison_batch_ends_its_pipeline_and_the_others_continue(
    spark: SparkSession, broker: SparkBroker, settings: PyjmsSettings
) -> None:
    seen = Recorder()
    pipelines = [copies("IN", "OUT", careful), copies("GOOD", "GOOD.OUT")]
    runner = PipelineRunner(settings, pipelines, [seen], spark=spark)
    broker.send("IN", ["a", "bad", "b"])
    with in_background(runner) as results:
        failed = seen.wait(PipelineFailed, "from_IN")
        broker.send("GOOD", ["x", "y"])
        until(lambda: broker.count("GOOD.OUT") == 2)
        assert str(runner.health.of("from_GOOD")) == "UP"
        assert not runner.health.all.is_up
    assert results == [False]
    assert failed.ranges == {"queue://IN": Range(None, 4)}
    assert failed.reason.startswith("batch 0 failed 2 times and is not skipped")
    assert "ValueError" in failed.reason
    assert "body of bad" not in failed.reason
    assert len(seen.of(PipelineRestarting, "from_IN")) == 1
    assert (broker.count("IN"), broker.count("OUT")) == (3, 0)
    assert runner.status.of("from_IN").state == "failed"
    (drained,) = seen.of(PipelineDrained, "from_GOOD")
    assert drained.is_clean


def test_a_query_that_fails_is_started_again_and_loses_nothing(
    spark: SparkSession, broker: SparkBroker, settings: PyjmsSettings, tmp_path: Path
) -> None:
    (tmp_path / "once").mkdir()
    for number in range(4):
        (tmp_path / "once" / str(number)).write_text("")
    broker.send("IN", ["a", str(tmp_path / "once"), "b"])
    seen = Recorder()
    runner = PipelineRunner(settings, [copies("IN", "OUT", blinking)], [seen], spark=spark)
    assert runner.run(once=True)
    name = "from_IN"
    assert [event.restarts for event in seen.of(PipelineStarted, name)] == [0, 1]
    (restart,) = seen.of(PipelineRestarting, name)
    assert (restart.attempt, restart.delay) == (1, 0.05)
    (batch,) = seen.of(BatchFinished, name)
    assert (batch.batch, batch.rows, batch.dead_letters) == (0, 3, 0)
    assert batch.backlog in (None, 0)  # a batch that comes again asks for nothing new
    assert batch.phases["addBatch"] > 0
    assert sorted(broker.texts("OUT")) == sorted(["a", str(tmp_path / "once"), "b"])
    assert runner.health.all.is_up
    assert runner.status.of(name).restarts == 1


@pytest.mark.nightly
def test_a_broker_that_is_away_for_long_ends_queries_and_not_the_run(
    spark: SparkSession, broker: SparkBroker, settings: PyjmsSettings
) -> None:
    seen = Recorder()
    runner = PipelineRunner(settings, [copies("IN", "OUT")], [seen], spark=spark)
    with in_background(runner) as results:
        broker.send("IN", ["a"])
        seen.wait(BatchFinished, "from_IN")
        broker.stop()
        try:
            seen.wait(PipelineRestarting, "from_IN")
        finally:
            broker.start()
        broker.send("IN", ["b"])
        until(lambda: broker.count("OUT") == 2)
    assert results == [True]
    assert broker.texts("OUT") == ["a", "b"]


class Flight(BaseModel):
    origin: str
    delay: float


@jms_pipeline("flights", sink="late", schema=Flight, dead_letter="flights.invalid")
def late(flights: DataFrame) -> DataFrame:
    return flights.where("delay > 10").select("origin", "delay")


def test_the_fixture_runs_a_pipeline_on_messages(run_pipeline: PipelineRun) -> None:
    sent = run_pipeline(late, [{"origin": "JFK", "delay": 11}, Flight(origin="EWR", delay=5), "x"])
    assert [json.loads(present(text_of(message))) for message in sent] == [
        {"origin": "JFK", "delay": 11.0}
    ]
    (bad,) = run_pipeline.dead_letters("flights.invalid")
    assert isinstance(bad, TextMessage)
    assert bad.text == "x"
    sent = run_pipeline(late, {"messages": ['{"origin": "LGA", "delay": 60}']})
    assert [json.loads(present(text_of(message)))["origin"] for message in sent] == ["LGA"]
    assert run_pipeline.take("late") == []


def test_the_fixture_says_why_a_pipeline_failed(run_pipeline: PipelineRun) -> None:
    with pytest.raises(AssertionError, match=r"pipeline from_IN failed: .*ValueError"):
        run_pipeline(copies("IN", "topic://OUT", careful), ["bad"])
