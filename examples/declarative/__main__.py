"""Spark Declarative Pipelines on a queue: `python -m examples.declarative`.

Needs `pip install "pyspark[pipelines]"`. Sends real departures to a broker, lets Spark's own
`spark-pipelines` run the project beside this file, and counts what came out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from examples.flights.records import read_flights
from examples.messages import connected, send_texts, take_texts
from examples.processes import running_broker
from pyjms import Queue
from pyjms.spark.session import find_java

HERE = Path(__file__).parent
FLIGHTS = 250
LATE = 30
NEEDED = ("grpc", "grpc_status", "pandas", "yaml", "zstandard")


def main(flights: int = FLIGHTS) -> int:
    absent = missing()
    if absent:
        sys.exit(f'Not installed: {", ".join(absent)}; pip install "pyspark[pipelines]"')
    rows = list(read_flights(flights))
    expected = sum(
        row["dep_delay"].lstrip("-").isdigit() and int(row["dep_delay"]) > LATE for row in rows
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_broker(folder / "data") as url, connected(url) as connection:
            send_texts(connection, Queue("flights"), [json.dumps(row) for row in rows])
            spark_pipelines(folder, url)
            sent = take_texts(connection, "flights.late")
    print(f"{len(rows)} flights in, {len(sent)} late ones out, {expected} expected")
    return int(len(sent) != expected)


def missing() -> list[str]:
    """Name what Spark's command needs and is not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def spark_pipelines(folder: Path, url: str) -> None:
    """Run the project in a folder of its own. Takes most of a minute."""
    text = (HERE / "spark-pipeline.yml").read_text(encoding="utf-8")
    for key, value in {"STORAGE": (folder / "storage").as_uri(), "URL": f'"{url}"'}.items():
        text = text.replace(f"${{{key}}}", value)
    (folder / "storage").mkdir()
    (folder / "spark-pipeline.yml").write_text(text, encoding="utf-8")
    (folder / "transformations").symlink_to(HERE / "transformations")
    script = Path(sys.executable).with_name("spark-pipelines")
    environment = {
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    subprocess.run(
        [str(script), "run", "--spec", "spark-pipeline.yml"],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
