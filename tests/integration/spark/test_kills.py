"""Drivers and brokers die at named points, and start again: nothing lost, nothing twice.

One round of each kind is in every run; the nightly run has twenty of each. A round of a driver
reaches every point of its row in section 7 by one query, each at another batch than in the round
before; a round of a broker is one point of its kind. (spark-pipeline 7)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kit.runs.parallel import SPARK_DRIVERS
from tests.kit.spark.brokers import BrokerChild, SparkBroker

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group(SPARK_DRIVERS)]
LONG_PAUSE = 10.0  # seconds that a broker is away, once a night; section 3.6
RANGES = ("after partition", "before partition", "before trim", "after trim", "after range")
EPOCH = ("after stage", "before epoch", "after epoch", "after trim")
SPOOL = ("after consumer of IN", "before pull", "after pull", "after partition", "before partition")


DRIVER_KILLS = [
    pytest.param("ranges", "ids", "", RANGES, id="row ids"),
    pytest.param("ranges", "key", "yes", RANGES, id="key ids"),
    pytest.param("ranges", "epoch", "yes", EPOCH, id="epoch"),
    pytest.param("spool", "ids", "", SPOOL, id="spool"),
]
BROKER_KILLS = [
    ("ranges", "key", ("before range", "after range", "before trim", "after trim")),
    ("ranges", "ids", ("before partition", "after partition")),
    ("ranges", "epoch", ("after stage", "before epoch", "after epoch")),
    ("spool", "key", ("before pull", "after pull")),
    ("spool", "ids", ("after partition", "before partition")),
    ("spool", "epoch", ("after epoch", "after stage")),
]


def test_a_driver_killed_in_the_epochs_commit(
    broker: SparkBroker,
    finish: Callable[..., Any],
    run_killed: Callable[..., bool],
    kills: ModuleType,
) -> None:
    how = {"mode": "ranges", "sink": "epoch", "shuffle": "yes", "rows": "100"}
    broker.send("IN", kills.TEXTS)
    assert run_killed("after epoch", 1, **how), broker.killer.seen
    assert finish(**how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.fact("spark-pipeline 1.4")
@pytest.mark.fact("spark-pipeline 5/ids", "spark-pipeline 5/epoch")
@pytest.mark.fact("spark-pipeline 7/A / row ids, map-only")
@pytest.mark.fact("spark-pipeline 7/A / key ids, with shuffle")
@pytest.mark.fact("spark-pipeline 7/A / epoch, with shuffle", "spark-pipeline 7/B spool / row ids")
@pytest.mark.parametrize(("mode", "sink", "shuffle", "points"), DRIVER_KILLS)
def test_drivers_killed_at_every_point(
    broker: SparkBroker,
    finish: Callable[..., Any],
    run_killed: Callable[..., bool],
    kills: ModuleType,
    mode: str,
    sink: str,
    shuffle: str,
    points: Any,
    turn: Any,
) -> None:
    how = {"mode": mode, "sink": sink, "shuffle": shuffle, "rows": "20"}
    broker.send("IN", kills.TEXTS)
    for place, point in enumerate(points):
        number = 1 if "consumer" in point else 1 + (turn + place) % 2
        assert run_killed(point, number, **how), (point, broker.killer.seen)
    assert finish(**how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.fact("spark-pipeline 5/off", "spark-pipeline 7/A / plain")
def test_a_plain_sink_doubles_at_most_the_batches_that_were_killed(
    broker: SparkBroker,
    finish: Callable[..., Any],
    run_killed: Callable[..., bool],
    kills: ModuleType,
    turn: Any,
) -> None:
    how = {"mode": "ranges", "rows": "20"}
    broker.send("IN", kills.TEXTS)
    for place, point in enumerate(RANGES):
        assert run_killed(point, 1 + (turn + place) % 2, **how), (point, broker.killer.seen)
    lost, doubled = finish(**how)
    assert lost == 0
    assert doubled <= 20 * len(RANGES)


@pytest.mark.nightly
@pytest.mark.parametrize("sink", ["key", "epoch"])
def test_python_workers_killed_in_batches(
    broker: SparkBroker, finish: Callable[..., Any], kills: ModuleType, sink: str, turn: Any
) -> None:
    how = {"mode": "ranges", "sink": sink, "shuffle": "yes", "rows": "50"}
    points = ("after range", "after partition" if sink == "key" else "after stage")
    broker.send("IN", kills.TEXTS)
    broker.killer.arm(points[turn % 2], 1 + turn % 3, kills.worker)
    assert finish(**how) == (0, 0)
    assert broker.killer.point is None


class Outage:
    """A broker that is killed at a point while a query runs, and restarted."""

    def __init__(
        self, spark: SparkSession, child: Any, tmp_path: Path, driver: Any, kills: Any
    ) -> None:
        self.spark, self.child, self.tmp_path, self.driver = spark, child, tmp_path, driver
        self.kills = kills

    def run(
        self, send: Any, take: Any, point: str, number: int, away: float = 0.0, **how: str
    ) -> Any:
        child = self.child
        child.start()
        send(child.url, "IN", self.kills.TEXTS)
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
        return self.kills.lost_and_doubled(take(child.url, "OUT"))


@pytest.fixture
def outage(
    spark: SparkSession,
    broker_child: BrokerChild,
    tmp_path: Path,
    driver: ModuleType,
    kills: ModuleType,
) -> Outage:
    return Outage(spark, broker_child, tmp_path, driver, kills)


def test_a_broker_killed_after_a_partitions_commit(
    outage: Outage, send_texts: Any, take_texts: Any
) -> None:
    how = {"mode": "ranges", "sink": "key", "rows": "100"}
    assert outage.run(send_texts, take_texts, "after partition", 3, 0.0, **how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.parametrize(("mode", "sink", "points"), BROKER_KILLS)
def test_brokers_killed_at_every_point(
    outage: Outage, send_texts: Any, take_texts: Any, mode: str, sink: str, points: Any, turn: Any
) -> None:
    shuffle = "" if sink == "ids" else "yes"
    how = {"mode": mode, "sink": sink, "shuffle": shuffle, "rows": "50"}
    away = LONG_PAUSE if turn == 0 else turn % 4
    point, number = points[turn % len(points)], 1 + turn // len(points) % 3
    assert outage.run(send_texts, take_texts, point, number, away, **how) == (0, 0)
