"""`exactlyOnce=ids` with our broker: duplicates are dropped, wherever the first message is now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql import Row

from pyjms.spark.connections import close_connections, run_blocking
from pyjms.spark.options import JmsOptions
from tests.kit.spark.brokers import SparkBroker
from tests.kit.spark.rows import send_rows
from tests.kit.values import present

TEXTS = [f"m{number}" for number in range(100)]


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    run_blocking(close_connections)


def send(broker: SparkBroker, texts: Sequence[str], id_column: str | None) -> None:
    """Send rows as the task of one partition of one batch does."""
    options = JmsOptions(broker.url, "OUT", exactly_once="ids", id_column=id_column)
    send_rows(options, [Row(text=text, id=text) for text in texts])


def restart(broker: SparkBroker) -> None:
    run_blocking(close_connections)
    broker.stop()
    broker.start()


@pytest.mark.parametrize("id_column", [None, "id"])
def test_repeats_are_dropped_pending_consumed_and_after_restarts(
    broker: SparkBroker, id_column: str | None
) -> None:
    send(broker, TEXTS, id_column)
    send(broker, TEXTS, id_column)
    assert broker.count("OUT") == 100
    restart(broker)
    send(broker, TEXTS, id_column)
    assert broker.texts("OUT") == TEXTS
    send(broker, TEXTS, id_column)
    restart(broker)
    send(broker, TEXTS, id_column)
    assert broker.count("OUT") == 0


def test_rows_with_their_own_ids_may_come_in_another_order_and_with_new_ones(
    broker: SparkBroker,
) -> None:
    send(broker, TEXTS, "id")
    send(broker, [*reversed(TEXTS), "new"], "id")
    assert broker.texts("OUT") == [*TEXTS, "new"]


def test_a_partition_that_broke_off_is_sent_whole(broker: SparkBroker) -> None:
    class BrokenOff(Exception):
        pass

    def rows() -> Iterator[Row]:
        yield from (Row(text=text, id=text) for text in TEXTS[:50])
        raise BrokenOff

    options = JmsOptions(broker.url, "OUT", exactly_once="ids")
    with pytest.raises(BrokenOff):
        send_rows(options, rows())
    send(broker, TEXTS, None)
    assert broker.texts("OUT") == TEXTS


def test_rows_of_a_transaction_that_the_broker_refuses_are_sent_one_by_one(
    broker: SparkBroker,
) -> None:
    """Artemis refuses all for one that it knows."""
    send(broker, TEXTS[:50], "id")
    broker.killer.arm("before partition", 1, lambda _: None)
    send(broker, TEXTS, "id")
    assert broker.killer.point is None
    assert broker.texts("OUT") == TEXTS


def test_a_delay_is_kept_by_the_broker(broker: SparkBroker) -> None:
    broker.attributes["scheduler_support"] = True
    restart(broker)
    options = JmsOptions(broker.url, "OUT", exactly_once="ids", id_column="id")
    rows = [
        Row(text="late", id="1", delivery_delay=3600.0),
        Row(text="now", id="2", delivery_delay=None),
    ]
    for _ in range(2):
        send_rows(options, rows)
    assert broker.texts("OUT") == ["now"]
    [job] = present(broker.service.stores.job_store).scheduler().jobs()
    assert job.delay == 3_600_000
