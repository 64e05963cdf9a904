"""Real brokers that Debian has not: Artemis and ActiveMQ 6, from Maven's artifacts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MVN = ("mvn", "-q", "-B", "dependency:build-classpath")
RESOLVED_WITHIN = 400
PROGRAMS = {
    "artemis": ("artemis_program", "ArtemisBroker"),
    "activemq6": ("activemq6_program", "ActiveMQ6Broker"),
}
ARTEMIS = {"ids": "0", "deleting": "false", "attempts": "10"}

CompileJava = Callable[[Path, str, Path], list[str]]
MavenProgram = Callable[[Path, Path], list[str]]


@pytest.fixture(scope="session")
def maven_program(
    compile_java: CompileJava, tmp_path_factory: pytest.TempPathFactory
) -> MavenProgram:
    """Compiles a folder of Java sources with what a pom names; gives the start of its command."""
    for tool, package in (("mvn", "maven"), ("javac", "openjdk-17-jdk-headless")):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: apt-get install {package}")
    built: dict[Path, list[str] | str] = {}

    def build(sources: Path, pom: Path) -> list[str]:
        if pom not in built:
            folder = tmp_path_factory.mktemp("maven")
            try:
                built[pom] = compile_java(sources, _class_path(pom, folder), folder)
            except LookupError as error:
                built[pom] = str(error)
        command = built[pom]
        if isinstance(command, str):
            pytest.skip(command)
        return command

    return build


def _class_path(pom: Path, folder: Path) -> str:
    """Return the class path that a pom names; LookupError: its artifacts cannot be had."""
    found = folder / "classpath"
    resolve = [*MVN, "-f", str(pom), f"-Dmdep.outputFile={found}"]
    try:
        done = subprocess.run(
            resolve,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RESOLVED_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        late = f"Maven took longer than {RESOLVED_WITHIN} s for the artifacts of {pom}"
        raise LookupError(late) from None
    if done.returncode or not found.exists():
        raise LookupError(
            f"Maven cannot get the artifacts of {pom}, see: mvn -f {pom} dependency:resolve"
        )
    return found.read_text(encoding="utf-8").strip()


class JavaBroker:
    """A broker's process, at one port with one folder of data."""

    def __init__(
        self, kind: str, command: list[str], process: Any, folder: Path, *tools: Any
    ) -> None:
        self.kind = kind
        self._settings = dict(ARTEMIS) if kind == "artemis" else {}
        self._command = [*command, PROGRAMS[kind][1], str(folder / kind)]
        self._process = process
        self._log = folder / f"{kind}.log"
        self._send, self._take = tools
        self._port = 0
        self._running: Any = None
        self.url = ""

    def start(self) -> None:
        command = [*self._command, str(self._port), *self._settings.values()]
        self._running = self._process(command, self._log)
        self.child = self._running.__enter__()
        line = self.child.stdout.readline()
        assert "accepts connections at" in line, self._log.read_text()[-3000:]
        self.url = line.split()[-1].split("?")[0]
        self._port = int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a power failure would."""
        self.child.kill()
        self.end()

    def stop(self) -> None:
        self.child.stdin.close()
        assert self.child.wait(60) == 0, self._log.read_text()[-3000:]
        self.end()

    def restart(self, how: str, **settings: str) -> None:
        """Stop or kill it, and start it, with other settings where given."""
        getattr(self, how)()
        self._settings.update(settings)
        self.start()

    def end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)

    def send(self, queue: str, texts: Sequence[str]) -> None:
        self._send(self.url, queue, texts)

    def count(self, queue: str) -> int:
        return max(self._count(queue), 0)

    def has(self, address: str) -> bool:
        """Whether Artemis has an address of that name."""
        return self._count(address) != -1

    def _count(self, queue: str) -> int:
        self.child.stdin.write(f"count {queue}\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline().split()[-1])

    def texts(self, queue: str) -> list[str]:
        """Take all messages of a queue."""
        found: list[str] = self._take(self.url, queue, self.count(queue))
        return found


@pytest.fixture(params=["artemis", pytest.param("activemq6", marks=pytest.mark.nightly)])
def broker(
    request: pytest.FixtureRequest,
    maven_program: MavenProgram,
    process: Any,
    tmp_path: Path,
    send_texts: Callable[..., None],
    take_texts: Callable[..., list[str]],
) -> Iterator[JavaBroker]:
    """Artemis or ActiveMQ 6 in the place of our broker."""
    folder = HERE / PROGRAMS[request.param][0]
    command = maven_program(folder, folder / "pom.xml")
    made = JavaBroker(request.param, command, process, tmp_path, send_texts, take_texts)
    made.start()
    yield made
    made.end()
