"""What the index finds messages and subscriptions by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index import TopicIndex

if TYPE_CHECKING:
    from tests.kit.stores.kahadb_index import IndexKit

HIGH, DEFAULT, LOW = 0, 5, 9
KEY = "client:name"


def message_id(number: int) -> str:
    return f"ID:h-1-1:1:1:1:{number}"


def fill(kit: IndexKit) -> None:
    for number, level in enumerate((DEFAULT, LOW, HIGH, DEFAULT), 1):
        kit.queue.add(message_id(number), level, 3, 100 * number, 10, False)


@pytest.mark.fact("activemq-persistence K10")
@pytest.mark.parametrize("restart", [False, True])
def test_messages_by_order_by_id_and_their_places(kit: IndexKit, restart: bool) -> None:
    fill(kit)
    if restart:
        kit.flush()
        kit.restart()
    queue = kit.queue
    assert queue.key == "0:orders"
    entries = queue.page(None, 9)
    # high before default before low, in each by the number of the arrival
    assert [(e.position.level, e.position.arrival) for e in entries] == [
        *((HIGH, 3), (DEFAULT, 1), (DEFAULT, 4), (LOW, 2)),
    ]
    for entry in entries:
        number = entry.position.arrival
        assert entry.message_id == message_id(number)
        assert (entry.file_id, entry.offset) == (3, 100 * number)
        found = queue.find(entry.message_id)
        assert found is not None and found.position == entry.position
        at = queue.get(entry.position)
        assert at is not None and at.offset == entry.offset
    assert (queue.count, queue.size) == (4, 40)
    queue.remove(Position(LOW, 2))
    assert (queue.count, queue.size) == (3, 30)
    assert queue.find(message_id(2)) is None
    assert [str(d.key) for d in kit.index.destinations()] == ["0:orders"]


@pytest.mark.fact("activemq-persistence K10")
@pytest.mark.parametrize("restart", [False, True])
def test_subscriptions_their_place_and_what_each_has_acknowledged(
    kit: IndexKit, restart: bool
) -> None:
    kit.topic.subscribe(KEY, b"info", (2, 30))
    kit.fill(kit.topic, 6)
    kit.topic.subscribe("client:later", b"later", (2, 90))
    for arrival in (1, 2, 5):
        if kit.topic.acknowledge(KEY, Position(0, arrival)):
            kit.topic.remove(Position(0, arrival))
    if restart:
        kit.flush()
        kit.restart()
    topic = kit.topic
    assert isinstance(topic, TopicIndex)
    assert topic.key == "1:prices"
    assert set(topic.subscriptions) == {KEY, "client:later"}
    one = topic.subscriptions[KEY]
    assert (one.info, one.file_id, one.offset) == (b"info", 2, 30)
    assert [e.position.arrival for e in topic.page_for_subscription(KEY, None, 9)] == [3, 4, 6]
    assert one.pending_count == 3
    assert [topic.is_pending(KEY, Position(0, n)) for n in (1, 2, 3, 4, 5, 6)] == [
        *(False, False, True, True, False, True),
    ]
    assert topic.subscriptions["client:later"].pending_count == 0
