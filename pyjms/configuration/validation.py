"""Validation: builds a pydantic model from a document, and reports all problems in one error.

Each problem is a line: the value's origin, the path of the key, the reason. Values of password keys
are never shown.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from pyjms.configuration.document import Document, Path, Problems, dotted_path
from pyjms.errors import ConfigurationException, nearest_name

M = TypeVar("M", bound=BaseModel)

Translate = Callable[[Path], "str | None"]
"""Returns a sentence about another product's key: its name here, or why there is none; or None."""

_SECRET_WORDS = ("password", "secret", "token", "credential")


def validate(
    model: type[M],
    document: Document,
    translate: Translate = lambda _path: None,
    problems: Problems | None = None,
) -> M:
    """Return the model with the document's values.

    `translate` explains keys of other products. `problems` are those of earlier stages.
    """
    found = Problems() if problems is None else problems
    try:
        made = model.model_validate(document.values)
    except ValidationError as error:
        _add_lines(error, model, document, translate, found)
        raise ConfigurationException.join(found.found) from None
    except ConfigurationException as error:  # raised by a validator, without the value's path
        if not found:
            raise
        raise ConfigurationException.join(found.found) from error
    found.raise_all()
    return made


def valid_part(model: type[M], document: Document, translate: Translate, problems: Problems) -> M:
    """Return the model with the valid values, and add the problems of the others.

    Problems of a section that appear only without its invalid values may be consequences of their
    removal: the section is added to `unchecked`. Each value of the model needs a default.
    """
    values = copy.deepcopy(document.values)
    for path in problems.paths:
        _remove(values, path)
    is_first = True
    while True:
        try:
            return model.model_validate(values)
        except ValidationError as error:
            paths = [_path_in_file(details["loc"], values) for details in _details(error)]
            if is_first:
                _add_lines(error, model, document, translate, problems)
            else:
                problems.unchecked += [
                    f"{dotted_path(path)}: not all its keys are valid" for path in paths
                ]
            removed = [_remove(values, path) for path in paths]
            if not any(removed):
                raise ConfigurationException.join(problems.found) from None
        is_first = False


def _add_lines(
    error: ValidationError,
    model: type[BaseModel],
    document: Document,
    translate: Translate,
    problems: Problems,
) -> None:
    lines = _Lines(model, document, translate, problems)
    for details in _details(error):
        lines.add(details)


def _details(error: ValidationError) -> list[Any]:
    return list(error.errors(include_url=False, include_context=False))


def _remove(values: Any, path: Path) -> bool:
    """Remove the value at `path`, or its container; return whether anything was removed.

    If the value is missing, its section is removed; if it is in a list, the list's key.
    """
    parents: list[Any] = [values]
    for part in path[:-1]:
        try:
            parents.append(parents[-1][part])
        except (KeyError, IndexError, TypeError):  # already removed
            break
    for parent, part in reversed([*zip(parents, path, strict=False)]):
        if isinstance(parent, dict) and part in parent:
            del parent[part]
            return True
    return False


@dataclass(frozen=True, eq=False, repr=False)
class _Lines:
    model: type[BaseModel]
    document: Document
    translate: Translate
    problems: Problems

    def add(self, details: Mapping[str, Any]) -> None:
        path = _path_in_file(details["loc"], self.document.values)
        if details["type"] == "extra_forbidden":
            for leaf in self._foreign_leaves(path, details["input"]):
                self._add(leaf, self._unknown(leaf))
        elif details["type"] == "missing":
            if not self.problems.lacks_files:
                self._add(path, "the key is missing")
        else:
            self._add(path, self._wrong(path, details))

    def _add(self, path: Path, reason: str) -> None:
        if not self.problems.is_known(path):
            self.problems.add(self.document.problem(path, reason))

    def _foreign_leaves(self, path: Path, value: object) -> list[Path]:
        """Return the path itself, or the paths below it if `translate` knows one of them."""
        if not isinstance(value, dict) or not value:
            return [path]
        below = [
            leaf for key, item in value.items() for leaf in self._foreign_leaves((*path, key), item)
        ]
        return below if any(self.translate(leaf) for leaf in below) else [path]

    def _unknown(self, path: Path) -> str:
        if sentence := self.translate(path):
            return sentence
        parent, known = path[:-1], _keys(self.model, path[:-1])
        near = nearest_name(str(path[-1]), known)
        if near:
            return f"there is no such setting; did you mean {dotted_path((*parent, near))}?"
        where = f"{dotted_path(parent)} has" if parent else "the keys are"
        return f"there is no such setting; {where} {', '.join(known)}"

    def _wrong(self, path: Path, details: Mapping[str, Any]) -> str:
        reason = str(details["msg"]).removeprefix("Value error, ")
        value = details["input"]
        secret = any(word in str(part).lower() for part in path for word in _SECRET_WORDS)
        if secret or details["type"] == "value_error" or isinstance(value, dict | list):
            return reason
        return f"{reason}; the value is {value!r}"


def _path_in_file(location: Path, values: object) -> Path:
    """Return pydantic's location without the elements that pydantic inserts, such as union tags."""
    path: list[str | int] = []
    for index, part in enumerate(location):
        if isinstance(values, dict):
            if part not in values and index < len(location) - 1:
                continue
            values = values.get(part)
        elif isinstance(values, list):
            values = values[part] if isinstance(part, int) and part < len(values) else None
        elif path:
            break
        path.append(part)
    return tuple(path)


def _keys(model: type[BaseModel], path: Path) -> list[str]:
    """Return the keys that a model accepts at `path`; of a union, the keys of all models."""
    level: list[Any] = [model]
    for part in path:
        level = [inner for annotation in level for inner in _inside(annotation, part)]
    models = [annotation for annotation in level if is_model(annotation)]
    return list(
        dict.fromkeys(
            field.alias or key for found in models for key, field in found.model_fields.items()
        )
    )


def _inside(annotation: Any, part: str | int) -> list[Any]:
    """Return the annotations that apply below the key or index `part`."""
    if is_model(annotation):
        field = annotation.model_fields.get(part)
        return models_and_containers(field.annotation) if field else []
    return models_and_containers(get_args(annotation)[1 if get_origin(annotation) is dict else 0])


def models_and_containers(annotation: Any) -> list[Any]:
    """Return the models and containers among an annotation's alternatives."""
    if is_model(annotation) or get_origin(annotation) in {dict, list, tuple}:
        return [annotation]
    return [member for inner in get_args(annotation) for member in models_and_containers(inner)]


def is_model(annotation: object) -> bool:
    """Return whether `annotation` is a pydantic model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
