"""The public names of a package whose modules are imported when a name is first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["homes_of", "names_of"]


def homes_of(table: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name; `table` has the names of each module, with blanks between."""
    return {name: home for home, names in table.items() for name in names.split()}


def names_of(
    namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of the module whose globals are `namespace`."""

    def __getattr__(name: str) -> Any:  # noqa: N807 - it is one
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(home), name)
        return value

    def __dir__() -> list[str]:  # noqa: N807 - it is one
        return sorted({*namespace, *homes})

    return __getattr__, __dir__
