"""The golden frames and recorded conversations, and how their `fields` map to our objects."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.wire.openwire import kinds
from pyjms.wire.openwire.commands import Command, StackTraceElement, Throwable
from pyjms.wire.openwire.schema import CURRENT_VERSION, DESTINATIONS, STRUCTURES, layout_of
from tests.kit.data import openwire_lines, openwire_types


class Golden:
    """The golden data and its translation."""

    def __init__(self) -> None:
        types = openwire_types()
        self.codes: dict[str, int] = {n: t["code"] for n, t in types.items() if t["code"]}
        self.types = types
        self.names = {code: name for name, code in self.codes.items()}
        self.java_names: dict[int, dict[str, str]] = {}
        for name, code in self.codes.items():
            ours = [entry.name for entry in layout_of(code, CURRENT_VERSION)]
            theirs = [field["name"] for field in types[name]["fields"]]
            self.java_names[code] = dict(zip(ours, theirs, strict=True))

    def lines(self, name: str) -> list[dict[str, Any]]:
        return openwire_lines(name)

    def _java_name(self, code: int, name: str, version: int) -> str:
        # NetworkBridgeFilter's only older layout has one number for both of today's.
        if name == "message_ttl" and version < 10:
            return "networkTTL"
        return self.java_names[code][name]

    def fields(self, value: Any, version: int, stack_trace: bool) -> Any:
        """Return the structure as the golden files write it."""
        if value is None:
            return None
        code = value.TYPE
        found: dict[str, Any] = {"@type": self.names[code]}
        for name, kind, _ in layout_of(code, version):
            item = getattr(value, name)
            key = self._java_name(code, name, version)
            found[key] = self._to_json(kind, item, version, stack_trace)
        return found

    def _to_json(self, kind: int, item: Any, version: int, stack_trace: bool) -> Any:
        if item is None:
            return None
        if kind in (kinds.NESTED, kinds.CACHED):
            return self.fields(item, version, stack_trace)
        if kind == kinds.ARRAY:
            return [self.fields(i, version, stack_trace) for i in item]
        if kind in (kinds.BYTES, kinds.MAGIC):
            return {"hex": item.hex()}
        if kind == kinds.THROWABLE:
            return _throwable_to_json(item, stack_trace)
        return item

    def build(self, fields: Any, version: int) -> Any:
        """Return the structure that the golden `fields` describe."""
        if fields is None:
            return None
        code = self.codes[fields["@type"]]
        values = {
            name: self._from_json(kind, fields[self._java_name(code, name, version)], version)
            for name, kind, _ in layout_of(code, version)
        }
        if code in DESTINATIONS:
            return DESTINATIONS[code](values["physical_name"])
        cls: Any = STRUCTURES[code]
        if not issubclass(cls, Command):
            return cls(**values)
        command = cls()
        for name, value in values.items():
            setattr(command, name, value)
        return command

    def _from_json(self, kind: int, item: Any, version: int) -> Any:
        if item is None:
            return None
        if kind in (kinds.NESTED, kinds.CACHED):
            return self.build(item, version)
        if kind == kinds.ARRAY:
            return [self.build(i, version) for i in item]
        if kind in (kinds.BYTES, kinds.MAGIC):
            return bytes.fromhex(item["hex"])
        if kind == kinds.THROWABLE:
            return _throwable_from_json(item)
        return item


def _throwable_to_json(value: Throwable, stack_trace: bool) -> Any:
    found: dict[str, Any] = {"class": value.class_name, "message": value.message}
    if stack_trace:
        found["stackTrace"] = [
            {"class": e.declaring_class, "method": e.method, "file": e.file, "line": e.line}
            for e in value.stack_trace
        ]
        found["cause"] = value.cause and _throwable_to_json(value.cause, stack_trace)
    return found


def _throwable_from_json(fields: Any) -> Throwable:
    return Throwable(
        fields["class"],
        fields["message"],
        tuple(
            StackTraceElement(e["class"], e["method"], e["file"], e["line"])
            for e in fields.get("stackTrace", ())
        ),
        _throwable_from_json(fields["cause"]) if fields.get("cause") else None,
    )


@pytest.fixture(scope="session")
def golden() -> Golden:
    return Golden()
