"""Wiring: finds handlers and hooks, checks them, and injects their services.

A module contributes the functions that it defines, not those that it imports, and not the methods
of its classes: methods need an instance. Spring creates the beans that have listener methods; here
the application's container may have a provider of the class, which is requested when the
application starts, not by a check. Handlers that are not found in this way are reported.

All problems of an application's handlers are found before anything starts and are reported
together, in one ConfigurationException with a line for each problem.
"""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from pyjms.app import checks, objects
from pyjms.app.brokers import (
    ContainerFactories,
    close_all,
    hold_embedded_broker,
    native_factory,
    probed_factories,
    redelivery_policy_of,
    start_pools,
)
from pyjms.app.interceptors import ApplicationInterceptors, named_interceptors
from pyjms.app.lifecycle import Hook, hook_kind
from pyjms.app.schedules import Schedules, resolved_schedule
from pyjms.client.factory import ConnectionFactory as ClientConnectionFactory
from pyjms.configuration.document import Problems
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.api import Connection, ConnectionFactory, Session
from pyjms.jms.destination import Destination
from pyjms.listener import decorators
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.endpoint import JmsListenerEndpoint, MethodJmsListenerEndpoint
from pyjms.listener.handler import HandlerListener, InjectionMarker, SessionTypes, injection_marker
from pyjms.listener.outages import Outages
from pyjms.listener.properties import ErrorHandler
from pyjms.listener.registry import JmsListenerEndpointRegistrar, JmsListenerEndpointRegistry
from pyjms.listener.reply import ReplySender
from pyjms.settings import PyjmsSettings
from pyjms.support.converter import DefaultMessageConverter
from pyjms.support.destination import SimpleDestinationResolver
from pyjms.support.messaging import SimpleJmsHeaderMapper
from pyjms.template.interceptors import HandlerInterceptor, SendInterceptor
from pyjms.template.template import JmsTemplate
from pyjms.template.workers import own_worker

if TYPE_CHECKING:
    from dependency_injector import containers

    from pyjms.app.container import ApplicationContainer, Injection
    from pyjms.app.resources import ApplicationResources

Injector: TypeAlias = Callable[[InjectionMarker], Callable[[], object]]
"""Returns the function that supplies the object of a marker to one handler or hook."""


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
        """Return the instance."""
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
) -> Iterator[tuple[Callable[..., Any], decorators.JmsListenerMark]]:
    """Yield each handler with each of its listener marks."""
    for function in functions(targets):
        for mark in decorators.listener_marks(function):
            yield function, mark


def functions(targets: Iterable[object]) -> Iterator[Callable[..., Any]]:
    """Yield all functions of the targets that may be marked, with methods bound to instances."""
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
    """Yield a hint for each class of a module among the targets whose handlers have no instance.

    Without it they, static methods included, would not run, and their messages would pile up.
    """
    targets = list(targets)
    for module in targets:
        if not isinstance(module, ModuleType):
            continue
        for kind in marked_classes(module):
            is_base = inspect.isabstract(kind)
            if not is_base and not any(_is_instance(target, kind) for target in targets):
                yield (
                    f"{module.__name__}.{kind.__name__} has marked methods: they need an "
                    f"instance, as in JmsApplication({_instance_of(module, kind)}), or a provider "
                    "of the class in the container"
                )


def marked_classes(module: ModuleType) -> Iterator[type]:
    """Yield the classes with handlers or hooks of their own that a module defines.

    A protocol has no instances. A function of the module needs none, even if a class refers to it.
    """
    known = set(_defined_in(module, inspect.isfunction))
    for kind in _defined_in(module, inspect.isclass):
        if _is_marked_class(kind, known) and not getattr(kind, "_is_protocol", False):
            yield kind


def _is_instance(target: object, kind: type) -> bool:
    if isinstance(target, ProvidedInstance):
        return issubclass(target.kind, kind)
    return isinstance(target, kind)


def is_work(function: object) -> bool:
    """Return whether a function is a handler, a hook or a configurer."""
    return _is_marked(function) or decorators.configurer_order(function) is not None


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


def _is_marked_class(kind: type, known: Container[object]) -> bool:
    members = (getattr(kind, name) for name in _method_names(kind))
    return any(_is_marked(member) and member not in known for member in members)


