"""Python processes that start at once: forked from one that has the packages loaded.

A test of a command is about its output, exit status and files, and each process would first spend
up to a second on imports. A forked one has its own streams, environment, folder and exit like any
other; only its imports are done. What concerns the imports themselves, or options of the
interpreter, takes a new process: `fresh=True`, or `subprocess`.

The process to fork from (`python -m tests.kit.processes.forked_python`) has no threads, takes one
request at a time, and ends with the test run.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final, NoReturn, Self, TypeAlias

__all__ = ["ForkedPython", "Process", "run_python"]

ROOT: Final = Path(__file__).resolve().parents[3]
PRELOADED: Final = (
    "pyjms.app.application",
    "pyjms.cli.main",
    "pyjms.aio",
    "pyjms_broker.cli.main",
    "pyjms_broker.settings",
    "pyjms_broker.service",
    "pyjms.outbox",
    "pyjms.sync.session",
    "pyjms.transport.tcp",
    "pyjms_broker.connector.openwire.connector",
    "pyjms_broker.connector.vm.connector",
    "pyjms_broker.filters.scheduler.filter",
    "pyjms_broker.store.kahadb.adapter",
    "pyjms_broker.testing",
    "anyio._backends._asyncio",
    "typer.rich_utils",
    "rich.markdown",
    "rich.traceback",
    "pytest",
    "sqlalchemy",
)
"""Imported by most commands. No module that a test's own package or settings would change."""
SPARK: Final = ("pyspark.sql", "pyjms.spark", "pyjms.cli.pipeline", "pyjms.spark.checks")


class ForkedPython:
    """A forked process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: IO[str] | int = subprocess.PIPE,
        stderr: IO[str] | int = subprocess.STDOUT,
    ) -> None:
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        if stdin == subprocess.PIPE:
            reading, writing = os.pipe()
            self.stdin = os.fdopen(writing, "w", encoding="utf-8")
            theirs = [reading]
        else:
            theirs = [os.open(os.devnull, os.O_RDONLY)]
        self.stdout = self._open(stdout, theirs)
        self.stderr = self._open(stderr, theirs)
        request = {
            "arguments": list(arguments),
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        try:
            self.pid: int = _server().ask(request, theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._end = os.pidfd_open(self.pid)

    @staticmethod
    def _open(stream: IO[str] | int, theirs: list[int]) -> IO[str] | None:
        """Add the descriptor of the process's next stream; return our end of a pipe."""
        if stream == subprocess.PIPE:
            reading, writing = os.pipe()
            theirs.append(writing)
            return os.fdopen(reading, encoding="utf-8")
        if stream == subprocess.DEVNULL:
            theirs.append(os.open(os.devnull, os.O_WRONLY))
        elif stream == subprocess.STDOUT:
            theirs.append(os.dup(theirs[-1]))
        else:
            theirs.append(os.dup(stream if isinstance(stream, int) else stream.fileno()))
        return None

    def poll(self) -> int | None:
        if self.returncode is None and self._has_ended(0):
            self._read_status()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not self._has_ended(timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._read_status()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                stream.close()
        self.wait()

    def communicate(self, text: str | None = None, timeout: float = 60) -> tuple[str, str]:
        """Write its input, and return what it writes until it ends: output and errors."""
        if self.stdin is not None and not self.stdin.closed:
            self.stdin.write(text or "")
            self.stdin.close()
        guard = threading.Timer(timeout, self.kill)
        guard.start()
        with ThreadPoolExecutor(2) as pool:
            output, errors = pool.map(_rest, (self.stdout, self.stderr))
        guard.cancel()
        self.wait(timeout)
        return output, errors

    def _has_ended(self, timeout: float | None) -> bool:
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(None if timeout is None else timeout * 1000))

    def _read_status(self) -> None:
        self.returncode = _server().ask({"wait": self.pid})
        os.close(self._end)


def _rest(stream: IO[str] | None) -> str:
    """Read a pipe to its end, once, and close it."""
    if stream is None or stream.closed:
        return ""
    with stream:
        return stream.read()


Process: TypeAlias = "subprocess.Popen[str] | ForkedPython"


def run_python(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    merge: bool = False,
    timeout: int = 60,
    fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` to its end and return its exit status, output and errors.

    Args:
        arguments: `-c CODE ...`, `-m MODULE ...` or `FILE ...`.
        cwd: the folder it runs in.
        env: its environment; that of this process unless given.
        stdin: what it reads from its standard input.
        merge: put what it writes to standard error into its output.
        timeout: seconds until it is killed.
        fresh: start a new interpreter instead of forking one.
    """
    if fresh or not hasattr(os, "pidfd_open"):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env=env,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            text=True,
            timeout=timeout,
            check=False,
        )
    with ForkedPython(
        arguments,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
    ) as process:
        output, errors = process.communicate(stdin, timeout)
    assert process.returncode is not None
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


class _Server:
    """The process that forks the others."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        self._lock = threading.Lock()
        atexit.register(self._end)

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        """Return the id of a process that was started, or the exit status of one that has ended."""
        with self._lock:
            socket.send_fds(self._connection, [json.dumps(request).encode()], descriptors)
            return int(self._connection.recv(100))

    def _end(self) -> None:
        self._connection.close()
        self._process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()


def _serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork a process for each request to start one; in the child, return its task and streams."""
    _preload()
    while True:
        data, descriptors, *_ = socket.recv_fds(connection, 1 << 20, 3)
        if not data:
            os._exit(0)
        request: dict[str, Any] = json.loads(data)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                connection.close()
                return request, descriptors
            for descriptor in descriptors:
                os.close(descriptor)
        connection.send(str(answer).encode())


def _preload() -> None:
    for name in PRELOADED:
        __import__(name)
    with contextlib.suppress(ImportError):  # an extra
        for name in SPARK:
            __import__(name)
    gc.freeze()  # else each forked process visits, and so copies, all of this as it ends


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Make this process look as if it had been started with the request's arguments."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the server
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [path for path in sys.path if path not in ("", str(ROOT))]
    sys.path[:0] = [path for path in paths if path]


def _run_to_the_end(arguments: list[str]) -> NoReturn:
    """Run a program, and exit as the interpreter does, but for taking it down: that takes 70 ms."""
    status = 0
    try:
        _run(arguments)
    except SystemExit as error:
        if isinstance(error.code, int):
            status = error.code & 0xFF
        elif error.code is not None:
            print(error.code, file=sys.stderr)
            status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = 120
    os._exit(status)


def _run(arguments: list[str]) -> None:
    """Run a program as the interpreter does."""
    match arguments:
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            sys.path.insert(0, "")
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), vars(main))
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [file, *rest]:
            sys.argv = [file, *rest]
            sys.path.insert(0, str(Path(file).resolve().parent))
            runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    _task = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(*_task)
    _run_to_the_end(_task[0]["arguments"])
