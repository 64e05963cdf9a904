"""`pyjms broker jobs` with a running broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms import ConnectionFactory
from tests.kit.processes.forked_python import ForkedPython, run_python


def run(*arguments: str, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "pyjms_broker", "jobs", *arguments, cwd=Path.cwd(), fresh=fresh)


@pytest.fixture
def broker_url() -> Iterator[str]:
    arguments = ("start", "--ephemeral", "--openwire", "127.0.0.1:0")
    with ForkedPython(
        ["-m", "pyjms_broker", *arguments],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYJMS_BROKER__SCHEDULER_SUPPORT": "true"},
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.kill()


def order(url: str, **orders: object) -> str:
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("orders.late"))
        message = session.create_text_message("x")
        for name, value in orders.items():
            message.properties[f"AMQ_SCHEDULED_{name.upper()}"] = value
        producer.send(message)
        return str(message.message_id)


def test_jobs_are_listed_and_removed(broker_url: str) -> None:
    late = order(broker_url, delay=3_600_000)
    daily = order(broker_url, cron="0 6 * * *")
    listed = run("list", "--url", broker_url, fresh=True)
    assert listed.returncode == 0, listed.stderr
    lines = listed.stdout.splitlines()
    assert lines[0].split() == ["job", "destination", "due", "schedule"]
    assert lines[-1] == "2 jobs"
    [line] = [line for line in lines if line.startswith(late)]
    assert "queue://orders.late" in line
    assert line.endswith("delay 1h")
    [line] = [line for line in lines if line.startswith(daily)]
    assert line.endswith(":00  cron 0 6 * * *")
    removed = run("remove", "--url", broker_url, late)
    assert (removed.returncode, removed.stdout, removed.stderr) == (0, "", "")
    assert run("list", "--url", broker_url).stdout.splitlines()[-1] == "1 job"
    planned = run("remove", "--url", broker_url, "--all", "--dry-run")
    assert planned.stdout.splitlines()[-1] == "Remove 1 job: not done (--dry-run)"
    refused = run("remove", "--url", broker_url, "--all")
    assert (refused.returncode, "needs a confirmation" in refused.stderr) == (2, True)
    assert run("list", "--url", broker_url).stdout.splitlines()[-1] == "1 job"
    assert run("remove", "--url", broker_url, "--all", "--yes").returncode == 0
    assert run("list", "--url", broker_url).stdout == "0 jobs\n"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("remove", "--url", "tcp://127.0.0.1:1"), "Name either job ids or --all"),
        (("remove", "--url", "tcp://127.0.0.1:1", "--all", "x"), "Name either job ids"),
        (("list", "--url", "nonsense"), "nonsense"),
        (("list", "--url", "tcp://127.0.0.1:1"), "127.0.0.1:1"),
    ],
)
def test_errors_are_one_line_without_a_traceback(arguments: tuple[str, ...], what: str) -> None:
    done = run(*arguments)
    assert done.returncode in (1, 2)
    assert what in done.stderr
    assert done.stderr.count("\n") == 1
