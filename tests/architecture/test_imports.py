"""Import cycles, with the imports that only type checkers see."""

from __future__ import annotations

from tests.kit.source_tree import cycles, import_graph

CYCLE_LIMIT = 6
LARGER_CYCLES = {"broker": 49, "pyjms": 16}
"""The largest cycle of each package while the packages are taken apart; only ever lowered."""


def test_cycles_are_small() -> None:
    too_large = [
        cycle
        for cycle in cycles(import_graph())
        if len(cycle) > LARGER_CYCLES.get(cycle[0].partition(".")[0], CYCLE_LIMIT)
    ]
    assert too_large == []


def test_the_graph_has_type_only_imports_and_finds_cycles() -> None:
    assert "broker.region.queue" in import_graph() or "broker.region.queue.queue" in import_graph()
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set(), "e": {"e2"}, "e2": {"e"}}
    assert cycles(graph) == [["a", "b", "c"], ["e", "e2"]]
