"""Executors die, and nothing is lost or doubled; a cluster is reached by the master's URL alone.

Every run: a standalone cluster of a master and two workers, as the pip package has them, loses an
executor in a batch. The nightly run: twenty rounds in a local-cluster, and the cluster's plain run.
(spark-pipeline 2.2, 7)
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pyspark
import pytest

from pyjms.spark.session import find_java
from tests.kit.runs.parallel import SPARK_CLUSTER
from tests.kit.spark.brokers import SparkBroker
from tests.kit.spark.runs import RunDriver

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group(SPARK_CLUSTER)]
LOCAL_CLUSTER = "local-cluster[2,1,600]"
DEPLOY = "org.apache.spark.deploy"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-operation.md"
EPOCH = {"mode": "ranges", "sink": "epoch", "shuffle": "yes"}
KILLS = [
    pytest.param("ids", "after range", "executor"),
    pytest.param("ids", "after partition", "executor"),
    pytest.param("ids", "before partition", "worker"),
    pytest.param("epoch", "after range", "executor"),
    pytest.param("epoch", "after stage", "executor"),
    pytest.param("epoch", "before stage", "worker"),
]


class Cluster(NamedTuple):
    """A master and two workers, started from the pip package, and their folder."""

    url: str
    folder: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    java = find_java("auto").path
    env = {**os.environ, "JAVA_HOME": str(java), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    env |= {"PYSPARK_PYTHON": sys.executable}
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")

    def start(name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = folder / f"{name}.log"
        with log.open("wb") as file:
            child = subprocess.Popen(
                [spark_class, *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env
            )  # fmt: skip
        children.append(child)
        return child, log

    children: list[subprocess.Popen[bytes]] = []
    try:
        master = (f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", "0")
        child, log = start("master", *master, "--webui-port", "0")
        said = wait_for(child, log, "I have been elected leader")
        url = next(word for word in said.split() if word.startswith("spark://"))
        worker = (f"{DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--cores", "1")
        size = ("--memory", "700M", "--webui-port", "0", "--work-dir", str(folder / "work"))
        workers = [start(f"worker{n}", *worker, *size, url) for n in (1, 2)]
        for child, log in workers:
            wait_for(child, log, "Successfully registered with master")
        yield Cluster(url, folder)
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(30)


def wait_for(child: subprocess.Popen[bytes], log: Path, text: str) -> str:
    """Wait until a log has a text, and return the log."""
    for _ in range(600):
        said = log.read_text()
        if text in said:
            return said
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.1)
            break
    pytest.fail(f"{log.name}: {log.read_text()[-3000:]}")


@pytest.fixture
def run_in(
    broker: SparkBroker, run_driver: RunDriver, kills: ModuleType
) -> Callable[..., tuple[int, int]]:
    """Runs the driver as a process with a master; returns the numbers of lost and duplicated rows."""

    def run(master: str, **how: str) -> tuple[int, int]:
        broker.send("IN", kills.TEXTS)
        assert run_driver(broker.url, master=master, **how) == 0
        assert broker.killer.point is None, (broker.killer.point, broker.killer.seen)
        assert broker.count("IN") == 0
        found: tuple[int, int] = kills.lost_and_doubled(broker.texts("OUT"))
        return found

    return run


@pytest.fixture
def no_litter() -> Iterator[None]:
    """Deletes files that a local-cluster leaves in pyspark's folder."""
    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("app-*"))
    yield
    for folder in set(work.glob("app-*")) - before:
        shutil.rmtree(folder)
    with contextlib.suppress(OSError):
        work.rmdir()  # others may use it


def test_a_cluster_of_two_workers_loses_an_executor(
    broker: SparkBroker, cluster: Cluster, run_in: Callable[..., tuple[int, int]], kills: ModuleType
) -> None:
    broker.killer.arm("after range", 3, kills.executor)
    assert run_in(cluster.url, **EPOCH, rows="100") == (0, 0)


def test_the_line_of_spark_submit_in_the_documentation_runs_its_program(
    broker: SparkBroker, cluster: Cluster, tmp_path: Path
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (program,) = [
        text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "upper" in text
    ]
    program = program.replace("tcp://localhost:61616", broker.url).replace("/data", str(tmp_path))
    (tmp_path / "app.py").write_text(program)
    (line,) = re.findall(r"^    spark-submit (.* app\.py)$", page, re.MULTILINE)
    options = shlex.split(line.replace("spark://127.0.0.1:7077", cluster.url))
    broker.send("orders", ["a", "b"])
    env = {**os.environ, "JAVA_HOME": str(find_java().path), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), *options],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**env, "PYSPARK_PYTHON": sys.executable},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert broker.texts("upper") == ["A", "B"]
    assert broker.count("orders") == 0


@pytest.mark.nightly
def test_both_workers_of_a_cluster_work_and_only_the_master_differs(
    broker: SparkBroker, cluster: Cluster, run_in: Callable[..., tuple[int, int]]
) -> None:
    before = set(cluster.folder.glob("work/app-*"))
    assert run_in(cluster.url, **EPOCH) == (0, 0)
    (app,) = set(cluster.folder.glob("work/app-*")) - before
    used = {path.parent.name for path in app.glob("*/stderr")}
    assert used == {"0", "1"}


@pytest.mark.nightly
@pytest.mark.usefixtures("no_litter")
def test_executors_killed_in_a_local_cluster(
    broker: SparkBroker, run_in: Callable[..., tuple[int, int]], kills: ModuleType, turn: Any
) -> None:
    sink, point, victim = KILLS[turn % len(KILLS)].values
    broker.killer.arm(point, 1 + turn // len(KILLS), getattr(kills, victim))
    shuffle = "" if sink == "ids" else "yes"
    how = {"mode": "ranges", "sink": sink, "shuffle": shuffle, "rows": "50"}
    assert run_in(LOCAL_CLUSTER, **how) == (0, 0)
