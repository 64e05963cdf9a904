"""Queries on a journal: a balance for each queue, and messages to replay."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

__all__ = ["DEAD_LETTERS", "balance", "bodies_between", "replay"]

DEAD_LETTERS = "queue://ActiveMQ.DLQ"
OURS = "queue://PyJMS.%"  # internal queues of the sinks


def balance(spark: SparkSession, folder: Path, dead_letters: str = DEAD_LETTERS) -> DataFrame:
    """Return one row for each queue: sent, consumed, dead-lettered, pending, unexplained messages.

    Each message counts once, by its id, whatever was written about it how often. Dead is what
    left its queue and came into `dead_letters` under the same id, as brokers do it (copies of a
    virtual topic's message have one id, and count alike), and what a pipeline's dead letter
    names. Unexplained is what left or is there without having come, and what did neither.
    """
    records = committed(spark, folder).persist()  # read once, used twice
    pending = read_journal(spark, folder, view="messages").withColumn("command", F.lit("pending"))
    columns = ["destination", "message_id", "command"]
    said = records.select(columns).unionAll(pending.select(columns)).unionAll(named_dead(records))
    messages = (
        said.where(F.col("destination").like("queue://%") & ~F.col("destination").like(OURS))
        .where("message_id IS NOT NULL")
        .groupBy("destination", "message_id")
        .agg(
            F.expr("bool_or(command = 'addMessage') AS sent"),
            F.expr("bool_or(command = 'removeMessage') AS removed"),
            F.expr("bool_or(command = 'pending') AS pending"),
            F.expr("bool_or(command = 'dead') AS named"),
        )
    )
    buried = F.bool_or(F.col("destination") == dead_letters).over(Window.partitionBy("message_id"))
    is_dead = F.col("named") | (buried & (F.col("destination") != dead_letters))
    return (
        messages.withColumn("dead", is_dead)
        .groupBy("destination")
        .agg(
            F.expr("count_if(sent) AS sent"),
            F.expr("count_if(removed AND NOT dead) AS consumed"),
            F.expr("count_if(removed AND dead) AS dead_lettered"),
            F.expr("count_if(pending) AS pending"),
            F.expr("count_if(NOT sent OR removed = pending) AS unexplained"),
        )
        .orderBy("destination")
    )


def named_dead(records: DataFrame) -> DataFrame:
    """Return the messages that the dead letters of pipelines refer to."""
    letters = records.where((F.col("command") == "addMessage") & ~F.col("destination").like(OURS))
    return letters.where(F.col("properties")["PyJMSOriginalMessageID"].isNotNull()).select(
        F.col("properties")["PyJMSOriginalDestination"].alias("destination"),
        F.col("properties")["PyJMSOriginalMessageID"].alias("message_id"),
        F.lit("dead").alias("command"),
    )


def committed(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the records of adds and removals, without transactions that were not committed."""
    records = read_journal(spark, folder, command="addMessage,removeMessage,commit").select(
        "transaction", "command", "destination", "message_id", "properties", "text"
    )
    commits = records.where("command = 'commit'").select("transaction").distinct()
    ended_well = commits.withColumn("ended_well", F.lit(True))
    joined = records.where("command <> 'commit'").join(ended_well, "transaction", "left")
    return joined.where("transaction IS NULL OR ended_well")


def read_journal(spark: SparkSession, folder: Path, **wanted: str) -> DataFrame:
    """Return the records that the options select; others are not decoded."""
    return spark.read.format("jms-journal").options(path=str(folder), **wanted).load()


def bodies_between(
    spark: SparkSession, folder: Path, queue: str, field: str, start: datetime, end: datetime
) -> DataFrame:
    """Return the texts of a queue whose JSON `field` is a time in [start, end), once each."""
    sent = committed(spark, folder).where(
        (F.col("command") == "addMessage") & (F.col("destination") == f"queue://{queue}")
    )
    time = F.try_to_timestamp(F.get_json_object("text", f"$.{field}"))
    wanted = sent.where((time >= start) & (time < end))
    return wanted.dropDuplicates(["message_id"]).select("text", "properties", "message_id")


def replay(messages: DataFrame, url: str, queue: str, name: str) -> None:
    """Send messages to a queue, once each: an interrupted replay may be repeated.

    `name` stands for this replay; the same name with the same messages sends nothing twice.
    """
    named = messages.withColumn("message_id", F.concat(F.lit(f"{name}:"), "message_id"))
    writer = named.write.format("jms").option("url", url)
    writer.option("exactlyOnce", "ids").option("idColumn", "message_id").mode("append").save(queue)
