"""Spark Connect: a server from the pip package, and a client that has no JVM."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from pyjms.spark.session import find_java
from tests.kit.runs.parallel import SPARK_DRIVERS
from tests.kit.spark.brokers import SparkBroker
from tests.kit.spark.driver import JVM

pytestmark = [
    *(pytest.mark.timeout(300), pytest.mark.spark),
    pytest.mark.xdist_group(SPARK_DRIVERS),
]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """A server, as the documentation starts it; its address."""
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("a client of Spark Connect needs pip install 'pyspark[connect]'")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {**os.environ, "JAVA_HOME": str(find_java().path), "SPARK_LOCAL_IP": "127.0.0.1"}
    env["PYSPARK_PYTHON"] = sys.executable
    confs = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": JVM,
        "spark.sql.shuffle.partitions": "2",
        "spark.speculation": "false",
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[2,4]", *options, "--class", SERVER, "spark-internal"]
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env, cwd=tmp_path
        )
    try:
        for _ in range(1200):
            if server.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(0.1)
                continue
            yield f"sc://127.0.0.1:{port}"
            return
        pytest.fail(log.read_text()[-3000:])
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.fact("spark-pipeline 3.7.7")
def test_a_client_reads_writes_and_streams(
    remote: str, broker: SparkBroker, tmp_path: Path
) -> None:
    client = [sys.executable, "-m", "tests.kit.spark.connect_client", remote, broker.url]
    done = subprocess.run(
        [*client, str(tmp_path / "checkpoint")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [["a", 7], ["b", 9]],
        [2],
        ["A", "B", "C"],
        True,
    ]
    assert broker.count("IN") == 0
    assert broker.texts("OUT") == ["A", "B", "C"]
