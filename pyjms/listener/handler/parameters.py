"""The parameters of a handler: annotations, markers, defaults.

A marker (`Header`, `Headers`, `Payload`, `Provide[...]`) may be in the annotation or be the
default. At most one parameter without a marker is the payload: it is the only one that neither its
type nor a marker makes something else. A parameter with a plain default keeps the default; only on
a handler's first parameter, which is the payload, does a default replace an empty body.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import dependency_injector.wiring

from pyjms.annotation.params import MISSING, Header, Headers, Payload
from pyjms.errors import ConfigurationException

__all__ = [
    "HandlerParameter",
    "InjectionMarker",
    "allows_none",
    "choose_payload",
    "injection_marker",
    "read_parameters",
    "split_annotation",
]

InjectionMarker = Any
"""A `Provide[...]`, `Provider[...]` or `Closing[...]` of dependency-injector."""

_MARKER: type = vars(dependency_injector.wiring)["_Marker"]

_MARKER_TYPES = (Header, Headers, Payload)

_M = TypeVar("_M", Header, Headers, Payload)


@dataclass(frozen=True, slots=True)
class HandlerParameter:
    """One parameter; `default` is its plain default, MISSING if it has none or a marker."""

    name: str
    hint: Any
    markers: tuple[object, ...]
    default: object
    is_keyword: bool
    is_first: bool
    injection: InjectionMarker | None
    constraints: tuple[object, ...] = ()
    """The other arguments of its `Annotated`, for pydantic: `Field(gt=0)`."""

    @property
    def validated_hint(self) -> Any:
        """The type with the constraints."""
        hint = self.hint
        for constraint in self.constraints:
            hint = Annotated[hint, constraint]
        return hint

    def marker(self, kind: type[_M]) -> _M | None:
        """Return the marker of this kind, or None; the class itself also counts as a marker."""
        for mark in self.markers:
            if isinstance(mark, kind):
                return mark
            if mark is kind:
                return kind()
        return None

    @property
    def keeps_default(self) -> bool:
        """Whether it keeps its default instead of becoming the payload."""
        return self.default is not MISSING and (self.is_keyword or not self.is_first)


def read_parameters(handler: Callable[..., Any], name: str) -> list[HandlerParameter]:
    """Return the handler's parameters, without `*args` and `**kwargs`.

    Raises:
        ConfigurationException: a type is not known, a marker is used as a type, or the handler is
            a generator or takes nothing that has a name.
    """
    try:
        signature = inspect.signature(handler)
        hints = typing.get_type_hints(_function(handler), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationException(
            f"Handler {name}: its annotations cannot be read: {error}",
            hint="the types of parameters must be known at module level",
        ) from error
    _refuse_what_gets_nothing(handler, signature, name)
    found = []
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        read = _read(parameter, hints.get(parameter.name, Any), is_first=number == 0)
        if any(read.hint is mark for mark in _MARKER_TYPES):
            mark = read.hint.__name__
            raise ConfigurationException(
                f"Handler {name}: {mark} is not a type for parameter {parameter.name!r}",
                hint=f"write {parameter.name}: Annotated[str, {mark}(...)]",
            )
        found.append(read)
    return found


def _refuse_what_gets_nothing(
    handler: Callable[..., Any], signature: inspect.Signature, name: str
) -> None:
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ConfigurationException(
            f"Handler {name}: it is a generator, so calling it would not run it",
            hint="remove its `yield`; send several messages with the template, or return a list",
        )
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if kinds and kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        raise ConfigurationException(
            f"Handler {name}: it takes {signature} only, so its arguments are not known",
            hint="name its parameters; a decorator around it needs functools.wraps",
        )


def choose_payload(
    parameters: Iterable[HandlerParameter],
    is_not_payload: Callable[[HandlerParameter], bool],
    handler: str,
) -> HandlerParameter | None:
    """Return the first parameter that is the payload; None if there is none.

    `is_not_payload` returns whether a parameter's marker or type excludes that it is the payload.
    All parameters with the marker `Payload` get the payload.

    Raises:
        ConfigurationException: a second parameter without the marker could be the payload.
    """
    candidates = [p for p in parameters if not is_not_payload(p)]
    marked = [p for p in candidates if p.marker(Payload) is not None]
    unmarked = [p for p in candidates if p.marker(Payload) is None and not p.keeps_default]
    if marked:  # then the first parameter keeps its default, like any other
        unmarked = [p for p in unmarked if p.default is MISSING]
    chosen = [*marked, *unmarked]
    if len(unmarked) > 1 or (marked and unmarked):
        first, second = chosen[:2]
        kind = "" if second.hint is Any else f" of type {second.hint!r}"
        raise ConfigurationException(
            f"Handler {handler}: parameter {second.name!r}{kind} cannot be supplied: "
            f"the payload is {first.name!r}",
            hint="mark it with Annotated[..., Header()], Headers() or Provide[...]; or give it a "
            "default, which it keeps",
        )
    return chosen[0] if chosen else None


def injection_marker(parameter: inspect.Parameter, hint: Any) -> InjectionMarker | None:
    """Return the `Provide[...]` of a parameter, in its annotation or as its default, or None."""
    candidates = [*split_annotation(hint)[1], parameter.default]
    return next((c for c in candidates if isinstance(c, _MARKER)), None)


def allows_none(hint: Any) -> bool:
    """Return whether `hint` is a union that includes None."""
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


def _read(parameter: inspect.Parameter, hint: Any, *, is_first: bool) -> HandlerParameter:
    bare, extras = split_annotation(hint)
    default = MISSING if parameter.default is parameter.empty else parameter.default
    return HandlerParameter(
        parameter.name,
        bare,
        tuple(c for c in (*extras, default) if _is_marker(c)),
        MISSING if _is_marker(default) or isinstance(default, _MARKER) else default,
        parameter.kind is parameter.KEYWORD_ONLY,
        is_first,
        injection_marker(parameter, hint),
        tuple(c for c in extras if not _is_marker(c) and not isinstance(c, _MARKER)),
    )


def _is_marker(value: object) -> bool:
    # by identity: a default may be any object, even an array that compares element by element
    return isinstance(value, _MARKER_TYPES) or any(value is mark for mark in _MARKER_TYPES)


def _function(handler: Any) -> Any:
    """Return the function whose annotations count, unwrapping bound methods and wrappers."""
    function = inspect.unwrap(handler)
    return getattr(function, "__func__", function)


def split_annotation(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of an annotation and the further arguments of `Annotated`."""
    if get_origin(hint) is Annotated:
        bare, *extras = get_args(hint)
        return bare, tuple(extras)
    return hint, ()
