"""README's three terminals and the tutorial, step by step, as a reader does it: its files, its commands, what they print."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.processes.children import ROOT, our_broker
from tests.kit.processes.forked_python import ForkedPython, run_python
from tests.kit.processes.user_programs import Running, installed, program_environment

__all__ = ["installed", "our_broker"]

README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
STEPS = re.split(r"^## \d+\. ", TEXT, flags=re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Follows the tutorial in a folder; its broker listens elsewhere."""

    def __init__(self, folder: Path, installed: Path, url: str) -> None:
        self._folder = folder
        self._environment = program_environment(
            installed, PYJMS_ACTIVEMQ__BROKER_URL=url, PYJMS_URL=url
        )

    def write(self, step: int) -> None:
        """Write the files of a step, over those of earlier ones."""
        self.write_files(STEPS[step])

    def write_files(self, text: str) -> None:
        """Write the files of a text: the blocks that begin with a comment, their name."""
        for language, code in BLOCK.findall(text):
            if language in {"python", "yaml", "toml"} and code.startswith("# "):
                name = code.split("\n", 1)[0].removeprefix("# ")
                (self._folder / name).write_text(code, encoding="utf-8")

    def commands(self, step: int) -> list[str]:
        """Return the commands of a step, in order."""
        return self.commands_of(STEPS[step])

    @staticmethod
    def commands_of(text: str) -> list[str]:
        """Return the commands of a text, in order."""
        return [
            line
            for language, code in BLOCK.findall(text)
            if language == "sh"
            for line in code.splitlines()
        ]

    def run(self, command: str) -> str:
        """Run one command to its end and return what it printed."""
        done = run_python(*self._arguments(command), cwd=self._folder, env=self._environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, command: str) -> Iterator[Running]:
        """Have a command run in another terminal."""
        with ForkedPython(
            self._arguments(command), cwd=self._folder, env=self._environment
        ) as process:
            child = Running(process)
            try:
                child.expect("Application started")
                yield child
                child.end(signal.SIGINT)
            finally:
                process.kill()

    @staticmethod
    def _arguments(command: str) -> list[str]:
        """Return the arguments of the interpreter for a command."""
        program, *arguments = shlex.split(command, comments=True)
        return arguments if program == "python" else ["-m", program, *arguments]


@pytest.fixture
def reader(tmp_path: Path, installed: Path, our_broker: str) -> Reader:
    return Reader(tmp_path, installed, our_broker.split("?", maxsplit=1)[0])


def test_the_three_terminals_of_the_readme(reader: Reader) -> None:
    section = README.partition("## Three terminals\n")[2].partition("\n## ")[0]
    reader.write_files(section)
    broker, run, good, bad, browse = reader.commands_of(section)
    assert broker == "pyjms broker start --ephemeral"  # as the one that runs
    with reader.running(run) as listener:
        reader.run(good)
        listener.expect("order 1 over 9.5")
        reader.run(bad)
        listener.expect("attempt 1 of 3", "attempt 2 of 3", "refused after delivery 3")
    assert "pyjms_failure_text = 'too large'" in reader.run(browse)


def test_listener_and_failures(reader: Reader) -> None:
    reader.write(3)
    check, run, send = reader.commands(3)
    assert reader.run(check) == "No problems found in orders.\n"
    bad, browse, large = reader.commands(4)
    with reader.running(run) as listener:
        listener.expect("Listening: orders on orders.new, 1 consumer")
        reader.run(send)
        listener.expect("order 1 over 9.5")
        reader.run(bad)
        listener.expect("becomes a dead letter")
    assert "pyjms_failure_text" in reader.run(browse)
    reader.write(4)
    with reader.running(run) as listener:
        reader.run(large)
        listener.expect("attempt 1 of 3", "attempt 2 of 3", "refused after delivery 3")


def test_answers_copies_and_a_service(reader: Reader) -> None:
    for step in (3, 4, 5, 6, 7):
        reader.write(step)
    run, ask = reader.commands(5)
    with reader.running(run):
        assert reader.run(ask) == "article='bread' price=7.5\n"
    run, send = reader.commands(6)
    with reader.running(run) as listener:
        reader.run(send)
        listener.expect("invoice for 7", "mail for 7")
    with reader.running("pyjms run shop") as shop:
        shop.expect("Listening: paid on orders.paid")
