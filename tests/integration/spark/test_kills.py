"""The driver dies at named points, and starts again: nothing lost, nothing twice. (section 7)"""

from __future__ import annotations

from collections import Counter

import pytest

pytestmark = pytest.mark.timeout(300)
TEXTS = [f"m{number}" for number in range(200)]
POINTS = {
    "ranges": ("after partition", "before partition", "before trim", "after trim", "after range"),
    "spool": ("after partition", "before partition", "before pull", "after pull"),
    "epoch": ("after stage", "before epoch", "after epoch", "after trim"),
}


def finish(spark, broker, tmp_path, driver, **how: str) -> tuple[int, int]:
    """Run the query to its end in this process; return how many are lost and how many doubled."""
    query = driver.start(spark, broker.url, tmp_path, **how)
    query.awaitTermination(120)
    assert query.exception() is None
    counts = Counter(broker.texts("OUT"))
    assert set(counts) <= set(TEXTS)
    assert broker.count("IN") == 0
    return len(set(TEXTS) - set(counts)), sum(counts.values()) - len(counts)


def test_a_driver_killed_between_two_partitions_and_in_the_epochs_commit(
    spark, broker, tmp_path, driver, run_killed
):
    how = {"mode": "ranges", "sink": "epoch", "shuffle": "yes"}
    broker.send("IN", TEXTS)
    assert run_killed("after epoch", 2, **how), broker.killer.seen
    assert finish(spark, broker, tmp_path, driver, **how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mode", "sink", "shuffle", "points"),
    [
        ("ranges", "ids", "", POINTS["ranges"]),
        ("ranges", "key", "yes", POINTS["ranges"]),
        ("ranges", "epoch", "yes", POINTS["epoch"]),
        ("spool", "key", "yes", POINTS["spool"]),
        ("spool", "epoch", "", POINTS["epoch"][:3]),
    ],
)
def test_drivers_killed_at_every_point(
    spark, broker, tmp_path, driver, run_killed, mode, sink, shuffle, points
):
    how = {"mode": mode, "sink": sink, "shuffle": shuffle, "rows": "20"}
    broker.send("IN", TEXTS)
    for point in points:
        assert run_killed(point, 2, **how), (point, broker.killer.seen)
    assert finish(spark, broker, tmp_path, driver, **how) == (0, 0)


@pytest.mark.nightly
def test_a_plain_sink_doubles_at_most_the_batches_that_were_killed(
    spark, broker, tmp_path, driver, run_killed
):
    how = {"mode": "ranges", "rows": "20"}
    broker.send("IN", TEXTS)
    for point in POINTS["ranges"]:
        assert run_killed(point, 2, **how), (point, broker.killer.seen)
    lost, doubled = finish(spark, broker, tmp_path, driver, **how)
    assert lost == 0
    assert doubled <= 20 * len(POINTS["ranges"])


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["ranges", "spool"])
def test_a_broker_that_starts_again_during_batches(spark, broker, tmp_path, driver, mode):
    how = {"mode": mode, "sink": "key", "rows": "20"}
    broker.send("IN", TEXTS)
    query = driver.start(spark, broker.url, tmp_path, **how)
    for _ in range(2):
        query.awaitTermination(4)
        broker.stop()
        broker.start()
    query.awaitTermination(60)
    assert finish(spark, broker, tmp_path, driver, **how) == (0, 0)
