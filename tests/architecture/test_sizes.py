"""Sizes of modules, packages and functions."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest

from tests.kit.runs.parallel import SOURCE_TREE
from tests.kit.source_tree import FILES, ROOT, functions, modules_by_package, relative

pytestmark = pytest.mark.xdist_group(SOURCE_TREE)

MODULE_LIMIT = 500
MODULE_GUIDELINE = 400
MODULES_OVER_GUIDELINE = 3
"""How many modules may be longer than the guideline; never raise it."""
MODULE_MEDIAN = 150

PACKAGE_LIMIT = 15

FUNCTION_P90 = 35
FUNCTION_LIMIT = 90
LONGER_FUNCTIONS = {"pyjms/wire/openwire/fast_reader.py:_message": 140}
"""Functions that are one straight run of generated or unrolled steps."""


def test_modules_are_short() -> None:
    sizes = {relative(p): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    assert {name: size for name, size in sizes.items() if size > MODULE_LIMIT} == {}
    long = {name: size for name, size in sizes.items() if size > MODULE_GUIDELINE}
    assert len(long) <= MODULES_OVER_GUIDELINE, long
    assert statistics.median(size for size in sizes.values() if size > 3) <= MODULE_MEDIAN


def test_packages_are_small() -> None:
    sizes = {package: len(modules) for package, modules in modules_by_package().items()}
    assert {package: size for package, size in sizes.items() if size > PACKAGE_LIMIT} == {}


def test_folders_of_tests_are_small() -> None:
    modules = {
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("*.py")
        if path.stem not in {"__init__", "conftest"}
    }
    sizes = Counter(path.parent.as_posix() for path in modules)
    assert {folder: size for folder, size in sizes.items() if size > PACKAGE_LIMIT} == {}


def test_functions_are_short() -> None:
    sizes = {
        f"{relative(path)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in FILES
        for node in functions(path)
    }
    assert statistics.quantiles(sizes.values(), n=10)[-1] <= FUNCTION_P90
    limits = {name: LONGER_FUNCTIONS.get(name, FUNCTION_LIMIT) for name in sizes}
    assert {name: size for name, size in sizes.items() if size > limits[name]} == {}
