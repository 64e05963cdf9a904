"""A pipeline that writes a table: `python -m tests.kit.spark.table_sinks URL FOLDER JSON`.

The JSON has the `jars` of the session, the `format` and its `options`. It reads queue IN, then forgets that the batch is finished, as after
a kill, reads what came since, and prints the origins in the table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pyjms.spark import Pipeline, spark_session
from pyjms.spark.checkpoint import PipelineLocation
from pyjms.spark.query import start_query
from tests.kit.clients.messages import send_texts
from tests.kit.spark.driver import CONF


def main(url: str, folder: Path, what: str) -> None:
    given = json.loads(what)
    conf = {**CONF, "spark.jars": given["jars"]}
    spark = spark_session("tables", master="local[2,4]", conf=conf)
    run(spark, url, folder, given)
    last = max((folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    send_texts(url, "IN", ['{"origin": "EWR"}'])
    run(spark, url, folder, given)
    rows = spark.read.format(given["format"]).options(**given["options"]).load().collect()
    print(json.dumps(sorted(row.origin for row in rows)))
    spark.stop()


def run(spark: SparkSession, url: str, folder: Path, given: dict[str, Any]) -> None:
    options = {f"sink.{name}": value for name, value in given["options"].items()}
    pipeline = Pipeline(
        name="table",
        sql="SELECT origin FROM messages",
        source="IN",
        schema="origin STRING",
        sink=f"format:{given['format']}",
        options={"ackOn": "commit", **options},
    )
    place = PipelineLocation(url=url, folder=folder)
    start_query(spark, pipeline, place, once=True).awaitTermination(120)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
