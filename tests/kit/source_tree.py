"""The source tree as data: modules, functions, and the import graph with type-only imports."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pyjms", "broker/pyjms_broker")
FILES = sorted(path for top in PACKAGES for path in (ROOT / top).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "broker" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def modules_by_package() -> dict[str, list[str]]:
    """Return the modules directly in each package, without `__init__` and `__main__`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        if path.stem not in {"__init__", "__main__"}:
            package, _, name = module_name(path).rpartition(".")
            found[package].append(name)
    return dict(found)


def import_graph() -> dict[str, set[str]]:
    """Return which modules each module imports: anywhere, type-only imports included."""
    names = {module_name(path) for path in FILES}
    return {module_name(path): set(_imports(path, names)) - {module_name(path)} for path in FILES}


def _imports(path: Path, names: set[str]) -> Iterator[str]:
    package = module_name(path)
    if path.name != "__init__.py":
        package = package.rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name
                while name and name not in names:
                    name = name.rpartition(".")[0]
                if name:
                    yield name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            for alias in node.names:
                if f"{base}.{alias.name}" in names:
                    yield f"{base}.{alias.name}"
                elif base in names:
                    yield base


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one module, largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:  # Tarjan's algorithm
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in graph[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            start = stack.index(module)
            component = stack[start:]
            del stack[start:]
            if len(component) > 1:
                found.append(sorted(component))

    for module in graph:
        if module not in index:
            visit(module)
    return sorted(found, key=len, reverse=True)
