"""Java clients with `failover:` live through restarts of our broker: nothing is lost or torn."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.activemq

COUNT = 150
OPTIONS = "initialReconnectDelay=20&maxReconnectDelay=100&useExponentialBackOff=false"

Process = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def port() -> int:
    """A free port, to which the clients reconnect."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def broker(process: Process, tmp_path: Path, port: int) -> Callable[[], Any]:
    """Starts our broker, at the same port with the same data each time."""
    number = iter(range(100))

    @contextmanager
    def start() -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "pyjms_broker", "--data", str(tmp_path / "data")]
        log = tmp_path / f"broker-{next(number)}.log"
        with process([*command, "--openwire", f"127.0.0.1:{port}"], log) as child:
            assert child.stdout is not None
            assert "accepts connections at" in child.stdout.readline(), log.read_text()
            yield child

    return start


def wait_for(java: subprocess.Popen[str], line: str) -> None:
    assert java.stdout is not None
    for said in java.stdout:
        if said.strip() == line:
            return
    pytest.fail(f"the clients ended before {line!r}")


@pytest.mark.timeout(120)
def test_clients_live_through_a_kill_and_a_stop(
    java_program: Callable[[Path], list[str]],
    process: Process,
    broker: Callable[[], Any],
    port: int,
    tmp_path: Path,
) -> None:
    program = java_program(Path(__file__).with_name("program"))
    url = f"failover:(tcp://127.0.0.1:{port})?{OPTIONS}"
    log = tmp_path / "java.log"
    with broker() as first:
        clients = process([*program, "Failover", url, str(COUNT)], log)
        java = clients.__enter__()
        try:
            wait_for(java, "sent 40")
            first.send_signal(signal.SIGKILL)
            first.wait()
            with broker() as second:
                wait_for(java, "sent 90")
                second.send_signal(signal.SIGTERM)
                second.wait()
                with broker():
                    assert java.stdout is not None
                    found = json.loads(java.stdout.read().splitlines()[-1])
                    assert java.wait() == 0, log.read_text(encoding="utf-8")
        finally:
            clients.__exit__(None, None, None)
    everything = list(range(1, COUNT + 1))
    assert len(found["in doubt"]) % 5 == 0
    found["batches"] += found["in doubt"]
    for kind in ("plain", "batches", "durable"):
        assert sorted(set(found[kind])) == everything, kind
    # whoever sent it again after the kill did not store it twice
    assert sorted(found["plain"]) == everything
    assert not re.search(r"Exception in thread", log.read_text(encoding="utf-8"))
