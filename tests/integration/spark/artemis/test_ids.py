"""What `exactlyOnce` gives on Artemis and activemq-broker 6.

Artemis knows an address's last 20,000 ids (`id-cache-size`), pending or consumed, over restarts
too; but not two rows of one transaction with the same id, and nothing any more once it has deleted
the address by itself (`auto-delete-addresses`). It rolls back a transaction with a known id as a
whole; the sink then sends row by row. activemq-broker 6 is as 5.17. `epoch` is exact with both.

Our client drops a second message with the same id that reaches it in one connection, so messages
are counted where they are. (spark-pipeline 5 D)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import Row

from pyjms import ConnectionFactory, TransactionRolledBackException
from pyjms.jms.api import Session
from pyjms.spark.connections import (
    close_connections,
    run_blocking,
    run_in_session,
    without_prefetch,
)
from pyjms.spark.options import JmsOptions
from pyjms.spark.sink import epoch_queue, publish
from tests.kit.clients.messages import text_of
from tests.kit.servers.java_brokers import JavaBroker
from tests.kit.spark.rows import send_rows, stage_rows

pytestmark = [pytest.mark.maven, pytest.mark.timeout(200)]
artemis = pytest.mark.parametrize("broker", ["artemis"], indirect=True)
activemq6 = pytest.mark.parametrize("broker", ["activemq6"], indirect=True)
IDS = {"OF.ROWS": None, "OF.COLUMN": "id"}
"""Queues with messages of both kinds of ids: that of the row's place, and that of a column."""
HUNDRED = [f"m{number}" for number in range(100)]


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    run_blocking(close_connections)


def send(
    broker: JavaBroker,
    numbers: Iterable[int],
    id_column: str | None = None,
    task: str = "q:0:0",
    queue: str = "OUT",
) -> None:
    """Send rows as the task of one partition of one batch does."""
    options = JmsOptions(broker.url, queue, exactly_once="ids", id_column=id_column)
    send_rows(options, [Row(text=f"m{n}", id=str(n)) for n in numbers], task)


def send_to_both(broker: JavaBroker, numbers: Iterable[int], task: str = "q:0:0") -> None:
    for queue, id_column in IDS.items():
        send(broker, numbers, id_column, task, queue)


def counts(broker: JavaBroker) -> list[int]:
    return [broker.count(queue) for queue in IDS]


def both_texts(broker: JavaBroker) -> list[list[str]]:
    return [broker.texts(queue) for queue in IDS]


def restart(broker: JavaBroker, how: str, **settings: str) -> None:
    run_blocking(close_connections)
    broker.restart(how, **settings)


def test_ids_drop_what_is_still_there_over_restarts(broker: JavaBroker) -> None:
    send_to_both(broker, range(100))
    send_to_both(broker, range(100))
    assert counts(broker) == [100, 100]
    for end in ("stop", "kill"):
        restart(broker, end)
        send_to_both(broker, range(100))
        assert counts(broker) == [100, 100]
    assert both_texts(broker) == [HUNDRED, HUNDRED]


def test_rows_with_their_own_ids_may_come_in_another_order_and_with_new_ones(
    broker: JavaBroker,
) -> None:
    send(broker, range(100), "id")
    send(broker, [*reversed(range(50, 100)), 100, 3, 101], "id")
    assert broker.count("OUT") == 102
    assert broker.texts("OUT") == [*HUNDRED, "m100", "m101"]


@pytest.mark.parametrize(("rows", "id_column"), [(2048, None), (1024, "id")])
def test_ids_drop_what_was_consumed(broker: JavaBroker, rows: int, id_column: str | None) -> None:
    send(broker, range(rows), id_column)
    assert len(broker.texts("OUT")) == rows
    send(broker, range(rows), id_column)
    assert broker.count("OUT") == 0


@artemis
def test_artemis_knows_what_was_consumed_after_restarts(broker: JavaBroker) -> None:
    send_to_both(broker, range(100))
    assert both_texts(broker) == [HUNDRED, HUNDRED]
    for end in ("stop", "kill"):
        restart(broker, end)
        send_to_both(broker, range(100))
        assert counts(broker) == [0, 0]


@activemq6
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_activemq_does_not_know_what_was_consumed_before_a_restart(
    broker: JavaBroker, end: str
) -> None:
    send_to_both(broker, range(100))
    assert both_texts(broker) == [HUNDRED, HUNDRED]
    restart(broker, end)
    send_to_both(broker, range(100))
    assert counts(broker) == [100, 100]


@activemq6
@pytest.mark.parametrize(("rows", "id_column"), [(2500, None), (1100, "id")])
def test_activemq_doubles_what_was_consumed_and_is_beyond_the_audit(
    broker: JavaBroker, rows: int, id_column: str | None
) -> None:
    send(broker, range(rows), id_column)
    assert len(broker.texts("OUT")) == rows
    send(broker, range(rows), id_column)
    assert broker.count("OUT") > 0


