"""Pipelines whose sink is a table of another format: what a repeated batch leaves in it.

As of Spark 4.3 there is no Delta (4.3.1) and no Iceberg (1.12.0) that Java accepts with it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.runs.parallel import SPARK_DRIVERS
from tests.kit.servers import postgresql
from tests.kit.servers.java_programs import maven_class_path
from tests.kit.spark.brokers import SparkBroker

pytestmark = [
    *(pytest.mark.timeout(400), pytest.mark.maven, pytest.mark.spark),
    pytest.mark.xdist_group(SPARK_DRIVERS),
]
POM = Path(__file__).resolve().parent / "formats" / "pom.xml"


class Server(postgresql.Cluster):
    """A PostgreSQL server that listens at a port, since Java has no Unix sockets for it."""

    def start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        options = f"-k {self.folder} -c listen_addresses=127.0.0.1 -p {self.port} -c fsync=off"
        self._run("pg_ctl", "-D", "data", "-w", "-o", options, "-l", "log", "start")


@pytest.fixture
def server() -> Iterator[Server]:
    reason = postgresql.skip_reason()
    if reason:
        pytest.skip(reason)
    made = Server()
    yield made
    made.remove()


def jars(*names: str) -> str:
    """Return the paths of the libraries that begin so."""
    try:
        paths = maven_class_path(POM).split(":")
    except LookupError as error:
        reason = str(error)
        pytest.skip(reason)
    return ",".join(path for path in paths if Path(path).name.startswith(names))


def origins(broker: SparkBroker, folder: Path, what: dict[str, Any]) -> Any:
    """Return the origins in the table after a batch of two, its repetition, and a batch of one."""
    broker.send("IN", ['{"origin": "JFK"}', '{"origin": "LGA"}'])
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.spark.table_sinks", broker.url, folder, json.dumps(what)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.postgresql
@pytest.mark.fact("spark-pipeline 3.7.9")
def test_jdbc_appends_and_a_repeated_batch_is_written_again(
    broker: SparkBroker, server: Server, tmp_path: Path
) -> None:
    options = {
        "url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        "user": "pyjms",
        "dbtable": "origins",
        "driver": "org.postgresql.Driver",
    }
    what = {"format": "jdbc", "jars": jars("postgresql"), "options": options}
    assert origins(broker, tmp_path / "jdbc", what) == ["EWR", "JFK", "JFK", "LGA", "LGA"]
