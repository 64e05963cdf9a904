"""The cursor over stores against a simple model: nothing lost, nothing twice, the right order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyjms.jms.destination import Queue
from pyjms_broker.api.message import MessageReference, Position, StoredMessage
from pyjms_broker.cursor.spilling import (
    MOST_CACHED,
    MemorySource,
    PrioritizedSpillingCursor,
    PrioritizedStoreSource,
    SpillingCursor,
    StoreSource,
)
from tests.kit.stores.kahadb_store import message


def waiting(position: Position | None, priority: int, number: int) -> MessageReference:
    reference = message(number, Queue("test"), priority=priority)
    reference.position = position
    return reference


class Model:
    """A store, a cursor over it, and what a consumer has in flight."""

    def __init__(
        self,
        prioritized: bool,
        room: int,
        page: int,
        recovered: int,
        others: MemorySource | None = None,
    ) -> None:
        self.prioritized = prioritized
        self.room = room
        self.stored: dict[Any, Any] = {}
        self.hidden: list[Any] = []
        self.memory: set[int] = set()
        self.held: set[Position] = set()
        self.last_arrival = 0
        self.numbers = 0
        for _ in range(recovered):
            reference = self.new(priority=self.numbers % 10)
            self.stored[reference.position] = reference
        self.source: StoreSource | PrioritizedStoreSource
        if prioritized:
            self.source = PrioritizedStoreSource(
                self.next_messages, self.paged_in, self.held, recovered
            )
        else:
            self.source = StoreSource(self.next_messages, self.paged_in, recovered)
        self.others = MemorySource(prioritized) if others is None else others
        kind = PrioritizedSpillingCursor if prioritized else SpillingCursor
        self.cursor = kind(
            "test",
            lambda r: self.others if r.position is None else self.source,
            lambda r: len(self.memory) >= self.room,
            self.spilled,
            page,
        )
        self.cursor.add_source(self.source)
        self.cursor.add_source(self.others)

    def new(self, priority: int, persistent: bool = True) -> MessageReference:
        self.numbers += 1
        position = None
        if persistent:
            self.last_arrival += 1
            position = Position(9 - priority if self.prioritized else 0, self.last_arrival)
        return waiting(position, priority, self.numbers)

    def next_messages(self, after: Any, limit: Any, skip: Any) -> Any:
        found = sorted(p for p in self.stored if (after is None or p > after) and p not in skip)
        return [StoredMessage(p, self.stored[p].message) for p in found[:limit]]

    def hold(self, reference: MessageReference) -> None:
        assert reference.broker_sequence_id not in self.memory, "handed out twice"
        self.memory.add(reference.broker_sequence_id)
        if reference.position is not None:
            self.held.add(reference.position)

    def release(self, reference: MessageReference) -> None:
        self.memory.remove(reference.broker_sequence_id)
        self.held.discard(reference.position)

    def paged_in(self, stored: Any) -> MessageReference:
        number = stored.message.message_id.broker_sequence_id
        reference = waiting(stored.position, stored.message.priority, number)
        self.hold(reference)
        return reference

    def spilled(self, reference: MessageReference) -> None:
        self.release(reference)

    def mark_visible(self, reference: MessageReference) -> None:
        if reference.position is not None:
            self.stored[reference.position] = reference
            self.source.mark_visible(reference.position)
        self.hold(reference)
        self.cursor.append(reference)

    def done(self, reference: MessageReference) -> None:
        self.release(reference)
        self.stored.pop(reference.position, None)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 9)),
        st.tuples(st.just("number"), st.integers(0, 9)),
        st.tuples(st.just("show"), st.integers(0, 3)),
        st.tuples(st.just("other"), st.integers(0, 9)),
        st.tuples(st.just("take"), st.integers(1, 6)),
        st.tuples(st.just("acknowledge"), st.integers(1, 6)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
    ),
    max_size=80,
)


def run(model: Model, work: list[tuple[str, int]]) -> list[MessageReference]:
    taken: list[Any] = []
    flying: list[Any] = []
    removed = 0
    for step, value in work:
        if step == "send":
            model.mark_visible(model.new(value))
        elif step == "number":
            model.hidden.append(model.new(value))
        elif step == "show" and model.hidden:
            model.mark_visible(model.hidden.pop(value % len(model.hidden)))
        elif step == "other":
            model.mark_visible(model.new(value, persistent=False))
        elif step == "take":
            for _ in range(value):
                if model.cursor:
                    flying.append(model.cursor.pop())
                    taken.append(flying[-1])
        elif step == "acknowledge":
            for reference in flying[:value]:
                model.done(reference)
            del flying[:value]
        elif step == "remove":
            outside = [p for p in sorted(model.stored) if p not in model.held]
            if outside:
                reference = model.stored[outside[value % len(outside)]]
                assert model.cursor.remove_paged_out(reference)
                del model.stored[reference.position]
                removed += 1
        waiting = model.numbers - len(model.hidden) - len(taken) - removed
        assert len(model.cursor) == waiting
        assert bool(model.cursor) is (waiting > 0)
    while model.cursor:
        taken.append(model.cursor.pop())
    assert len({reference.broker_sequence_id for reference in taken}) == len(taken)
    assert len(taken) + len(model.hidden) + removed == model.numbers
    assert not model.cursor.is_spilling
    return taken


bounds = {"room": st.integers(0, 6), "page": st.integers(1, 4), "recovered": st.integers(0, 8)}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**bounds, work=steps)
def test_in_order_of_arrival(room: Any, page: Any, recovered: Any, work: Any) -> None:
    model = Model(False, room, page, recovered)
    late = {step for step, _ in work} & {"number", "show"}
    taken = run(model, work)
    if not late:
        for persistent in (True, False):
            numbers = [
                r.broker_sequence_id for r in taken if (r.position is not None) is persistent
            ]
            assert numbers == sorted(numbers)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**bounds, work=steps)
def test_in_order_of_priority(room: Any, page: Any, recovered: Any, work: Any) -> None:
    model = Model(True, room, page, recovered)
    run(model, work)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**bounds, priorities=st.lists(st.integers(0, 9), max_size=40), taken=st.integers(0, 10))
def test_the_most_urgent_one_is_always_next(
    room: Any, page: Any, recovered: Any, priorities: Any, taken: Any
) -> None:
    model = Model(True, room, page, recovered)
    for index, priority in enumerate(priorities):
        model.mark_visible(model.new(priority))
        if index % 11 < taken and model.cursor:
            first = model.cursor.pop()
            assert first.position == min(model.stored)
            model.done(first)
    rest: list[Any] = []
    while model.cursor:
        rest.append(model.cursor.pop().position)
    assert rest == sorted(rest)


def test_what_its_source_cannot_take_stays_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    class Unwritable(MemorySource):
        def add(self, reference: MessageReference) -> bool:
            raise ValueError("cannot be marshalled")

    model = Model(False, 0, 2, 0, Unwritable(prioritized=False))
    odd = model.new(4, persistent=False)
    model.mark_visible(odd)
    model.mark_visible(model.new(4))
    assert model.cursor.pop() is odd
    assert "stays in memory" in caplog.text


def test_a_store_keeps_what_waits_in_large_numbers_whatever_memory_there_is() -> None:
    model = Model(prioritized=False, room=10**9, page=200, recovered=0)
    for _ in range(MOST_CACHED + 500):
        model.mark_visible(model.new(priority=4))
    assert len(model.cursor) == MOST_CACHED + 500
    assert model.cursor.paged_out_count == 500
    others = Model(prioritized=False, room=10**9, page=200, recovered=0)
    for _ in range(MOST_CACHED + 500):
        others.mark_visible(others.new(priority=4, persistent=False))
    assert others.cursor.paged_out_count == 0, "no store has them: only memory decides"
