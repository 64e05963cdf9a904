"""Sinks that are given whole batches: destinations in update mode, and folders of Parquet.

A batch that comes again has the same number, by which it is known: destinations drop it, and its
folder is written over. (spark-pipeline 3.4, 6.2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Write", "folder_writer", "message_writer", "two_kinds"]

Write: TypeAlias = "Callable[[DataFrame, int], None]"
"""What Spark calls with each batch and its number."""

_QUERY_ID: Final = "sql.streaming.queryId"
_ROW: Final = "pyjms_row"
_LETTER: Final = "pyjms_letter"


def message_writer(options: Mapping[str, str]) -> Write:
    """Return what sends a batch of messages with these options of the format `jms`."""

    def write(frame: DataFrame, batch: int) -> None:
        _send(frame, options, batch)

    return write


def two_kinds(rows: DataFrame, letters: DataFrame | None) -> DataFrame:
    """Return rows, and the messages that did not fit, as one stream of two kinds."""
    kinds = rows.select(F.struct("*").alias(_ROW))
    if letters is None:
        return kinds
    return kinds.unionByName(letters.select(F.struct("*").alias(_LETTER)), allowMissingColumns=True)


def folder_writer(folder: str, more: Mapping[str, str], letters: Mapping[str, str]) -> Write:
    """Return what writes rows into a folder of their batch and query, and sends dead letters.

    Another checkpoint has another query id, so it never writes over an older one's files.
    """

    def write(frame: DataFrame, batch: int) -> None:
        frame.persist()  # both writes see the same, and the function runs once
        try:
            rows = frame.where(F.col(_ROW).isNotNull()).select(f"{_ROW}.*")
            if not rows.isEmpty():
                path = f"{folder.rstrip('/')}/query={_query_id(frame)}/batch={batch}"
                rows.write.mode("overwrite").options(**more).parquet(path)
            if _LETTER in frame.columns:
                bad = frame.where(F.col(_LETTER).isNotNull()).select(f"{_LETTER}.*")
                _send(bad, letters, batch)
        finally:
            frame.unpersist()

    return write


def _send(frame: DataFrame, options: Mapping[str, str], batch: int) -> None:
    writer = frame.write.format("jms").mode("append").options(**options)
    writer.options(queryId=_query_id(frame), batchId=str(batch)).save()


def _query_id(frame: Any) -> str:
    """Return the id of the query whose batch this thread handles; its checkpoint keeps it."""
    return str(frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID))
