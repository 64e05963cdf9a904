"""Child processes of tests: started, waited for, and ended by their own ids; brokers among them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.kit.processes.forked_python import ForkedPython, Process

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
ROOT = Path(__file__).resolve().parents[3]
STOP_TIMEOUT = 60


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child that imports this checkout's packages."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def die_with_parent() -> None:
    """Have Linux end this child with its parent: pytest-timeout ends a run without clean-up.

    A run in the background of a shell ignores Ctrl-C; the child does not inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[Process]:
    """Run a child whose standard input and output are pipes; its standard error goes to `log`."""
    with log.open("w", encoding="utf-8") as errors:
        child: Process
        if command[0] == sys.executable:
            child = ForkedPython(
                command[1:], stdin=subprocess.PIPE, stderr=errors, env=environment()
            )
        else:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                env=environment(),
                preexec_fn=die_with_parent,  # noqa: PLW1509 - takes no lock
            )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.close()
            child.stdout.close()


def accepted_url(child: Process, log: Path) -> str:
    """Wait until a broker's process says where it accepts connections; return that URL."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert "accepts connections at" in line, log.read_text(encoding="utf-8")[-3000:]
    return line.split()[-1]


Start: TypeAlias = Callable[[Sequence[str], Path], AbstractContextManager[Any]]
"""Gives a `Process` whose streams are pipes."""


class BrokerProcess:
    """A broker in a process of its own that keeps its port when it is started again.

    The command is given the port (0 the first time, which lets the system choose) and
    `arguments`. It prints one line that ends in the URL where it accepts connections.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = list(command)
        self._log = log
        self._running: Any = None
        self._port = 0
        self.child: Any = None
        self.url = ""
        """Where it accepts connections, without options."""

    def start(self, *arguments: str) -> None:
        self._running = started([*self.command(self._port), *arguments], self._log)
        self.child = self._running.__enter__()
        self.url = accepted_url(self.child, self._log).split("?")[0]
        self._port = int(self.url.rsplit(":", 1)[1])

    def command(self, port: int) -> list[str]:
        """Return the command that starts it at `port`."""
        return [*self._command, str(port)]

    def kill(self) -> None:
        """End it as a power failure would."""
        self.child.kill()
        self.end()

    def stop(self) -> None:
        """End it in order, by closing its standard input."""
        self.child.stdin.close()
        assert self.child.wait(STOP_TIMEOUT) == 0, self._log.read_text()[-3000:]
        self.end()

    def wait(self, timeout: float) -> int:
        """Wait until it has exited; return its exit status."""
        status = int(self.child.wait(timeout))
        self.end()
        return status

    def end(self) -> None:
        """End it, if it still runs, and close its pipes."""
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def process() -> Start:
    """A context manager: `with process(command, log) as child`."""
    return started


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `pyjms broker start` in a separate process."""
    command = [sys.executable, "-m", "pyjms_broker", "--ephemeral", "--openwire", "127.0.0.1:0"]
    log = tmp_path_factory.mktemp("broker") / "log"
    with started(command, log) as child:
        yield accepted_url(child, log)
        assert child.poll() is None, log.read_text(encoding="utf-8")


class OurBroker(BrokerProcess):
    """`pyjms_broker` with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "pyjms_broker", "--data", str(folder / "data")]
        super().__init__(command, folder / "log")

    def command(self, port: int) -> list[str]:
        return [*self._command, "--openwire", f"127.0.0.1:{port}"]
