"""Nothing grows without bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ProducerId
from pyjms_broker.api.message import OperationContext


async def test_duplicate_ids_have_a_window(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store(duplicate_id_window=2)
    queue = store.queue()
    for number in (1, 2, 3):
        await store.send(queue, number, properties={"_AMQ_DUPL_ID": f"d{number}"})
    await store.adapter.checkpoint()
    found = sql("SELECT DUPLICATE_ID FROM PYJMS_DUPLICATES ORDER BY ID")
    assert found == [("d2",), ("d3",)]
    await store.restart()
    expected = {"d3": None, "d2": None, "d1": 4}  # the first is outside of the window
    for number, (duplicate, arrival) in enumerate(expected.items(), 10):
        again = store.reference(number, properties={"_AMQ_DUPL_ID": duplicate})
        await store.done(store.queue().add_message(OperationContext(), again))
        assert (again.position and again.position.arrival) == arrival


async def test_producers_that_are_silent_are_forgotten(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    async with VirtualClock() as clock:
        store = await open_store(max_producers_to_audit=2)
        for number in (1, 2, 3):
            await store.send(store.queue(), 7, producer=ProducerId(f"ID:{number}", 1, 1))
            await clock.advance(1)
        await store.adapter.checkpoint()
        found = sql("SELECT MSGID_PROD FROM PYJMS_PRODUCERS ORDER BY 1")
        assert found == [("ID:2:1:1",), ("ID:3:1:1",)]
        assert store.adapter.last_producer_sequence_id(ProducerId("ID:3", 1, 1)) == 7


async def test_pages_of_few_rows(open_store: Callable[..., Any]) -> None:
    store = await open_store(max_rows=3)
    queue = store.queue(prioritized=True)
    for number in range(1, 11):
        await store.send(queue, number, priority=number % 3)
    expected = ["2", "5", "8", "1", "4", "7", "10", "3", "6", "9"]
    assert store.texts(queue) == expected
    skip = {m.position for m in queue.next_messages(None, 4)}
    assert store.texts(queue, skip=skip) == expected[4:]
    after = queue.next_messages(None, 5)[-1].position
    assert store.texts(queue, limit=3, after=after) == expected[5:8]
