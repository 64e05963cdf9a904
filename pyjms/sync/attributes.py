"""Attributes of blocking objects that forward to the coroutine objects behind them.

Blocking classes have `__slots__`, so that a misspelt attribute raises AttributeError instead of
having no effect. Attributes of the coroutine object can be set here under the same names:

- `Attribute` is a single attribute, for classes that have few; `ReadOnly` is one that cannot be
  set.
- `attributes_of` creates a base class with all settings of a core class that has many, so that the
  names are written only once. Type checkers see the core's class of settings instead.
- `forwarding` returns a method that calls the core's method of the same name.
- `variant_of` returns a method for a core method that returns a changed copy of the core; it
  returns a blocking object around that copy.

If a blocking object is assigned (a connection factory), the core gets that object's core, and
reading the attribute returns the blocking object.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from pyjms._forwarding import DelegatedAttribute, delegated
from pyjms.sync.portal import call_on_loop

if TYPE_CHECKING:
    from pyjms.sync.facade import Facade

__all__ = ["Attribute", "ReadOnly", "attributes_of", "forwarding", "variant_of"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")
F = TypeVar("F", bound="Facade[object]")


class Attribute(DelegatedAttribute[V]):
    """A public attribute of the core object, read and set through the blocking object.

    Args:
        doc: the docstring.
        read_only: the attribute cannot be set.
        on_loop: the attribute is set on the loop, because setting it has effects there; blocks.
    """

    def __init__(self, doc: str = "", *, read_only: bool = False, on_loop: bool = False) -> None:
        super().__init__(attrgetter("core"), doc, read_only=read_only)
        self._on_loop = on_loop

    def read(self, instance: Any) -> V:
        """Return the core's value, or the blocking object that was set."""
        return cast("V", instance.as_given(self.name, super().read(instance)))

    def write(self, instance: Any, value: V) -> None:
        """Set the core's value; for a blocking object, its core."""
        given = instance.take(self.name, value)
        if self._on_loop:
            call_on_loop(instance.loop, _set, instance.core, self.name, given)
        else:
            super().write(instance, given)


async def _set(core: object, name: str, value: object) -> None:
    setattr(core, name, value)


class ReadOnly(Attribute[V]):
    """An `Attribute` that cannot be set."""

    def __init__(self, doc: str = "") -> None:
        super().__init__(doc, read_only=True)


def attributes_of(settings: type, names: Iterable[str] = (), *, on_loop: bool = False) -> type:
    """Return a base class with the public attributes and methods of a core class of settings.

    Args:
        settings: the class; it has no coroutine methods.
        names: further attributes, which only instances have.
        on_loop: as for `Attribute`.
    """
    found = {name: getattr(settings, name, None) for name in names}
    for kind in reversed(settings.__mro__[:-1]):
        found |= dict.fromkeys(kind.__annotations__) | vars(kind)
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


def forwarding(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[Facade[T], P], R]:
    """Return a method that calls a method of the core that is not a coroutine function."""
    return delegated(function, attrgetter("core"))


def variant_of(function: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[F, P], F]:
    """Return a method that wraps the copy of the core that `function` returns."""
    core_method = delegated(function, attrgetter("core"))

    def call(self: F, /, *args: P.args, **kwargs: P.kwargs) -> F:
        return self.around(core_method(self, *args, **kwargs))

    functools.update_wrapper(call, function)
    return call
