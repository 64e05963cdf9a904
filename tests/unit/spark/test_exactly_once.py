"""What makes rows arrive exactly once: their ids, and segments that are durable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql import Row
from pyspark.sql.types import StructType

from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.spark import formats, sink
from pyjms.spark.options import read_options
from pyjms.spark.rows import new_columns
from pyjms.spark.spool import Spool
from tests.kit.spark.rows import batch_of_rows


def ids_of(monkeypatch: pytest.MonkeyPatch, query: str, batch: str, partition: int) -> list[str]:
    """Return the ids with which a task sends two rows."""
    context = SimpleNamespace(
        getLocalProperty=lambda name: batch if "batch" in name.lower() else query,
        partitionId=lambda: partition,
    )
    sent: list[str] = []

    def send_rows(_options: object, batches: Iterator[Any], convert: Any) -> int:
        for rows in batches:
            for outgoing in convert(len(sent), rows):
                sent.append(outgoing.message.properties[DUPLICATE_ID_PROPERTY])
        return len(sent)

    monkeypatch.setattr(formats, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(sink, "send_rows", send_rows)
    options = read_options(
        {"url": "tcp://x:1", "destination": "q", "exactlyOnce": "ids", "mapOnly": "true"}, "sink"
    )
    schema = StructType().add("text", "string")
    rows = [batch_of_rows([Row(text=text)], schema) for text in ("a", "b")]
    formats.JmsStreamWriter(options, schema).write(iter(rows))
    return sent


def test_the_id_of_a_row_names_its_query_batch_and_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = ids_of(monkeypatch, "q1", "1", 0)
    assert ids_of(monkeypatch, "q1", "1", 0) == first, "the same when the task runs again"
    found = {
        *first,
        *ids_of(monkeypatch, "q1", "2", 0),
        *ids_of(monkeypatch, "q1", "1", 1),
        *ids_of(monkeypatch, "q2", "1", 0),
    }
    assert len(found) == 8


def test_a_segment_and_its_folder_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path)
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        fsync(descriptor)
        status = os.fstat(descriptor)
        files = [tmp_path, *tmp_path.iterdir()]
        synced.extend(path.suffix for path in files if os.path.samestat(path.stat(), status))

    monkeypatch.setattr(os, "fsync", record)
    rows = new_columns()
    rows.add_nulls("ID:a", None)
    spool.append(rows)
    folder = [] if os.name == "nt" else [""]  # Windows has no sync of folders
    assert synced == [".tmp", *folder], "the segment under its temporary name, then its folder"
    assert [path.suffix for path in tmp_path.glob("rows-*")] == [".arrow"]
