"""The whole index: opening, writing, what is kept beside messages, damage."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyjms.errors import IllegalStateException
from pyjms.wire.kahadb.commands import KahaDestination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index import IndexCorrupt, StoreIndex
from pyjms_broker.store.kahadb.index.destination import DIRTY_PARTS_LIMIT

if TYPE_CHECKING:
    from tests.kit.stores.kahadb_index import IndexKit

OTHER = KahaDestination(0, "other")


def test_a_new_index_covers_nothing(kit: IndexKit) -> None:
    assert kit.index.coverage() is None
    assert kit.index.destinations() == []
    assert kit.index.check() == []
    assert kit.index.dirty == 0


def test_what_is_kept_beside_messages(kit: IndexKit) -> None:
    index = kit.index
    index.destination(OTHER, prioritized=True)
    index.segments.add_reference(4, 1)
    index.segments.add_reference(4, 2)
    index.segments.add_reference(5, 5)
    index.producers.record("ID:p:1:1", 17)
    index.last_broker_sequence_id = 1234
    index.open_transactions = Location(2, 99)
    frozen = index.begin_checkpoint(Location(4, 44), -(2**62))
    assert index.coverage() is None
    index.write_checkpoint(frozen, sync=True)
    index.complete_checkpoint(frozen)
    kit.restart()
    index = kit.index
    assert index.coverage() == (Location(4, 44), -(2**62))
    assert index.open_transactions == Location(2, 99)
    assert index.last_broker_sequence_id == 1234
    assert index.producers.last("ID:p:1:1") == 17
    assert index.segments.targets(4) == {1, 2}
    assert index.segments.referring_segments() == [4]
    found = index.lookup(OTHER)
    assert found is not None
    assert (found.prioritized, found.count, found.is_topic) == (True, 0, False)
    index.open_transactions = None
    kit.flush()
    kit.restart()
    assert kit.index.open_transactions is None


def test_what_was_not_written_is_lost(kit: IndexKit) -> None:
    kit.fill(kit.queue, 3)
    kit.flush()
    kit.fill(kit.queue, 3)
    kit.index.begin_checkpoint(Location(9, 9), 0)
    kit.restart()
    assert kit.queue.count == 3
    assert kit.queue.last_arrival == 3
    assert kit.index.coverage() == (Location(3, 500), 77)


def test_changes_of_an_incomplete_checkpoint_are_kept(kit: IndexKit) -> None:
    kit.fill(kit.queue, 3)
    kit.index.write_checkpoint(kit.index.begin_checkpoint(Location(9, 9), 5))
    kit.restart()
    assert kit.queue.count == 3
    assert kit.index.coverage() == (Location(9, 9), 5)


def test_a_checkpoint_is_due_when_many_destinations_have_changed(kit: IndexKit) -> None:
    asked: list[int] = []
    index = kit.index
    index.on_dirty = lambda: asked.append(len(index.dirty_parts))
    for number in range(2 * DIRTY_PARTS_LIMIT):
        index.destination(KahaDestination(0, f"many.{number}"))
    assert asked == [DIRTY_PARTS_LIMIT]
    index.begin_checkpoint(Location(1, 0), 0)
    for number in range(DIRTY_PARTS_LIMIT):
        index.destination(KahaDestination(0, f"more.{number}"))
    assert asked == [DIRTY_PARTS_LIMIT] * 2


def test_one_freeze_at_a_time(kit: IndexKit) -> None:
    frozen = kit.index.begin_checkpoint(Location(1, 0), 0)
    with pytest.raises(IllegalStateException):
        kit.index.begin_checkpoint(Location(1, 0), 0)
    kit.index.write_checkpoint(frozen)
    kit.index.complete_checkpoint(frozen)
    kit.index.begin_checkpoint(Location(1, 0), 0)


def test_changes_are_counted_until_a_checkpoint_begins(kit: IndexKit) -> None:
    kit.fill(kit.queue, 10)
    assert kit.index.dirty >= 10
    kit.index.begin_checkpoint(Location(1, 0), 0)
    assert kit.index.dirty == 0


def test_a_write_that_failed_can_be_done_again(kit: IndexKit) -> None:
    kit.fill(kit.queue, 3000)
    frozen = kit.index.begin_checkpoint(Location(5, 5), 0)
    writer = kit.index.database.writer
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(OSError, match="full") as caught:
        kit.index.write_checkpoint(frozen)
    assert caught.value.errno == 28  # ENOSPC
    assert kit.index.database.rows("SELECT count(*) FROM messages") == [(0,)]
    assert len(kit.queue.page(None, 200)) == 200
    writer.execute("PRAGMA max_page_count = 1000000")
    kit.index.write_checkpoint(frozen)
    kit.index.complete_checkpoint(frozen)
    assert len(kit.queue.page(Position(0, 2900), 200)) == 100
    assert kit.index.check() == []


def test_destinations_are_distinguished(kit: IndexKit) -> None:
    other = kit.index.destination(OTHER)
    same_name = kit.index.topic(KahaDestination(1, "other"))
    same_name.subscribe("c:s", b"", (1, 1))
    for part in (kit.queue, other, same_name):
        kit.fill(part, 2, file_id=2)
    kit.flush(3)
    assert kit.index.segments.message_counts() == {2: 6}
    kit.queue.remove(Position(0, 1))
    assert (kit.queue.count, other.count, same_name.count) == (1, 2, 2)
    assert {part.key for part in kit.index.destinations()} == {"0:orders", "0:other", "1:other"}
    with pytest.raises(TypeError, match="not a topic"):
        kit.index.topic(OTHER)


def test_a_removed_destination_does_not_exist(kit: IndexKit) -> None:
    topic = kit.topic
    topic.subscribe("c:s", b"", (1, 1))
    kit.fill(topic, 10)
    topic.acknowledge("c:s", Position(0, 5))
    topic.duplicates.add("d", 1)
    kit.flush()
    assert kit.index.remove_destination(topic.destination)
    assert not kit.index.remove_destination(topic.destination)
    assert kit.index.segments.message_counts() == {}
    kit.flush(2)
    kit.restart()
    assert kit.index.lookup(topic.destination) is None
    tables = ("messages", "ids", "producers", "files", "subscriptions", "acked", "duplicates")
    for table in tables:
        assert kit.index.database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    assert (kit.topic.count, kit.topic.last_arrival) == (0, 0)


def test_references_go_with_their_segments(kit: IndexKit) -> None:
    segments = kit.index.segments
    for file_id, target in ((4, 1), (4, 2), (5, 1), (6, 4)):
        segments.add_reference(file_id, target)
    kit.flush()
    segments.remove(1)
    segments.remove(4)
    kit.flush()
    kit.restart()
    segments = kit.index.segments
    assert segments.referring_segments() == []
    segments.add_reference(7, 3)
    segments.add_reference(7, 2)
    segments.remove(3)
    assert segments.targets(7) == {2}


def test_the_last_producers_are_remembered(kit: IndexKit) -> None:
    producers = kit.index.producers
    for number in range(70):
        producers.record(f"p{number}", number)
    producers.record("p6", 3)
    assert producers.last("p6") == 6
    producers.record("new", 1)
    assert producers.last("p7") == -1
    kit.flush()
    kit.restart()
    items = kit.index.producers.items()
    assert len(items) == 64
    assert items[0] == ("p8", 8)
    assert items[-2:] == [("p6", 6), ("new", 1)]


def test_another_limit_of_producers_holds_from_the_start(kit: IndexKit) -> None:
    for number in range(10):
        kit.index.producers.record(f"p{number}", number)
    kit.flush()
    kit.index.close()
    kit.index.producers.limit = 3
    kit.index.open()
    assert kit.index.producers.items() == [("p7", 7), ("p8", 8), ("p9", 9)]


def test_opened_again_it_has_what_was_written_only(kit: IndexKit) -> None:
    segments = kit.index.segments
    segments.add_reference(2, 1)
    kit.flush()
    segments.add_reference(3, 1)
    kit.index.producers.record("p", 1)
    kit.fill(kit.queue, 1)
    kit.index.close()
    kit.index.open()
    assert segments.referring_segments() == [2]
    assert kit.index.producers.last("p") == -1
    assert kit.queue.count == 0


def test_duplicate_ids_are_a_window(kit: IndexKit) -> None:
    ids = kit.queue.duplicates
    assert ids.add("one", 1)
    assert not ids.add("one", 2)
    for number in range(5):
        assert ids.add(f"more{number}", 2)
    assert "one" not in ids
    assert len(ids) == 5
    assert ids.counts_by_segment() == {2: 5}
    kit.flush()
    ids.relocate(["more1", "more0", "unknown"], 9)
    assert ids.add("last", 9)
    kit.flush()
    kit.restart()
    ids = kit.queue.duplicates
    assert ids.counts_by_segment() == {2: 3, 9: 2}
    assert ids.recorded_in(9) == ["more1", "last"]
    assert ids.recorded_in(1) == []
    assert "more0" not in ids
    assert ids.add("next", 9)
    assert "more1" not in ids


def test_duplicate_ids_that_came_and_went_between_two_freezes(kit: IndexKit) -> None:
    for number in range(20):
        kit.queue.duplicates.add(str(number), number)
    kit.flush()
    kit.restart()
    assert kit.queue.duplicates.counts_by_segment() == dict.fromkeys(range(15, 20), 1)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(b"not a database" * 500)
    with pytest.raises(IndexCorrupt):
        StoreIndex(path).open()


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t(x)")
    connection.close()
    index = StoreIndex(path)
    with pytest.raises(IndexCorrupt, match="another program or version"):
        index.open()
    index.delete()
    index.open()
    assert index.coverage() is None
    index.close()


def test_an_index_without_a_table_is_refused(kit: IndexKit) -> None:
    kit.index.database.writer.execute("DROP TABLE files")
    kit.index.close()
    with pytest.raises(IndexCorrupt, match="no such table"):
        kit.index.open()


def test_rows_of_nonsense_are_refused(kit: IndexKit) -> None:
    kit.topic.subscribe("c:s", b"", (1, 1))
    kit.flush()
    kit.index.database.writer.execute("UPDATE subscriptions SET floor = 'many'")
    kit.index.close()
    with pytest.raises(IndexCorrupt, match="invalid content"):
        kit.index.open()


def test_damaged_pages_are_found(kit: IndexKit) -> None:
    kit.fill(kit.queue, 5000)
    kit.flush()
    path = kit.index.path
    kit.index.close()
    data = bytearray(path.read_bytes())
    data[4096 * 20 :] = bytes(len(data) - 4096 * 20)
    path.write_bytes(data)
    with pytest.raises(IndexCorrupt):
        open_and_read(path)


def open_and_read(path: Path) -> None:
    index = StoreIndex(path)
    index.open()
    try:
        for destination in index.destinations():
            list(destination.entries())
    finally:
        index.close()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StoreIndex(tmp_path / "nowhere" / "index.sqlite").open()


def test_what_does_not_fit_together_is_named(kit: IndexKit) -> None:
    kit.fill(kit.queue, 5)
    kit.flush()
    writer = kit.index.database.writer
    writer.execute("DELETE FROM ids WHERE sequence = 3")
    writer.execute("UPDATE destinations SET count = 6, size = 61")
    assert kit.index.check() == [
        "orders: 5 messages instead of 6.",
        "orders: 50 bytes instead of 61.",
        "orders: 4 message ids instead of 6.",
        "orders: 5 messages in segments instead of 6.",
        "1 messages cannot be found by their ids.",
    ]


def test_closing_twice_is_allowed(kit: IndexKit) -> None:
    kit.index.close()
    kit.index.close()
