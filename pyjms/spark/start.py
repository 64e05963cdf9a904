"""What makes a local Spark start faster: a SPARK_HOME of links, and a class archive for its JVM.

Spark's Python processes, ten for one query, import pyspark from `python/lib/pyspark.zip`, whose
1,286 modules have no compiled form: each process compiles what it imports again. In a folder of
links in the user's cache that name is a folder, with a link to the installed package, which Python
has compiled once. It is used only for pip's pyspark, a local master and an unset SPARK_HOME.

The folder decides which code Spark runs. So it belongs to this user, who alone may access it, and
its name contains the version and the path of the package; a folder that is anything else is not
used. (spark-pipeline 2.3)
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pyjms.runtime.logging import get_logger

__all__ = [
    "archive_options", "cache_folder", "first_jars", "is_local", "link_spark_home", "spark_home",
]  # fmt: skip

logger: Final = get_logger(__name__)

DAEMON_MODULE: Final = "pyjms.spark.daemon"
"""The module for `spark.python.daemon.module`, which has imported what the workers need."""
_OLDEST_AOT_JAVA: Final = 25
_PRIVATE: Final = 0o700
_ZIP: Final = "pyspark.zip"
_FIRST_JARS: Final = (
    "spark-catalyst_", "scala-library-", "spark-core_", "spark-sql_", "spark-sql-api_",
    "scala-reflect-", "log4j-core-", "jackson-databind-", "hadoop-client-api-", "spark-config_",
    "arrow-vector-", "spark-network-common_",
)  # fmt: skip
"""Those with most of the classes that a start loads, by the beginnings of their names."""
_QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""An archive that does not fit is not used, and that is no reason for a warning."""


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's cache folder for pyjms, whose contents can be deleted at any time."""
    environment = os.environ if environment is None else environment
    named = environment.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "pyjms"


def is_local(master: str) -> bool:
    """Return whether all of Spark runs on this machine, in one JVM."""
    return master == "local" or master.startswith("local[")


def link_spark_home(folder: Path | None = None, package: Path | None = None) -> Path | None:
    """Return a SPARK_HOME of links to the installed pyspark; made if it does not exist yet.

    None: pyspark is not pip's, or the folder cannot be made or is not safe; the reason is logged.
    Several processes may do so at once.
    """
    package = package or _package("pyspark")
    if sys.platform == "win32" or package is None or not _is_pips(package):
        return None
    name = hashlib.sha256(os.fsencode(package)).hexdigest()[:16]
    try:
        folder = folder or cache_folder() / "spark"
        home = folder / f"{importlib.metadata.version('pyspark')}-{name}"
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        _check_private(folder)
        if not home.is_dir():
            _make(home, package)
        _check_private(home)
    except (OSError, RuntimeError) as error:  # a user of a container may have no home
        logger.info("Spark starts without a folder of links: %s", error)
        return None
    return home if _leads_to(home, package) else None


@contextlib.contextmanager
def spark_home(home: Path | None) -> Iterator[None]:
    """Set SPARK_HOME while a JVM is started, which keeps it; None: leave it as it is.

    Other processes that this one starts may have another pyspark, and must not inherit it.
    """
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def first_jars(home: Path) -> str:
    """Return a class path of the jars in which Java should look first.

    Otherwise it looks for each of 12,000 classes in up to 280 jars, in the order of the folder.
    """
    jars = sorted((home / "jars").glob("*.jar"))
    found = [jar for first in _FIRST_JARS for jar in jars if jar.name.startswith(first)]
    return os.pathsep.join(map(str, found))


def _package(name: str) -> Path | None:
    found = importlib.util.find_spec(name)
    return None if found is None or found.origin is None else Path(found.origin).resolve().parent


def _is_pips(package: Path) -> bool:
    """Return whether a package is a whole Spark, as pip installs it."""
    files = ("bin/spark-submit", f"python/lib/{_ZIP}")
    return (package / "jars").is_dir() and all((package / each).is_file() for each in files)


def _check_private(folder: Path) -> None:
    """Check that a folder is this user's, and no other user may access it.

    Raises:
        OSError: it is not.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"other users have access to {folder}")


def _make(home: Path, package: Path) -> None:
    """Make the folder under another name, and rename it: it is there as a whole or not at all."""
    new = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        for entry in package.iterdir():
            if entry.name not in ("python", "__pycache__") and not entry.name.endswith(".py"):
                (new / entry.name).symlink_to(entry)
        library = new / "python" / "lib"
        (library / _ZIP).mkdir(parents=True)
        (library / _ZIP / "pyspark").symlink_to(package)
        for entry in (package / "python" / "lib").iterdir():
            if entry.name != _ZIP:
                (library / entry.name).symlink_to(entry)
        with contextlib.suppress(FileExistsError, OSError):  # another process was first
            new.rename(home)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _leads_to(home: Path, package: Path) -> bool:
    """Return whether the links are those to the package, and none is missing."""
    links = {
        home / "python" / "lib" / _ZIP / "pyspark": package,
        home / "bin": package / "bin",
        home / "jars": package / "jars",
    }
    with contextlib.suppress(OSError):
        return all(link.readlink() == target for link, target in links.items())
    return False


def archive_options(
    java: Path, version: int, home: Path | None, folder: Path | None = None
) -> list[str]:
    """Return the JVM options that write a start-up cache at the end of this run, or use it.

    It belongs to one Java, one Spark and one path to its jars. Java 25 keeps compiled code, too;
    older ones have an archive of the classes.
    """
    folder = folder or cache_folder() / "aot"
    folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    spark = importlib.metadata.version("pyspark")
    place = f"{java}\0{home}\0{sys.prefix}\0{_FIRST_JARS}"  # the class path, which must be the same
    place = hashlib.sha256(place.encode()).hexdigest()[:16]
    name = f"java-{version}-spark-{spark}-{place}"
    if version >= _OLDEST_AOT_JAVA:
        cache = folder / f"{name}.aot"
        return [f"-XX:AOTCache={cache}" if cache.is_file() else f"-XX:AOTCacheOutput={cache}"]
    archive = folder / f"{name}.jsa"
    use = f"-XX:SharedArchiveFile={archive}"
    return [use if archive.is_file() else f"-XX:ArchiveClassesAtExit={archive}", *_QUIET]
