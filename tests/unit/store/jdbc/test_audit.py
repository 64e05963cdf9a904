"""Ids that came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms.jms.destination import Queue
from pyjms.wire.message_audit import SequenceAudit
from pyjms_broker.api.message import OperationContext


def test_a_window_for_each_producer() -> None:
    audit = SequenceAudit[tuple[str, str]](depth=3, producers=2)
    assert not audit.add(("q", "p"), 5)
    assert audit.add(("q", "p"), 5)
    assert not audit.add(("other", "p"), 5)
    assert not audit.add(("q", "p"), 4)
    assert audit.add(("q", "p"), 4)
    assert not audit.add(("q", "p"), 7)
    assert audit.add(("q", "p"), 5)
    assert not audit.add(("q", "p"), 4)  # too long ago
    assert not audit.add(("q", "p"), 100)
    assert not audit.add(("q", "p"), 99)


def test_what_was_not_stored_is_forgotten() -> None:
    audit = SequenceAudit[tuple[str, str]](depth=10, producers=2)
    audit.add(("q", "p"), 1)
    audit.remove(("q", "p"), 1)
    audit.remove(("q", "none"), 1)
    assert not audit.add(("q", "p"), 1)


def test_the_producer_that_was_silent_longest_makes_room() -> None:
    audit = SequenceAudit[tuple[str, str]](depth=10, producers=2)
    for producer in ("a", "b", "a", "c"):
        audit.add(("q", producer), 1)
    assert audit.add(("q", "a"), 1)
    assert not audit.add(("q", "b"), 1)


async def test_a_store_with_an_audit_knows_what_was_removed(open_store: Callable[..., Any]) -> None:
    settings = {"enable_audit": True, "audit_recovery_depth": 1}
    store = await open_store(**settings)
    queue = store.queue()
    first, _, third = await store.send(queue, 1, 2, 3)
    await store.remove(queue, first)
    again = store.reference(1)
    await store.done(queue.add_message(OperationContext(), again))
    assert again.position is None
    await store.send(store.queue("OTHER"), 1)
    await store.restart()
    queue = store.adapter.queue_message_store(Queue("Q"))
    await store.remove(queue, third)
    recovered = store.reference(1, Queue("OTHER"))
    other = store.adapter.queue_message_store(Queue("OTHER"))
    await store.done(other.add_message(OperationContext(), recovered))
    assert recovered.position is None


async def test_without_an_audit_it_does_not(open_store: Callable[..., Any]) -> None:
    store = await open_store()
    queue = store.queue()
    (first,) = await store.send(queue, 1)
    await store.remove(queue, first)
    (again,) = await store.send(queue, 1)
    assert again.position.arrival == 2
