"""A message that cannot be paged in is read again later; no message is lost or duplicated."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.api.message import MessageReference, Position
from pyjms_broker.cursor.spilling import (
    PrioritizedSpillingCursor,
    PrioritizedStoreSource,
    StoreSource,
)
from pyjms_broker.store.api import StoredMessage
from tests.kit.stores.kahadb_store import message


def waiting(number: int, priority: int, position: Position | None = None) -> MessageReference:
    reference = message(number, Queue("test"), priority=priority)
    reference.position = position or Position(9 - priority, number)
    return reference


class Store:
    """Messages 1 to 6, and a reader that fails at some of them a given number of times."""

    def __init__(self, prioritized: bool) -> None:
        self.in_memory: set[Position] = set()
        self.failures: dict[int, int] = {}
        self.stored = [
            StoredMessage(Position(0, n), waiting(n, priority=4).message) for n in range(1, 7)
        ]
        self.source = (
            PrioritizedStoreSource(self.next_messages, self.page_in, self.in_memory, 6)
            if prioritized
            else StoreSource(self.next_messages, self.page_in, 6)
        )

    def next_messages(self, after: Any, limit: int, skip: Any) -> Any:
        found = [s for s in self.stored if (after is None or s.position > after)]
        return [s for s in found if s.position not in skip][:limit]

    def page_in(self, stored: StoredMessage) -> MessageReference:
        number = stored.position.arrival
        if self.failures.get(number):
            self.failures[number] -= 1
            raise OSError("simulated")
        self.in_memory.add(stored.position)
        return waiting(number, 4, stored.position)

    def read(self, limit: int) -> list[int]:
        return [reference.broker_sequence_id for reference in self.source.read(limit)]


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("limit", [1, 4, 10])
@pytest.mark.parametrize("failing", [1, 2, 4, 6])
def test_a_page_whose_message_cannot_be_paged_in_is_read_again(
    prioritized: bool, limit: int, failing: int
) -> None:
    store = Store(prioritized)
    store.failures[failing] = 2
    found: list[int] = []
    for _ in range(20):
        try:
            found += store.read(limit)
        except OSError:
            assert len(store.source) == 6 - len(found)
    assert found == [1, 2, 3, 4, 5, 6]
    assert len(store.source) == 0


class UnreadableForAWhile:
    """A prioritized source over `waiting`, which cannot be read while `fails`."""

    def __init__(self) -> None:
        self.fails = True
        self.reads = 0
        self.waiting: list[MessageReference] = []
        self.source = PrioritizedStoreSource(self.next_messages, self.page_in, set())

    def page_in(self, stored: StoredMessage) -> MessageReference:
        number = stored.position.arrival
        return waiting(number, stored.message.priority, stored.position)

    def next_messages(self, after: Any, limit: int, skip: Any) -> Any:
        self.reads += 1
        if self.fails:
            raise OSError("simulated")
        page, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return [StoredMessage(m.position or Position(0, 0), m.message) for m in page]


def test_urgent_messages_that_cannot_be_read_do_not_hold_up_those_in_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = UnreadableForAWhile()
    spilled: list[Any] = []
    is_short = False
    cursor: Any = PrioritizedSpillingCursor(
        "queue://test", lambda _: store.source, lambda _: is_short, spilled.append, page_size=10
    )
    cursor.add_source(store.source)
    for number in (1, 2, 3):
        cursor.append(waiting(number, priority=4))
    is_short = True
    cursor.append(waiting(4, priority=9))
    store.waiting = list(spilled)
    assert [cursor.pop().broker_sequence_id for _ in range(3)] == [1, 2, 3]
    assert store.reads == 1, "and not for each of them"
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    with pytest.raises(OSError, match="simulated"):
        cursor.pop()
    assert len(cursor) == 1
    store.fails = False
    assert cursor.pop().broker_sequence_id == 4
    assert not cursor


def test_urgent_messages_overtake_again_once_they_can_be_read() -> None:
    store = UnreadableForAWhile()
    spilled: list[Any] = []
    cursor: Any = PrioritizedSpillingCursor(
        "queue://test", lambda _: store.source, lambda _: bool(spilled), spilled.append, page_size=1
    )
    cursor.add_source(store.source)
    cursor.append_front(waiting(1, priority=4))
    spilled.append(None)  # memory is short
    for number in (2, 3):
        cursor.append(waiting(number, priority=9))
    cursor.append(waiting(4, priority=1))
    store.waiting = spilled[1:]
    assert cursor.pop().broker_sequence_id == 1
    store.fails = False
    assert cursor.pop().broker_sequence_id == 2
    cursor.append_front(waiting(5, priority=4))
    assert [cursor.pop().broker_sequence_id for _ in range(3)] == [3, 5, 4]
