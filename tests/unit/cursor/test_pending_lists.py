"""Lists of waiting messages in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.api.message import MessageReference
from pyjms_broker.cursor.memory import FifoPendingList, PrioritizedPendingList, pending_list
from tests.kit.stores.kahadb_store import message


def waiting(name: str, priority: int = 4, broker_sequence_id: int = 0) -> MessageReference:
    return message(broker_sequence_id, Queue("test"), priority=priority, correlation_id=name)


def names(references: Iterable[MessageReference]) -> str:
    return "".join(str(reference.message.correlation_id) for reference in references)


@pytest.mark.parametrize(
    ("prioritized", "kind", "order"),
    [(False, FifoPendingList, "zabcd"), (True, PrioritizedPendingList, "bdzac")],
)
def test_order_and_removal(prioritized: bool, kind: Any, order: str) -> None:
    cursor = pending_list(prioritized)
    assert isinstance(cursor, kind)
    assert not cursor
    made = {n: waiting(n, p) for n, p in (("a", 4), ("b", 9), ("c", 0), ("d", 12), ("z", 4))}
    for name in "abcd":
        cursor.append(made[name])
    cursor.append_front(made["z"])
    assert names(cursor) == order
    assert len(cursor) == 5
    assert made["b"] in cursor
    assert cursor.remove(made["b"])
    assert not cursor.remove(made["b"])
    assert made["b"] not in cursor
    assert names(cursor) == order.replace("b", "")
    assert names([cursor.pop() for _ in range(4)]) == order.replace("b", "")
    with pytest.raises(KeyError):
        cursor.pop()
    cursor.append(made["a"])
    cursor.clear()
    assert (len(cursor), names(cursor)) == (0, "")


@pytest.mark.parametrize(
    ("prioritized", "orders"),
    [
        (False, ["ghi", "dfghi", "bdfghi", "abcdefghi"]),
        (True, ["ghi", "fdghi", "fbdghi", "acfbdeghi"]),
    ],
)
def test_what_comes_back_has_its_old_place(prioritized: bool, orders: Any) -> None:
    cursor = pending_list(prioritized)
    urgent = "acf" if prioritized else ""
    made = {n: waiting(n, 9 if n in urgent else 4, i) for i, n in enumerate("abcdefghi")}
    for name in "ghi":
        cursor.append(made[name])
    seen = []
    for returned in ("", "fd", "b", "eac"):
        cursor.requeue([made[name] for name in returned])
        seen.append(names(cursor))
    assert seen == orders
    assert len(cursor) == 9


def test_what_came_late_stays_behind_what_came_back() -> None:
    cursor = pending_list(prioritized=False)
    for name, number in (("d", 4), ("a", 1)):  # a transaction sent the second, and ended later
        cursor.append(waiting(name, broker_sequence_id=number))
    cursor.requeue([waiting("c", broker_sequence_id=3), waiting("b", broker_sequence_id=2)])
    assert names(cursor) == "bcda"
