"""`pyjms run --workers N` and `--reload`: processes, their supervisor, and signals to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate
from tests.kit.processes.children import our_broker
from tests.kit.processes.forked_python import ForkedPython
from tests.kit.processes.user_programs import TIMEOUT, Running, installed, program_environment

__all__ = ["installed", "our_broker"]

JOBS = """
import os
from pyjms import jms_listener


@jms_listener("{queue}", id="jobs")
def on_job(text: str) -> None:
    print("job", text, "in", os.getpid(), flush=True)
"""

Start = Callable[..., AbstractContextManager[Running]]


@pytest.fixture
def url(our_broker: str) -> str:
    return our_broker.split("?", maxsplit=1)[0]


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return f"workers.{request.node.name}"


@pytest.fixture
def template(url: str) -> Iterator[JmsTemplate]:
    factory = CachingConnectionFactory(ConnectionFactory(url))
    yield JmsTemplate(factory)
    factory.destroy()


@pytest.fixture
def start(tmp_path: Path, installed: Path, url: str, queue: str) -> Start:
    (tmp_path / "jobs.py").write_text(JOBS.format(queue=queue), encoding="utf-8")

    @contextmanager
    def begin(*options: str, broker: str | None = url, **variables: str) -> Iterator[Running]:
        if broker is not None:
            variables["PYJMS_ACTIVEMQ__BROKER_URL"] = broker
        with ForkedPython(
            ["-m", "pyjms", "run", "jobs", *options],
            cwd=tmp_path,
            stderr=subprocess.STDOUT,
            env=program_environment(installed, **variables),
        ) as process:
            try:
                yield Running(process)
            finally:
                process.kill()

    return begin


def started(number: int) -> str:
    return rf"Worker {number} \(pid (\d+)\) has started"


def test_a_worker_that_is_killed_is_replaced(
    start: Start, template: JmsTemplate, queue: str
) -> None:
    with start("--workers", "2") as supervisor:
        supervisor.expect("Worker 1 (pid ", "Worker 2 (pid ")
        first = supervisor.numbers(started(1))
        os.kill(first[0], signal.SIGKILL)
        supervisor.expect("was ended by SIGKILL: a new one starts in 0.5 s")
        for number in range(4):
            template.convert_and_send(queue, str(number))
        supervisor.expect(*(f"job {number} in " for number in range(4)))
        supervisor.end(signal.SIGTERM)
        assert "All workers have ended" in supervisor.written
        assert first[0] not in supervisor.numbers(r"job \d in (\d+)")


def test_a_rolling_restart_loses_nothing_and_replaces_nothing_by_what_cannot_start(
    start: Start, template: JmsTemplate, queue: str, tmp_path: Path
) -> None:
    with start("--workers", "2") as supervisor:
        supervisor.expect("Worker 1 (pid ", "Worker 2 (pid ")
        template.convert_and_send(queue, "0")
        supervisor.expect("job 0 in ")
        supervisor.signal(signal.SIGHUP)
        for number in range(1, 20):
            template.convert_and_send(queue, str(number))
        supervisor.expect(
            "Rolling restart finished", *(f"job {number} in " for number in range(20))
        )
        replaced = supervisor.numbers(r"replaces Worker \d \(pid (\d+)\)")
        assert len(set(replaced)) == 2

        (tmp_path / "jobs.py").write_text("import no_such_module", encoding="utf-8")
        supervisor.signal(signal.SIGHUP)
        supervisor.expect("ended with exit code 1 and cannot start: Worker 1 (pid ")
        template.convert_and_send(queue, "20")
        supervisor.expect("job 20 in ")
        supervisor.end(signal.SIGINT)


def test_an_exclusive_worker_ends_before_its_successor_starts(
    start: Start, tmp_path: Path, queue: str, template: JmsTemplate
) -> None:
    with start("--workers", "2", PYJMS_JMS__CLIENT_ID="client-${PYJMS_WORKER}") as supervisor:
        supervisor.expect("Worker 1 (pid ", "Worker 2 (pid ")
        template.convert_and_send(queue, "0")
        supervisor.expect("job 0 in ")
        supervisor.signal(signal.SIGHUP)
        supervisor.expect("Rolling restart finished")
        assert "already connected" not in supervisor.written
        assert len(supervisor.numbers(started(1))) == len(supervisor.numbers(started(2))) == 2
        supervisor.end(signal.SIGTERM)


def test_workers_are_added_and_removed_paused_and_resumed(
    start: Start, template: JmsTemplate, queue: str
) -> None:
    with start("--workers", "1") as supervisor:
        supervisor.expect("Worker 1 (pid ")
        supervisor.signal(signal.SIGTTOU)
        supervisor.expect("The last worker is not removed")
        supervisor.signal(signal.SIGTTIN)
        supervisor.expect("Workers: 2", "Worker 2 (pid ")
        supervisor.signal(signal.SIGTTOU)
        supervisor.expect("Workers: 1")
        supervisor.signal(signal.SIGUSR1)
        supervisor.expect("Paused: jobs")
        template.convert_and_send(queue, "0")
        assert "job 0" not in supervisor.written
        supervisor.signal(signal.SIGUSR2)
        supervisor.expect("Listening again: jobs", "job 0 in ")
        supervisor.end(signal.SIGTERM)


@pytest.mark.parametrize(
    ("broker", "variables", "reason"),
    [
        (None, {}, "Several workers need a broker outside of their processes"),
        (
            "tcp",
            {"PYJMS_JMS__CLIENT_ID": "one"},
            "listeners.<id>.client_id, to a text with ${PYJMS_WORKER}",
        ),
        ("tcp", {"PYJMS_JMS__CLIENT": "one"}, "PYJMS_JMS__CLIENT"),
    ],
)
def test_workers_that_cannot_start_end_the_supervisor(
    start: Start, url: str, broker: str | None, variables: dict[str, str], reason: str
) -> None:
    with start("--workers", "2", broker=broker and url, **variables) as supervisor:
        supervisor.wait(1)
        assert reason in supervisor.written
        assert "and cannot start: stopping" in supervisor.written


KILLED_ONCE = """
import os, pathlib, signal
from pyjms import on_startup


