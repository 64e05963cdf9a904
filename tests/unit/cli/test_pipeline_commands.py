"""`pyjms pipeline`: subcommands that do not start Spark, in separate processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.runtime.distribution import install_command
from tests.kit.processes.forked_python import run_python

pytest.importorskip("pyspark")

Run = Callable[..., subprocess.CompletedProcess[str]]
MAIN = "from pyjms.cli.main import main; main()"
NO_PYSPARK = """
import importlib.metadata, sys
found = importlib.metadata.version
def version(name):
    if name == "pyspark":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
"""
MODULE = """
from pyjms import jms_listener, on_startup
from pyjms.spark import jms_pipeline

@jms_pipeline("Consumer.a.VirtualTopic.flights", sink="delays", trigger="2s", schema="text STRING", dead_letter="bad")
def delays(messages):
    return messages

@jms_pipeline({"flights": "F", "weather": "W"}, sink="joined", exactly_once="off")
def join(flights, weather):
    return flights

@jms_listener("delays", id="delays")
def on_delay(text: str): ...

@on_startup
def begin():
    print("started", flush=True)
"""
SQL = """
activemq: {broker_url: 'tcp://h:1'}
pipelines:
  copy: {source: A, sink: 'parquet:/data', sql: SELECT text FROM messages, trigger: 500ms}
