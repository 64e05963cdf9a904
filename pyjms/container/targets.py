"""Discovery of handlers and hooks: in modules, on instances, or given individually.

A module contributes the functions that it defines, not those that it imports, and not the methods
of its classes: methods need an instance, which the application's container may provide
(`instances`). Handlers that are not found in this way are reported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pyjms.annotation.configurer import configurer_order
from pyjms.annotation.jms_listener import JmsListenerMark, listener_marks
from pyjms.errors import ConfigurationException
from pyjms.lifecycle import hook_kind

__all__ = [
    "ProvidedInstance",
    "functions",
    "is_work",
    "marked",
    "marked_classes",
    "missing_instances",
    "nothing_to_run",
]


class ProvidedInstance:
    """A placeholder for an instance of a class until it is requested from the container, once.

    It has the attributes of the class.
    """

    def __init__(self, kind: type, name: str, provider: Callable[[], object]) -> None:
        self.kind = kind
        self._name = name
        self._provider = provider
        self._instance: object | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kind, name)

    def instance(self) -> object:
        """Return the instance.

        Raises:
            ConfigurationException: the provider supplies another type, or is asynchronous.
        """
        if self._instance is None:
            found = self._provider()
            if inspect.isawaitable(found):
                getattr(found, "close", found.__await__)()  # a coroutine is not awaited
                raise ConfigurationException(
                    f"The provider {self._name!r} of {self.kind.__qualname__} is asynchronous: its "
                    "handlers cannot wait for it",
                    hint="provide the instance synchronously, and await in a start-up hook",
                )
            self._instance = found
        return self._instance


def marked(targets: Iterable[object]) -> Iterator[tuple[Callable[..., Any], JmsListenerMark]]:
    """Yield each handler with each of its listener marks.

    Raises:
        ConfigurationException: a target is a class.
    """
    for function in functions(targets):
        for mark in listener_marks(function):
            yield function, mark


def functions(targets: Iterable[object]) -> Iterator[Callable[..., Any]]:
    """Yield all functions of the targets that may be marked, with methods bound to instances.

    Raises:
        ConfigurationException: a target is a class.
    """
    for target in targets:
        if isinstance(target, ModuleType):
            yield from _defined_in(target, inspect.isfunction)
        elif inspect.isroutine(target):
            yield target
        elif isinstance(target, ProvidedInstance):
            for name in _method_names(target.kind):
                static = isinstance(inspect.getattr_static(target.kind, name), staticmethod)
                member = getattr(target.kind, name)
                own = isinstance(member, FunctionType) and not static
                yield MethodType(member, target) if own else member
        elif isinstance(target, type):
            raise ConfigurationException(
                f"{target.__qualname__} is a class: its handlers need an instance",
                hint=f"give the application {target.__name__}(...), or a container with a "
                "provider of the class",
            )
        else:
            for name in _method_names(type(target)):
                yield getattr(target, name)


def missing_instances(targets: Iterable[object]) -> Iterator[str]:
    """Yield a hint for each class of a module among the targets whose handlers are not found."""
    targets = list(targets)
    for module in targets:
        if not isinstance(module, ModuleType):
            continue
        for kind in marked_classes(module):
            if not any(_is_instance(target, kind) for target in targets):
                yield (
                    f"{module.__name__}.{kind.__name__} has marked methods: they need an "
                    f"instance, as in JmsApplication({_instance_of(module, kind)})"
                )


def marked_classes(module: ModuleType) -> Iterator[type]:
    """Yield the classes with handlers or hooks that a module defines."""
    for kind in _defined_in(module, inspect.isclass):
        if _is_marked_class(kind):
            yield kind


def _is_instance(target: object, kind: type) -> bool:
    if isinstance(target, ProvidedInstance):
        return issubclass(target.kind, kind)
    return isinstance(target, kind)


def is_work(function: object) -> bool:
    """Return whether a function is a handler, a hook or a configurer."""
    return _is_marked(function) or configurer_order(function) is not None


def nothing_to_run(targets: Iterable[object]) -> ConfigurationException:
    """Return the error for targets without a handler or hook, with what was searched and where."""
    targets = list(targets)
    modules = [t for t in targets if isinstance(t, ModuleType)]
    where = " and ".join(m.__name__ for m in modules) or "the application"
    hints = [*missing_instances(targets), *_imported(modules)]
    return ConfigurationException(
        f"Nothing to run in {where}: no function is marked with @jms_listener, @on_startup or "
        "@on_shutdown",
        hint="; ".join(hints)
        or "functions are found only in the module that defines them, methods only on instances",
    )


def _imported(modules: Iterable[ModuleType]) -> Iterator[str]:
    for module in modules:
        homes = {
            member.__module__
            for member in vars(module).values()
            if inspect.isfunction(member) and _is_marked(member)
        } - {module.__name__}
        for home in sorted(homes):
            yield f"{module.__name__} imports marked functions of {home}: name that module"


def _defined_in(module: ModuleType, is_kind: Callable[[object], bool]) -> Iterator[Any]:
    for member in list(vars(module).values()):
        if is_kind(member) and getattr(member, "__module__", None) == module.__name__:
            yield member


def _method_names(kind: type) -> Iterator[str]:
    for name in dir(kind):
        if inspect.isroutine(inspect.getattr_static(kind, name, None)):
            yield name


def _is_marked_class(kind: type) -> bool:
    return any(_is_marked(getattr(kind, name)) for name in _method_names(kind))


def _is_marked(function: object) -> bool:
    return bool(listener_marks(function)) or hook_kind(function) is not None


def _instance_of(module: ModuleType, kind: type) -> str:
    names = [name for name, member in vars(module).items() if type(member) is kind]
    return names[0] if names else f"{kind.__name__}(...)"
