"""JMS names in rows and options: duplicate ids, prefetches."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyjms.client.messages import parse_message_id
from pyjms.jms.destination import Queue
from pyjms.spark.connections import with_paged_prefetch, without_prefetch
from pyjms.spark.outgoing import RowId


def test_rows_of_a_partition_are_numbered_messages_of_one_producer() -> None:
    first, second = RowId("q:3:1", 0), RowId("q:3:1", 1)
    assert (first.text, second.text) == ("q:3:1:0", "q:3:1:1")
    assert first.message_id.producer_id == second.message_id.producer_id
    assert (first.message_id.producer_sequence_id, second.message_id.producer_sequence_id) == (1, 2)
    assert first.message_id == RowId("q:3:1", 0).message_id
    assert RowId("q:3:2", 0).message_id != first.message_id


def test_a_row_with_its_own_id_is_a_separate_producer() -> None:
    assert RowId("order-7").text == "order-7"
    assert RowId("order-7").message_id == RowId("order-7").message_id
    assert RowId("order-7").message_id != RowId("order-8").message_id


@pytest.mark.parametrize("row_id", [RowId("7f-a:3:1", 4), RowId("a:b:c:1:1"), RowId("ID:x y")])
def test_message_ids_come_back_from_their_text(row_id: RowId) -> None:
    text = str(row_id.message_id)
    assert text.startswith("ID:")
    assert parse_message_id(text) == row_id.message_id


def test_prefetches_go_into_the_options_unless_the_user_chose() -> None:
    assert with_paged_prefetch(Queue("a")) == Queue("a")
    assert with_paged_prefetch(Queue("a")).options == {"consumer.prefetchSize": "200"}
    assert without_prefetch(Queue("a?consumer.exclusive=true")).options == {
        "consumer.exclusive": "true",
        "consumer.prefetchSize": "0",
    }
    chosen = Queue("a?consumer.prefetchSize=5")
    assert with_paged_prefetch(chosen) is chosen
