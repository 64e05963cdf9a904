"""The base of the sections of application.yaml and broker.yaml, and the descriptions of their keys.

A description is the docstring below a field. The JSON schema, the commented examples and the help
need them; a start-up does not. pydantic's own option `use_attribute_docstrings` reads and parses
the source of each model when the class is created, which took a sixth of the start-up of an
application, so they are read here when a schema is asked for.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue


class DescribedModel(BaseModel):
    """A model whose JSON schema has the docstrings of its fields as descriptions."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Any, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_descriptions(cls).items():
            field = cls.model_fields[name]
            shown = properties.get(field.alias or name)
            if shown is not None and field.description is None:
                shown["description"] = text  # rather than that of the type
        return schema


class Section(DescribedModel):
    """A section: unknown keys are errors, values are read-only."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True
    )


def read_text(value: object) -> object:
    """Return a number that was written without quotes as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Text: TypeAlias = Annotated[str, BeforeValidator(read_text)]


@functools.cache
def field_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, inherited ones included, by field name.

    A class without readable source has none. Reads the source files.
    """
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind.__module__ in sys.modules:
            found.update(_classes_of(kind.__module__).get(kind.__qualname__, {}))
    return {name: text for name, text in found.items() if name in model.model_fields}


@functools.cache
def _classes_of(module: str) -> dict[str, dict[str, str]]:
    """Return the attribute docstrings of all classes of a module, by qualified class name."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # interactive, frozen, or without source files
        return {}
    return dict(_walk(ast.parse(source).body, ""))


def _walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", dict(_docstrings_in(node.body))
            yield from _walk(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(node.body, f"{prefix}{node.name}.<locals>.")


def _docstrings_in(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node, after in itertools.pairwise(body):
        match node, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
