"""The tests themselves: nothing outside the repository, and no skip that hides a failure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.runs.event_loops import EVERY_LOOP, LOOPS, loops_of
from tests.kit.runs.few_cases import beyond
from tests.kit.runs.parallel import (
    SECONDS,
    SERVER_FOLDERS,
    SOURCE_TREE,
    SPARK_FILES,
    SPARK_GROUPS,
    TWO_WAY_STORES,
    each_with_other_folders,
    without_group,
)
from tests.kit.runs.python_versions import one_version_each
from tests.kit.source_tree import FILES, ROOT, nodes, relative

pytestmark = pytest.mark.xdist_group(SOURCE_TREE)

SOURCES = sorted(p for top in ("tests", "benchmarks") for p in (ROOT / top).rglob("*.py"))
OPTIONAL_PACKAGES = {"aiomqtt", "amqtt", "gmqtt", "paho", "proton", "psycopg", "pyspark"}
ABSENT = re.compile(
    r"apt-get install|pip install"  # a server or an optional package, and where to get it
    r"|win32|POSIX|pseudo-terminals"  # what a platform does not have
    r"|interpreted Python 3\.11"  # calls are counted in one version, and not in compiled code
    r"|^reason$|^command$"  # a variable with a text as above, from tests/kit
)


def test_nothing_outside_the_repository_is_read() -> None:
    above = [
        f"{relative(path)}: {found[0]} is above the repository's root"
        for path in SOURCES
        for found in re.finditer(r"\.parents\[(\d+)\]", path.read_text(encoding="utf-8"))
        if int(found[1]) >= len(path.relative_to(ROOT).parts)
    ]
    assert above == []


def skips(path: Path) -> Iterator[tuple[int, str]]:
    """Give line and reason of each `pytest.skip`, `skipif` and `importorskip`."""
    if not re.search(r"\.(importor)?skip", path.read_text(encoding="utf-8")):
        return  # to parse all files takes seconds
    for node in nodes(path, ast.Call):
        if not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "skip" and node.args:
            yield node.lineno, _text(node.args[0])
        elif node.func.attr == "skipif":
            yield node.lineno, " ".join(map(_text, [*node.args, *(k.value for k in node.keywords)]))
        elif node.func.attr == "importorskip":
            name = _text(node.args[0]).partition(".")[0]
            yield node.lineno, "pip install" if name in OPTIONAL_PACKAGES else name


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return ast.unparse(node)


def test_a_skip_names_an_absent_server_or_package() -> None:
    assert [
        f"{relative(path)}:{line} {reason}"
        for path in SOURCES
        for line, reason in skips(path)
        if not ABSENT.search(reason)
    ] == []


def test_production_code_knows_nothing_of_the_tests_variables() -> None:
    variables = {
        name
        for path in SOURCES
        for name in re.findall(r"environ(?:\.get)?[\[(]\"(TEST_\w+)", path.read_text("utf-8"))
    }
    assert variables
    found = {
        (relative(path), node.value)
        for path in FILES
        for node in nodes(path, ast.Constant)
        if node.value in variables
    }
    assert found == set()


def test_files_named_in_the_projects_settings_exist() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r"tests/[\w/]+\.py", text)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_expected_durations_are_of_groups_and_files_that_exist() -> None:
    files = SECONDS.keys() - {*SPARK_GROUPS, SOURCE_TREE, TWO_WAY_STORES}
    assert files < SECONDS.keys()
    assert list(ROOT.glob(SPARK_FILES))
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_workers_collect_the_same_folders_in_other_orders() -> None:
    orders = [_collected(number) for number in range(3)]
    assert len({order[0] for order in orders}) == 3
    assert len({frozenset(order) for order in orders}) == 1
    (folders, *_) = orders
    tests = {path for path in (ROOT / "tests").rglob("test_*.py") if "kit" not in path.parts}
    there = [each for each in tests for top in folders if each.is_relative_to(top)]
    assert sorted(there) == sorted(tests)


def test_workers_collect_the_folders_with_servers_in_other_orders() -> None:
    orders = [_collected(number, *SERVER_FOLDERS) for number in range(3)]
    assert len({order[0] for order in orders}) == 3
    assert {frozenset(order) for order in orders} == {
        frozenset(str(ROOT / folder) for folder in SERVER_FOLDERS)
    }


def test_a_worker_collects_a_selection_unchanged() -> None:
    assert _collected(1, "tests/unit") == ["tests/unit"]


def _collected(number: int, *selection: str) -> list[str]:
    """Return what one of three workers collects."""
    config: Any = SimpleNamespace(
        args=list(selection) or ["tests"],
        rootpath=ROOT,
        getini=lambda _: ["tests"],
        workerinput={"workerid": f"gw{number}", "workercount": 3},
    )
    each_with_other_folders(config)
    return list(config.args)


def test_the_files_that_run_on_every_loop_exist() -> None:
    assert [name for name in EVERY_LOOP if not (ROOT / name).exists()] == []


def test_a_coroutine_test_runs_on_one_loop_and_some_on_both() -> None:
    chosen = [loops_of(f"tests/unit/wire/test_it.py::test_{n}") for n in range(40)]
    assert set(chosen) == {("asyncio",), ("trio",)}
    assert loops_of(f"{EVERY_LOOP[0]}test_it.py::test_it") == LOOPS


def test_a_run_may_have_few_cases_of_each_test() -> None:
    names = [f"test_it.py::test_a[{n}]" for n in range(9)] + [
        "test_it.py::test_b",
        "test_it.py::C::d",
    ]
    items: Any = [SimpleNamespace(nodeid=name) for name in names]
    left_out = [item.nodeid for item in beyond(2, items)]
    assert len(left_out) == 7
    assert {name.partition("[")[0] for name in left_out} == {"test_it.py::test_a"}
    assert {item.nodeid for item in beyond(2, reversed(items))} == set(left_out)


def test_each_program_runs_on_one_python_and_each_python_runs_some() -> None:
    names = [f"test_programs.py::test_it[{n}-{{}}]" for n in range(6)]
    versions = ["3.11", "3.12", "3.14"]
    items = [_program(name.format(of), of) for name in names for of in [*versions, "3.13"]]
    others = [_program("test_it.py::test_it[3.11]", "3.11", markers=())]
    left_out = [item.nodeid for item in one_version_each([*items, *others], versions)]
    kept = [item for item in [*items, *others] if item.nodeid not in left_out]
    assert [item.callspec.params["version"] for item in kept] == [*versions, *versions, "3.11"]
    assert [item.nodeid for item in kept[:6]] == [
        name.format(of) for name, of in zip(names, versions * 2, strict=True)
    ]


def _program(nodeid: str, version: str, markers: tuple[str, ...] = ("pythons",)) -> Any:
    """Return what the choice of a test's Python reads of it."""
    marks = {name: name for name in markers}
    of = SimpleNamespace(params={"version": version})
    return SimpleNamespace(nodeid=nodeid, callspec=of, get_closest_marker=marks.get)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a/test_b.py::test_c@spark elsewhere", "a/test_b.py::test_c"),
        ("a/test_b.py::test_c[x@y]@group", "a/test_b.py::test_c[x@y]"),
        ("a/test_b.py::test_c[x@y]", "a/test_b.py::test_c[x@y]"),
        ("a/test_b.py::test_c[[1]-@]@group", "a/test_b.py::test_c[[1]-@]"),
        ("a/test_b.py::test_c", "a/test_b.py::test_c"),
    ],
)
def test_a_test_that_failed_in_a_group_is_found_again(name: str, plain: str) -> None:
    assert without_group(name) == plain
