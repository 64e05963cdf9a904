"""The stubs `derived.pyi`: what type checkers see of the methods of blocking classes.

    python -m tests.kit.stubs            writes them

They are made from the base classes that `pyjms.sync.facade.derive` makes, with the signatures of the
coroutine classes; a result that has a blocking class is that class.
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_overloads

from pyjms.runtime.forwarding import imports_of
from pyjms.sync import facade
from tests.kit.source_tree import ROOT

PACKAGES = ("sync", "testing")
NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


class Stub:
    """Collects the lines of the classes, and what they import."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = defaultdict(set)
        self.modules: set[str] = set()
        self.variables: set[str] = set()
        self.lines: list[str] = []

    def add_class(self, name: str, kind: type) -> None:
        self.lines += ["", f"class {name}:"]
        members = [line for each, value in vars(kind).items() for line in self.member(each, value)]
        self.lines += members or ["    ..."]

    def member(self, name: str, value: Any) -> Iterator[str]:
        if inspect.isfunction(value):
            original = inspect.unwrap(value)
            overloads = get_overloads(original)
            for each in overloads or [original]:
                if overloads:
                    self.imports["typing"].add("overload")
                    yield "    @overload"
                yield from self.function(name, each)
        elif isinstance(value, facade.Attribute) and inspect.isfunction(getter := value.getter):
            yield "    @property"
            yield f"    def {name}(self) -> {self.annotation(getter, 'return')}: ..."
            if not value.read_only:
                yield f"    @{name}.setter"
                yield f"    def {name}(self, value: {self.annotation(getter, 'return')}) -> None: ..."

    def function(self, name: str, function: Callable[..., Any]) -> Iterator[str]:
        parameters: list[str] = []
        kinds = inspect.Parameter
        marks: dict[object, str] = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}
        for each in inspect.signature(function).parameters.values():
            is_keyword = each.kind is kinds.KEYWORD_ONLY
            if is_keyword and not any(text.startswith("*") for text in parameters):
                parameters.append("*")
            text = marks.get(each.kind, "") + each.name
            if each.annotation is not kinds.empty:
                text += f": {self.annotation(function, each.name)}"
            if each.default is not kinds.empty:
                text += " = ..."
            if each.kind is kinds.POSITIONAL_ONLY and "/" in parameters:
                parameters.remove("/")
            parameters.append(text)
            if each.kind is kinds.POSITIONAL_ONLY:
                parameters.append("/")
        result = self.annotation(function, "return")
        yield f"    def {name}({', '.join(parameters)}) -> {result}: ..."

    def annotation(self, function: Callable[..., Any], name: str) -> str:
        text = str(function.__annotations__[name])
        homes = imports_of(function.__module__)
        names = vars(importlib.import_module(function.__module__))

        for word in NAME.findall(text):
            value = names.get(word)
            blocking = facade._CLASSES.get(word)
            if blocking is not None:
                self.imports[blocking.__module__].add(word)
            elif isinstance(value, TypeVar):
                self.variables.add(word)
            elif word in homes:
                self.imports[homes[word]].add(word)
            elif isinstance(value, ModuleType):
                self.modules.add(word)
            elif word in names:
                self.imports[function.__module__].add(word)
        return text

    def text(self) -> str:
        head = ["# Made by `python -m tests.kit.stubs`.", "# isort: skip_file", ""]
        head += [f"import {name}" for name in sorted(self.modules)]
        self.imports["typing"].add("TypeVar")
        for module, names in sorted(self.imports.items()):
            head.append(f"from {module} import {', '.join(f'{n} as {n}' for n in sorted(names))}")
        head += ["", *(f'{name} = TypeVar("{name}")' for name in sorted(self.variables))]
        return "\n".join([*head, *self.lines, ""])


def stub_file(package: str) -> Path:
    return ROOT / "pyjms" / package / "derived.pyi"


def stub(package: str) -> str:
    """Return the text of the stub of a package, as the formatter leaves it."""
    made = Stub()
    seen: set[type] = set()
    files = sorted((ROOT / "pyjms" / package).glob("*.py"))
    deriving = [
        file.stem for file in files if "Members = derive(" in file.read_text(encoding="utf-8")
    ]
    for module in [importlib.import_module(f"pyjms.{package}.{name}") for name in deriving]:
        for name, value in vars(module).items():
            if name.endswith("Members") and isinstance(value, type) and value not in seen:
                seen.add(value)
                made.add_class(name, value)
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--stdin-filename",
        str(stub_file(package)),
        "-",
    ]
    done = subprocess.run(command, input=made.text(), capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    for each in PACKAGES:
        stub_file(each).write_text(stub(each), encoding="utf-8")
