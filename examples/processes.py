"""Helpers of the Spark examples: a broker in its own process, and Spark for short runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyjms.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ROOT", "running_broker", "short_session"]

ROOT = Path(__file__).resolve().parent.parent
BROKER_YAML = Path(__file__).with_name("broker.yaml")
STOP_WITHIN = 30.0
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # An internal setting of Spark, for short runs on little data only: to compile expressions
    # takes longer than to interpret them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # without the second compiler, which takes half of the processor time of a short run
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
    ),
}


def short_session(name: str) -> SparkSession:
    """Start Spark in this process, for a short run on little data."""
    return spark_session(name, master="local[2]", conf=CONF)


@contextlib.contextmanager
def running_broker(data: Path) -> Iterator[str]:
    """Run a broker on a data folder; yield its URL; stop it cleanly at the end.

    With PYJMS_ACTIVEMQ__BROKER_URL in the environment, yield that broker's URL instead.
    """
    if url := os.environ.get("PYJMS_ACTIVEMQ__BROKER_URL"):
        yield url
        return
    data.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pyjms_broker",
        "--config",
        str(BROKER_YAML),
        "--data",
        str(data),
    ]
    with (data / "broker.log").open("a") as log:
        process = subprocess.Popen(
            [*command, "--openwire", "127.0.0.1:0"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:  # one line for each connector, once it accepts connections
            if "tcp://" in line:
                yield "tcp://" + line.split("tcp://", 1)[1].split()[0]
                break
        else:
            sys.exit(f"The broker did not start: see {data / 'broker.log'}")
    finally:
        process.terminate()
        process.communicate(timeout=STOP_WITHIN)
