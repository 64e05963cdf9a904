"""Processes that integration tests talk to: Java programs built from source, and our broker's."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
JARS = Path("/usr/share/java")
NAMES = (
    *("activemq-client", "activemq-broker", "activemq-kahadb-store", "activemq-openwire-legacy"),
    *("activemq-protobuf", "activemq-jaas", "geronimo-jms_1.1_spec", "geronimo-jta-1.2-spec"),
    *("geronimo-j2ee-management-1.1-spec", "hawtbuf", "slf4j-api", "slf4j-simple"),
    *("spring3-aop", "spring3-beans", "spring3-context", "spring3-core", "spring3-expression"),
    *("spring3-jms", "spring3-messaging", "spring3-transaction", "commons-logging"),
    *("xbean-spring", "jackson-core", "jackson-databind", "jackson-annotations"),
)
QUIET = (
    "-Xshare:auto",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.apache.commons.logging.Log=org.apache.commons.logging.impl.NoOpLog",
)

JavaProgram = Callable[[Path], list[str]]


@pytest.fixture(scope="session")
def java_program(tmp_path_factory: pytest.TempPathFactory) -> JavaProgram:
    """Compiles a folder of Java sources and gives the start of the command that runs them."""
    if shutil.which("javac") is None:
        pytest.skip("no javac: apt-get install openjdk-17-jdk-headless")
    missing = [name for name in NAMES if not (JARS / f"{name}.jar").exists()]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt-get install libactivemq-java libspring-jms-java")
    class_path = ":".join(str(JARS / f"{name}.jar") for name in NAMES)

    return lambda sources: compiled(sources, class_path, tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="session")
def compile_java() -> Callable[[Path, str, Path], list[str]]:
    """`compile_java(sources, class_path, folder)` gives the start of the command that runs them."""
    return compiled


def compiled(sources: Path, class_path: str, classes: Path) -> list[str]:
    """Compile a folder of Java sources; return the start of the command that runs them."""
    files = sorted(str(file) for file in sources.glob("*.java"))
    build = ["javac", "-nowarn", "-XDsuppressNotes", "-encoding", "UTF-8", "-cp", class_path]
    subprocess.run([*build, "-d", str(classes), *files], check=True)
    return ["java", *QUIET, "-cp", f"{classes}:{class_path}"]


def die_with_parent() -> None:
    """Have Linux end this child with its parent: a run that timed out exits without a word."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A child with pipes for its lines; ended by its own id. What it logs is shown on failure."""
    with log.open("w", encoding="utf-8") as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
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


@pytest.fixture(scope="session")
def process() -> Callable[..., object]:
    """A context manager: `with process(command, log) as child`."""
    return started


@pytest.fixture(scope="session")
def real_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an ActiveMQ 5.17.2 with its defaults, or what `TEST_ACTIVEMQ_URL` says."""
    given = os.environ.get("TEST_ACTIVEMQ_URL")
    if given:
        yield given
        return
    java_program: JavaProgram = request.getfixturevalue("java_program")
    program = java_program(Path(__file__).with_name("activemq") / "program")
    folder = tmp_path_factory.mktemp("activemq")
    with started([*program, "RealBroker", str(folder / "data")], folder / "log") as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert "accepts connections at" in line, (folder / "log").read_text(encoding="utf-8")
        yield line.split()[-1].replace("localhost", "127.0.0.1")
        assert child.poll() is None, (folder / "log").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `pyjms broker start`, in a process of its own."""
    command = [sys.executable, "-m", "broker", "--ephemeral", "--openwire", "127.0.0.1:0"]
    log = tmp_path_factory.mktemp("broker") / "log"
    with started(command, log) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert "accepts connections at" in line, log.read_text(encoding="utf-8")
        yield line.split()[-1]
        assert child.poll() is None, log.read_text(encoding="utf-8")
