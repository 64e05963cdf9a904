"""Blocking methods derived from coroutine methods, with their signatures for type checkers.

Attributes of blocking objects that forward to the coroutine objects behind them.

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
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar, copy_context
from operator import attrgetter
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
)

from pyjms.errors import IllegalStateException
from pyjms.jms.api import ConnectionFactory
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.forwarding import DelegatedAttribute, delegated
from pyjms.sync.portal import call_on_loop, current_loop, trim
from pyjms.template.synchronization import is_on_a_loop

GivenFactory: TypeAlias = "Facade[object] | ConnectionFactory"
"""A blocking factory (or template) or, outside a loop, a factory of the coroutine API."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound="Facade[object]")
_Started = TypeVar("_Started", bound="_Startable")


class Facade(Generic[T_co]):
    """A blocking object: the coroutine object `core`, and the loop to which it belongs.

    Any thread except the loop's may call it, within the rules of the object itself (only one thread
    at a time may use a session).
    """

    __slots__ = ("__weakref__", "_given", "_guard", "_loop", "core")

    core: T_co
    _guard: SessionGuard
    _loop: LoopHandle
    _given: dict[str, Facade[object]]

    @classmethod
    def of(
        cls, core: object, loop: LoopHandle | None = None, owner: Facade[object] | None = None
    ) -> Self:
        """Return the blocking object for `core`, which was created by the core of `owner`.

        It uses `loop`; None: the result of `pyjms.sync.portal.current_loop`.
        """
        facade = cls.__new__(cls)
        facade.attach(core, loop or current_loop(), owner)
        return facade

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core and the loop; subclasses add more state."""
        del owner
        self.core = cast("T_co", core)
        self.loop = loop

    def around(self, core: object) -> Self:
        """Return an object of the same class for another core, on the same loop."""
        return type(self).of(core, self.loop)

    @property
    def loop(self) -> LoopHandle:
        """The loop to which the core belongs."""
        return self._loop

    @loop.setter
    def loop(self, loop: LoopHandle) -> None:
        self._loop = loop

    def call(
        self,
        function: Callable[..., Coroutine[Any, Any, R]],
        *args: object,
        keep: Callable[[R], object] | None = None,
    ) -> R:
        """Run `function(*args)` on the loop, like `call_on_loop`. Blocks."""
        return call_on_loop(self.loop, function, *args, keep=keep)

    def take(self, name: str, value: object) -> object:
        """Return the value to set on the core as `name`: for a blocking object, its core."""
        if not isinstance(value, Facade):
            return value
        if not hasattr(self, "_given"):
            self._given = {}
        self._given[name] = value
        return value.core

    def as_given(self, name: str, value: object) -> object:
        """Return the blocking object that was set as attribute `name`, if `value` is its core."""
        facade = getattr(self, "_given", {}).get(name)
        return facade if facade is not None and facade.core is value else value

    def __repr__(self) -> str:
        return f"<blocking {self.core!r}>"


class _Startable(Protocol):
    def start(self) -> None: ...


class StartedByWith:
    """A blocking object that `with` starts and ends."""

    __slots__ = ()

    END: ClassVar[str]
    """The name of the method that ends it."""

    def __enter__(self: _Started) -> _Started:  # noqa: PYI019 - Self has no start()
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        getattr(self, self.END)()


class SessionGuard:
    """Detects concurrent calls of a session by two threads.

    JMS: a session and the objects that it created are for one thread at a time, except `close`.
    """

    __slots__ = ("_holder", "_name")

    def __init__(self, session: object) -> None:
        """Create the guard of `session`, whose `repr` is used in error messages."""
        self._holder: dict[str, threading.Thread] = {}
        self._name = repr(session)

    def enter(self) -> bool:
        """Record that the calling thread is in a call; return False if it already was.

        Raises:
            IllegalStateException: another thread is in a call.
        """
        thread = threading.current_thread()
        holder = self._holder.get("thread")
        if holder is thread:
            return False
        holder = self._holder.setdefault("thread", thread)  # atomic: one of two threads wins
        if holder is thread:
            return True
        raise IllegalStateException(
            f"{self._name} is used by two threads at once: {holder.name!r} is in a call, and "
            f"{thread.name!r} has started another one",
            hint="create one session for each thread; threads may share the connection",
        )

    def leave(self) -> None:
        """Record that the thread's call has ended."""
        del self._holder["thread"]


