"""`pyjms broker start` as a child process, and where its connectors listen."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kit.processes.children import environment
from tests.kit.processes.forked_python import ForkedPython

__all__ = ["broker_process", "free_port", "listening_at", "stopped"]


@contextmanager
def broker_process(
    *arguments: str, cwd: Path, variables: Mapping[str, str] | None = None
) -> Iterator[ForkedPython]:
    """Run `python -m pyjms_broker start` with these arguments."""
    process = ForkedPython(
        ["-m", "pyjms_broker", "start", *arguments],
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment(PYTHONUNBUFFERED="1", **(variables or {})),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def listening_at(process: ForkedPython, connector: str | None = None) -> str:
    """Wait for the line of a connector, by default of the first one; return its URL."""
    assert process.stdout is not None
    for line in process.stdout:
        name, mark, url = line.strip().partition(" accepts connections at ")
        if mark and connector in (None, name):
            return url
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


def stopped(process: ForkedPython) -> str:
    """Stop the broker by SIGTERM, check that it stops in order, and return its log."""
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    return log


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
