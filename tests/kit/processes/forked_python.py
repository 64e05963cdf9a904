"""Python processes that start at once: `run_python` forks them from one that has the packages loaded.

A test of a command is about its output, exit status and files, and each process would first spend
up to a second on imports. A forked one has its own streams, environment, folder and exit like any
other; only its imports are done. What concerns the imports themselves, signals or a program that
runs on takes a new process: `fresh=True`, or `subprocess`.

The process to fork from (`python -m tests.kit.processes.forked_python`) has no threads, takes one request at
a time, and ends with the test run.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

__all__ = ["run_python"]

ROOT: Final = Path(__file__).resolve().parents[3]
PRELOADED: Final = (
    "pyjms.app.application",
    "pyjms.cli.main",
    "pyjms.aio",
    "pyjms_broker.cli.main",
    "pyjms_broker.settings",
    "pyjms_broker.service",
    "typer.main",
    "rich.console",
    "pytest",
)
"""Imported by most commands. No module that a test's own package or settings would change."""
SPARK: Final = ("pyspark.sql", "pyjms.spark", "pyjms.cli.pipeline", "pyjms.cli.pipeline_loading")


def run_python(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    merge: bool = False,
    timeout: int = 60,
    fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` to its end and return its exit status, output and errors.

    Args:
        arguments: `-c CODE ...`, `-m MODULE ...` or `FILE ...`.
        cwd: the folder it runs in.
        env: its environment; that of this process unless given.
        merge: put what it writes to standard error into its output.
        timeout: seconds until it is ended with SIGALRM.
        fresh: start a new interpreter instead of forking one.
    """
    environment = dict(os.environ if env is None else env)
    if fresh or not hasattr(os, "fork"):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            text=True,
            timeout=timeout,
            check=False,
        )
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "out" if merge else "err")
        request = {
            "arguments": arguments,
            "cwd": str(cwd),
            "environment": environment,
            "files": [str(out), str(err)],
            "timeout": timeout,
        }
        status = _server().ask(request)
        errors = "" if merge else err.read_text(encoding="utf-8")
        output = out.read_text(encoding="utf-8")
    return subprocess.CompletedProcess([sys.executable, *arguments], status, output, errors)


class _Server:
    """The process that forks the others."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._end)

    def ask(self, request: Mapping[str, Any]) -> int:
        """Return the exit status of the requested program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def _end(self) -> None:
        with self._process:  # closes the pipes, which ends it, and waits
            pass


@functools.cache
def _server() -> _Server:
    return _Server()


def _serve() -> dict[str, Any]:
    """Fork a process for each line of standard input; in the child, return its task."""
    _preload()
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    raise SystemExit


def _preload() -> None:
    for name in PRELOADED:
        __import__(name)
    with contextlib.suppress(ImportError):  # an extra
        for name in SPARK:
            __import__(name)
    gc.freeze()  # else each forked process visits, and so copies, all of this as it ends


def _become(request: Mapping[str, Any]) -> None:
    """Make this process look as if it had been started with the request's arguments."""
    signal.alarm(request["timeout"])
    opened = [os.open(os.devnull, os.O_RDONLY)]
    opened += [os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for file in request["files"]]
    for target, descriptor in enumerate(opened):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [path for path in sys.path if path not in ("", str(ROOT))]
    sys.path[:0] = [path for path in paths if path]


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
    asked = _serve()
    _become(asked)
    _run(asked["arguments"])
