"""The table of features: each mark of pyjms names a file of tests that exists and has tests."""

from __future__ import annotations

import ast
import re

import pytest

from tests.kit.processes.children import ROOT

PAGE = ROOT / "docs" / "comparison.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "[" in line
]
MARKS = {"●", "◐", "○"}


def test_each_row_has_a_mark_in_each_column() -> None:
    assert len(ROWS) > 35
    for feature, ours, *others in ROWS:
        assert re.fullmatch(r"\[●\]\(\.\./tests/[\w./]+\.py\)", ours), feature
        assert len(others) == 4, feature
        assert set(others) <= MARKS, feature


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_link_of_a_row_names_tests(row: list[str]) -> None:
    [link] = re.findall(r"\((.+)\)", row[1])
    tree = ast.parse((PAGE.parent / link).resolve().read_text(encoding="utf-8"))
    tests = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith(("test_", "check_"))
    ]
    assert tests, link
