"""Lists of waiting messages in memory."""

from __future__ import annotations

import pytest

from broker.cursor.memory import FifoPendingList, PrioritizedPendingList, pending_list


class Waiting:
    def __init__(self, name: str, priority: int = 4) -> None:
        self.name = name
        self.priority = priority


def names(cursor):
    return "".join(reference.name for reference in cursor)


@pytest.mark.parametrize(
    ("prioritized", "kind", "order"),
    [(False, FifoPendingList, "zabcd"), (True, PrioritizedPendingList, "bdzac")],
)
def test_order_and_removal(prioritized, kind, order):
    cursor = pending_list(prioritized)
    assert isinstance(cursor, kind)
    assert not cursor
    made = {n: Waiting(n, p) for n, p in (("a", 4), ("b", 9), ("c", 0), ("d", 12), ("z", 4))}
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
    taken = [cursor.take().name for _ in range(4)]
    assert "".join(taken) == order.replace("b", "")
    with pytest.raises(KeyError):
        cursor.take()
    cursor.append(made["a"])
    cursor.clear()
    assert (len(cursor), names(cursor)) == (0, "")