"""


@pytest.fixture
def pyjms(tmp_path: Path) -> Run:
    (tmp_path / "board.py").write_text(MODULE)
    (tmp_path / "application.yaml").write_text("activemq: {broker_url: 'tcp://h:1'}\n")
    (tmp_path / "sql.yaml").write_text(SQL)

    def run(
        *arguments: str, code: str = MAIN, fresh: bool = False
    ) -> subprocess.CompletedProcess[str]:
        return run_python("-c", code, *arguments, cwd=tmp_path, fresh=fresh)

    return run


def test_list_shows_functions_and_sql(pyjms: Run) -> None:
    done = pyjms("pipeline", "list", "board", "sql.yaml", fresh=True)
    assert done.returncode == 0, done.stderr
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["delays", "Consumer.a.VirtualTopic.flights", "delays", "bad", "2s", "append", "epoch"],
        ["join", "F, W", "joined", "-", "0s", "append", "off"],
        ["copy", "A", "parquet:/data", "-", "0.5s", "append", "epoch"],
    ]
    assert pyjms("pipeline", "list", "board:join").stdout.startswith("join\t")
    assert pyjms("pipeline", "list", "sql.yaml").stdout.startswith("copy\t")
    only = pyjms("pipeline", "list", "board", "--config", "sql.yaml", "--only", "copy")
    assert only.stdout.count("\n") == 1


def test_check_of_what_is_fine(pyjms: Run) -> None:
    done = pyjms("pipeline", "check", "board", "sql.yaml")
    assert done.stdout.splitlines() == [
        f"{name}: no problems found" for name in ("delays", "join", "copy")
    ]
    assert pyjms("check", "board").stdout == "No problems found in board.\n"


def test_check_lists_every_problem_on_a_line(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text(
        "pipelines:\n  delays: {broker: nowhere}\n  join: {sink: F}\n"
    )
    done = pyjms("pipeline", "check", "board")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert all(line.startswith("pyjms: ") for line in lines)
    assert "application.yaml:2: Pipeline delays: broker nowhere is not in `brokers`" in lines[0]
    assert "application.yaml:3: Pipeline join: Spark needs a broker" in lines[1]
    assert "activemq.broker_url is not set" in lines[1]
    assert "set activemq.broker_url to a tcp:// URL" in lines[1]
    assert "application.yaml:3: Pipeline join: sink queue://F is also its source" in lines[2]
    assert lines[3] == "pyjms: 3 problems found"
    assert pyjms("check", "board").stderr.splitlines() == lines


def test_an_entry_without_a_pipeline_does_not_hide_other_problems(
    pyjms: Run, tmp_path: Path
) -> None:
    (tmp_path / "application.yaml").write_text(
        "activemq: {broker_url: 'tcp://h:1'}\n"
        "pipelines:\n  nobody: {trigger: 1s}\n  delays: {options: {selector: a == 1}}\n"
        "  copy: {source: A, sink: B, sql: SELECT x FROM messages, schema: x INTT}\n"
    )
    done = pyjms("pipeline", "check", "board")
    assert done.returncode == 1
    nobody, selector, schema, count = done.stderr.splitlines()
    assert count == "pyjms: 3 problems found"
    assert "pipelines.nobody has no sql, so it changes a decorated pipeline" in nobody
    assert "Pipeline delays: selector 'a == 1' is not valid: " in selector
    assert "Pipeline copy: schema: INTT of x is not a type of bodies" in schema
    assert pyjms("check", "board").stderr == done.stderr
    assert len(pyjms("pipeline", "list", "board").stderr.splitlines()) == 1


def test_settings_and_modules_that_cannot_be_read_do_not_hide_pipelines(
    pyjms: Run, tmp_path: Path
) -> None:
    (tmp_path / "application.yaml").write_text(
        "activemq: {broker_ulr: 'tcp://h:1'}\n"
        "pipelines:\n  nobody: {trigger: 1s}\n"
        "  copy: {source: A, sink: B, sql: SELECT x FROM messages, output_mode: appendd}\n"
        "  other: {source: A, sink: A, sql: SELECT x FROM messages}\n"
    )
    (tmp_path / "broken.py").write_text("import nowhere\n")
    done = pyjms("pipeline", "check", "board", "broken")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("pyjms: ")]
    starts = [
        "application.yaml:1: activemq.broker_ulr: there is no such setting; did you mean activemq.",
        "application.yaml:4: pipelines.copy.output_mode: ",
        "broken.py:1: broken cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
        "source queue://A is read 2 times, by copy and other",
        "application.yaml:5: Pipeline other: sink queue://A is also its source",
        "not checked: brokers of pipelines: the settings are not valid",
        "5 problems found",
    ]
    assert len(lines) == len(starts), lines
    for text in starts:
        assert [line for line in lines if line.startswith(f"pyjms: {text}")], lines


def test_help_says_where_settings_are_looked_for(pyjms: Run) -> None:
    for verb in (("check",), ("run",), ("pipeline", "check")):
        assert "./config/application.yaml" in "".join(pyjms(*verb, "--help").stdout.split())


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("list", "nowhere"), 1, "There is no module 'nowhere'"),
        (("list", "board:on_delay"), 1, "board has no pipeline function 'on_delay' (its pipelines are delays, join)"),
        (("list", "board", "--only", "x"), 1, "There is no pipeline x (the pipelines are delays, join)"),
        (("list",), 1, "There are no pipelines"),
        (("list", "sql.yaml", "--config", "application.yaml"), 1, "There is more than one settings file"),
        (("list", "absent.yaml"), 1, "absent.yaml"),
        (("list", "early"), 1, "early needs a Spark session while it is imported"),
        (("status",), 1, "No pipeline has run with checkpoints in checkpoints"),
        (("status", "x"), 1, "No pipeline x has run"),
        (("fly",), 2, "No such command"),
    ],
)  # fmt: skip
def test_errors_are_printed_without_a_traceback(
    pyjms: Run, tmp_path: Path, arguments: Any, status: int, text: str
) -> None:
    (tmp_path / "early.py").write_text(
        "from pyspark.sql import functions as F\nf = F.udf(lambda x: x, 'string')\n"
    )
    done = pyjms("pipeline", *arguments)
    assert done.returncode == status
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["run", "list", "check"])
def test_without_pyspark_there_is_one_line(pyjms: Run, verb: str) -> None:
    done = pyjms("pipeline", verb, "board", code=NO_PYSPARK + MAIN, fresh=verb == "run")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert install_command("spark") in line


def test_help_needs_no_spark_and_no_broker(pyjms: Run) -> None:
    code = f"import sys, atexit\natexit.register(lambda: print(sorted(sys.modules)))\n{MAIN}"
    done = pyjms("pipeline", "--help", code=code, fresh=True)
    for verb in ("run", "list", "check", "status"):
        assert verb in done.stdout
    for module in ("'pyspark'", "'pyjms.spark'", "'pyjms.settings.spark'"):
        assert module not in done.stdout


def test_status_is_a_table(pyjms: Run, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    import socket
    import time

    now = time.time_ns() // 1_000_000
    for name, values in {
        "delays": {
            "state": "running",
            "process": os.getpid(),
            "batch": 7,
            "backlog": 9,
            "oldest": now - 150_000,
        },
        "join": {"state": "running", "process": gone.pid, "dead_letters": 3},
        "old": {"state": "failed", "process": gone.pid, "reason": "batch 1 failed", "restarts": 2},
    }.items():
        folder = tmp_path / "checkpoints" / name
        folder.mkdir(parents=True)
        age = 3 * 3600_000 if name == "old" else 0
        status = {"pipeline": name, "host": socket.gethostname(), "updated": now - age, **values}
        (folder / "pyjms-status.json").write_text(json.dumps(status))
    done = pyjms("pipeline", "status")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == [
        "PIPELINE",
        "STATE",
        "BATCH",
        "ROWS/S",
        "BACKLOG",
        "OLDEST",
        "DEAD",
        "RESTARTS",
        "AGE",
        "REASON",
    ]
    first = [row.split(maxsplit=9) for row in rows]
    assert first[0][:8] == ["delays", "running", "7", "0", "9", "2m", "0", "0"]
    assert first[1][:2] == ["join", "stale"]
    assert first[1][9] == "was running, but its process has ended"
    assert first[2] == ["old", "failed", "-", "0", "-", "-", "0", "2", "3h", "batch 1 failed"]
    assert rows[0].index("running") == head.index("STATE")
    assert pyjms("pipeline", "status", "delays").returncode == 0
    assert pyjms("pipeline", "status", "join").returncode == 1
    assert pyjms("pipeline", "status", "old").returncode == 1


def test_an_embedded_broker_has_to_be_asked_for(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text("")
    done = pyjms("pipeline", "run", "board")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("pyjms: ")]
    assert (
        "Spark needs a broker that its processes can reach, but activemq.broker_url is not set"
        in line
    )
    assert "activemq.embedded.enabled" in line


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a Windows process at once")
def test_run_of_listeners_says_where_pipelines_run(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text("")
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", "board"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        guard = threading.Timer(50, process.kill)
        guard.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=50)
        guard.cancel()
    assert process.returncode == 0, log
    said = "board also has pipelines (delays, join): `pyjms pipeline run board` runs them"
    assert log.count(said) == 1
