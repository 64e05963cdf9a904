"""Discovery of handlers and hooks: in modules, on instances, or given individually; and calls of
hooks and configurers with their injected services.

A module contributes the functions that it defines, not those that it imports, and not the methods
of its classes: methods need an instance. Spring creates the beans that have listener methods; here
the application's container may have a provider of the class, which is requested when the
application starts, not by a check. Handlers that are not found in this way are reported.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

from dependency_injector import providers

from pyjms.app.checks import HandlerProblems
from pyjms.app.container import Injection
from pyjms.app.lifecycle import hook_kind
from pyjms.configuration.document import Problems
from pyjms.errors import ConfigurationException, JMSException
from pyjms.listener.annotation import JmsListenerMark, configurer_order, listener_marks
from pyjms.listener.handler import InjectionMarker, injection_marker
from pyjms.listener.registry import JmsListenerEndpointRegistrar
from pyjms.template.workers import Worker, current_worker


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


def marked_handlers(
    targets: Iterable[object],
) -> Iterator[tuple[Callable[..., Any], JmsListenerMark]]:
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
    hints = [*missing_instances(targets), *_hints_of_imports(modules)]
    return ConfigurationException(
        f"Nothing to run in {where}: no function is marked with @jms_listener, @on_startup or "
        "@on_shutdown",
        hint="; ".join(hints)
        or "functions are found only in the module that defines them, methods only on instances",
    )


def _hints_of_imports(modules: Iterable[ModuleType]) -> Iterator[str]:
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


def with_provided_instances(targets: Iterable[object], container: Any) -> list[object]:
    """Return the targets, with each class that has a provider replaced by a ProvidedInstance.

    Classes with handlers in modules among the targets are treated in the same way, unless an
    instance is also among the targets.

    Raises:
        ConfigurationException: several providers supply one of the classes.
    """
    targets = list(targets)
    found: list[object] = []
    for target in targets:
        if isinstance(target, type):
            found.append(_provided_instance(target, container) or target)
            continue
        found.append(target)
        if isinstance(target, ModuleType):
            kinds = (kind for kind in marked_classes(target) if not _is_among(kind, targets))
            found.extend(filter(None, (_provided_instance(kind, container) for kind in kinds)))
    return found


def bound_to_instance(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler or hook as a method of its provided instance; others unchanged.

    Raises:
        ConfigurationException: the provider supplies another type, or is asynchronous.
    """
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, ProvidedInstance):
        return function
    bound: Callable[..., Any] = getattr(owner.instance(), function.__name__)
    return bound


def _is_among(kind: type, targets: Iterable[object]) -> bool:
    return any(target is kind or isinstance(target, kind) for target in targets)


def _provided_instance(kind: type, container: Any) -> ProvidedInstance | None:
    found = dict(_providers_of(kind, container))
    if len(found) > 1:
        raise ConfigurationException(
            f"The container has several providers of {kind.__qualname__}: {', '.join(found)}",
            hint="give the application the instance whose handlers are to be called",
        )
    for name, provider in found.items():
        return ProvidedInstance(_class_of(provider) or kind, name, provider)
    return None


def _providers_of(kind: type, container: Any) -> Iterator[tuple[str, Any]]:
    for name, provider in container.providers.items():
        supplied = _class_of(provider)
        if supplied is not None and issubclass(supplied, kind):
            yield name, provider


def _class_of(provider: Any) -> type | None:
    if isinstance(provider, providers.Object):
        return type(provider())
    supplied = getattr(provider, "cls", None)
    return supplied if inspect.isclass(supplied) else None


def hook_call(
    function: Callable[..., Any], injector: Callable[[InjectionMarker], Callable[[], object]]
) -> Callable[[], Any]:
    """Return a function without arguments that calls a hook.

    Raises:
        ConfigurationException: parameters cannot be supplied; a line for each.
    """
    suppliers = _suppliers_of(function, inspect.signature(function).parameters.values(), injector)

    def call() -> Any:
        return bound_to_instance(function)(**{name: supply() for name, supply in suppliers.items()})

    return call if inspect.iscoroutinefunction(function) else lambda: _in_a_thread(call)


def _suppliers_of(
    function: Callable[..., Any],
    parameters: Iterable[inspect.Parameter],
    injector: Callable[[InjectionMarker], Callable[[], object]],
) -> dict[str, Callable[[], object]]:
    """Return the suppliers of these parameters, which are `Provide[...]` or have defaults.

    Raises:
        ConfigurationException: parameters cannot be supplied; a line for each.
    """
    suppliers: dict[str, Callable[[], object]] = {}
    problems = Problems()
    for parameter in parameters:
        marker = _marker(function, parameter)
        if marker is not None:
            try:
                suppliers[parameter.name] = injector(marker)
            except JMSException as error:
                problems.add(_not_injected(function, parameter, error))
        elif parameter.default is parameter.empty:
            problems.add(_not_supplied(function, parameter))
    problems.raise_all()
    return suppliers


async def _in_a_thread(call: Callable[[], Any]) -> None:
    """Call a `def` hook in a thread, where it may block, like a `def` handler."""
    worker = Worker("pyjms hook")
    token = current_worker.set(worker)
    try:
        result = await worker.run(call)
        if inspect.isawaitable(result):
            await result
    finally:
        current_worker.reset(token)
        worker.close()


def _marker(function: Callable[..., Any], parameter: inspect.Parameter) -> InjectionMarker | None:
    hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    return injection_marker(parameter, hints.get(parameter.name))


def _not_injected(
    hook: Callable[..., Any], parameter: inspect.Parameter, error: JMSException
) -> ConfigurationException:
    named = f"Hook {hook.__qualname__}: parameter {parameter.name!r}"
    return ConfigurationException(f"{named} cannot be injected: {error.reason}", hint=error.hint)


def _not_supplied(hook: Callable[..., Any], parameter: inspect.Parameter) -> ConfigurationException:
    return ConfigurationException(
        f"Hook {hook.__qualname__}: parameter {parameter.name!r} cannot be supplied",
        hint="parameters of hooks must be Provide[...] or have a default",
    )


def configured_registrar(
    targets: Iterable[object], injection: Injection, problems: Problems
) -> JmsListenerEndpointRegistrar:
    """Return a registrar after all configurers among the targets were called with it."""
    registrar = JmsListenerEndpointRegistrar()
    found = [(configurer_order(function), function) for function in functions(targets)]
    for _, function in sorted(
        ((order, each) for order, each in found if order is not None), key=lambda pair: pair[0]
    ):
        with HandlerProblems(function, problems, is_partial=injection.is_partial).caught():
            _call(function, registrar, injection)
    return registrar


def _call(
    function: Callable[..., Any], registrar: JmsListenerEndpointRegistrar, injection: Injection
) -> None:
    if inspect.iscoroutinefunction(function):
        raise ConfigurationException(
            f"Configurer {function.__qualname__} is a coroutine function",
            hint="write def: a configurer is called before anything runs",
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise ConfigurationException(
            f"Configurer {function.__qualname__} takes no registrar",
            hint="write def name(registrar: JmsListenerEndpointRegistrar) -> None",
        )
    services = _suppliers_of(function, parameters[1:], injection.injector(function))
    bound_to_instance(function)(registrar, **{name: get() for name, get in services.items()})
