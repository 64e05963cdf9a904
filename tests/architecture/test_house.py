"""The shape of the house: sizes, docstrings, and who may name what."""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(p for top in ("pyjms", "broker") for p in (ROOT / top).rglob("*.py"))


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_module_is_over_500_lines_and_half_are_under_150() -> None:
    sizes = {str(p.relative_to(ROOT)): _lines(p) for p in MODULES}
    assert {name: size for name, size in sizes.items() if size > 500} == {}
    assert statistics.median(size for size in sizes.values() if size > 3) <= 150


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree), "a module without a docstring"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_public_classes_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


def test_only_wakeup_names_an_event_loop() -> None:
    named = {
        str(path.relative_to(ROOT))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and {a.name for a in node.names} & {"asyncio", "trio"})
        or (isinstance(node, ast.ImportFrom) and node.module in {"asyncio", "trio"})
    }
    assert named == {"pyjms/_wakeup.py"}


def test_only_the_clock_asks_for_the_time() -> None:
    allowed = {"pyjms/_clock.py", "pyjms/_ids.py", "pyjms/testing/clock.py"}
    forbidden = {"time.sleep", "time.time", "time.monotonic", "anyio.sleep", "anyio.fail_after",
                 "anyio.move_on_after"}  # fmt: skip
    found = {
        f"{path.relative_to(ROOT)}: {node.value.id}.{node.attr}"
        for path in MODULES
        if str(path.relative_to(ROOT)) not in allowed
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in forbidden
    }
    assert found == set()


def test_the_error_tree_is_the_one_drawn() -> None:
    from pyjms import errors

    drawn = [
        (line.index(line.split("── ")[1][0]) // 4, line.split("── ")[1].split()[0])
        for line in (errors.__doc__ or "").splitlines()
        if "── " in line
    ]
    assert {name for _, name in drawn} == set(errors.__all__)
    parents: list[str] = ["Exception"]
    for depth, name in drawn:
        level = depth - 1
        del parents[level:]
        assert getattr(errors, name).__mro__[1].__name__ == parents[-1], name
        parents.append(name)


def test_what_is_imported_is_asked_for() -> None:
    """A package that another one happens to bring is gone with the other one's next version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    asked = {re.split(r"[\[<>=;~! ]", name)[0].lower().replace("_", "-") for name in wanted}
    # the other loop, for who runs on it; what loads the plugin; what pydantic is made of
    asked |= {"trio", "pytest", "pydantic-core"}
    owners = packages_distributions()
    found = {
        (owner.lower().replace("_", "-"), str(path.relative_to(ROOT)))
        for folder in ("pyjms", "broker")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imported(path)
        for owner in owners.get(name, ())
    }
    assert {(owner, where) for owner, where in found if owner not in {*asked, "pyjms"}} == set()


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, at its top or inside its functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names