@artemis
def test_artemis_knows_the_last_20000_ids_of_an_address_from_all_tasks(broker: JavaBroker) -> None:
    send_to_both(broker, range(10_000), "q:0:0")
    send_to_both(broker, range(10_000, 20_000), "q:0:1")
    restart(broker, "kill")
    assert [len(texts) for texts in both_texts(broker)] == [20_000, 20_000]
    send_to_both(broker, range(5), "q:0:0")
    send_to_both(broker, range(10_000, 10_005), "q:0:1")
    assert counts(broker) == [0, 0]
    send_to_both(broker, range(20_000, 20_010), "q:0:2")
    send_to_both(broker, range(5), "q:0:0")
    assert counts(broker) == [15, 15]


@artemis
def test_a_batch_beyond_artemis_window_is_doubled_as_a_whole(broker: JavaBroker) -> None:
    """What is sent again for want of its id pushes the next one out."""
    restart(broker, "stop", ids="1000")
    send(broker, range(1100))
    send(broker, range(1100))
    assert broker.count("OUT") == 2200


@artemis
def test_artemis_takes_an_id_twice_in_a_transaction(broker: JavaBroker) -> None:
    send(broker, [1, 1, 2], "id")
    assert broker.count("OUT") == 3


@activemq6
def test_activemq_takes_an_id_once_in_a_transaction(broker: JavaBroker) -> None:
    send(broker, [1, 1, 2], "id")
    assert broker.count("OUT") == 2
    assert broker.texts("OUT") == ["m1", "m2"]


@artemis
def test_artemis_forgets_the_ids_of_an_address_that_it_deletes(broker: JavaBroker) -> None:
    restart(broker, "stop", deleting="true")
    send(broker, range(100))
    assert broker.texts("OUT") == HUNDRED
    while broker.has("OUT"):
        time.sleep(0.1)
    send(broker, range(100))
    assert broker.count("OUT") == 100


@artemis
def test_artemis_rolls_a_transaction_with_a_known_id_back(broker: JavaBroker) -> None:
    """Which is why the sink does without one then."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session(True)
        producer = session.create_producer(session.create_queue("OUT"))
        for names in (["a"], ["b", "a"]):
            for name in names:
                message = session.create_text_message(name)
                message.properties["_AMQ_DUPL_ID"] = name
                producer.send(message)
            if len(names) == 1:
                session.commit()
        with pytest.raises(TransactionRolledBackException, match="Duplicate message detected"):
            session.commit()
    assert broker.texts("OUT") == ["a"]


def test_a_batch_of_more_rows_than_a_page_is_published_once(broker: JavaBroker) -> None:
    options = JmsOptions(broker.url, "OUT", exactly_once="epoch")
    texts = [f"m{number}" for number in range(1500)]
    rows = [Row(text=text) for text in texts]
    staged = stage_rows(options, "q", 0, "a", iter(rows))
    run_blocking(publish, options, "q", 0, {"a": staged}, 2.0)
    for number, end in enumerate(("stop", "kill")):
        again = stage_rows(options, "q", 0, f"again{number}", iter(rows))
        run_blocking(publish, options, "q", 0, {f"again{number}": again}, 2.0)
        restart(broker, end)
        run_blocking(publish, options, "q", 0, {"a": staged}, 2.0)
    assert broker.texts("OUT") == texts
    run_blocking(publish, options, "q", 0, {"a": staged}, 2.0)
    assert broker.count("OUT") == 0
    assert broker.count("PyJMS.Epoch.q") == 1
    staged = stage_rows(options, "q", 1, "b", iter(rows[:3]))
    run_blocking(publish, options, "q", 1, {"b": staged}, 2.0)
    assert broker.texts("OUT") == texts[:3]
    assert broker.count("PyJMS.Stage.q") == 0


def test_staged_rows_outlive_the_broker(broker: JavaBroker) -> None:
    options = JmsOptions(broker.url, "OUT", exactly_once="epoch")
    staged = stage_rows(options, "q", 0, "a", iter([Row(text=text) for text in HUNDRED]))
    restart(broker, "kill")
    run_blocking(publish, options, "q", 0, {"a": staged}, 2.0)
    restart(broker, "kill")
    assert broker.texts("OUT") == HUNDRED


@artemis
@pytest.mark.parametrize(("attempts", "kept"), [("10", 0), ("-1", 1)])
def test_artemis_takes_the_marker_away_that_was_given_back_ten_times(
    broker: JavaBroker, attempts: str, kept: int
) -> None:
    """As ten drivers do that die one after the other while they publish."""
    restart(broker, "stop", attempts=attempts)
    options = JmsOptions(broker.url, "OUT", exactly_once="epoch")
    staged = stage_rows(options, "q", 0, "a", iter([Row(text="m")]))
    run_blocking(publish, options, "q", 0, {"a": staged}, 2.0)
    for _ in range(10):
        run_blocking(run_in_session, options, _see_marker)
    assert (broker.count("PyJMS.Epoch.q"), broker.count("DLQ")) == (kept, 1 - kept)


async def _see_marker(session: Session) -> None:
    marker = await session.create_consumer(without_prefetch(epoch_queue("q")))
    assert text_of(await marker.receive(5)) == "0"
