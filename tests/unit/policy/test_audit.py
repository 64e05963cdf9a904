"""The duplicate audit."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import MessageId, ProducerId


def message_id(producer: int, sequence: int) -> MessageId:
    return MessageId(None, ProducerId("c", producer, 1), sequence)


def test_duplicates_are_found_and_can_be_rolled_back() -> None:
    audit = MessageAudit()
    assert [audit.is_duplicate(message_id(1, n)) for n in (1, 2, 1, 3, 2)] == [
        False, False, True, False, True,
    ]  # fmt: skip
    assert not audit.is_duplicate(message_id(2, 1))
    audit.forget(message_id(1, 2))
    assert not audit.is_duplicate(message_id(1, 2))
    audit.forget(message_id(9, 9))
    assert not audit.is_duplicate(MessageId(None, None, 1))
    assert not audit.is_duplicate(MessageId(None, None, 1))


def test_numbers_before_the_window_count_as_new() -> None:
    audit = MessageAudit(depth=128)
    audit.is_duplicate(message_id(1, 1))
    assert not audit.is_duplicate(message_id(1, 10_000))
    assert not audit.is_duplicate(message_id(1, 1))
    assert not audit.is_duplicate(message_id(1, 2))
    assert not audit.is_duplicate(message_id(1, 9_990))


def test_the_least_recently_seen_producer_is_dropped() -> None:
    audit = MessageAudit(producers=2)
    for producer in (1, 2, 1, 3):
        audit.is_duplicate(message_id(producer, producer))
    assert audit.is_duplicate(message_id(1, 1))
    assert audit.is_duplicate(message_id(3, 3))
    assert not audit.is_duplicate(message_id(2, 2))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 300)), max_size=200))
def test_within_its_window_it_is_a_set(ids: Any) -> None:
    audit, seen = MessageAudit(depth=512), set()
    for producer, sequence in ids:
        assert audit.is_duplicate(message_id(producer, sequence)) == ((producer, sequence) in seen)
        seen.add((producer, sequence))


def test_a_producer_may_begin_with_any_number() -> None:
    audit = MessageAudit()
    for producer, number in (("a", -5000), ("b", 2**62)):
        producer_id = ProducerId(producer, 1, 1)
        assert not audit.is_duplicate(MessageId(None, producer_id, number))
        assert not audit.is_duplicate(MessageId(None, producer_id, number + 1))
        assert audit.is_duplicate(MessageId(None, producer_id, number))
