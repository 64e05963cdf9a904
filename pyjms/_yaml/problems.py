"""Validation: a pydantic model from a document, and all its problems as one readable error.

Each problem is a line: the value's origin, the path of the key, the reason. Values of keys that
hold passwords are never shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from pyjms._yaml.document import Document, Path, dotted
from pyjms.errors import ConfigurationException

__all__ = ["Translate", "validate"]

M = TypeVar("M", bound=BaseModel)

Translate = Callable[[Path], "str | None"]
"""Returns a sentence about an unknown key: its name here, or why there is none; else None."""

_SECRET_WORDS = ("password", "secret", "token", "credential")


def validate(model: type[M], document: Document, translate: Translate = lambda _path: None) -> M:
    """Return the model with the document's values.

    `translate` knows keys of other products.

    Raises:
        ConfigurationException: a line for each problem; `source` and `line` are those of the first.
    """
    try:
        return model.model_validate(document.values)
    except ValidationError as error:
        lines = _Lines(model, document, translate)
        for details in error.errors(include_url=False, include_context=False):
            lines.add(details)
        raise lines.error() from None


class _Lines:
    def __init__(self, model: type[BaseModel], document: Document, translate: Translate) -> None:
        self._model = model
        self._document = document
        self._translate = translate
        self._problems: list[ConfigurationException] = []

    def add(self, details: Mapping[str, Any]) -> None:
        path = _written(details["loc"], self._document.values)
        if details["type"] == "extra_forbidden":
            for leaf in self._foreign_leaves(path, details["input"]):
                self._add(leaf, self._unknown(leaf))
        elif details["type"] == "missing":
            self._add(path, "the key is missing")
        else:
            self._add(path, self._wrong(path, details))

    def error(self) -> ConfigurationException:
        first = self._problems[0]
        reason = "\n".join(dict.fromkeys(problem.reason for problem in self._problems))
        return ConfigurationException(reason, source=first.source, line=first.line)

    def _add(self, path: Path, reason: str) -> None:
        self._problems.append(self._document.problem(path, reason))

    def _foreign_leaves(self, path: Path, value: object) -> list[Path]:
        """Return the path itself, or the paths below it if `translate` knows one of them."""
        if not isinstance(value, dict) or not value:
            return [path]
        below = [
            leaf for key, item in value.items() for leaf in self._foreign_leaves((*path, key), item)
        ]
        return below if any(self._translate(leaf) for leaf in below) else [path]

    def _unknown(self, path: Path) -> str:
        if sentence := self._translate(path):
            return sentence
        parent, known = path[:-1], _keys(self._model, path[:-1])
        near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
        if near:
            return f"there is no such setting; did you mean {dotted((*parent, near[0]))}?"
        where = f"{dotted(parent)} has" if parent else "the keys are"
        return f"there is no such setting; {where} {', '.join(known)}"

    def _wrong(self, path: Path, details: Mapping[str, Any]) -> str:
        reason = str(details["msg"]).removeprefix("Value error, ")
        value = details["input"]
        secret = any(word in str(part).lower() for part in path for word in _SECRET_WORDS)
        if secret or details["type"] == "value_error" or isinstance(value, dict | list):
            return reason
        return f"{reason}; the value is {value!r}"


def _written(location: Path, values: object) -> Path:
    """Return pydantic's location without the parts that it inserts, such as a union's tag."""
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
    """Return the keys that a model accepts at `path`, those of all models of a union."""
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
