"""What the format `jms` refuses: options without an effect, and what a queue cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from pyjms.errors import ConfigurationException
from pyjms.spark.formats import JmsBatchWriter, JmsDataSource, JmsStreamWriter
from pyjms.spark.options import read_options
from pyjms.spark.spool import SpoolStreamReader

URL = "tcp://h:1"
TEXTS = StructType().add("text", "string")
TEXTS_WITH_IDS = StructType().add("text", "string").add("id", "string")


def sink(**options: str) -> JmsDataSource:
    return JmsDataSource({"url": URL, "path": "OUT", **options})


@pytest.mark.parametrize("where", ["latest", "17"])
def test_a_spool_cannot_begin_elsewhere(tmp_path: Path, where: str) -> None:
    said = f"startingOffset {where} has no effect through a spool"
    given = {"url": URL, "destination": "IN", "startingOffset": where}
    with pytest.raises(ConfigurationException, match=said):
        read_options({**given, "mode": "spool"}, "stream")
    folder = tmp_path / "spool"
    for _ in range(2):
        with pytest.raises(ConfigurationException, match=said):
            SpoolStreamReader(read_options(given, "stream"), str(folder)).initialOffset()
    assert not folder.exists()


def test_a_spool_may_say_that_it_begins_at_the_beginning(tmp_path: Path) -> None:
    given = {"url": URL, "mode": "spool", "startingOffset": "Earliest"}
    options = read_options({**given, "destination": "IN"}, "stream")
    reader = SpoolStreamReader(options, str(tmp_path))
    assert reader.initialOffset()["seq"] == 0
    reader.stop()


@pytest.mark.parametrize("folder", ["s3a://key:pw@b/x", "hdfs://n/x", "file:///x"])
def test_a_spool_is_not_a_uri(folder: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        read_options({"url": URL, "spool": folder}, "stream")
    scheme = folder.partition(":")[0]
    assert f"jms: option spool is a URI ({scheme}:), but must be a path" in str(caught.value)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("folder", ["/a/b", "a:b", "C:/x"])
def test_a_spool_is_any_path(folder: str) -> None:
    assert read_options({"url": URL, "spool": folder}, "stream").spool == folder


@pytest.mark.parametrize("level", [{}, {"exactlyOnce": "off"}, {"exactlyOnce": "epoch"}])
def test_a_column_of_ids_is_for_ids_alone(level: dict[str, str]) -> None:
    said = f"idColumn has no effect with exactlyOnce={level.get('exactlyOnce', 'off')}"
    for named in ({}, {"queryId": "q", "batchId": "1"}):
        with pytest.raises(ConfigurationException, match=said):
            sink(idColumn="id", **level, **named).writer(TEXTS_WITH_IDS, False)
    with pytest.raises(ConfigurationException, match=said):
        sink(idColumn="id", **level).streamWriter(TEXTS_WITH_IDS, False)


def test_a_batch_write_by_epoch_has_to_be_named() -> None:
    with pytest.raises(ConfigurationException, match="needs the options queryId and batchId"):
        sink(exactlyOnce="epoch").writer(TEXTS, False)


def test_a_queue_is_not_written_over() -> None:
    with pytest.raises(ConfigurationException, match=r"cannot be overwritten.*mode\('append'\)"):
        sink().writer(TEXTS, True)
    made = sink(idColumn="id", exactlyOnce="ids").writer(TEXTS_WITH_IDS, False)
    assert isinstance(made, JmsBatchWriter)


def test_a_query_that_sends_all_its_rows_each_time_does_not_overwrite() -> None:
    assert isinstance(sink().streamWriter(TEXTS, True), JmsStreamWriter)