def _is_marked(function: object) -> bool:
    return bool(decorators.listener_marks(function)) or hook_kind(function) is not None


def _instance_of(module: ModuleType, kind: type) -> str:
    names = [name for name, member in vars(module).items() if type(member) is kind]
    return names[0] if names else f"{kind.__name__}(...)"


def with_provided_instances(
    targets: Iterable[object], providers: Mapping[str, Any]
) -> list[object]:
    """Return the targets, with each class that has a provider replaced by a ProvidedInstance.

    Classes with handlers in modules among the targets are treated in the same way, unless an
    instance is also among the targets.
    """
    targets = list(targets)
    found: list[object] = []
    for target in targets:
        if isinstance(target, type):
            found.append(_provided_instance(target, providers) or target)
            continue
        found.append(target)
        if isinstance(target, ModuleType):
            kinds = (kind for kind in marked_classes(target) if not _is_among(kind, targets))
            found.extend(filter(None, (_provided_instance(kind, providers) for kind in kinds)))
    return found


def bound_to_instance(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler or hook as a method of its provided instance; others unchanged."""
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, ProvidedInstance):
        return function
    bound: Callable[..., Any] = getattr(owner.instance(), function.__name__)
    return bound


def _is_among(kind: type, targets: Iterable[object]) -> bool:
    return any(target is kind or isinstance(target, kind) for target in targets)


def _provided_instance(kind: type, providers: Mapping[str, Any]) -> ProvidedInstance | None:
    found = dict(_providers_of(kind, providers))
    if len(found) > 1:
        raise ConfigurationException(
            f"The container has several providers of {kind.__qualname__}: {', '.join(found)}",
            hint="give the application the instance whose handlers are to be called",
        )
    for name, provider in found.items():
        return ProvidedInstance(_class_of(provider) or kind, name, provider)
    return None


def _providers_of(kind: type, providers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, provider in providers.items():
        supplied = _class_of(provider)
        if supplied is not None and issubclass(supplied, kind):
            yield name, provider


def _class_of(provider: Any) -> type | None:
    from dependency_injector import providers  # noqa: PLC0415 - only called with one

    if isinstance(provider, providers.Object):
        return type(provider())
    supplied = getattr(provider, "cls", None)
    return supplied if inspect.isclass(supplied) else None


def hook_call(function: Callable[..., Any], injector: Injector) -> Callable[[], Any]:
    """Return a function without arguments that calls a hook."""
    suppliers = _suppliers_of(function, inspect.signature(function).parameters.values(), injector)

    def call() -> Any:
        return bound_to_instance(function)(**{name: supply() for name, supply in suppliers.items()})

    return call if inspect.iscoroutinefunction(function) else lambda: _in_a_thread(call)


def _suppliers_of(
    function: Callable[..., Any],
    parameters: Iterable[inspect.Parameter],
    injector: Injector,
) -> dict[str, Callable[[], object]]:
    """Return the suppliers of these parameters, which are `Provide[...]` or have defaults."""
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
    with own_worker("pyjms hook") as worker:
        result = await worker.run(call)
        if inspect.isawaitable(result):
            await result


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
    targets: Iterable[object],
    injector: Callable[[Callable[..., Any]], Injector],
    problems: Problems,
    *,
    is_partial: bool,
) -> JmsListenerEndpointRegistrar:
    """Return a registrar after all configurers among the targets were called with it."""
    registrar = JmsListenerEndpointRegistrar()
    found = [(decorators.configurer_order(function), function) for function in functions(targets)]
    for _, function in sorted(
        ((order, each) for order, each in found if order is not None), key=lambda pair: pair[0]
    ):
        with checks.HandlerProblems(function, problems, is_partial=is_partial).caught():
            _call(function, registrar, injector(function))
    return registrar


def _call(
    function: Callable[..., Any], registrar: JmsListenerEndpointRegistrar, injector: Injector
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
    services = _suppliers_of(function, parameters[1:], injector)
    bound_to_instance(function)(registrar, **{name: get() for name, get in services.items()})


class Wiring:
    """Turns an application's targets into endpoints, hooks and containers."""

    def __init__(
        self,
        targets: list[object],
        settings: PyjmsSettings,
        container: containers.Container | type[ApplicationContainer] | None,
        interceptors: Iterable[HandlerInterceptor],
        send_interceptors: Iterable[SendInterceptor],
        error_handler: ErrorHandler | None = None,
    ) -> None:
        self.targets: list[object] = targets
        """Modules, handlers and instances; `register` of the application adds to them."""
        self.objects: objects.ApplicationObjects = objects.ApplicationObjects(settings, container)
        self._settings = settings
        self.interceptors: ApplicationInterceptors = ApplicationInterceptors(
            self.objects, interceptors, send_interceptors
        )
        self._error_handler = error_handler
        self.outages: Outages = Outages(settings.lifecycle.startup_timeout)
        """The outages of the listeners' brokers."""
        self.schedules: Schedules = Schedules(
            self.outages, settings.lifecycle.startup_timeout, self._template_for
        )
        """The jobs of @jms_scheduled."""
        self._factories = ContainerFactories(self.objects, settings)
        self._held: Connection | None = None
        """Keeps the main broker of the application alive, if it is embedded."""
        self.registrar: JmsListenerEndpointRegistrar = JmsListenerEndpointRegistrar()
        """The settings and endpoints of the configurers."""
        self._is_partial = False
        """Whether only checks that do not depend on the settings are made: they are not valid."""
        self._read_headers = SimpleJmsHeaderMapper().to_headers

    @cached_property
    def _injection(self) -> Injection:
        from pyjms.app.container import Injection  # noqa: PLC0415 - for programs with providers

        return Injection(self.objects.container, self._settings, lambda: self._is_partial)

    def _injector(self, function: Callable[..., Any]) -> Injector:
        blocking = not inspect.iscoroutinefunction(function)
        return lambda marker: self._injection.supply(marker, blocking=blocking)

    @cached_property
    def _resources(self) -> ApplicationResources:
        """The `Resource` providers of the container."""
        from pyjms.app.resources import ApplicationResources  # noqa: PLC0415 - as above

        return ApplicationResources(self.objects.container)

    def check(self) -> tuple[list[JmsListenerEndpoint], list[Hook]]:
        """Return the endpoints and the hooks, if they and the settings are valid."""
        problems = Problems()
        found = self.find(problems)
        problems.raise_all()
        return found

    def find(self, problems: Problems) -> tuple[list[JmsListenerEndpoint], list[Hook]]:
        """Return the valid endpoints and hooks; add the problems of the others and the settings.

        If the settings are not valid, checks that depend on them are skipped.
        """
        self.find_settings_problems(problems)
        self._is_partial = self._settings.is_incomplete or bool(problems)
        if self._is_partial:
            problems.unchecked.append(
                "container factories, client ids and durable subscriptions of listeners, and "
                "placeholders that are unknown: they depend on the settings"
            )
        endpoints: list[JmsListenerEndpoint] = []
        hooks: list[Hook] = []
        with problems.caught():
            targets = self._provided_targets()
            endpoints = self._valid_endpoints(targets, problems)
            hooks = self._valid_hooks(targets, problems)
            for hint in missing_instances(targets):
                problems.add(ConfigurationException(hint))
        return endpoints, hooks

    def find_settings_problems(self, problems: Problems) -> None:
        """Add all problems of the settings."""
        checks.add_settings_problems(self.objects, self._settings, problems)

    def require_work(self) -> None:
        """Refuse an application that has neither listeners nor hooks."""
        targets = self._provided_targets()
        has_listeners = len(self.objects.listener_registry()) > 0
        if not has_listeners and not any(map(is_work, functions(targets))):
            raise nothing_to_run(targets)

    def endpoints(self) -> list[JmsListenerEndpoint]:
        """Return the endpoints of all marks, with `listeners.<id>` of the YAML applied."""
        problems = Problems()
        endpoints = self._valid_endpoints(self._provided_targets(), problems)
        problems.raise_all()
        return endpoints

    def _provided_targets(self) -> list[object]:
        return with_provided_instances(self.targets, self.objects.providers)

    def _valid_endpoints(
        self, targets: list[object], problems: Problems
    ) -> list[JmsListenerEndpoint]:
        endpoints: list[JmsListenerEndpoint] = []
        ids: set[str] = set()
        self.registrar = configured_registrar(
            targets, self._injector, problems, is_partial=self._is_partial
        )
        self._factories.start_again(self.registrar)
        for handler, mark in (*marked_handlers(targets), *self.registrar.handlers):
            found = checks.HandlerProblems(handler, problems, is_partial=self._is_partial)
            endpoint = None
            with suppress(ConfigurationException):  # reported with the other texts
                ids.add(self._settings.resolve_placeholders(mark.id or ""))
            with found.caught():
                endpoint = self._endpoint(handler, mark, found)
            if endpoint is not None:
                endpoints.append(endpoint)
        for endpoint, factory in self.registrar.endpoints:
            ids.add(endpoint.id)
            endpoints.append(endpoint)
            listener = getattr(endpoint, "message_listener", endpoint.configure)
            found = checks.HandlerProblems(listener, problems, is_partial=self._is_partial)
            with found.caught():
                self._complete(endpoint, found, endpoint.interceptors, factory)
        checks.add_unknown_overrides(self._settings, ids, problems)
        checks.add_repeated_ids(endpoints, problems)
        if not problems:
            planned = [checks.PlannedListener(each, self._factories.of(each)) for each in endpoints]
            for line in checks.repeated_subscriptions(planned):
                problems.add(ConfigurationException(line))
            for each in planned:
                problems.hints.extend(checks.hints_of(each))
        return endpoints

    def _valid_hooks(self, targets: list[object], problems: Problems) -> list[Hook]:
        """Return the start-up and shutdown hooks: kind, name, function without arguments."""
        hooks: list[Hook] = []
        for function in functions(targets):
            kind = hook_kind(function)
            if kind is not None:
                with checks.HandlerProblems(
                    function, problems, is_partial=self._is_partial
                ).caught():
                    call = hook_call(function, self._injector(function))
                    hooks.append((kind, function.__qualname__, call))
        return hooks

    def make_container(self, endpoint: JmsListenerEndpoint) -> AbstractMessageListenerContainer:
        """Create the endpoint's container with the factory that it names."""
        factory = self._factories.use(endpoint)
        container: AbstractMessageListenerContainer = factory.create_listener_container(endpoint)
        if container.error_handler is None:
            container.error_handler = self._error_handler
        if not isinstance(endpoint, MethodJmsListenerEndpoint):
            container.interceptors = self.interceptors.chain_of(container)
        self.interceptors.complete(container)
        if isinstance(container, DefaultMessageListenerContainer):
            container.outages = self.outages
            objects.spread_attempts(container)
        return container

    def _template_for(self, factory: ConnectionFactory) -> JmsTemplate:
        """Return a copy of the application's template for another connection factory."""
        template: JmsTemplate = copy.copy(self.objects.jms_template())
        template.connection_factory = factory
        return template

    def watch_virtual_topics(
        self, containers: Callable[[], Iterable[AbstractMessageListenerContainer]]
    ) -> None:
        """Make the application's resolver warn if virtual topics are used as queues."""
        resolver = self.objects.destination_resolver()
        if isinstance(resolver, SimpleDestinationResolver):
            resolver.queues_of_listeners = lambda: {
                container.bean_name or container.destination_description: (
                    container.destination_description
                )
                for container in containers()
                if not container.pub_sub_domain
            }

    def probed_factories(self) -> dict[str, ConnectionFactory]:
        """Return the connection factories of the brokers that health checks probe."""
        return probed_factories(self.objects, self._settings)

    def use_registry_of_registrar(self) -> None:
        """Use the registry that a configurer has set, if one has."""
        own = self.registrar.endpoint_registry
        if own is not None:
            self.objects.put("listener_registry", own)

    async def start_pools(self) -> None:
        """Allow the use of the pools, and open their first connections; failures are logged."""
        self.interceptors.add_to_templates()
        if self._held is None:
            self._held = await hold_embedded_broker(self.objects)
        await start_pools(self.objects)

    def native_factory(self, endpoint: JmsListenerEndpoint) -> ClientConnectionFactory | None:
        """Return the client's factory for the broker of an endpoint; None: another provider's."""
        return native_factory(self._factories.of(endpoint))

    async def open_resources(self) -> None:
        """Open the `Resource` providers of the container, if there is one."""
        if self.objects.has_container:
            await self._resources.open()

    async def close_resources(self, seconds: float) -> None:
        """Close the container's resources within `seconds`; failures are logged."""
        if self.objects.has_container:
            await self._resources.close(seconds)

    async def close_factories(self) -> None:
        """Close the connections kept by connection factories and container factories."""
        await close_all(self.objects, self._factories.used)
        held, self._held = self._held, None
        if held is not None:
            await held.close()

    def describe_brokers(self, containers: Iterable[AbstractMessageListenerContainer]) -> str:
        """Return the URLs of the main broker and the containers' brokers, without credentials."""
        main = self.objects.native_connection_factory()
        used = {self.outages.of(each.require_connection_factory()).broker for each in containers}
        return ", ".join([str(main), *sorted(used - {self.outages.of(main).broker})])

    def _endpoint(
        self,
        handler: Callable[..., Any],
        mark: decorators.JmsListenerMark,
        found: checks.HandlerProblems,
    ) -> JmsListenerEndpoint | None:
        """Return a handler's endpoint; None if its texts cannot be resolved."""
        resolve = self._settings.resolve_placeholders
        size = _batch_size(mark, self._settings)
        with found.caught():
            fields = mark.options.get("fields", False)
            self._handler_listener(handler, None, size, fields=fields)
        with found.caught():
            _refuse_replies(handler, size)
        with found.caught():
            reply_destination = decorators.send_to_destination(handler)
            if reply_destination is not None:
                checks.check_reply_destination(resolve(reply_destination), handler)
        texts = found.resolve_texts(mark, resolve)
        if texts is None:
            return None
        endpoint = MethodJmsListenerEndpoint(**texts, handler=handler, make_listener=self._listener)
        endpoint.take_options(mark)
        self._complete(endpoint, found, mark.options.get("interceptors"))
        return endpoint

    def _complete(
        self,
        endpoint: JmsListenerEndpoint,
        found: checks.HandlerProblems,
        interceptors: Iterable[object] | None,
        factory: Any | None = None,
    ) -> None:
        """Apply `listeners.<id>` to an endpoint, and check it with its container factory.

        `factory` is that of an endpoint that a configurer has added.
        """
        own = self._settings.listeners.get(endpoint.id)
        changes = {} if own is None else objects.endpoint_settings(own)
        interceptors = changes.pop("interceptors", interceptors)
        if isinstance(endpoint, MethodJmsListenerEndpoint):
            checks.add_text_problems(endpoint, changes, found)
        endpoint.override(**changes)
        with found.caught(f"Listener {endpoint.id!r}: "):
            resolve = self._settings.resolve_placeholders
            endpoint.schedule = resolved_schedule(endpoint.schedule, own, resolve)
        for name, provider in ({} if own is None else objects.provider_names(own)).items():
            with found.caught(f"Listener {endpoint.id!r}, {name}: "):
                endpoint.provided[name] = self._injection.provider_of(provider)
        prefix = f"Listener {endpoint.id or endpoint.destination!r}: "
        with found.caught(prefix):
            endpoint.interceptors = named_interceptors(interceptors or ())
        if self._is_partial:
            return
        if factory is not None and (own is None or own.container_factory is None):
            self._factories.put(endpoint, factory)
        planned = checks.PlannedListener(endpoint, self._factories.of(endpoint))
        with found.caught(f"{prefix}retry: "):
            endpoint.retry = planned.retry(own, self._settings)
        if own is not None and own.redelivery is not None:
            policy = redelivery_policy_of(planned.factory)
            endpoint.redelivery_policy = own.redelivery.apply(policy)
        for check in planned.checks():
            with found.caught(prefix):
                check()

    async def add_listener(
        self,
        handler: Callable[..., object],
        *destinations: str | Destination,
        **options: Unpack[decorators.ListenerOptions],
    ) -> AbstractMessageListenerContainer:
        """Add a listener for a handler as if it had a mark with these arguments, and start it."""
        problems = Problems()
        found = checks.HandlerProblems(handler, problems, is_partial=False)
        endpoint = None
        with found.caught():
            endpoint = self._endpoint(handler, decorators.mark_of(*destinations, **options), found)
        problems.raise_all()
        assert endpoint is not None
        registry: JmsListenerEndpointRegistry = self.objects.listener_registry()
        return await registry.register_and_start(endpoint, self.make_container)

    def _listener(
        self, endpoint: MethodJmsListenerEndpoint, container: AbstractMessageListenerContainer
    ) -> Callable[..., Any]:
        converter = container.message_converter or self.objects.message_converter()
        destination = decorators.send_to_destination(endpoint.handler)
        replies = ReplySender(
            converter,
            default_destination=(
                None if destination is None else self._settings.resolve_placeholders(destination)
            ),
            pub_sub_domain=container.reply_pub_sub_domain,
            qos=container.reply_qos_settings,
            send_chain=self.interceptors.chain_of_replies(),
            listener=f"Listener {endpoint.id}",
        )
        container.reply_sender = replies
        size = container.batch_size
        handler = bound_to_instance(endpoint.handler)
        listener = self._handler_listener(handler, converter, size, fields=endpoint.fields)
        chain = self.interceptors.chain_of(container)
        listener.attach(
            endpoint.id,
            replies,
            chain,
            reply_none=container.reply_none,
            timeout=container.call_timeout,
        )
        container.interceptors = ()  # the listener calls them, around the handler
        return listener

    def handler_listener(self, endpoint: MethodJmsListenerEndpoint) -> HandlerListener:
        """Return the listener that calls an endpoint's handler, for its parameters."""
        size = endpoint.batch_size
        return self._handler_listener(endpoint.handler, None, size, fields=endpoint.fields)

    def _handler_listener(
        self, handler: Callable[..., Any], converter: Any, size: int | None, *, fields: bool
    ) -> HandlerListener:
        """Return the listener that calls a handler: plain, idempotent, or for batches."""
        options: dict[str, Any] = {
            "converter": converter or self._converter(),
            "read_headers": self._read_headers,
            "injector": self._injector(handler),
            "session_types": _session_types(handler),
            "resolvers": self.registrar.argument_resolvers,
            "fields": fields,
        }
        mark = decorators.idempotent_mark(handler)
        if size is not None:
            if mark is not None:
                raise ConfigurationException(
                    f"Handler {checks.handler_name(handler)}: a batch has no key, so @idempotent "
                    "has no effect",
                    hint="remove @idempotent, and record the messages with pyjms.outbox.record",
                )
            from pyjms.listener.batches import BatchHandlerListener  # noqa: PLC0415 - few have them

            return self._with_resources(BatchHandlerListener(handler, **options))
        if mark is not None:
            from pyjms.listener.idempotency import IdempotentHandlerListener  # noqa: PLC0415 - rare

            return self._with_resources(IdempotentHandlerListener(handler, mark=mark, **options))
        return self._with_resources(HandlerListener(handler, **options))

    def _with_resources(self, listener: HandlerListener) -> HandlerListener:
        markers = [each.injection for each in listener.parameters if each.injection is not None]
        if markers:
            injected = [self._injection.provider_and_closing(marker) for marker in markers]
            in_thread = not listener.is_coroutine
            scope = self._resources.scope_of(injected, in_thread=in_thread)
            if scope is not None:
                listener.surround(scope.around)
        return listener

    def _converter(self) -> Any:
        # in a partial check, the application's converter may be what cannot be created
        return DefaultMessageConverter() if self._is_partial else self.objects.message_converter()


def _batch_size(mark: decorators.JmsListenerMark, settings: PyjmsSettings) -> int | None:
    """Return the batch size of a listener, from YAML or its mark; None: it is not set."""
    with suppress(ConfigurationException):  # reported with the mark's other texts
        own = settings.listeners.get(settings.resolve_placeholders(mark.id or ""))
        if own is not None and own.batch_size is not None:
            return own.batch_size
    return mark.options.get("batch_size")


def _refuse_replies(handler: Callable[..., Any], batch_size: int | None) -> None:
    """Refuse `@send_to` on a batch handler."""
    if batch_size is not None and decorators.send_to_destination(handler) is not None:
        raise ConfigurationException(
            f"Handler {checks.handler_name(handler)}: a batch handler has no reply, so @send_to "
            "has no effect",
            hint="remove @send_to, and send with a template",
        )


def _session_types(handler: Callable[..., Any]) -> SessionTypes:
    """Return the session types of a handler: a coroutine cannot use the blocking session."""
    if inspect.iscoroutinefunction(handler):
        return {Session: lambda session: session}
    from pyjms.sync.session import Session as BlockingSession  # noqa: PLC0415 - not for coroutines

    return {Session: lambda session: session, BlockingSession: BlockingSession.of}
