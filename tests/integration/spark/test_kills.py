"""Drivers and brokers die at named points, and start again: nothing lost, nothing twice.

One round of each kind is in every run; the nightly run has twenty, in which every point of
section 7 is reached in turn by one query, at another batch in each round. (spark-pipeline 7)
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

pytestmark = pytest.mark.timeout(400)
TEXTS = [f"m{number}" for number in range(200)]
ROUNDS = range(int(os.environ.get("PYJMS_ROUNDS", "20")))  # of the nightly run
LONG_PAUSE = 10.0  # seconds that a broker is away, once a night; section 3.6
RANGES = ("after partition", "before partition", "before trim", "after trim", "after range")
EPOCH = ("after stage", "before epoch", "after epoch", "after trim")
SPOOL = ("after consumer of IN", "before pull", "after pull", "after partition", "before partition")
DRIVER_KILLS = [
    pytest.param("ranges", "ids", "", RANGES, id="ranges, row ids"),
    pytest.param("ranges", "key", "yes", RANGES, id="ranges, key ids, shuffle"),
    pytest.param("ranges", "epoch", "yes", EPOCH, id="ranges, epoch, shuffle"),
    pytest.param("spool", "ids", "", SPOOL, id="spool, row ids"),
    pytest.param("spool", "epoch", "yes", EPOCH[:3], id="spool, epoch, shuffle"),
]
BROKER_KILLS = [
    ("ranges", "key", "before range"),
    ("ranges", "key", "after range"),
    ("ranges", "key", "before trim"),
    ("ranges", "key", "after trim"),
    ("ranges", "ids", "before partition"),
    ("ranges", "ids", "after partition"),
    ("ranges", "epoch", "after stage"),
    ("ranges", "epoch", "before epoch"),
    ("ranges", "epoch", "after epoch"),
    ("spool", "key", "before pull"),
    ("spool", "key", "after pull"),
    ("spool", "ids", "after partition"),
    ("spool", "epoch", "after epoch"),
]


def lost_and_doubled(out: list[str]) -> tuple[int, int]:
    counts = Counter(out)
    assert set(counts) <= set(TEXTS)
    return len(set(TEXTS) - set(counts)), sum(counts.values()) - len(counts)


def finish(spark, broker, tmp_path, driver, **how: str) -> tuple[int, int]:
    """Run the query to its end in this process; return how many are lost and how many doubled."""
    query = driver.start(spark, broker.url, tmp_path, **how)
    query.awaitTermination(120)
    assert query.exception() is None
    assert broker.count("IN") == 0
    return lost_and_doubled(broker.texts("OUT"))


def test_a_driver_killed_in_the_epochs_commit(spark, broker, tmp_path, driver, run_killed):
    how = {"mode": "ranges", "sink": "epoch", "shuffle": "yes", "rows": "100"}
    broker.send("IN", TEXTS)
    assert run_killed("after epoch", 1, **how), broker.killer.seen
    assert finish(spark, broker, tmp_path, driver, **how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize(("mode", "sink", "shuffle", "points"), DRIVER_KILLS)
def test_drivers_killed_at_every_point(
    spark, broker, tmp_path, driver, run_killed, mode, sink, shuffle, points, turn
):
    how = {"mode": mode, "sink": sink, "shuffle": shuffle, "rows": "20"}
    broker.send("IN", TEXTS)
    for place, point in enumerate(points):
        number = 1 if "consumer" in point else 1 + (turn + place) % 2
        assert run_killed(point, number, **how), (point, broker.killer.seen)
    assert finish(spark, broker, tmp_path, driver, **how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("turn", ROUNDS)
def test_a_plain_sink_doubles_at_most_the_batches_that_were_killed(
    spark, broker, tmp_path, driver, run_killed, turn
):
    how = {"mode": "ranges", "rows": "20"}
    broker.send("IN", TEXTS)
    for place, point in enumerate(RANGES):
        assert run_killed(point, 1 + (turn + place) % 2, **how), (point, broker.killer.seen)
    lost, doubled = finish(spark, broker, tmp_path, driver, **how)
    assert lost == 0
    assert doubled <= 20 * len(RANGES)


@pytest.mark.nightly
@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize("sink", ["key", "epoch"])
def test_python_workers_killed_in_batches(spark, broker, tmp_path, driver, kills, sink, turn):
    how = {"mode": "ranges", "sink": sink, "shuffle": "yes", "rows": "50"}
    points = ("after range", "after partition" if sink == "key" else "after stage")
    broker.send("IN", TEXTS)
    broker.killer.arm(points[turn % 2], 1 + turn % 3, kills.worker)
    assert finish(spark, broker, tmp_path, driver, **how) == (0, 0)
    assert broker.killer.point is None


class Outage:
    """A broker that is killed at a point while a query runs, and comes back."""

    def __init__(self, spark, child, tmp_path, driver) -> None:
        self.spark, self.child, self.tmp_path, self.driver = spark, child, tmp_path, driver

    def run(self, send, take, point: str, number: int, away: float = 0.0, **how: str):
        child = self.child
        child.start()
        send(child.url, "IN", TEXTS)
        child.child.terminate()
        assert child.wait(30) == 0
        child.start(point, number)
        query = self.driver.start(self.spark, child.url, self.tmp_path, **how)
        assert child.wait(60) == -9, "the query did not get to that point"
        if away:
            query.awaitTermination(away)
        child.start()
        query.awaitTermination(120)
        assert query.exception() is None, "the query died of it"
        assert not query.isActive
        assert take(child.url, "IN") == []
        return lost_and_doubled(take(child.url, "OUT"))


@pytest.fixture
def outage(spark, broker_child, tmp_path, driver) -> Outage:
    return Outage(spark, broker_child, tmp_path, driver)


def test_a_broker_killed_after_a_partitions_commit(outage, send_texts, take_texts):
    how = {"mode": "ranges", "sink": "key", "rows": "100"}
    assert outage.run(send_texts, take_texts, "after partition", 3, **how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize(("mode", "sink", "point"), BROKER_KILLS)
def test_brokers_killed_at_every_point(outage, send_texts, take_texts, mode, sink, point, turn):
    shuffle = "" if sink == "ids" else "yes"
    how = {"mode": mode, "sink": sink, "shuffle": shuffle, "rows": "50"}
    away = LONG_PAUSE if turn == 0 else turn % 4
    number = 1 + turn % 3
    assert outage.run(send_texts, take_texts, point, number, away, **how) == (0, 0)
