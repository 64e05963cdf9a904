"""The source tree as data: modules and functions."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from pathlib import Path
from typing import TypeVar, cast

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pyjms", "broker/pyjms_broker")
FILES = sorted(path for top in PACKAGES for path in (ROOT / top).rglob("*.py"))


Node = TypeVar("Node", bound=ast.AST)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _nodes_by_kind(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    """Return all nodes of a module's tree: to walk it takes longer than to parse it."""
    found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(tree(path)):
        found[type(node)].append(node)
    return found


def nodes(path: Path, kind: type[Node]) -> list[Node]:
    """Return the nodes of a kind, without those of its subclasses, in a module's tree."""
    return cast("list[Node]", _nodes_by_kind(path).get(kind, []))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [*nodes(path, ast.FunctionDef), *nodes(path, ast.AsyncFunctionDef)]
