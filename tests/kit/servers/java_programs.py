"""Java programs of the tests, compiled from sources against Debian's or Maven's libraries.

Each is compiled once, whatever the number of test processes, and kept in `build/java` until its
sources or libraries change. So are the class paths that Maven finds.
`python -m tests.kit.servers.java_programs` makes them all.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "build" / "java"
STAMP = "stamp"
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


@contextmanager
def kept(kind: str, sources: Path, stamp: str) -> Iterator[tuple[Path, bool]]:
    """Lock the folder for the build of `sources`; return whether it has been built already.

    It is made anew, in an empty folder, when the stamp differs from that of the last time, or when
    the last time failed.
    """
    name = "-".join([kind, *sources.relative_to(ROOT / "tests").parts])
    folder = KEPT / name
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / STAMP
        is_made = mark.is_file() and mark.read_text(encoding="utf-8") == stamp
        if not is_made:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, is_made
        if not is_made:
            mark.write_text(stamp, encoding="utf-8")


def digest(files: Iterable[Path], *more: str) -> str:
    """Return a digest of the contents of files, and of texts."""
    found = hashlib.sha256("\0".join(more).encode())
    for file in files:
        content = file.read_bytes()
        found.update(f"\0{file.name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def compile_java(sources: Path, class_path: str) -> list[str]:
    """Compile a folder of Java sources; return the start of the command that runs them."""
    files = sorted(sources.glob("*.java"))
    with kept("classes", sources, digest(files, class_path)) as (classes, is_made):
        if not is_made:
            build = ["javac", "-nowarn", "-XDsuppressNotes", "-encoding", "UTF-8"]
            subprocess.run([*build, "-cp", class_path, "-d", classes, *files], check=True)
    return ["java", *QUIET, "-cp", f"{classes}:{class_path}"]


def debian_class_path() -> str:
    """Return the class path of Debian's libraries; LookupError: javac or some are absent."""
    if shutil.which("javac") is None:
        raise LookupError("no javac: apt-get install openjdk-17-jdk-headless")
    missing = [name for name in JARS if not (JAR_FOLDER / f"{name}.jar").exists()]
    if missing:
        absent = ", ".join(missing)
        raise LookupError(f"no {absent}: apt-get install libactivemq-java libspring-jms-java")
    return ":".join(str(JAR_FOLDER / f"{name}.jar") for name in JARS)


def maven_class_path(pom: Path) -> str:
    """Return the class path of a pom; LookupError: Maven or its artifacts are not available."""
    if shutil.which("mvn") is None:
        raise LookupError("no mvn: apt-get install maven")
    with kept("maven", pom.parent, digest([pom])) as (folder, _):
        found = folder / "classpath"
        class_path = found.read_text(encoding="utf-8").strip() if found.exists() else ""
        if not class_path or not all(Path(each).exists() for each in class_path.split(":")):
            class_path = _ask_maven(pom, found)
    return class_path


def _ask_maven(pom: Path, found: Path) -> str:
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


def _of_maven(sources: Path) -> list[str]:
    if shutil.which("javac") is None:
        raise LookupError("no javac: apt-get install openjdk-17-jdk-headless")
    return compile_java(sources, maven_class_path(sources / "pom.xml"))


def _of_debian(sources: Path) -> list[str]:
    return compile_java(sources, debian_class_path())


def _or_skip(build: Callable[[Path], list[str]]) -> JavaProgram:
    @functools.cache
    def built(sources: Path) -> tuple[str, ...] | str:
        try:
            return tuple(build(sources))
        except LookupError as error:
            return str(error)

    def program(sources: Path) -> list[str]:
        command = built(sources)
        if isinstance(command, str):
            pytest.skip(command)
        return list(command)

    return program


@pytest.fixture(scope="session")
def java_program() -> JavaProgram:
    """Compiles a folder of Java sources, once; gives the start of the command that runs them."""
    return _or_skip(_of_debian)


@pytest.fixture(scope="session")
def maven_program() -> JavaProgram:
    """Compiles a folder of Java sources with the artifacts of the pom.xml in it, once."""
    return _or_skip(_of_maven)


def main() -> None:
    """Compile all programs and get all artifacts from Maven; report missing ones."""
    programs = {file.parent for file in ROOT.glob("tests/**/*.java")}
    for folder in sorted(programs | {pom.parent for pom in ROOT.glob("tests/**/pom.xml")}):
        has_pom = (folder / "pom.xml").exists()
        try:
            if folder in programs:
                (_of_maven if has_pom else _of_debian)(folder)
            else:
                maven_class_path(folder / "pom.xml")
        except LookupError as error:
            print(f"{folder.relative_to(ROOT)}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
