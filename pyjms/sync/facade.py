"""Blocking methods made of coroutine methods, with their signatures kept for type checkers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import sniffio

from pyjms._wakeup import LoopHandle
from pyjms.errors import IllegalStateException
from pyjms.sync.portal import call_on_loop, current_loop

__all__ = ["Facade", "blocking", "blocking_as", "core_of"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound="Facade[Any]")


class Facade(Generic[T_co]):
    """A blocking object: the coroutine object `core` and the loop it lives on.

    Any thread may call it, within the rules of the object itself (a session is used by
    one thread at a time); the loop's own thread may not.
    """

    core: T_co
    _loop: LoopHandle

    @classmethod
    def of(
        cls, core: Any, loop: LoopHandle | None = None, owner: Facade[Any] | None = None
    ) -> Self:
        """The blocking face of `core`, which `owner` made.

        It lives on `loop`; the default is told at `pyjms.sync.portal.current_loop`.
        """
        del owner
        face = cls.__new__(cls)
        face.core = core
        face._loop = loop or current_loop()
        return face

    def __repr__(self) -> str:
        return f"<blocking {self.core!r}>"


def core_of(factory: Any) -> Any:
    """The coroutine object behind a face; anything else as it is.

    Raises:
        IllegalStateException: it has no face, and this is a loop: a blocking call would wait for
            what its own loop has to do.
    """
    if isinstance(factory, Facade):
        return factory.core
    if _runs_a_loop():
        raise IllegalStateException(
            f"{type(factory).__name__} is one of pyjms.aio, and a blocking call on its loop would "
            "never end",
            hint="use the classes of pyjms.aio here",
        )
    return factory


def _runs_a_loop() -> bool:
    try:
        sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        return False
    return True


def blocking(
    function: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Facade[T], P], R]:
    """The blocking method of a coroutine method: same name, arguments and result."""

    def call(self: Facade[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        # through the object, so that a subclass's or wrapper's method is the one that runs
        method = getattr(self.core, function.__name__)
        made: R = call_on_loop(self._loop, functools.partial(method, *args, **kwargs))
        return made

    return _like(function, call)


def blocking_as(
    face: Callable[[], type[F]],
    function: Callable[Concatenate[T, P], Coroutine[Any, Any, Any]],
) -> Callable[Concatenate[Facade[T], P], F]:
    """As `blocking`, for a method whose result has a blocking face, too."""

    def call(self: Facade[T], /, *args: P.args, **kwargs: P.kwargs) -> F:
        method = getattr(self.core, function.__name__)
        made = call_on_loop(self._loop, functools.partial(method, *args, **kwargs))
        return face().of(made, self._loop, self)

    return _like(function, call)


def _like(function: Callable[..., Any], call: Callable[P, R]) -> Callable[P, R]:
    """Give `call` the name and docstring of `function`."""
    functools.update_wrapper(call, function)
    return call
