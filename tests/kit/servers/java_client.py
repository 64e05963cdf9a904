"""The real Java client of Debian's ActiveMQ 5.17.2, in one process that runs named scenarios."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.brokers.destination_names import destination_name

PROGRAM = Path(__file__).resolve().parents[2] / "integration" / "java" / "program"


class JavaError(Exception):
    """An exception that Java threw: `name` is its class without the package."""

    def __init__(self, name: str, message: str, code: int | None) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name.rpartition(".")[2]
        self.code = code


class Java:
    """One JVM with the client; each call runs a scenario of `Probe` on new connections."""

    def __init__(
        self, child: subprocess.Popen[str], url: str, command: list[str], *, ours: bool
    ) -> None:
        self.child = child
        self.url = url
        self.command = command
        self.ours = ours

    def __call__(self, scenario: str, *arguments: object, options: str = "") -> Any:
        """Run it to its end and return its result; `options` follow the URL's `?`."""
        self.begin(scenario, *arguments, options=options)
        return self.end()

    def begin(self, scenario: str, *arguments: object, options: str = "") -> None:
        assert self.child.stdin is not None
        url = f"{self.url}?{options}" if options else self.url
        self.child.stdin.write("\t".join([scenario, url, *map(str, arguments)]) + "\n")
        self.child.stdin.flush()

    def end(self) -> Any:
        assert self.child.stdout is not None
        answer = json.loads(self.child.stdout.readline())
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"], answer["code"])
        return answer["value"]


@pytest.fixture(scope="session")
def java_command(java_program: Callable[[Path], list[str]]) -> list[str]:
    """The start of a command line: `Probe`, to be followed by scenario, URL and arguments."""
    return [*java_program(PROGRAM), "Probe"]


@pytest.fixture(scope="session")
def jvm(
    java_command: list[str],
    process: Callable[..., AbstractContextManager[subprocess.Popen[str]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[subprocess.Popen[str]]:
    log = tmp_path_factory.mktemp("java") / "log"
    with process([*java_command, "serve"], log) as child:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline()) == "ready", log.read_text(encoding="utf-8")
        yield child


@pytest.fixture(params=["pyjms", "activemq"])
def java(
    request: pytest.FixtureRequest, jvm: subprocess.Popen[str], java_command: list[str]
) -> Java:
    """The client at our broker, and at ActiveMQ: both must behave alike."""
    ours = request.param == "pyjms"
    url = request.getfixturevalue("our_broker" if ours else "real_broker")
    return Java(jvm, url, java_command, ours=ours)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A destination name that no other test uses."""
    return destination_name(request)
