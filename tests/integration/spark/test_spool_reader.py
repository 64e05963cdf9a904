"""The reader through a spool, called as Spark calls it: one driver at a time, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.spark import connections
from pyjms.spark.connections import close_connections, run_blocking
from pyjms.spark.options import read_options
from pyjms.spark.spool import LateIds, Spool, SpoolLock, SpoolStreamReader
from tests.kit.spark.brokers import SparkBroker
from tests.kit.values import present

TEXTS = [f"m{number}" for number in range(50)]
HOLDER = """
import fcntl, sys
with open(sys.argv[1], "a+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    file.write("far:1")
    file.flush()
    print("locked", flush=True)
    sys.stdin.read()
"""

Make = Callable[..., SpoolStreamReader]


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    run_blocking(close_connections)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def make(broker: SparkBroker, folder: Path) -> Iterator[Make]:
    made: list[SpoolStreamReader] = []

    def reader(**options: str) -> SpoolStreamReader:
        given = {"url": broker.url, "destination": "IN", "spool": str(folder), **options}
        made.append(SpoolStreamReader(read_options(given, "stream"), str(folder)))
        return made[-1]

    yield reader
    for each in made:
        each.stop()


def texts_between(reader: SpoolStreamReader, start: Any, end: Any) -> list[str]:
    return [
        row["text"]
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def test_a_spool_that_cannot_be_written_for_long_costs_no_message(
    broker: SparkBroker, make: Make, folder: Path
) -> None:
    broker.send("IN", TEXTS)
    reader = make()
    start = reader.initialOffset()
    shutil.move(folder, folder.with_name("away"))
    for _ in range(10):  # more often than a message may come again by default
        with pytest.raises(OSError, match="No such file"):
            reader.latestOffset(start, ReadMaxRows(100))
    assert broker.count("IN") == len(TEXTS)
    assert broker.count("ActiveMQ.DLQ") == 0
    shutil.move(folder.with_name("away"), folder)
    end = reader.latestOffset(start, ReadMaxRows(100))
    assert texts_between(reader, start, end) == TEXTS
    assert broker.count("IN") == 0


@pytest.mark.skipif(sys.platform == "win32", reason="the other process locks as POSIX does")
def test_one_process_has_a_spool(
    process: Callable[..., AbstractContextManager[Any]], folder: Path, tmp_path: Path
) -> None:
    folder.mkdir()
    command = [sys.executable, "-c", HOLDER, str(folder / "lock")]
    with process(command, tmp_path / "log") as child:
        assert child.stdout.readline() == "locked\n"
        with pytest.raises(IllegalStateException, match="in use by another process: far:1"):
            run_blocking(SpoolLock(folder).acquire, 0.2)
    lock = SpoolLock(folder)
    run_blocking(lock.acquire, 10.0)  # the system takes its time to end a process
    lock.release()


def test_segments_that_do_not_fit_together_are_named(make: Make, folder: Path) -> None:
    reader = make()
    reader.initialOffset()
    for name in (f"rows-{0:020d}-5.arrow", f"rows-{7:020d}-5.arrow"):
        (folder / name).touch()
    with pytest.raises(ConfigurationException, match="has rows before 5 and from 7 on"):
        Spool(folder)


def test_a_damaged_id_is_named(folder: Path) -> None:
    Spool(folder)
    (folder / "spool-id").write_text("")
    with pytest.raises(
        ConfigurationException, match="spool-id is damaged: it does not contain a number"
    ):
        Spool(folder)


def spooled(broker: SparkBroker, make: Make) -> tuple[Any, Any]:
    """Have a batch of five finished and one of five planned; return the ends of both."""
    reader = make()
    start = reader.initialOffset()
    broker.send("IN", TEXTS[:5])
    first = reader.latestOffset(start, ReadMaxRows(5))
    broker.send("IN", TEXTS[5:10])
    second = reader.latestOffset(first, ReadMaxRows(5))
    reader.stop()
    run_blocking(close_connections)
    return first, second


@pytest.mark.parametrize("lost", ["all", "the last"])
def test_a_spool_that_ends_before_the_checkpoint_is_an_error(
    broker: SparkBroker, make: Make, folder: Path, lost: str
) -> None:
    first, second = spooled(broker, make)
    for file in sorted(folder.glob("*.arrow"))[0 if lost == "all" else -1 :]:
        file.unlink()
    broker.send("IN", TEXTS[10:15])
    with pytest.raises(
        IllegalStateException, match="The batch needs rows 5 to 9, but the spool has"
    ):
        make().partitions(first, second)
    with pytest.raises(IllegalStateException, match="Rows before 10 were read, but the spool ends"):
        make().latestOffset(second, ReadMaxRows(5))
    assert broker.count("IN") == 5
    reader = make(failOnDataLoss="false")
    assert texts_between(reader, first, second) == []
    third = reader.latestOffset(second, ReadMaxRows(5))
    assert third["seq"] == 15
    assert texts_between(reader, second, third) == TEXTS[10:15]
    again = make()
    assert texts_between(again, second, third) == TEXTS[10:15]


def test_how_much_waits_at_a_foreign_broker_is_not_claimed(broker: SparkBroker, make: Make) -> None:
    broker.send("IN", TEXTS)
    reader = make()
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
    report = present(reader.reportLatestOffset())
    assert report["spooled"] == 0
    assert "backlog" not in report


class HalfOpen(Exception):
    """The connection is gone, and the broker does not know."""


def half_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next acknowledgement get lost, with its connection still open at the broker."""

    async def lost(*_: object) -> None:
        raise HalfOpen

    async def nothing(*_: object) -> None:
        """It does not reach the broker."""

    monkeypatch.setattr("pyjms.client.session.ActiveMQSession.commit", lost)
    monkeypatch.setattr("pyjms.client.session.ActiveMQSession.close", nothing)


@pytest.mark.parametrize("dies", ["the driver", "the connection"])
def test_late_redeliveries_are_recognized_after_their_rows_were_removed(
    broker: SparkBroker, make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    broker.send("IN", TEXTS[:5])
    reader = make()
    start = reader.initialOffset()
    half_open(monkeypatch)
    with pytest.raises(HalfOpen):
        reader.latestOffset(start, ReadMaxRows(5))
    monkeypatch.undo()
    held = dict(connections._connections)
    connections._connections.clear()  # the broker still has it, and the five messages for it
    if dies == "the driver":
        reader.stop()
        reader = make()
    else:
        present(reader._puller)._session = present(reader._puller)._consumer = None
    end = reader.latestOffset(start, ReadMaxRows(5))
    assert texts_between(reader, start, end) == TEXTS[:5]
    found: list[str] = []

    def batch() -> None:
        nonlocal end
        begun, end = end, reader.latestOffset(end, ReadMaxRows(5))
        found.extend(texts_between(reader, begun, end))

    for number in range(10):  # batches go on, until the rows are gone
        broker.send("IN", [f"other {number}"])
        batch()
    assert present(reader._spool).first >= 5
    for connection in held.values():
        run_blocking(connection.close)  # now the broker delivers the five again
    broker.send("IN", ["new"])
    while "new" not in found:
        batch()
    assert len(found) == len(set(found))
    assert not set(found) & set(TEXTS)
    assert broker.count("IN") == 0
    reader.stop()
    assert "no such id" not in Spool(folder)


def test_late_ids_are_removed_after_a_day_and_damage_is_reported(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    ids = LateIds(folder)
    ids.add(5, ["a", "b"])
    assert "b" in LateIds(folder)
    file = next(folder.glob("late-*.json"))
    file.write_text("{")
    assert "b" not in LateIds(folder)
    assert "is damaged" in caplog.text
    ids.add(5, ["a", "b"])
    os.utime(file, (0, 0))
    assert "b" not in LateIds(folder)
    assert not file.exists()