@on_startup
def begin() -> None:
    if not (marker := pathlib.Path("killed")).exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_is_killed_while_it_starts_is_replaced(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "jobs.py").open("a", encoding="utf-8") as jobs:
        jobs.write(KILLED_ONCE)
    with start("--workers", "1") as supervisor:
        supervisor.expect("was ended by SIGKILL: a new one starts in 0.5 s", "has started")
        supervisor.end(signal.SIGTERM)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_lines_of_workers_name_them(start: Start, log_format: str) -> None:
    with start("--workers", "2", "--log-format", log_format) as supervisor:
        supervisor.expect("Worker 1 (pid ", "Worker 2 (pid ")
        (pid,) = supervisor.numbers(started(2))
        line = {
            "text": f"INFO    worker 2 (pid {pid}) pyjms.app.application: Application started",
            "json": f'"worker": 2, "pid": {pid}',
        }
        supervisor.expect(line[log_format])
        supervisor.end(signal.SIGTERM)
    if log_format == "json":
        entries = [json.loads(line) for line in supervisor.written.splitlines()]
        assert {each["logger"] for each in entries} >= {"pyjms.cli.supervisor"}


def test_workers_end_with_a_supervisor_that_was_killed(start: Start) -> None:
    with start("--workers", "2") as supervisor:
        supervisor.expect("Worker 1 (pid ", "Worker 2 (pid ")
        supervisor.signal(signal.SIGKILL)
        supervisor.wait(-signal.SIGKILL)  # its output ends when the last worker has ended
        assert supervisor.written.count("Application stopped") == 2


def test_reload_runs_the_changed_code_and_waits_where_it_cannot_start(
    start: Start, tmp_path: Path, queue: str
) -> None:
    code = tmp_path / "jobs.py"
    started_with = "from pyjms import on_startup\n@on_startup\ndef hello() -> None:\n    print('version {}', flush=True)\n"
    code.write_text(started_with.format(1), encoding="utf-8")
    with start("--reload", broker=None) as supervisor:
        supervisor.expect("version 1", "Worker 1 (pid ")
        code.write_text("import no_such_module", encoding="utf-8")
        supervisor.expect("jobs.py changed: restarting", "No module named", "waiting for a change")
        code.write_text(started_with.format(2), encoding="utf-8")
        supervisor.expect("version 2")
        supervisor.end(signal.SIGTERM)


def test_a_second_signal_kills(
    start: Start, tmp_path: Path, queue: str, template: JmsTemplate
) -> None:
    slow = JOBS.format(queue=queue) + "    import time\n    time.sleep(600)\n"
    (tmp_path / "jobs.py").write_text(slow, encoding="utf-8")
    with start("--workers", "1") as supervisor:
        supervisor.expect("Worker 1 (pid ")
        template.convert_and_send(queue, "0")
        supervisor.expect("job 0 in ")
        supervisor.signal(signal.SIGTERM)
        supervisor.expect("SIGTERM: stopping 1 workers")
        supervisor.end(signal.SIGTERM)
        assert "killing the workers" in supervisor.written
        assert template.receive_and_convert(queue, timeout=TIMEOUT) == "0"


def test_reload_names_a_folder_that_does_not_exist(start: Start) -> None:
    with start("--reload", "--reload-dir", "nowhere") as supervisor:
        supervisor.wait(1)
        assert "--reload-dir: there is no folder nowhere" in supervisor.written
