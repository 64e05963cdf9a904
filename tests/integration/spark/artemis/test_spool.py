"""The source on Artemis and activemq-broker 6: it uses the spool automatically, without loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyjms import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.spark.connections import close_connections, run_blocking
from pyjms.spark.offsets import BatchLimit
from pyjms.spark.options import JmsOptions, read_options
from pyjms.spark.source import JmsStreamReader
from pyjms.spark.spool import Puller, Spool, SpoolStreamReader
from tests.kit.servers.java_brokers import JavaBroker

pytestmark = [pytest.mark.maven, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    run_blocking(close_connections)


def reader_of(broker: JavaBroker, tmp_path: Path, **options: str) -> JmsStreamReader:
    spool = str(tmp_path / "spool")
    given = {"url": broker.url, "destination": "IN", "spool": spool, **options}
    return JmsStreamReader(read_options(given, "stream"))


def rows_between(
    reader: JmsStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[dict[str, Any]]:
    parts = reader.partitions(start, end)
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_the_spool_is_chosen_automatically_and_logged_once(
    broker: JavaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("IN", ["a", "b"])
    reader = reader_of(broker, tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert [row["text"] for row in rows_between(reader, start, end)] == ["a", "b"]
    assert rows_between(reader, start, end) == rows_between(reader, start, end)
    assert reader.latestOffset(end, ReadMaxRows(10)) == end
    assert isinstance(reader._reader, SpoolStreamReader)
    assert len([r for r in caplog.records if "is read through a spool" in r.message]) == 1
    assert broker.count("IN") == 0


def test_questions_about_ranges_end_where_what_expires_goes(
    broker: JavaBroker, tmp_path: Path
) -> None:
    """At Artemis in its expiry queue; ActiveMQ drops what expires and is not persistent."""
    reader_of(broker, tmp_path).initialOffset()
    until = time.monotonic() + 60
    while broker.count("PyJMS.Ranges") and time.monotonic() < until:
        time.sleep(0.2)
    assert broker.count("PyJMS.Ranges") == broker.count("ActiveMQ.DLQ") == 0
    assert broker.count("ExpiryQueue") == (2 if broker.kind == "artemis" else 0)


def test_a_batch_replays_equal_after_the_broker_was_killed(
    broker: JavaBroker, tmp_path: Path
) -> None:
    broker.send("IN", [f"m{number}" for number in range(3000)])
    reader = reader_of(broker, tmp_path, mode="spool")
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(1000))
    rows = rows_between(reader, start, middle)
    assert 0 < len(rows) <= 1000  # fewer if the broker paused meanwhile
    assert [row["text"] for row in rows] == [f"m{number}" for number in range(len(rows))]
    broker.restart("kill")
    assert broker.count("IN") == 3000 - len(rows)
    run_blocking(close_connections)
    again = reader_of(broker, tmp_path, mode="spool")
    assert rows_between(again, start, middle) == rows
    rest, _ = _read(again, middle, 3000 - len(rows))
    assert [row["text"] for row in rest] == [f"m{number}" for number in range(len(rows), 3000)]


@pytest.mark.parametrize(
    ("broker", "attempts"),
    [("artemis", "10"), ("artemis", "-1"), ("activemq6", "")],
    indirect=["broker"],
)
def test_what_the_spool_does_not_take_is_not_acknowledged(
    broker: JavaBroker, tmp_path: Path, attempts: str
) -> None:
    """Artemis itself counts the deliveries of a message, and removes it after the last one."""
    if attempts:
        broker.restart("stop", attempts=attempts)
    broker.send("IN", ["a", "b"])
    reader = reader_of(broker, tmp_path, mode="spool")
    start = reader.initialOffset()
    spool, away = tmp_path / "spool", tmp_path / "away"
    spool.rename(away)
    for _ in range(10):
        with pytest.raises(FileNotFoundError):
            reader.latestOffset(start, ReadMaxRows(10))
    away.rename(spool)
    if attempts == "10":
        assert (broker.count("IN"), broker.count("DLQ")) == (0, 2)
    else:
        rows, _ = _read(reader, start, 2)
        assert [(row["text"], row["redelivered"]) for row in rows] == [("a", True), ("b", True)]


def test_duplicates_of_spooled_messages_are_detected(broker: JavaBroker, tmp_path: Path) -> None:
    broker.send("IN", ["a", "b", "c"])
    run_blocking(_pull_without_acknowledging, broker.url, tmp_path / "spool")
    broker.restart("kill")
    run_blocking(close_connections)
    broker.send("IN", ["d"])
    reader = reader_of(broker, tmp_path, mode="spool")
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(10))
    end = reader.latestOffset(middle, ReadMaxRows(10))
    assert [row["text"] for row in rows_between(reader, start, middle)] == ["a", "b", "c"]
    assert [row["text"] for row in rows_between(reader, middle, end)] == ["d"]
    assert broker.count("IN") == 0


async def _pull_without_acknowledging(url: str, folder: Path) -> None:
    spool = Spool(folder)
    puller = Puller(JmsOptions(url, "IN"), spool)
    _, consumer = await puller._open()
    rows, received, _ = await puller._receive(consumer, BatchLimit(3, 1 << 20), 5.0)
    assert received == 3
    spool.append(rows)


def test_a_durable_subscription_is_a_stream(broker: JavaBroker, tmp_path: Path) -> None:
    options = {"destination": "topic://T", "clientId": "spark", "subscription": "all"}
    reader = reader_of(broker, tmp_path, **options)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    send_to_topic(broker, ["a", "b"])
    rows, middle = _read(reader, start, 2)
    run_blocking(close_connections)
    send_to_topic(broker, ["c"])
    broker.restart("kill")
    again = reader_of(broker, tmp_path, **options)
    rows += _read(again, middle, 1)[0]
    assert [row["text"] for row in rows] == ["a", "b", "c"]


def send_to_topic(broker: JavaBroker, texts: Sequence[str]) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_topic("T"))
        for text in texts:
            producer.send(session.create_text_message(text))


def _read(
    reader: JmsStreamReader, start: dict[str, Any], count: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return `count` rows and their end, batch by batch: each request for a batch deletes rows."""
    rows: list[dict[str, Any]] = []
    end = start
    while len(rows) < count:
        begun, end = end, reader.latestOffset(end, ReadMaxRows(5000))
        rows += rows_between(reader, begun, end)
    return rows, end


