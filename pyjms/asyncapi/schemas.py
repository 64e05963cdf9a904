"""Schemas of payloads and headers, generated from the types of handlers."""

from __future__ import annotations

from typing import Any, Final

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from pyjms.annotation.params import Header
from pyjms.jms.message import Message
from pyjms.listener.handler.arguments import CallPlan

__all__ = ["Schemas", "content_type_of"]

_REFERENCE: Final = "#/components/schemas/{model}"
_BINARY: Final = (bytes, bytearray, memoryview)


class Schemas:
    """The JSON schemas of one document; those of named types are shared."""

    def __init__(self) -> None:
        self.shared: dict[str, Any] = {}
        """The contents of `#/components/schemas`."""

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type; {} (anything) if there is none."""
        if kind is None or kind in {Any, object}:
            return {}
        if isinstance(kind, type) and issubclass(kind, Message):
            return {"description": f"A {kind.__name__}, as it comes."}
        module = f"{getattr(kind, '__module__', 'other')}."
        try:
            adapter = TypeAdapter(kind)
            return self._add(adapter, kind, "") or self._add(adapter, kind, module) or {}
        except (PydanticUserError, PydanticInvalidForJsonSchema):
            return {"description": f"A {kind!r}."}

    def _add(self, adapter: TypeAdapter[Any], kind: Any, prefix: str) -> dict[str, Any] | None:
        """Return a type's schema; None: another type has the same name and there is no prefix."""
        schema = adapter.json_schema(ref_template=_REFERENCE.format(model=f"{prefix}{{model}}"))
        named = {f"{prefix}{name}": each for name, each in schema.pop("$defs", {}).items()}
        name = f"{prefix}{kind.__name__}" if isinstance(kind, type) else ""
        if name and schema.get("type") == "object" and "properties" in schema:
            named[name] = schema
            schema = {"$ref": _REFERENCE.format(model=name)}
        if not prefix and any(self.shared.get(key, each) != each for key, each in named.items()):
            return None
        self.shared |= named
        return schema

    def of_headers(self, plan: CallPlan) -> dict[str, Any] | None:
        """Return the schema of the properties that a handler reads; None: it reads none."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        for parameter in plan.parameters:
            header = parameter.marker(Header)
            if header is None:
                continue
            name = header.name or parameter.name
            properties[name] = self.of(parameter.hint)
            if header.required and not parameter.keeps_default:
                required.append(name)
        if not properties:
            return None
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return schema


def content_type_of(kind: Any) -> str | None:
    """Return the content type of a payload of this type; None: unknown."""
    if kind is None or kind in {Any, object}:
        return None
    if kind is str:
        return "text/plain"
    if kind in _BINARY:
        return "application/octet-stream"
    if isinstance(kind, type) and issubclass(kind, Message):
        return None
    return "application/json"
