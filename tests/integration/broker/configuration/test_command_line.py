"""`pyjms broker start` and `python -m pyjms_broker` as processes: they listen, and stop on a signal."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from tests.kit.clients.raw import RawClient
from tests.kit.processes.forked_python import ForkedPython


@contextmanager
def started(*arguments: str) -> Iterator[tuple[ForkedPython, str]]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = ForkedPython(
        ["-m", "pyjms_broker", *arguments],
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield process, line.strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("verb", [(), ("start",)])
async def test_start_serve_and_stop_on_a_signal(
    verb: tuple[str, ...], stop: signal.Signals, raw_client: type[RawClient]
) -> None:
    with started(*verb, "--ephemeral", "--openwire", "127.0.0.1:0", "--name", "b1") as (
        process,
        line,
    ):
        assert line.startswith("openwire accepts connections at tcp://127.0.0.1:")
        url = line.split()[-1]
        client = raw_client(create_transport(url))
        await client.open()
        await client.send(Queue("q"), "x")
        await client.consumer(Queue("q"))
        await client.ack(await client.dispatched())
        process.send_signal(stop)
        _, log = process.communicate(timeout=20)
        assert process.returncode == 0, log
        assert "Broker b1 stopped" in log
        assert "Traceback" not in log
        await client.cut()


async def test_a_development_broker_shows_its_queues_on_the_web(
    raw_client: type[RawClient],
) -> None:
    with started("--ephemeral", "--openwire", "127.0.0.1:0", "--web", "0") as (process, line):
        assert process.stdout is not None
        web = process.stdout.readline().strip().removeprefix("the web console is at ")
        assert web.startswith("http://127.0.0.1:")
        client = raw_client(create_transport(line.split()[-1]))
        await client.open()
        await client.send(Queue("orders.seen"), "x")
        async with httpx.AsyncClient(base_url=web, follow_redirects=True, verify=False) as browser:
            page = await browser.get("/admin/queues")
        assert page.status_code == 200
        assert "orders.seen" in page.text
        await client.cut()


async def test_messages_survive_a_kill(tmp_path: Path, raw_client: type[RawClient]) -> None:
    arguments = ("start", "--data", str(tmp_path), "--openwire", "127.0.0.1:0")
    with started(*arguments) as (process, line):
        client = raw_client(create_transport(line.split()[-1]))
        await client.open()
        await client.send(Queue("q"), "1", "2", "3")
        process.kill()
        process.wait(20)
        await client.cut()
    assert (tmp_path / "kahadb" / "db-1.log").exists()
    with started(*arguments) as (process, line):
        assert process.stdout is not None
        where = process.stdout.readline().strip()
        assert where == f"broker localhost keeps its messages in {tmp_path / 'kahadb'}"
        client = raw_client(create_transport(line.split()[-1]))
        await client.open()
        await client.consumer(Queue("q"))
        found = [(await client.message()).content for _ in range(3)]
        assert [content[4:] for content in found if content] == [b"1", b"2", b"3"]
        await client.cut()
        process.terminate()
        _, log = process.communicate(timeout=20)
        assert process.returncode == 0, log
        # beside the queue there is that of the scheduler
        assert f"keeps its messages in {tmp_path / 'kahadb'}: 3 in 2 destinations" in log


@pytest.mark.fact("activemq-persistence H4")
def test_a_slave_waits_and_stops_on_a_signal(tmp_path: Path) -> None:
    arguments = ("start", "--data", str(tmp_path), "--openwire", "127.0.0.1:0")
    with started(*arguments) as (_master, line):
        assert "accepts connections" in line
        slave = ForkedPython(
            ["-m", "pyjms_broker", *arguments],
            stderr=subprocess.PIPE,
        )
        assert slave.stderr is not None
        said = slave.stderr.readline()
        assert "is locked by another server" in said
        slave.terminate()
        output, log = slave.communicate(timeout=20)
        assert slave.returncode == 0, log
        assert output == ""
        assert "Traceback" not in log
