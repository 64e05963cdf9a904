"""Docstrings, and which modules may use the event loop, the clock and third-party packages."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

import pyjms
import pyjms.jms
import pyjms.listener
import pyjms.support
import pyjms.sync
from pyjms.runtime.distribution import DISTRIBUTION
from tests.kit.runs.parallel import SOURCE_TREE
from tests.kit.source_tree import FILES, ROOT, functions, nodes, relative, tree

pytestmark = pytest.mark.xdist_group(SOURCE_TREE)


def test_modules_have_docstrings() -> None:
    assert [
        relative(path) for path in FILES if tree(path).body and not ast.get_docstring(tree(path))
    ] == []


def test_public_classes_have_docstrings() -> None:
    assert [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in FILES
        for node in tree(path).body
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ] == []


def test_public_functions_have_docstrings() -> None:
    assert [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in FILES
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
        and not ast.get_docstring(node)
    ] == []


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names that a module defines: its own, and those of its definitions."""
    found = {path.stem}
    found |= {node.name for node in (*functions(path), *nodes(path, ast.ClassDef))}
    found |= {node.arg for node in nodes(path, ast.arg)}
    found |= {node.id for node in nodes(path, ast.Name) if isinstance(node.ctx, ast.Store)}
    found |= {node.attr for node in nodes(path, ast.Attribute) if isinstance(node.ctx, ast.Store)}
    return frozenset(found)


def test_names_avoid_the_words_that_the_glossary_excludes() -> None:
    glossary = (ROOT / "docs/glossary-code.md").read_text(encoding="utf-8")
    excluded = set(re.findall(r"`(\w+)`", glossary.partition("## Words that names do not")[2]))
    assert "anew" in excluded
    assert [
        f"{relative(path)}: {name}"
        for path in FILES
        for name in sorted(names_in(path))
        if excluded & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    ] == []


def test_docstrings_name_private_members_that_exist() -> None:
    """Theory of operation names the attributes that hold a state: it follows when they change."""
    defined = frozenset[str]().union(*map(names_in, FILES))
    named = [
        (relative(path), name)
        for path in FILES
        if "`_" in path.read_text(encoding="utf-8")
        for node in nodes(path, ast.Constant)
        if isinstance(node.value, str)
        for name in re.findall(r"`(_[a-z]\w*)`", node.value)
    ]
    assert len(named) >= 10
    assert [each for each in named if each[1] not in defined] == []


def test_methods_of_public_names_have_docstrings() -> None:
    bare = sorted(
        {
            f"{cls.__module__}.{cls.__qualname__}.{name}"
            for module in (pyjms, pyjms.jms, pyjms.listener, pyjms.support, pyjms.sync)
            for public in (getattr(module, name) for name in module.__all__)
            if isinstance(public, type)
            for cls in public.__mro__
            if cls.__module__.startswith("pyjms.")
            for name, member in vars(cls).items()
            if not name.startswith("_")
            and (inspect.isfunction(member) or isinstance(member, property | classmethod))
            and not inspect.getdoc(getattr(cls, name))
        }
    )
    assert bare == []


def test_only_wakeup_names_an_event_loop() -> None:
    named = {
        relative(path)
        for path in FILES
        for name in (
            *(alias.name for node in nodes(path, ast.Import) for alias in node.names),
            *(node.module for node in nodes(path, ast.ImportFrom)),
        )
        if name in {"asyncio", "trio"}
    }
    assert named == {"pyjms/runtime/event_loop.py"}


def test_only_the_clock_reads_the_time() -> None:
    allowed = {"pyjms/runtime/clock.py", "pyjms/runtime/ids.py", "pyjms/testing/clock.py"}
    forbidden = {"time.sleep", "time.time", "time.monotonic", "anyio.sleep", "anyio.fail_after",
                 "anyio.move_on_after"}  # fmt: skip
    found = {
        f"{relative(path)}: {node.value.id}.{node.attr}"
        for path in FILES
        if relative(path) not in allowed
        for node in nodes(path, ast.Attribute)
        if isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in forbidden
    }
    assert found == set()


def test_loggers_escape_what_clients_name() -> None:
    found = {
        relative(path)
        for path in FILES
        if "getLogger" in path.read_text(encoding="utf-8")
        for node in nodes(path, ast.Call)
        if ast.unparse(node) == "logging.getLogger(__name__)"
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


def test_imported_distributions_are_declared() -> None:
    """A package that only another one requires may be missing after that one's next release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    asked = {re.split(r"[\[<>=;~! ]", name)[0].lower().replace("_", "-") for name in wanted}
    # the other event loop, for those who run on it; what loads our plugin; a part of pydantic
    asked |= {"trio", "pytest", "pydantic-core"}
    owners = {  # of a namespace package (opentelemetry) several distributions are parts
        name: {each.lower().replace("_", "-") for each in found}
        for name, found in packages_distributions().items()
    }
    assert {
        (name, relative(path))
        for folder in ("pyjms", "broker")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imported(path)
        if name in owners and not owners[name] & {*asked, DISTRIBUTION}
    } == set()


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, at its top or inside its functions."""
    names: set[str] = set()
    for node in nodes(path, ast.Import):
        names |= {alias.name.partition(".")[0] for alias in node.names}
    for source in nodes(path, ast.ImportFrom):
        if source.level == 0 and source.module:
            names.add(source.module.partition(".")[0])
    return names
