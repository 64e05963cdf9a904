"""Java programs of the tests, compiled from sources against Debian's or Maven's libraries."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

JAR_FOLDER = Path("/usr/share/java")
JARS = (
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

MAVEN = ("mvn", "-q", "-B", "dependency:build-classpath")
MAVEN_TIMEOUT = 400

JavaProgram = Callable[[Path], list[str]]


def compile_java(sources: Path, class_path: str, classes: Path) -> list[str]:
    """Compile a folder of Java sources; return the start of the command that runs them."""
    files = sorted(str(file) for file in sources.glob("*.java"))
    build = ["javac", "-nowarn", "-XDsuppressNotes", "-encoding", "UTF-8", "-cp", class_path]
    subprocess.run([*build, "-d", str(classes), *files], check=True)
    return ["java", *QUIET, "-cp", f"{classes}:{class_path}"]


@pytest.fixture(scope="session")
def java_program(tmp_path_factory: pytest.TempPathFactory) -> JavaProgram:
    """Compiles a folder of Java sources, once; gives the start of the command that runs them."""
    if shutil.which("javac") is None:
        pytest.skip("no javac: apt-get install openjdk-17-jdk-headless")
    missing = [name for name in JARS if not (JAR_FOLDER / f"{name}.jar").exists()]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt-get install libactivemq-java libspring-jms-java")
    class_path = ":".join(str(JAR_FOLDER / f"{name}.jar") for name in JARS)

    @functools.cache
    def build(sources: Path) -> tuple[str, ...]:
        return tuple(compile_java(sources, class_path, tmp_path_factory.mktemp("classes")))

    return lambda sources: list(build(sources))


@pytest.fixture(scope="session")
def maven_program(tmp_path_factory: pytest.TempPathFactory) -> JavaProgram:
    """Compiles a folder of Java sources with the artifacts of the pom.xml in it, once."""
    for tool, package in (("mvn", "maven"), ("javac", "openjdk-17-jdk-headless")):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: apt-get install {package}")

    @functools.cache
    def build(sources: Path) -> tuple[str, ...] | str:
        folder = tmp_path_factory.mktemp("maven")
        try:
            class_path = maven_class_path(sources / "pom.xml", folder)
        except LookupError as error:
            return str(error)
        return tuple(compile_java(sources, class_path, folder))

    def program(sources: Path) -> list[str]:
        command = build(sources)
        if isinstance(command, str):
            pytest.skip(command)
        return list(command)

    return program


def maven_class_path(pom: Path, folder: Path) -> str:
    """Return the class path of a pom; LookupError: its artifacts are not available."""
    found = folder / "classpath"
    resolve = [*MAVEN, "-f", str(pom), f"-Dmdep.outputFile={found}"]
    try:
        done = subprocess.run(
            resolve,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        late = f"Maven took longer than {MAVEN_TIMEOUT} s for the artifacts of {pom}"
        raise LookupError(late) from None
    if done.returncode or not found.exists():
        raise LookupError(
            f"Maven cannot get the artifacts of {pom}, see: mvn -f {pom} dependency:resolve"
        )
    return found.read_text(encoding="utf-8").strip()
