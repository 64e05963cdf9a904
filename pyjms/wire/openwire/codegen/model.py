"""The data structures of OpenWire as described in `commands.yaml`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

__all__ = ["PYTHON_TYPES", "SHADOWING", "Field", "Structure", "load"]

PYTHON_TYPES = {
    "boolean": "bool",
    "byte": "int",
    "short": "int",
    "int": "int",
    "long": "int",
    "string": "str | None",
    "bytes": "bytes | None",
    "magic": "bytes",
    "throwable": "Throwable | None",
}
_DEFAULTS = {"bool": "False", "int": "0"}
SHADOWING = {"type", "exit"}  # field names that shadow builtins
# The struct formats of fixed-size fields; a nullable field is represented by its flag.
_FORMATS = {"boolean": "?", "byte": "b", "short": "h", "int": "i", "long": "q"}


@dataclass(frozen=True)
class Field:
    """One field of a structure."""

    name: str
    kind: str
    of: str
    since: int
    default: str

    @classmethod
    def parse(cls, name: str, text: str) -> Field:
        head, *rest = (part.strip() for part in text.split(","))
        kind, _, of = head.partition(" ")
        options = dict(part.split(" ", 1) for part in rest)
        python = PYTHON_TYPES.get(kind, "")
        default = options.get("default") or _DEFAULTS.get(python, "None")
        ast.literal_eval(default)
        return cls(name, kind, of, int(options.get("since", 1)), default.replace("'", '"'))

    @property
    def annotation(self) -> str:
        if self.kind in PYTHON_TYPES:
            return PYTHON_TYPES[self.kind]
        held = "DataStructure | Destination" if self.of == "any" else self.of
        return f"list[{held} | None] | None" if self.kind == "array" else f"{held} | None"

    @property
    def parameter(self) -> str:
        noqa = "  # noqa: A002 - the wire's name" if self.name in SHADOWING else ""
        return f"{self.name}: {self.annotation} = {self.default},{noqa}"

    @property
    def layout(self) -> str:
        of = f', "{self.of}"' if self.of else ""
        return f'Field("{self.name}", kinds.{self.kind.upper()}, {self.since}{of}),'

    @property
    def nullable(self) -> bool:
        return self.kind not in _FORMATS

    @property
    def format(self) -> str:
        return _FORMATS.get(self.kind, "B")


@dataclass(frozen=True)
class Structure:
    """One data structure of commands.yaml."""

    name: str
    code: int
    base: str
    fields: tuple[Field, ...]
    marshall_aware: bool = False
    identity: tuple[str, ...] = ()
    older: dict[int, list[str]] = field(default_factory=dict)
    local: dict[str, str] = field(default_factory=dict)
    constructor: str = ""

    @classmethod
    def parse(cls, name: str, entry: dict[str, Any]) -> Structure:
        fields = tuple(Field.parse(n, text) for n, text in entry.pop("fields", {}).items())
        base = entry.pop("base", "BaseCommand")
        identity = tuple(entry.pop("identity", ()))
        return cls(name, base=base, fields=fields, identity=identity, **entry)


def load() -> dict[str, Structure]:
    """Return the structures of commands.yaml by name."""
    entries = yaml.safe_load(
        (Path(__file__).with_name("commands.yaml")).read_text(encoding="utf-8")
    )
    return {name: Structure.parse(name, entry) for name, entry in entries.items()}
