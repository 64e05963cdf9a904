"""Messages become a table, the table a summary, and late flights messages again.

Nothing of pyjms is imported: the formats register themselves where pyjms is installed.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

FLIGHT = "carrier STRING, flight STRING, origin STRING, dest STRING, dep_delay STRING"
LATE = 30

spark = SparkSession.active()
URL = str(spark.conf.get("pyjms.url"))


@dp.table
def departures() -> DataFrame:
    messages = spark.readStream.format("jms").option("url", URL).load("flights")
    flight = F.from_json("text", FLIGHT).alias("flight")
    return messages.select("message_id", flight).select(
        "message_id", "flight.*", F.expr("try_cast(flight.dep_delay AS INT)").alias("delay")
    )


@dp.materialized_view
def by_origin() -> DataFrame:
    return (
        spark.read.table("departures")
        .groupBy("origin")
        .agg(F.count("*").alias("flights"), F.avg("delay").alias("delay"))
    )


dp.create_sink("late", "jms", {"url": URL, "destination": "flights.late", "exactlyOnce": "epoch"})


@dp.append_flow(target="late")
def late_flights() -> DataFrame:
    rows = spark.readStream.table("departures").where(F.col("delay") > LATE)
    return rows.select(F.to_json(F.struct("carrier", "flight", "origin", "delay")).alias("text"))
