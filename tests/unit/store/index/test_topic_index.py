"""A topic's part of the index: durable subscriptions and what they acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_broker.api.message import Position

if TYPE_CHECKING:
    from tests.kit.stores.kahadb_index import IndexKit

A, B = "client:a", "client:b"


def pending(kit: IndexKit, key: str, limit: int = 100) -> list[int]:
    return [entry.position.arrival for entry in kit.topic.page_for_subscription(key, None, limit)]


def ack(kit: IndexKit, key: str, *arrivals: int) -> None:
    for arrival in arrivals:
        if kit.topic.acknowledge(key, Position(0, arrival)):
            assert kit.topic.remove(Position(0, arrival)) is not None


def test_without_subscriptions_a_message_is_only_numbered(kit: IndexKit) -> None:
    assert kit.topic.add("a:1", 0, 1, 0, 10) is None
    assert (kit.topic.count, kit.topic.last_arrival) == (0, 1)
    subscription = kit.topic.subscribe(A, b"info", (2, 30), retroactive=True)
    assert subscription.pending_count == 0
    kit.fill(kit.topic, 1)
    assert pending(kit, A) == [2]


def test_a_message_goes_with_its_last_acknowledgement(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.fill(kit.topic, 2)
    kit.topic.subscribe(B, b"b", (1, 2))
    kit.fill(kit.topic, 2)
    assert (pending(kit, A), pending(kit, B)) == ([1, 2, 3, 4], [3, 4])
    kit.flush(3)
    assert kit.topic.acknowledge(A, Position(0, 1))
    assert kit.topic.remove(Position(0, 1)) is not None
    assert not kit.topic.acknowledge(A, Position(0, 3))
    assert not kit.topic.acknowledge(A, Position(0, 3))
    assert not kit.topic.is_pending(A, Position(0, 3))
    assert kit.topic.is_pending(B, Position(0, 3))
    assert kit.topic.acknowledge(B, Position(0, 3))
    assert kit.topic.remove(Position(0, 3)) is not None
    assert (pending(kit, A), pending(kit, B)) == ([2, 4], [4])
    kit.flush(2)
    kit.restart()
    assert (pending(kit, A), pending(kit, B)) == ([2, 4], [4])
    assert kit.topic.subscriptions[A].pending_count == 2
    assert kit.topic.subscriptions[B].info == b"b"
    assert kit.index.check() == []


def test_what_is_not_there_cannot_be_acknowledged(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.fill(kit.topic, 1)
    assert not kit.topic.acknowledge("nobody", Position(0, 1))
    assert not kit.topic.acknowledge(A, Position(0, 2))
    assert not kit.topic.is_pending(A, Position(0, 2))
    assert kit.topic.subscriptions[A].pending_count == 1


def test_a_retroactive_subscription_gets_what_is_there(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.fill(kit.topic, 5)
    ack(kit, A, 1, 3)
    found = kit.topic.subscribe(B, b"b", (1, 2), retroactive=True)
    assert (pending(kit, B), found.pending_count) == ([2, 4, 5], 3)
    later = kit.topic.subscribe("client:c", b"c", (1, 3), start=4)
    assert (pending(kit, "client:c"), later.pending_count) == ([5], 1)


def test_subscribing_again_changes_the_info_only(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"old", (1, 1))
    kit.fill(kit.topic, 3)
    ack(kit, A, 2)
    kit.topic.subscribe(A, b"new", (7, 70))
    kit.flush()
    kit.restart()
    again = kit.topic.subscriptions[A]
    assert (again.info, again.file_id, again.offset) == (b"new", 7, 70)
    assert pending(kit, A) == [1, 3]


def test_the_last_unsubscribe_clears_the_topic(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.fill(kit.topic, 5)
    kit.flush()
    assert kit.topic.unsubscribe(A)
    assert not kit.topic.unsubscribe(A)
    assert not kit.topic.is_reclaiming
    assert kit.topic.count == 0
    kit.flush()
    kit.restart()
    assert (kit.topic.count, kit.topic.subscriptions, kit.topic.last_arrival) == (0, {}, 5)


def test_what_only_a_removed_subscription_needed_is_deleted_in_pieces(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.topic.subscribe(B, b"b", (1, 1))
    kit.fill(kit.topic, 10)
    ack(kit, A, 1, 2, 3, 4, 5, 6, 9)
    kit.flush()
    assert kit.topic.unsubscribe(B)
    assert [entry.position.arrival for entry in kit.topic.reclaim(4)] == [1, 2, 3, 4]
    kit.flush()
    kit.restart()
    assert kit.topic.is_reclaiming
    free: list[int] = []
    while bool(kit.topic.is_reclaiming):
        free += [entry.position.arrival for entry in kit.topic.reclaim(4)]
    assert free == [5, 6, 9]
    assert pending(kit, A) == [7, 8, 10]
    assert kit.topic.count == 3
    assert kit.topic.reclaim() == []
    kit.flush()
    kit.restart()
    assert not kit.topic.is_reclaiming


def test_unsubscribing_with_nothing_pending_leaves_nothing_to_do(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.topic.subscribe(B, b"b", (1, 1))
    kit.fill(kit.topic, 1)
    ack(kit, B, 1)
    kit.topic.unsubscribe(B)
    assert not kit.topic.is_reclaiming


def test_removing_a_message_takes_it_from_all(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.topic.subscribe(B, b"b", (1, 1))
    kit.fill(kit.topic, 3)
    kit.topic.remove(Position(0, 2))
    assert (pending(kit, A), pending(kit, B)) == ([1, 3], [1, 3])
    assert kit.topic.subscriptions[A].pending_count == 2
    kit.topic.clear()
    kit.flush()
    kit.restart()
    assert pending(kit, A) == []
    assert kit.topic.subscriptions[A].pending_count == 0
    kit.fill(kit.topic, 1)
    assert pending(kit, A) == [4]


def test_numbers_that_were_never_used_are_settled(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.fill(kit.topic, 1)
    kit.topic.begin(1, 10)
    kit.topic.add("b:1", 0, 1, 0, 10, False, arrival=20)
    assert pending(kit, A) == [1, 20]
    assert kit.topic.subscriptions[A].pending_count == 2
    ack(kit, A, 1)
    assert kit.topic.subscriptions[A].acked.floor == 19


def test_hidden_for_one_subscription(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"a", (1, 1))
    kit.topic.subscribe(B, b"b", (1, 1))
    kit.fill(kit.topic, 3)
    kit.topic.hide_from(A, Position(0, 2))
    kit.topic.hide(Position(0, 3))
    assert (pending(kit, A), pending(kit, B)) == ([1], [1, 2])
    kit.topic.mark_visible_to(A, Position(0, 2))
    kit.topic.mark_visible(Position(0, 3))
    assert (pending(kit, A), pending(kit, B)) == ([1, 2, 3], [1, 2, 3])
    kit.topic.hide_from("nobody", Position(0, 1))
    kit.topic.mark_visible_to("nobody", Position(0, 1))


def test_a_selective_subscription_jumps_over_what_it_acknowledged(kit: IndexKit) -> None:
    kit.topic.subscribe(A, b"all", (1, 1))
    kit.topic.subscribe(B, b"some", (1, 1))
    kit.fill(kit.topic, 3000)
    for arrival in range(1, 3001):
        if arrival % 500:
            ack(kit, B, arrival)
    kit.flush(2)
    kit.restart()
    assert pending(kit, B) == [500, 1000, 1500, 2000, 2500, 3000]
    assert kit.topic.subscriptions[B].pending_count == 6
    after = kit.topic.page_for_subscription(B, Position(0, 1000), 2)
    assert [entry.position.arrival for entry in after] == [1500, 2000]
    assert kit.topic.page_for_subscription("nobody", None, 5) == []
