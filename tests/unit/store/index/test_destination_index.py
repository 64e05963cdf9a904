"""A queue's part of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position

if TYPE_CHECKING:
    from pyjms_broker.store.kahadb.index import IndexEntry
    from tests.kit.stores.kahadb_index import IndexKit


def arrivals(entries: list[IndexEntry]) -> list[int]:
    return [entry.position.arrival for entry in entries]


def test_what_is_added_is_found_wherever_it_is(kit: IndexKit) -> None:
    queue = kit.queue
    added = queue.add("ID:h-1-1:1:1:1:7", 0, 2, 333, 1200, False)
    assert added is not None
    assert added.position == Position(0, 1)
    assert added.location == Location(2, 333)
    frozen = None
    for _ in range(4):
        assert queue.find("ID:h-1-1:1:1:1:7") == added
        assert queue.get(Position(0, 1)) == added
        assert queue.page(None, 10) == [added]
        assert (queue.count, queue.size, queue.files) == (1, 1200, {2: 1})
        if frozen is None:
            frozen = kit.index.begin_checkpoint(Location(2, 400), 0)
        elif kit.index.coverage() is None and not kit.index.check():
            kit.index.write_checkpoint(frozen)
            kit.index.complete_checkpoint(frozen)
            kit.flush(2)  # nothing remembers it now but the database
    kit.restart()
    assert kit.queue.find("ID:h-1-1:1:1:1:7") == added


def test_an_id_is_there_once(kit: IndexKit) -> None:
    queue = kit.queue
    assert queue.add("ID:h-1-1:1:1:1:7", 0, 1, 0, 10) is not None
    for _ in range(2):
        assert queue.add("ID:h-1-1:1:1:1:7", 0, 1, 50, 10) is None
        assert queue.last_arrival == queue.count == 1
        kit.flush(3)
    removed = queue.remove(Position(0, 1))
    assert removed is not None
    again = queue.add("ID:h-1-1:1:1:1:7", 0, 1, 90, 10)
    assert again is not None
    assert again.position == Position(0, 2)
    kit.flush(3)
    assert queue.find("ID:h-1-1:1:1:1:7") == again
    assert kit.index.check() == []


def test_lower_numbers_of_a_producer_are_looked_for(kit: IndexKit) -> None:
    queue = kit.queue
    for number in (5, 9, 7):
        assert queue.add(f"ID:h-1-1:1:1:1:{number}", 0, 1, number, 10) is not None
        kit.flush(3)
    for number in (5, 7, 9):
        assert queue.add(f"ID:h-1-1:1:1:1:{number}", 0, 1, number, 10) is None
    kit.restart()
    assert kit.queue.add("ID:h-1-1:1:1:1:7", 0, 1, 1, 10) is None
    assert kit.queue.add("ID:h-1-1:1:1:1:6", 0, 1, 1, 10) is not None


def test_foreign_ids(kit: IndexKit) -> None:
    for message_id in ("hello", "a:007", "a:7", "42"):
        assert kit.queue.add(message_id, 0, 1, 1, 10) is not None
    kit.flush(3)
    kit.restart()
    for message_id in ("hello", "a:007", "a:7", "42"):
        assert kit.queue.add(message_id, 0, 1, 1, 10) is None
        found = kit.queue.find(message_id)
        assert found is not None
        assert found.message_id == message_id


def test_removed_before_the_freeze_never_reaches_the_database(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 100)
    for number in range(1, 101):
        assert queue.remove(Position(0, number)) is not None
    frozen = kit.index.begin_checkpoint(Location(1, 1), 0)
    (changed,) = frozen.destinations
    assert not changed.memtable
    kit.index.write_checkpoint(frozen)
    kit.index.complete_checkpoint(frozen)
    assert queue.page(None, 10) == []
    assert queue.count == queue.size == 0
    assert queue.files == {}


def test_removed_while_it_is_written(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 10)
    kit.flush(3)
    kit.fill(queue, 10)
    frozen = kit.index.begin_checkpoint(Location(1, 1), 0)
    assert queue.remove(Position(0, 3)) is not None
    assert queue.remove(Position(0, 13)) is not None
    kit.index.write_checkpoint(frozen)
    expected = [number for number in range(1, 21) if number not in {3, 13}]
    assert arrivals(queue.page(None, 50)) == expected
    assert queue.remove(Position(0, 3)) is None
    kit.index.complete_checkpoint(frozen)
    assert arrivals(queue.page(None, 50)) == expected
    frozen = kit.index.begin_checkpoint(Location(1, 1), 0)
    assert queue.remove(Position(0, 13)) is None
    assert queue.find("ID:h-1-1:1:1:1:3") is None
    kit.index.write_checkpoint(frozen)
    kit.index.complete_checkpoint(frozen)
    assert arrivals(queue.page(None, 50)) == expected
    assert queue.get(Position(0, 3)) is None
    assert kit.index.check() == []


def test_a_page_was_read_and_its_message_went(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 5)
    kit.flush(3)
    kit.restart()
    queue = kit.queue
    assert len(queue.page(None, 5)) == 5
    assert queue.remove(Position(0, 2)) is not None
    moved = queue.relocate(Position(0, 3), 9, 99, 11)
    kit.flush(3)
    assert queue.get(Position(0, 2)) is None
    assert queue.get(Position(0, 3)) == moved


def test_a_message_is_elsewhere_now(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 3)
    for flushes in (0, 1, 3):
        kit.flush(flushes)
        moved = queue.relocate(Position(0, 2), 5 + flushes, 999, 25)
        assert moved is not None
        assert (moved.location, moved.size) == (Location(5 + flushes, 999), 25)
        assert queue.files == {1: 2, 5 + flushes: 1}
        assert queue.size == 45
        assert queue.page(None, 10)[1] == moved
    kit.flush()
    kit.restart()
    assert kit.queue.find("ID:h-1-1:1:1:1:2") == moved
    assert kit.queue.relocate(Position(0, 8), 1, 1, 1) is None


def test_hidden_messages(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 3)
    fourth = queue.add("ID:h-1-1:1:1:1:4", 0, 1, 0, 10)
    assert fourth is not None
    queue.hide(Position(0, 2))
    kit.flush(2)
    assert arrivals(queue.page(None, 10)) == [1, 3]
    assert arrivals(list(queue.entries())) == [1, 2, 3, 4]
    assert queue.count == 4
    assert queue.is_hidden(fourth.position)
    queue.remove(fourth.position)
    assert not queue.is_hidden(fourth.position)
    fourth = queue.add("ID:h-1-1:1:1:1:4", 0, 1, 0, 10)
    assert fourth is not None
    queue.mark_visible(fourth.position)
    queue.mark_visible(Position(0, 2))
    assert arrivals(queue.page(None, 10)) == [1, 2, 3, 5]
    queue.hide(Position(0, 1))
    kit.flush()
    kit.restart()
    assert arrivals(kit.queue.page(None, 10)) == [1, 2, 3, 5]


def test_levels_are_read_in_order(kit: IndexKit) -> None:
    queue = kit.index.destination(kit.queue.destination, prioritized=True)
    for number, level in enumerate([5, 0, 9, 5, 0], start=1):
        assert queue.add(f"ID:h-1-1:1:1:1:{number}", level, 1, 0, 10, False) is not None
        kit.flush()
    expected = [Position(0, 2), Position(0, 5), Position(5, 1), Position(5, 4), Position(9, 3)]
    assert [entry.position for entry in queue.page(None, 10)] == expected
    assert [entry.position for entry in queue.page(expected[1], 2)] == expected[2:4]
    assert [entry.position for entry in queue.page(None, 2, {expected[0]})] == expected[1:3]
    kit.restart()
    assert [entry.position for entry in kit.queue.page(Position(5, 1), 10)] == expected[3:]


def test_levels_end_when_nothing_is_there(kit: IndexKit) -> None:
    queue = kit.index.destination(kit.queue.destination, prioritized=True)
    queue.add("a:1", 4, 1, 0, 10, False)
    kit.index.destination(queue.destination, prioritized=False)
    assert queue.prioritized
    queue.remove(Position(4, 1))
    kit.index.destination(queue.destination)
    assert queue.prioritized
    kit.index.destination(queue.destination, prioritized=False)
    assert not queue.prioritized


def test_pages_follow_each_other(kit: IndexKit) -> None:
    queue = kit.queue
    for _ in range(3):
        kit.fill(queue, 700)
        kit.flush()
    kit.fill(queue, 100)
    found: list[int] = []
    after: Position | None = None
    while page := queue.page(after, 90):
        found += arrivals(page)
        after = page[-1].position
    assert found == list(range(1, 2201))
    assert arrivals(list(queue.entries())) == found


def test_a_long_row_of_removed_and_skipped_ones_is_passed(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 5000)
    kit.flush(2)
    for number in range(1, 3001):
        queue.remove(Position(0, number))
    skip = {Position(0, number) for number in range(3001, 4500)}
    assert arrivals(queue.page(None, 3, skip)) == [4500, 4501, 4502]
    assert arrivals(queue.page(None, 2)) == [3001, 3002]


def test_the_first_one_behind_a_row_of_removed_ones(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 40)
    kit.flush(2)
    for number in range(1, 40):
        queue.remove(Position(0, number))
        assert arrivals(queue.page(None, 1)) == [number + 1]
    kit.flush()
    assert arrivals(queue.page(None, 1)) == [40]


def test_elsewhere_while_it_is_written(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 3)
    frozen = kit.index.begin_checkpoint(Location(1, 1), 0)
    moved = queue.relocate(Position(0, 2), 4, 44, 10)
    assert queue.page(None, 10)[1] == moved
    kit.index.write_checkpoint(frozen)
    kit.index.complete_checkpoint(frozen)
    assert queue.page(None, 10)[1] == moved
    kit.flush(2)
    assert queue.page(None, 10)[1] == moved


def test_entries_may_go_while_one_goes_through(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 2500)
    kit.flush(2)
    for entry in queue.entries():
        queue.remove(entry.position)
    assert queue.count == 0
    kit.flush()
    assert list(queue.entries()) == []
    assert kit.index.check() == []


def test_scattered_removals(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 1000)
    kit.flush(2)
    for number in range(1, 1001, 2):
        queue.remove(Position(0, number))
    for number in range(500, 601, 2):
        queue.remove(Position(0, number))
    kit.flush(2)
    expected = [n for n in range(2, 1001, 2) if not 500 <= n <= 600]
    kit.restart()
    assert arrivals(kit.queue.page(None, 1000)) == expected
    assert kit.index.check() == []


def test_clear_is_at_once_and_rows_go_by_and_by(kit: IndexKit) -> None:
    queue = kit.queue
    kit.fill(queue, 50)
    kit.flush()
    kit.fill(queue, 5)
    frozen = kit.index.begin_checkpoint(Location(1, 1), 0)
    queue.duplicates.add("d", 1)
    queue.clear()
    kit.index.write_checkpoint(frozen)
    kit.index.complete_checkpoint(frozen)
    assert queue.page(None, 10) == []
    assert queue.find("ID:h-1-1:1:1:1:1") is None
    assert (queue.count, queue.size, queue.files) == (0, 0, {})
    kit.fill(queue, 1)
    assert queue.last_arrival == 56
    kit.flush(2)
    kit.restart()
    assert arrivals(kit.queue.page(None, 10)) == [56]
    assert kit.index.database.rows("SELECT count(*) FROM messages") == [(1,)]
    assert kit.index.database.rows("SELECT count(*) FROM doomed") == [(0,)]
    assert "d" in kit.queue.duplicates


def test_numbers_are_not_used_twice(kit: IndexKit) -> None:
    queue = kit.queue
    queue.begin(4, 100)
    entry = queue.add("a:1", 0, 1, 0, 10)
    assert entry is not None
    assert entry.position == Position(0, 101)
    later = queue.add("a:2", 0, 1, 0, 10, arrival=500)
    assert later is not None
    with pytest.raises(ValueError, match="500"):
        queue.add("a:3", 0, 1, 0, 10, arrival=500)
    queue.begin(4, 7)
    queue.remove(later.position)
    kit.flush()
    kit.restart()
    assert (kit.queue.epoch, kit.queue.last_arrival) == (4, 500)


def test_producers_without_messages_are_forgotten(kit: IndexKit) -> None:
    queue = kit.queue
    for number in range(1500):
        queue.add(f"ID:h-1-1:1:1:{number}:1", 0, 1, number, 10, False)
    kit.flush()
    assert queue.add("ID:h-1-1:1:1:7:1", 0, 1, 0, 10) is None
    for number in range(1, 1500):
        queue.remove(Position(0, number))
    kit.flush(4)
    assert kit.index.database.rows("SELECT count(*) FROM producers") == [(1,)]
    again = queue.add("ID:h-1-1:1:1:7:1", 0, 1, 0, 10, False)
    assert again is not None
    kit.flush(3)
    kit.restart()
    assert kit.queue.find("ID:h-1-1:1:1:7:1") == again
    assert kit.index.check() == []
