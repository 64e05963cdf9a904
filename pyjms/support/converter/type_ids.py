"""Type ids in messages, and which of them may be resolved to Python types.

A message cannot cause an import that the application has not allowed: an id is resolved by a
mapping, by the type that the receiver requests, or by a trusted package.
(spring-jms 5.2.3; decisions D16)
"""

from __future__ import annotations

import importlib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Union

__all__ = ["TYPE_ID_PROPERTY", "TypeIds", "bare_type", "is_open"]

TYPE_ID_PROPERTY: Final = "_type"
"""The property in which the default converter names the type of a JSON message."""

# Always allowed: their JSON contains nothing but data. The id is the bare name.
_PLAIN_TYPES: Final[dict[str, type]] = {
    kind.__name__: kind for kind in (bool, int, float, str, list, tuple, set, dict)
}


class TypeIds:
    """Maps types to ids, and ids to types.

    `mappings` maps ids to types; `trusted_packages` are names of modules from which any class may
    be loaded by its full name.
    """

    def __init__(
        self, mappings: Mapping[str, type] | None = None, trusted_packages: Iterable[str] = ()
    ) -> None:
        self._types = dict(mappings or {})
        self._ids = {kind: name for name, kind in self._types.items()}
        self._trusted = tuple(trusted_packages)

    def id_of(self, kind: type) -> str:
        """Return the mapped id of `kind`, else its full name."""
        mapped = self._ids.get(kind)
        if mapped is not None:
            return mapped
        if _PLAIN_TYPES.get(kind.__name__) is kind:
            return kind.__name__
        return f"{kind.__module__}.{kind.__qualname__}"

    def find(self, type_id: str, target: Any = None) -> Any:
        """Return the type of `type_id` if it is allowed and compatible with `target`; else None.

        An open target admits any allowed type; a class admits its subclasses, a union its members
        and their subclasses.
        """
        if is_open(target):
            return self._types.get(type_id) or _PLAIN_TYPES.get(type_id) or self._load(type_id)
        members = dict(_members(target))
        found = self._types.get(type_id)
        if found is None:
            family = (kind for member in members for kind in _family(member))
            found = next((kind for kind in family if self.id_of(kind) == type_id), None)
        if found is None:
            found = self._load(type_id)
        if found in members:
            return members[found]
        return found if any(member in getattr(found, "__mro__", ()) for member in members) else None

    def _load(self, type_id: str) -> type | None:
        parts = type_id.split(".")
        for end in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[:end])
            if not any(
                name == package or name.startswith(f"{package}.") for package in self._trusted
            ):
                return None
            try:
                found: object = importlib.import_module(name)
            except ModuleNotFoundError:
                continue  # the last part may be a class that contains the next
            for part in parts[end:]:
                found = getattr(found, part, None)
            return found if isinstance(found, type) else None
        return None


def is_open(target: Any) -> bool:
    """Return whether `target` leaves the choice of the type to the message."""
    return target is None or target is object or target is Any


def bare_type(target: Any) -> Any:
    """Return the class of a typing form: without Annotated and type arguments."""
    while typing.get_origin(target) is Annotated:
        target = typing.get_args(target)[0]
    return typing.get_origin(target) or target


def _members(target: Any) -> Iterator[tuple[type, Any]]:
    """Yield the classes of `target`, itself or the members of a union, with their typing forms."""
    bare = bare_type(target)
    if bare is Union or bare is types.UnionType:
        for member in typing.get_args(target):
            yield from _members(member)
    elif isinstance(bare, type):
        yield bare, target


def _family(root: type) -> Iterator[type]:
    yield root
    children: list[type] = type.__subclasses__(root)
    for child in children:
        yield from _family(child)
