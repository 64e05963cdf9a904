"""Names that stand for something defined elsewhere.

`names_of` is for packages whose public names are imported from their modules when they are first
used (PEP 562). `DelegatedAttribute` and `delegated` are attributes and methods of another object,
the target. The names are written down once, and type checkers see those of the target's class:

    class Filter(Broker):
        add_session = delegated(Broker.add_session, attrgetter("next"))
        size = DelegatedAttribute[int](attrgetter("next"), "Bytes.", read_only=True)

A delegated call costs about 0.1 microseconds more than a plain method, so calls that happen once
for each message are plain methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

__all__ = ["DelegatedAttribute", "delegated", "delegated_as", "homes_of", "names_of"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")


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


class DelegatedAttribute(Generic[V]):
    """An attribute that is the one of the same name of the target.

    Args:
        target: returns the target of an object; it may raise.
        doc: the docstring.
        read_only: it cannot be set.
    """

    def __init__(
        self, target: Callable[[Any], Any], doc: str = "That of the target.", *, read_only: bool
    ) -> None:
        self.__doc__ = doc
        self._target = target
        self.name: str = ""
        self._read_only = read_only

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> DelegatedAttribute[V]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> V: ...
    def __get__(self, instance: object | None, owner: type) -> DelegatedAttribute[V] | V:
        if instance is None:
            return self
        return self.read(instance)

    def __set__(self, instance: object, value: V) -> None:
        if self._read_only:
            raise AttributeError(f"{self.name} of {type(instance).__name__} cannot be set")
        self.write(instance, value)

    def read(self, instance: Any) -> V:
        """Return the target's value."""
        return cast("V", getattr(self._target(instance), self.name))

    def write(self, instance: Any, value: V) -> None:
        """Set the target's value."""
        setattr(self._target(instance), self.name, value)


def delegated(
    function: Callable[Concatenate[T, P], R], target: Callable[[Any], Any]
) -> Callable[Concatenate[Any, P], R]:
    """Return the method that calls the target's method of the name of `function`.

    The target's own method is called, which may be an override. What a coroutine method returns
    is returned, so it is awaited as the original is.
    """
    name = function.__name__

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = getattr(target(self), name)(*args, **kwargs)
        return result

    functools.update_wrapper(call, function, updated=())  # the dict says what is abstract
    return call


def delegated_as(
    function: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
    target: Callable[[Any], Any],
    change: Callable[[Any, R], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the coroutine method that returns `change(self, result)` of the target's result."""
    delegate = delegated(function, target)

    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return change(self, await delegate(self, *args, **kwargs))

    functools.update_wrapper(call, function, updated=())
    return call
