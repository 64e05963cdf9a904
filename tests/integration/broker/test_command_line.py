"""`pyjms broker start` and `python -m broker` as processes: they listen, and stop on a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
async def test_it_listens_serves_and_stops_cleanly(
    verb: tuple[str, ...], stop: signal.Signals, raw_client
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
