"""The supervisor of worker processes, where the system cannot start one."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import anyio
import pytest

from pyjms.cli.supervisor import Supervisor
from pyjms.testing.clock import VirtualClock
from tests.kit.waiting import until

WORKER = """\
#!{python}
import json, os, signal, sys, time
folder = os.path.dirname(sys.argv[0])
while os.path.exists(folder + "/wait"):
    open(f"{{folder}}/{{os.getpid()}}.begun", "w").close()
    time.sleep(0.02)
signal.signal(signal.SIGUSR1, lambda *_: open(f"{{folder}}/{{os.getpid()}}.paused", "w").close())
given = json.loads(sys.argv[sys.argv.index("--as-worker") + 1])
os.write(given["report_to"], b'{{"is_exclusive": false, "stop_timeout": 1.0}}\\n')
os.read(given["end_with"], 1)
"""
STARTED = re.compile(r"Worker 1 \(pid (\d+)\) has started")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_program_that_is_away_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As while a deployment replaces it: the other workers go on, and it is tried again."""
    caplog.set_level("INFO", "pyjms")
    program, away = tmp_path / "worker", tmp_path / "away"
    program.write_text(WORKER.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o700)
    supervisor = Supervisor([str(program)], 2)

    async def seen(text: str) -> None:
        await until(lambda: text in caplog.text, turn=lambda: anyio.sleep(0.01))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(supervisor.run)
        await seen("Worker 1 (pid ")
        await seen("Worker 2 (pid ")
        program.rename(away)
        await supervisor.restart()
        await seen("No process can be started, Worker 1 (pid ")
        os.kill(int(STARTED.findall(caplog.text)[0]), signal.SIGKILL)
        await seen("Worker 1: no process can be started, trying again in 1 s")
        away.rename(program)
        await until(lambda: len(STARTED.findall(caplog.text)) == 2, turn=lambda: anyio.sleep(0.01))
        assert caplog.text.count("Worker 2 (pid ") == 1  # went on
        tasks.cancel_scope.cancel()
    assert "All workers have ended" in caplog.text


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_workers_that_are_starting_are_paused_when_they_have_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The signal would end them before."""
    caplog.set_level("INFO", "pyjms")
    program, wait = tmp_path / "worker", tmp_path / "wait"
    program.write_text(WORKER.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o700)
    wait.touch()

    async def found(pattern: str, count: int) -> None:
        await until(
            lambda: len(list(tmp_path.glob(pattern))) == count, turn=lambda: anyio.sleep(0.01)
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Supervisor([str(program)], 2).run)
        await found("*.begun", 2)
        os.kill(os.getpid(), signal.SIGUSR1)
        await anyio.sleep(0.1)  # a signal that is passed on too early would end them in this time
        wait.unlink()
        await found("*.paused", 2)
        first = int(STARTED.findall(caplog.text)[0])
        os.kill(first, signal.SIGKILL)
        await found("*.paused", 3)  # the next one
        tasks.cancel_scope.cancel()
    assert caplog.text.count("was ended by") == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_program_that_is_not_there_ends_the_supervisor(tmp_path: Path) -> None:
    assert await Supervisor([str(tmp_path / "worker")], 2).run() == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_with_too_much_memory_is_replaced_after_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, jms_clock: VirtualClock
) -> None:
    caplog.set_level("INFO", "pyjms")
    program = tmp_path / "worker"
    program.write_text(WORKER.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o700)

    async def seen(text: str) -> None:
        await until(lambda: text in caplog.text, turn=lambda: anyio.sleep(0.01))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Supervisor([str(program)], 1, None, 1 << 20).run)
        await seen("Worker 1 (pid ")
        await jms_clock.advance(51)
        assert "it is replaced" not in caplog.text
        await jms_clock.advance(10)
        await seen("MB of memory, more than 1 MB: it is replaced")
        await seen(" replaces Worker 1 (pid ")
        tasks.cancel_scope.cancel()