def test_columns_are_those_that_our_broker_gives(broker: JavaBroker, tmp_path: Path) -> None:
    """Artemis adds a property: the connection that sent the message."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("IN"))
        text = session.create_text_message("hello")
        text.properties["n"] = 7
        text.correlation_id = "c"
        producer.send(text, priority=6)
        producer.send(
            session.create_bytes_message(b"\x00\x01"), delivery_mode=DeliveryMode.NON_PERSISTENT
        )
    reader = reader_of(broker, tmp_path, mode="spool")
    start = reader.initialOffset()
    (first, second), _ = _read(reader, start, 2)
    properties = dict(first["properties"])
    assert properties.pop("n") == "7"
    assert list(properties) == (["__AMQ_CID"] if broker.kind == "artemis" else [])
    assert (first["body_kind"], first["text"], first["message_id"]) == (
        "text",
        "hello",
        text.message_id,
    )
    assert (first["correlation_id"], first["priority"], first["delivery_mode"]) == ("c", 6, 2)
    assert (first["destination"], first["redelivered"]) == ("queue://IN", False)
    assert first["delivery_count"] == 1
    assert (second["bytes"], second["delivery_mode"]) == (b"\x00\x01", 1)


@pytest.mark.parametrize(
    ("broker", "sink"),
    [
        ("artemis", "epoch"),
        pytest.param("artemis", "key", marks=pytest.mark.nightly),
        pytest.param("activemq6", "epoch", marks=pytest.mark.nightly),
    ],
    indirect=["broker"],
)
def test_a_broker_killed_in_a_batch_comes_back(
    outage: Callable[..., tuple[int, int]], sink: str
) -> None:
    how = {"mode": "auto", "sink": sink, "shuffle": "yes"}
    assert outage(3.0, **how) == (0, 0)


@pytest.mark.parametrize(("sink", "shuffle"), [("ids", ""), ("key", "yes"), ("epoch", "yes")])
def test_a_batch_that_is_run_again_doubles_nothing(
    broker: JavaBroker,
    finish: Callable[..., Any],
    tmp_path: Path,
    kills: ModuleType,
    sink: str,
    shuffle: str,
) -> None:
    how = {"mode": "spool", "sink": sink, "shuffle": shuffle}
    broker.send("IN", kills.TEXTS)
    assert finish(**how) == (0, 0)
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink()
    lost, doubled = finish(**how)
    assert (lost, doubled) == (len(kills.TEXTS), 0), "what was sent again is what was consumed"
    assert (commits / str(last)).exists()
