"""SequenceSet against a set."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms_broker.store.kahadb.index.sequence_set import BLOCK_BITS, SequenceSet

LAST = 3 * BLOCK_BITS
edges = st.sampled_from([1, 2, BLOCK_BITS - 1, BLOCK_BITS, BLOCK_BITS + 1, 2 * BLOCK_BITS])
numbers = st.integers(1, LAST) | st.integers(1, 20) | edges
ranges = st.tuples(numbers, numbers)


def filled(model: set[int], floor: int, changes: list[int | tuple[int, int]]) -> SequenceSet:
    numbers = SequenceSet(floor)
    model.update(range(1, floor + 1))
    for change in changes:
        if isinstance(change, int):
            assert numbers.add(change) == (change not in model)
            model.add(change)
        else:
            numbers.add_range(*change)
            model.update(range(change[0], change[1] + 1))
        assert len(numbers) == len(model)
    return numbers


def assert_same(numbers: SequenceSet, model: set[int]) -> None:
    assert len(numbers) == len(model)
    missing = [number for number in range(1, LAST + 2) if number not in model]
    assert numbers.floor == missing[0] - 1
    assert [number for number in range(1, LAST + 2) if number not in numbers] == missing
    for start in (1, 7, BLOCK_BITS, 2 * BLOCK_BITS + 5):
        assert numbers.first_missing(start) == next(n for n in missing if n >= start)


@settings(deadline=None)
@given(st.integers(0, 10), st.lists(numbers | ranges, max_size=12))
def test_it_is_a_set(floor: int, changes: list[int | tuple[int, int]]) -> None:
    model: set[int] = set()
    assert_same(filled(model, floor, changes), model)


@settings(deadline=None)
@given(st.lists(numbers | ranges, max_size=8), st.lists(numbers | ranges, max_size=8))
def test_changed_blocks_are_enough_to_build_it_again(
    first: list[int | tuple[int, int]], second: list[int | tuple[int, int]]
) -> None:
    model: set[int] = set()
    numbers = filled(model, 0, first)
    stored = dict(numbers.pop_changes())
    for change in second:
        if isinstance(change, int):
            numbers.add(change)
            model.add(change)
        else:
            numbers.add_range(*change)
            model.update(range(change[0], change[1] + 1))
    stored.update(numbers.pop_changes())
    stored = {block: bits for block, bits in stored.items() if block >= numbers.first_block}
    assert_same(SequenceSet(numbers.floor, stored.items()), model)
    assert numbers.pop_changes() == []


@settings(deadline=None)
@given(st.lists(st.lists(numbers | ranges, max_size=6), min_size=1, max_size=3))
def test_what_sets_have_in_common(changes: list[list[int | tuple[int, int]]]) -> None:
    models: list[set[int]] = [set() for _ in changes]
    sets = [filled(model, 0, some) for model, some in zip(models, changes, strict=True)]
    assert_same(SequenceSet.common(sets), set.intersection(*models))


def test_numbers_in_order_take_no_space() -> None:
    numbers = SequenceSet()
    for number in range(1, 10_000):
        numbers.add(number)
    assert numbers.floor == 9_999
    assert numbers.pop_changes() == []


def test_every_second_of_ten_million_is_a_bit_each() -> None:
    numbers = SequenceSet()
    for block in range(10_000_000 // BLOCK_BITS):
        numbers.add(block * BLOCK_BITS + 2)
    changed = numbers.pop_changes()
    assert sum(len(bits) for _, bits in changed) <= 10_000_000 // 8
