"""Three pipelines on the virtual topic, each with its own queue."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from examples.board.names import ARCHIVE, BATCH, BOARD, CANCELLED, dead_letters_of, queue_of
from examples.board.records import Departure
from pyjms.spark import jms_pipeline


@jms_pipeline(
    queue_of("delays"),
    schema=Departure,
    sink=BOARD,
    dead_letter=dead_letters_of("delays"),
    max_messages_per_trigger=BATCH,
)
def delays(messages: DataFrame) -> DataFrame:
    """Compute the number of flights and their delay for each airport and hour."""
    hours = messages.withWatermark("sched_dep", "2 hours").groupBy(
        F.window("sched_dep", "1 hour").alias("hour"), "origin"
    )
    return hours.agg(
        F.count("*").alias("flights"),
        F.count_if(F.isnull("dep_delay")).alias("cancelled"),
        F.avg("dep_delay").alias("delay"),
    ).select(F.col("hour.start").alias("hour"), "origin", "flights", "cancelled", "delay")


@jms_pipeline(
    queue_of("cancelled"),
    schema=Departure,
    sink=CANCELLED,
    dead_letter=dead_letters_of("cancelled"),
)
def cancelled(messages: DataFrame) -> DataFrame:
    """Send cancelled flights to their own queue."""
    return messages.where("dep_delay IS NULL").drop("jms")


@jms_pipeline(
    queue_of("archive"),
    schema=Departure,
    sink=f"parquet:{ARCHIVE}",
    dead_letter=dead_letters_of("archive"),
)
def archive(messages: DataFrame) -> DataFrame:
    """Store every flight as Parquet, with the arrival number of its message in the queue."""
    return messages.select("jms.seq", *Departure.model_fields)
