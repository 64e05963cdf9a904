"""The blocking API is made from the coroutine classes: one object around another.

Theory of operation
===================

There is one implementation, the coroutines of `pyjms.aio`. A blocking object, a `Facade`, has the
coroutine object as `core`, and the loop to which the core belongs; its methods run those of the
core on that loop (`pyjms.sync.portal`) and wait. `derive(kind)` makes the base class with what the
core's class offers:

    of the core's class                        of the blocking class
    ----------------------------------------   ------------------------------------------------
    coroutine method                           method that blocks; same name and arguments
    other method                               method that calls it, in the calling thread
    property, attribute                        `Attribute`; read-only if it cannot be set
    result whose class has a blocking one      the blocking object around the result
    result `Self`                              the object itself, or one around the copy
    blocking object as argument or value       its core; read again, it is the blocking object

The method is looked up by name in the object, so that a subclass's or wrapper's is called. What is
not the same with threads is written out in the blocking class: listeners are called in threads of
their own, so that they may block, and an interrupted `receive` keeps its message.

Type checkers take the derived methods from `derived.pyi`, which `python -m tests.kit.stubs` makes
from the same classes; a test compares. Attributes without a property in the core's class are
declared where they are described, in the blocking class.

Blocking classes have `__slots__`, so that a misspelt attribute is an AttributeError.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar, copy_context
from operator import attrgetter
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast

from pyjms.errors import IllegalStateException
from pyjms.jms.api import ConnectionFactory
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.runtime.keywords import unknown_argument
from pyjms.sync.portal import call_on_loop, current_loop, trim
from pyjms.template.synchronization import is_on_a_loop

GivenFactory: TypeAlias = "Facade[object] | ConnectionFactory"
"""A blocking factory (or template) or, outside a loop, a factory of the coroutine API."""

T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")
_Started = TypeVar("_Started", bound="_Startable")

_CLASSES: dict[str, type[Facade[Any]]] = {}
"""The blocking classes by name, which is also the name of the core's class."""


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
    _is_reusable: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("pyjms.sync."):
            _CLASSES[cls.__name__] = cls

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
        if self._is_reusable and not self._loop.in_this_process:
            self._loop = current_loop()
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

    def arguments(
        self, name: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[Iterable[object], Mapping[str, object]]:
        """Return the arguments for the core's method `name`: cores for blocking objects."""
        del name
        return (
            [each.core if isinstance(each, Facade) else each for each in args],
            {key: each.core if isinstance(each, Facade) else each for key, each in kwargs.items()},
        )

    def result(self, value: object, declared: str | None) -> object:
        """Return what a method of the core returned, as a blocking object if there is a class."""
        if declared == "Self":
            return self if value is self.core else self.around(value)
        kind = _CLASSES.get(declared or "")
        return value if kind is None else kind.of(value, self.loop, self)

    def __repr__(self) -> str:
        return f"<blocking {self.core!r}>"


class ReusableFacade(Facade[T_co], Generic[T_co]):
    """A blocking object that opens connections itself: a factory, a template.

    It may be created before a fork; in the child process it uses a loop of that process.
    """

    __slots__ = ()

    _is_reusable: ClassVar[bool] = True


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
        """Record that the calling thread is in a call; return False if it already was."""
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


def derive(
    core: type,
    *,
    omit: str = "close",
    but: type = object,
    attributes: Iterable[str] = (),
    on_loop: bool = False,
) -> type:
    """Return a base class with the public methods and attributes of a class of the core.

    Args:
        core: the class.
        omit: names to leave out.
        but: a class, whose names are left out.
        attributes: further attributes, which only objects of the class have.
        on_loop: as for `Attribute`.
    """
    omitted = {*omit.split(), *dir(but)}
    found = {name: getattr(core, name, None) for name in attributes}
    for kind in reversed(core.__mro__[:-1]):
        found |= dict.fromkeys(inspect.get_annotations(kind)) | vars(kind)
    members: dict[str, Any] = {"__slots__": (), "__doc__": core.__doc__}
    for name, member in found.items():
        if name.startswith("_") or name.isupper() or name in omitted:
            continue
        if inspect.isfunction(member):
            members[name] = _method(member)
        else:
            doc, is_fixed, getter = "", getattr(member, "read_only", False), None
            if isinstance(member, property):
                doc, is_fixed, getter = member.__doc__ or "", member.fset is None, member.fget
            members[name] = Attribute[Any](doc, read_only=is_fixed, on_loop=on_loop)
            members[name].getter = getter
    return type(core.__name__, (), members)


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    name, original = function.__name__, inspect.unwrap(function)
    is_coroutine = inspect.iscoroutinefunction(original)
    declared = original.__annotations__.get("return")

    def call(self: Facade[object], /, *args: Any, **kwargs: Any) -> Any:
        positional, named = self.arguments(name, args, kwargs)
        method = functools.partial(getattr(self.core, name), *positional, **named)
        try:
            value = self.call(method) if is_coroutine else method()
        except TypeError as error:
            if misspelt := unknown_argument(name, original, kwargs):
                raise misspelt from None
            trim(error)
            raise
        except Exception as error:
            trim(error)  # here, so that this frame is also removed
            raise
        return self.result(value, declared)

    functools.update_wrapper(call, function, updated=())  # __dict__ would mark it as abstract
    return call


def trim_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` such that its errors show the caller's frames, without those of pyjms."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return call


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
        self.getter: object = None
        """The getter of the core's property, if there is one."""

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
