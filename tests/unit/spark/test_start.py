"""The folder of links that a local Spark starts from, and the start-up cache of its JVM."""

from __future__ import annotations

import importlib.metadata
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms.spark.session import LOCAL_CONF, session_conf
from pyjms.spark.start import archive_options, first_jars, link_spark_home, spark_home

pytest.importorskip("pyspark")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no links for all users")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A pyspark as pip installs it, by its files."""
    made = tmp_path / "site-packages" / "pyspark"
    for name in ("bin", "jars", "conf", "python/lib"):
        (made / name).mkdir(parents=True)
    for name in ("__init__.py", "worker.py", "bin/spark-submit", "python/lib/pyspark.zip"):
        (made / name).touch()
    (made / "python" / "lib" / "py4j-src.zip").touch()
    return made


def test_the_zip_is_a_folder_with_a_link_to_the_package(tmp_path: Path, package: Path) -> None:
    home = link_spark_home(tmp_path / "cache", package)
    assert home is not None
    assert home.name.startswith(importlib.metadata.version("pyspark"))
    library = home / "python" / "lib"
    assert (library / "pyspark.zip" / "pyspark").resolve() == package
    assert (library / "py4j-src.zip").resolve() == package / "python" / "lib" / "py4j-src.zip"
    assert sorted(path.name for path in home.iterdir()) == ["bin", "conf", "jars", "python"]
    assert (home / "conf").resolve() == package / "conf"


@pytest.mark.fact("spark-pipeline 2.3")
def test_java_looks_first_into_the_jars_with_most_classes(tmp_path: Path, package: Path) -> None:
    for name in ("a-1.0", "scala-library-2.13.18", "spark-catalyst_2.13-4.3.0", "z-1.0"):
        (package / "jars" / f"{name}.jar").touch()
    home = link_spark_home(tmp_path / "cache", package)
    assert home is not None
    first = [Path(each) for each in first_jars(home).split(os.pathsep)]
    assert [jar.name[:9] for jar in first] == ["spark-cat", "scala-lib"]
    assert {jar.parent for jar in first} == {home / "jars"}, "as Spark names them, so opened once"


def test_only_this_user_has_access(tmp_path: Path, package: Path) -> None:
    home = link_spark_home(tmp_path / "cache", package)
    assert home is not None
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home.parent)] == [0o700, 0o700]


def test_the_folder_is_made_once(tmp_path: Path, package: Path) -> None:
    home = link_spark_home(tmp_path / "cache", package)
    assert home is not None
    before = home.stat().st_ino
    assert link_spark_home(tmp_path / "cache", package) == home
    assert home.stat().st_ino == before
    assert [path.name for path in home.parent.iterdir()] == [home.name], "nothing half made is left"


def test_each_package_has_its_own_folder(tmp_path: Path, package: Path) -> None:
    other = tmp_path / "other" / "pyspark"
    other.parent.mkdir()
    package.rename(other)
    first = link_spark_home(tmp_path / "cache", other)
    other.rename(package)
    assert link_spark_home(tmp_path / "cache", package) != first


@pytest.mark.parametrize("missing", ["jars", "bin/spark-submit", "python/lib/pyspark.zip"])
def test_another_pyspark_than_pips_gets_no_links(
    tmp_path: Path, package: Path, missing: str
) -> None:
    path = package / missing
    path.rename(package / "elsewhere")
    assert link_spark_home(tmp_path / "cache", package) is None


@pytest.mark.parametrize("made", ["folder", "home"])
def test_a_folder_that_others_may_write_is_not_used(
    tmp_path: Path, package: Path, made: str
) -> None:
    home = link_spark_home(tmp_path / "cache", package)
    assert home is not None
    (home if made == "home" else home.parent).chmod(0o770)
    assert link_spark_home(tmp_path / "cache", package) is None


def test_links_to_something_else_are_not_used(tmp_path: Path, package: Path) -> None:
    home = link_spark_home(tmp_path / "cache", package)
    assert home is not None
    (home / "jars").unlink()
    (home / "jars").symlink_to(tmp_path)
    assert link_spark_home(tmp_path / "cache", package) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, package: Path) -> None:
    (tmp_path / "file").touch()
    assert link_spark_home(tmp_path / "file" / "cache", package) is None


def test_a_user_without_a_home_is_no_error(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert link_spark_home(None, package) is None


def test_spark_home_is_set_for_the_start_only(tmp_path: Path) -> None:
    before = os.environ.get("SPARK_HOME")
    with spark_home(tmp_path):
        assert os.environ["SPARK_HOME"] == str(tmp_path)
    assert os.environ.get("SPARK_HOME") == before


@pytest.mark.parametrize(
    ("version", "writes", "uses"),
    [
        (25, "-XX:AOTCacheOutput", "-XX:AOTCache"),
        (17, "-XX:ArchiveClassesAtExit", "-XX:SharedArchiveFile"),
    ],
)
def test_the_start_up_cache_is_written_then_used(
    tmp_path: Path, version: int, writes: str, uses: str
) -> None:
    name, _, cache = archive_options(Path("/java"), version, None, tmp_path)[0].partition("=")
    assert name == writes
    Path(cache).touch()
    assert archive_options(Path("/java"), version, None, tmp_path)[0] == f"{uses}={cache}"
    other = archive_options(Path("/java"), version, tmp_path, tmp_path)[0]
    assert other.startswith(writes), "other jars have another cache"


@pytest.mark.parametrize("name", LOCAL_CONF)
def test_settings_of_a_local_spark_are_not_those_of_a_cluster_and_can_be_overridden(
    name: str,
) -> None:
    assert session_conf("local[2]")[name] == LOCAL_CONF[name]
    assert name not in session_conf("spark://host:7077")
    assert session_conf("local[2]", {name: "own"})[name] == "own"


@pytest.mark.fact("spark-pipeline 2.3")
def test_what_planning_processes_import_is_neither_the_client_nor_a_reader() -> None:
    code = "import sys, pyspark_jms, pyspark_jms_journal; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {".".join(name.split(".")[:2]) for name in done.stdout.split()}
    assert packages.isdisjoint({"pyjms.client", "pyjms.transport", "pyjms.sync", "asyncio"})


def test_the_daemons_imports_start_no_thread_that_a_fork_would_lose() -> None:
    code = """
import pathlib
import threading
import pyjms.spark.daemon
tasks = [task / "comm" for task in pathlib.Path("/proc/self/task").glob("*")]
print(*{task.read_text().strip() for task in tasks}, *threading.enumerate()[1:])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = set(done.stdout.split()) - {Path(sys.executable).name[:15], "python", "python3"}
    assert others <= {"jemalloc_bg_thd"}, "this one jemalloc starts again in the child"
