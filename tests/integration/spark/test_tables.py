"""Pipelines whose sink is a table of another format: what a repeated batch leaves in it.

The tests of Delta and Iceberg skip while there is no release of them for the installed Spark.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.servers import postgresql
from tests.kit.servers.java_programs import maven_class_path
from tests.kit.spark.brokers import SparkBroker

pytestmark = [pytest.mark.timeout(400), pytest.mark.maven, pytest.mark.spark]
POM = Path(__file__).resolve().parent / "formats" / "pom.xml"
ICEBERG = "spark.sql.catalog.local"
MISFIT = re.compile(r"java\.lang\.(?:NoSuchMethodError|IncompatibleClassChangeError|NoClassDef\w+)")
"""What Java raises where a library was compiled for another version of Spark."""


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
        pytest.skip(str(error))
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
    misfit = MISFIT.search(done.stderr)
    if done.returncode and misfit is not None:
        version = importlib.metadata.version("pyspark")
        pytest.skip(f"{what['format']} has no release for Spark {version}: {misfit[0]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.postgresql
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
    found = origins(broker, tmp_path / "jdbc", {**what, "conf": {}, "before": []})
    assert found == ["EWR", "JFK", "JFK", "LGA", "LGA"]


@pytest.mark.nightly
def test_iceberg_appends_and_a_repeated_batch_is_written_again(
    broker: SparkBroker, tmp_path: Path
) -> None:
    what = {
        "format": "iceberg",
        "jars": jars("iceberg"),
        "conf": {
            ICEBERG: "org.apache.iceberg.spark.SparkCatalog",
            f"{ICEBERG}.type": "hadoop",
            f"{ICEBERG}.warehouse": str(tmp_path / "warehouse"),
        },
        "before": ["CREATE TABLE local.db.origins (origin STRING) USING iceberg"],
        "options": {"path": "local.db.origins"},
    }
    found = origins(broker, tmp_path / "iceberg", what)
    assert found == ["EWR", "JFK", "JFK", "LGA", "LGA"]


@pytest.mark.nightly
def test_delta_drops_a_repeated_batch(broker: SparkBroker, tmp_path: Path) -> None:
    what = {
        "format": "delta",
        "jars": jars("delta", "unitycatalog"),
        "conf": {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        "before": [],
        "options": {"path": str(tmp_path / "table")},
    }
    assert origins(broker, tmp_path / "delta", what) == ["EWR", "JFK", "LGA"]
