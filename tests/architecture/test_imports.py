"""Import cycles, with the imports that only type checkers see."""

from __future__ import annotations

import pytest

from tests.kit.runs.parallel import SOURCE_TREE
from tests.kit.source_tree import cycles, import_graph

pytestmark = pytest.mark.xdist_group(SOURCE_TREE)

CYCLE_LIMIT = 6


def test_cycles_are_small() -> None:
    assert [cycle for cycle in cycles(import_graph()) if len(cycle) > CYCLE_LIMIT] == []


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set(), "e": {"e2"}, "e2": {"e"}}
    assert cycles(graph) == [["a", "b", "c"], ["e", "e2"]]