sessions_in_use: ContextVar[tuple[SessionGuard, ...]] = ContextVar(
    "pyjms_sessions_in_use", default=()
)
"""The sessions in whose calls or listeners the current code runs.

A thread that such a call has started and for which it waits (a synchronization of `commit`, a
completion listener) may use the session, and so may the thread of its message listener.
"""


class SessionPart(Facade[T_co], Generic[T_co]):
    """A session, or an object that it created: for one thread at a time, except `close`."""

    __slots__ = ()

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core; the object shares the guard of the session that created it."""
        super().attach(core, loop, owner)
        self._guard = owner.guard if isinstance(owner, SessionPart) else SessionGuard(core)

    @property
    def guard(self) -> SessionGuard:
        """The guard of the session, which records the thread that is in a call."""
        return self._guard

    def call(
        self,
        function: Callable[..., Coroutine[Any, Any, R]],
        *args: object,
        keep: Callable[[R], object] | None = None,
    ) -> R:
        """Run `function(*args)` on the loop. Blocks.

        Raises:
            IllegalStateException: another thread is in a call of the session.
        """
        guard, in_use = self._guard, sessions_in_use.get()
        if guard in in_use or not guard.enter():
            return call_on_loop(self.loop, function, *args, keep=keep)
        try:
            context = copy_context()
            context.run(sessions_in_use.set, (*in_use, guard))
            return call_on_loop(self.loop, function, *args, keep=keep, context=context)
        finally:
            guard.leave()


class ReusableFacade(Facade[T_co], Generic[T_co]):
    """A blocking object that opens connections itself: a factory, a template.

    It may be created before a fork; in the child process it uses a loop of that process.
    """

    __slots__ = ()

    @property
    def loop(self) -> LoopHandle:
        """The loop on which calls run."""
        if not self._loop.in_this_process:
            self._loop = current_loop()
        return self._loop

    @loop.setter
    def loop(self, loop: LoopHandle) -> None:
        self._loop = loop


def core_of(factory: object) -> Any:
    """Return the coroutine object behind a blocking factory; other objects unchanged.

    Strings and classes are rejected later, where the result is used.

    Raises:
        IllegalStateException: it is a coroutine object, and the caller runs on a loop: a blocking
            call would wait for its own loop.
    """
    if isinstance(factory, Facade):
        return factory.core
    if not isinstance(factory, str | type) and is_on_a_loop():
        raise IllegalStateException(
            f"{type(factory).__name__} is a class of pyjms.aio; a blocking call on its loop would "
            "never return",
            hint="use the classes of pyjms.aio here",
        )
    return factory


def loop_of(factory: object) -> LoopHandle:
    """Return the loop of a blocking object; for other objects the current loop."""
    return factory.loop if isinstance(factory, Facade) else current_loop()


def blocking(
    function: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Facade[T], P], R]:
    """Return the blocking method for a coroutine method: same name, arguments and result."""

    def call(self: Facade[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        # by name, so that the method of a subclass or wrapper is called
        method = getattr(self.core, function.__name__)
        try:
            result: R = self.call(functools.partial(method, *args, **kwargs))
        except Exception as error:
            trim(error)  # here, so that this frame is also removed
            raise
        return result

    return like(function, call)


def blocking_as(
    facade: Callable[[], type[F]], function: Callable[Concatenate[T, P], Coroutine[Any, Any, Any]]
) -> Callable[Concatenate[Facade[T], P], F]:
    """Return a blocking method like `blocking`, with the result wrapped in a blocking object."""

    def call(self: Facade[T], /, *args: P.args, **kwargs: P.kwargs) -> F:
        method = getattr(self.core, function.__name__)
        try:
            core = self.call(functools.partial(method, *args, **kwargs))
        except Exception as error:
            trim(error)
            raise
        return facade().of(core, self.loop, self)

    return like(function, call)


def implemented_by(method: Callable[P, R]) -> Callable[[Callable[..., object]], Callable[P, R]]:
    """Return a decorator that replaces a function of the same name by `method`.

    For type checkers, an assignment in a class body is an attribute, which subclasses cannot
    override, whereas a definition is a method.
    """
    return lambda _named: method


def like(function: Callable[..., Any], call: Callable[P, R]) -> Callable[P, R]:
    """Give `call` the name and docstring of `function`."""
    functools.update_wrapper(call, function)
    return call


V = TypeVar("V")


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
