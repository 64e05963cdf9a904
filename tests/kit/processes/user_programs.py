"""Programs of users in separate processes on each Python, run by `make pythons`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from pyjms import ConnectionFactory, Queue
from tests.kit.processes.children import ROOT, die_with_parent, environment
from tests.kit.processes.forked_python import Process
from tests.kit.processes.interpreters import interpreter
from tests.kit.recipes import recipe_files

__all__ = [
    "TIMEOUT",
    "Make",
    "Program",
    "Running",
    "installed",
    "program",
    "program_environment",
    "run_program",
]

PROGRAMS: Final = ROOT / "tests" / "programs"
RECIPES: Final = ROOT / "docs" / "recipes.md"

TIMEOUT: Final = 120
WITHOUT_UVLOOP: Final = """
import os
import sys

if os.environ.get("WITHOUT_UVLOOP"):
    sys.modules["uvloop"] = None
"""
"""uvloop resolves host names without a thread of Python: what asyncio does is tested, too."""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution's metadata: an embedded broker is found by entry point."""
    folder = tmp_path_factory.mktemp("installed")
    ours = distribution("pyjms-framework")
    metadata = folder / f"pyjms_framework-{ours.version}.dist-info"
    metadata.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (metadata / name).write_text(ours.read_text(name) or "", encoding="utf-8")
    (folder / "sitecustomize.py").write_text(WITHOUT_UVLOOP, encoding="utf-8")
    return folder


def program_environment(installed: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process that has the distribution installed.

    Its output is buffered, whatever this process's environment says: a line that it prints is
    written at once, and not in parts between which a line of the log may come.
    """
    return environment(
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "broker"), str(installed)]),
        PYTHONUNBUFFERED="",
        **more,
    )


def run_program(
    python: str, installed: Path, *arguments: str | Path, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` to its end and return its exit status, output and errors."""
    return subprocess.run(
        [python, "-W", "ignore::DeprecationWarning", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        stdin=subprocess.DEVNULL,
        env=program_environment(installed, **more),
        preexec_fn=die_with_parent,
    )


class Program:
    """A copy of one folder of tests/programs, an interpreter, and the URL of a broker."""

    def __init__(self, name: str, version: str, folder: Path, installed: Path, url: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        for file in (PROGRAMS / name).glob("*.*"):
            shutil.copy(file, self.folder)
        self.url = url
        self._python = interpreter(version)
        self._installed = installed

    def write_recipe(self, section: str) -> None:
        """Write the files of a section of docs/recipes.md into the folder."""
        for name, text in recipe_files(section, RECIPES).items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def script(self, name: str, *arguments: str) -> str:
        """Run a plain script to its end and return its output.

        It must neither fail nor write to standard error.
        """
        done = run_program(
            self._python, self._installed, f"{name}.py", self.url, *arguments, cwd=self.folder
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    def pyjms(self, *arguments: str) -> str:
        """Run `pyjms *arguments` to its end and return its output."""
        return self._module("pyjms", *arguments)

    def checks(self, file: str) -> None:
        """Run pytest on a file."""
        self.require("pytest")
        self._module("pytest", "-q", file)

    def require(self, *modules: str) -> None:
        """Skip unless the interpreter has these modules."""
        for module in modules:
            done = run_program(self._python, self._installed, "-c", f"import {module}")
            if done.returncode:
                pytest.skip(f"{self._python} has no {module}: `pip install {module}` for it")

    def _module(self, *arguments: str) -> str:
        done = run_program(self._python, self._installed, "-m", *arguments, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, module: str, **variables: str) -> Iterator[Running]:
        """Run `pyjms run MODULE`: it listens inside of the block, and ends in order after it."""
        variables = {"PYJMS_ACTIVEMQ__BROKER_URL": self.url, **variables}
        with self.started("pyjms", "run", module, **variables) as child:
            child.expect("Application started")
            yield child
            if child.runs:
                child.end(signal.SIGINT)
                child.expect("Application stopped")

    @contextmanager
    def started(self, *arguments: str, **variables: str) -> Iterator[Running]:
        """Run `python -m *arguments` until the end of the block at most."""
        with subprocess.Popen(
            [self._python, "-m", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=program_environment(self._installed, **variables),
            preexec_fn=die_with_parent,  # noqa: PLW1509 - takes no lock
        ) as process:
            try:
                yield Running(process)
            finally:
                process.kill()


class Running:
    """A process and its output."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.written = ""

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def numbers(self, pattern: str) -> list[int]:
        """Return the numbers that `pattern`, with one group, finds in the output."""
        return [int(found) for found in re.findall(pattern, self.written)]

    def expect(self, *texts: str) -> None:
        """Read until each text has been written, in any order, since the start."""
        with self._deadline():
            while missing := [text for text in texts if text not in self.written]:
                self._read_line(missing)

    def expect_count(self, text: str, count: int) -> None:
        """Read until a text has been written so often since the start."""
        with self._deadline():
            while self.written.count(text) < count:
                self._read_line([text])

    def _read_line(self, missing: list[str]) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{missing} did not come, but: {self.written}"
        self.written += line

    def end(self, signum: int) -> None:
        """Send a signal, and wait until the process has ended in order."""
        self._process.send_signal(signum)
        self.wait(0)

    def wait(self, status: int) -> None:
        """Wait until the process has exited with this status, and read its output."""
        assert self._process.stdout is not None
        with self._deadline():
            self.written += self._process.stdout.read()
            assert self._process.wait() == status, self.written

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        """Kill the process after `TIMEOUT` seconds, which ends its output."""
        timer = threading.Timer(TIMEOUT, self._process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


Make: TypeAlias = Callable[[str], Program]


@pytest.fixture
def program(version: str, tmp_path: Path, installed: Path, our_broker: str) -> Iterator[Make]:
    """`program("news")`: that folder, with a broker in a separate process.

    The broker is that of all tests; the dead letters of one are removed after it.
    """
    url = our_broker.split("?", maxsplit=1)[0]
    yield lambda name: Program(name, version, tmp_path, installed, url)
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        dead_letters = connection.create_session().create_consumer(Queue("ActiveMQ.DLQ"))
        while dead_letters.receive(timeout=0.1) is not None:
            pass
