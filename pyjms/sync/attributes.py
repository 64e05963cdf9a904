"""Attributes of blocking objects that are those of the coroutine objects behind them.

Blocking classes have `__slots__`, so that a misspelt attribute is an AttributeError instead of one
that nobody reads. What can be set on the coroutine object can be set here, under the same name:

- `Attribute` is one such attribute, declared where a class has few of them.
- `attributes_of` makes a base class of all settings of a core class that has many, so that the
  names are written down once. Type checkers see the core's class of settings in its place.
- `forwarding` is a method of the core that is called here, under the same name.

A blocking object that is assigned (a connection factory) is replaced by its core there, and
returned as it was given here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from pyjms._forwarding import delegated
from pyjms.sync.portal import call_on_loop

if TYPE_CHECKING:
    from pyjms.sync.facade import Facade

__all__ = ["Attribute", "attributes_of", "forwarding"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")


class Attribute(Generic[V]):
    """A public attribute of the core object, read and set through the blocking object.

    Args:
        doc: its docstring.
        read_only: it cannot be set.
        on_loop: it is set on the loop, because setting it has effects there; that blocks.
    """

    def __init__(self, doc: str = "", *, read_only: bool = False, on_loop: bool = False) -> None:
        self.__doc__ = doc
        self._name = ""
        self._read_only = read_only
        self._on_loop = on_loop

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, facade: None, owner: type) -> Attribute[V]: ...
    @overload
    def __get__(self, facade: Facade[Any], owner: type) -> V: ...
    def __get__(self, facade: Facade[Any] | None, owner: type) -> Attribute[V] | V:
        if facade is None:
            return self
        return cast("V", facade.as_given(self._name, getattr(facade.core, self._name)))

    def __set__(self, facade: Facade[Any], value: V) -> None:
        if self._read_only:
            raise AttributeError(f"{self._name} of {type(facade).__name__} cannot be set")
        core, given = facade.core, facade.take(self._name, value)
        if self._on_loop:
            call_on_loop(facade.loop, _set, core, self._name, given)
        else:
            setattr(core, self._name, given)


async def _set(core: object, name: str, value: object) -> None:
    setattr(core, name, value)


def attributes_of(settings: type, names: Iterable[str] = (), *, on_loop: bool = False) -> type:
    """Return a base class with the public attributes and methods of a core class of settings.

    Args:
        settings: the class; it has no coroutine methods.
        names: attributes that only its instances have.
        on_loop: as for `Attribute`.
    """
    found = {name: getattr(settings, name, None) for name in names}
    for kind in reversed(settings.__mro__[:-1]):
        found |= vars(kind) | dict.fromkeys(kind.__annotations__)
    members: dict[str, Any] = {"__slots__": (), "__doc__": settings.__doc__}
    for name, member in found.items():
        if name.startswith("_") or name.isupper():
            continue
        if inspect.isfunction(member):
            members[name] = forwarding(member)
        elif isinstance(member, property):
            members[name] = Attribute[Any](
                member.__doc__ or "", read_only=member.fset is None, on_loop=on_loop
            )
        else:
            members[name] = Attribute[Any](on_loop=on_loop)
    return type(f"{settings.__name__}OfCore", (), members)


def forwarding(
    function: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[Facade[T], P], R]:
    """Return the method that calls a method of the core, one that is no coroutine."""
    return delegated(function, attrgetter("core"))
