"""The error of a misspelt keyword argument names the one that was meant, as Python 3.13's does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Final, ParamSpec, TypeVar

from pyjms.errors import nearest_name

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

_OF_CONNECTIONS: Final = {"user", "user_name", "username", "login", "password", "url", "broker_url"}

_SHORT_LIST: Final = 12
"""Up to this number, all options are named."""


def unknown_keyword(owner: str, name: str, known: Collection[str]) -> TypeError:
    """Return the error of the keyword `name`, which is none of `known`."""
    if near := nearest_name(name, known):
        hint = f"did you mean {near!r}?"
    elif name in _OF_CONNECTIONS:
        hint = (
            "URL, user and password belong to ConnectionFactory(url, user=..., password=...), or "
            "to activemq in application.yaml"
        )
    elif len(known) <= _SHORT_LIST:
        hint = f"there are {', '.join(sorted(known))}"
    else:
        return TypeError(f"{owner} has no option {name!r}")
    return TypeError(f"{owner} has no option {name!r}; {hint}")


def refuse_unknown_keywords(owner: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise `unknown_keyword` for the first of `given` that is none of `known`."""
    for name in given:
        if name not in known:
            raise unknown_keyword(owner, name, known)


def unknown_argument(
    owner: str, function: Callable[..., Any], given: Collection[str]
) -> TypeError | None:
    """Return the error of the first of `given` that is no parameter of the function, if any."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    known = [each.name for each in parameters if each.name not in {"self", "cls"}]
    unknown = [name for name in given if name not in known]
    return unknown_keyword(owner, unknown[0], known) if unknown else None


def names_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function, such that its error for an unknown keyword is `unknown_keyword`."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            is_constructor = function.__name__ == "__init__"
            owner = type(args[0]).__name__ if is_constructor else function.__name__
            if misspelt := unknown_argument(owner, function, kwargs):
                raise misspelt from None
            raise

    return call


def constructor_names_keywords(kind: _C) -> _C:
    """Return the class, whose constructor has errors as of `names_keywords`."""
    kind.__init__ = names_keywords(kind.__init__)  # type: ignore[misc]
    return kind
