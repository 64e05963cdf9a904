"""One query, in this process or in a separate one that gets killed.

`python -m tests.kit.spark.driver URL FOLDER key=value ...` reads queue IN in batches, writes OUT,
and ends when all that is there is done. Keys: mode (of the source), sink (off, ids, key, epoch), rows, shuffle,
spool (its folder), master.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyjms.spark.session import spark_session

# half of the processor time of a short run
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.sql.codegen.wholeStage": "false",  # as in pyjms.testing.spark
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": JVM,
    "spark.executor.extraJavaOptions": JVM,
}


def session(master: str = "local[2,4]") -> SparkSession:
    memory = {} if master.startswith("local[") else {"spark.executor.memory": "600m"}
    java = os.environ.get("TEST_SPARK_JAVA", "auto")  # a night's starts use a cache as well
    conf = {**CONF, **memory}
    return spark_session(
        "pyjms-test", master=master, java=java, conf=conf, aot_cache=java == "bundled"
    )


def start(spark: SparkSession, url: str, folder: Path, **how: str) -> StreamingQuery:
    sink = how.get("sink", "off")
    mode = how.get("mode", "ranges")
    spool = {} if mode == "ranges" else {"spool": how.get("spool", str(folder / "spool"))}
    rows = (
        spark.readStream.format("jms")
        .option("url", url)
        .options(mode=mode, **spool)
        .option("partitions", "2")
        .option("failOnDataLoss", how.get("loss", "true"))
        .option("ackOn", how.get("ack", "finished"))
        .option("maxMessagesPerTrigger", how.get("rows", "50"))
        .load("IN")
        .selectExpr("text", "text AS id")
    )
    if how.get("shuffle"):
        rows = rows.repartition(2, "text")
    if sink != "key":
        rows = rows.drop("id")
    writer = rows.writeStream.format("jms").option("url", url).option("destination", "OUT")
    if sink == "key":
        writer = writer.option("idColumn", "id")
    elif sink == "ids":
        writer = writer.option("mapOnly", "true")
    return (
        writer.option("exactlyOnce", "ids" if sink == "key" else sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    settings = dict(setting.split("=", 1) for setting in sys.argv[3:])
    spark = session(settings.pop("master", "local[2,4]"))
    start(spark, sys.argv[1], Path(sys.argv[2]), **settings).awaitTermination()
    spark.stop()
