"""Wiring of marked_handlers functions: finds handlers and hooks, checks them, injects services.

All problems of an application's handlers are found before anything starts and are reported
together, in one ConfigurationException with a line for each problem.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Unpack

from dependency_injector import containers, providers

from pyjms.app.brokers import (
    ContainerFactories,
    close_all,
    hold_embedded_broker,
    probed_factories,
    redelivery_policy_of,
    start_pools,
)
from pyjms.app.checks import (
    HandlerProblems,
    add_repeated_ids,
    add_settings_problems,
    add_text_problems,
    add_unknown_overrides,
    check_reply_destination,
    handler_name,
)
from pyjms.app.container import ApplicationContainer, Injection, make_container
from pyjms.app.factories import endpoint_settings, provider_names, spread_attempts
from pyjms.app.interceptors import ApplicationInterceptors, named_interceptors
from pyjms.app.lifecycle import Hook, hook_kind
from pyjms.app.planned_listener import PlannedListener, repeated_subscriptions
from pyjms.app.schedules import Schedules, resolved_schedule
from pyjms.app.targets import (
    bound_to_instance,
    configured_registrar,
    functions,
    hook_call,
    is_work,
    marked_handlers,
    missing_instances,
    nothing_to_run,
    with_provided_instances,
)
from pyjms.configuration.document import Problems
from pyjms.errors import ConfigurationException
from pyjms.jms.api import Connection, ConnectionFactory, Session
from pyjms.jms.destination import Destination
from pyjms.listener.annotation import (
    JmsListenerMark,
    ListenerOptions,
    idempotent_mark,
    send_to_destination,
)
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.endpoint import JmsListenerEndpoint, MethodJmsListenerEndpoint
from pyjms.listener.handler import HandlerListener, SessionTypes
from pyjms.listener.outages import Outages
from pyjms.listener.properties import ErrorHandler
from pyjms.listener.registry import (
    JmsListenerEndpointRegistrar,
    JmsListenerEndpointRegistry,
    mark_of,
)
from pyjms.listener.reply import ReplySender
from pyjms.runtime.logging import get_logger
from pyjms.settings import PyjmsSettings
from pyjms.support.converter import DefaultMessageConverter
from pyjms.support.destination import SimpleDestinationResolver
from pyjms.support.messaging import SimpleJmsHeaderMapper
from pyjms.template.interceptors import HandlerInterceptor, SendInterceptor
from pyjms.template.template import JmsTemplate

logger: Final = get_logger(__name__)


class Wiring:
    """Turns an application's targets into endpoints, hooks and containers."""

    def __init__(
        self,
        targets: Iterable[object],
        container: containers.Container | type[ApplicationContainer] | None,
        settings: PyjmsSettings,
        interceptors: Iterable[HandlerInterceptor],
        send_interceptors: Iterable[SendInterceptor],
        error_handler: ErrorHandler | None = None,
    ) -> None:
        self.targets: list[object] = list(targets)
        """Modules, handlers and instances; `register` of the application adds to them."""
        self.container: Any = make_container(container, settings)
        self._settings = settings
        self.interceptors: ApplicationInterceptors = ApplicationInterceptors(
            self.container, interceptors, send_interceptors
        )
        self._error_handler = error_handler
        self.outages: Outages = Outages(settings.lifecycle.startup_timeout)
        """The outages of the listeners' brokers."""
        self.schedules: Schedules = Schedules(
            self.outages, settings.lifecycle.startup_timeout, self._template_for
        )
        """The jobs of @jms_scheduled."""
        self._factories = ContainerFactories(self.container, settings)
        self._held: Connection | None = None
        """Keeps the main broker of the application alive, if it is embedded."""
        self._injection = Injection(self.container, settings)
        self.registrar: JmsListenerEndpointRegistrar = JmsListenerEndpointRegistrar()
        """The settings and endpoints of the configurers."""
        self._is_partial = False
        """Whether only checks that do not depend on the settings are made: they are not valid."""
        self._read_headers = SimpleJmsHeaderMapper().to_headers

    def check(self) -> tuple[list[JmsListenerEndpoint], list[Hook]]:
        """Return the endpoints and the hooks, if they and the settings are valid.

        Raises:
            ConfigurationException: there are problems; a line for each.
        """
        problems = Problems()
        found = self.find(problems)
        problems.raise_all()
        for hint in missing_instances(self._provided_targets()):
            logger.warning("%s", hint)
        return found

    def find(self, problems: Problems) -> tuple[list[JmsListenerEndpoint], list[Hook]]:
        """Return the valid endpoints and hooks; add the problems of the others and the settings.

        If the settings are not valid, checks that depend on them are skipped.
        """
        self.find_settings_problems(problems)
        self._is_partial = self._settings.is_incomplete or bool(problems)
        self._injection.is_partial = self._is_partial
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
        return endpoints, hooks

    def find_settings_problems(self, problems: Problems) -> None:
        """Add all problems of the settings."""
        add_settings_problems(self.container, self._settings, problems)

    def require_work(self) -> None:
        """Refuse an application that has neither listeners nor hooks.

        Raises:
            ConfigurationException: it has none; the text says what was searched for.
        """
        targets = self._provided_targets()
        has_listeners = len(self.container.listener_registry()) > 0
        if not has_listeners and not any(map(is_work, functions(targets))):
            raise nothing_to_run(targets)

    def endpoints(self) -> list[JmsListenerEndpoint]:
        """Return the endpoints of all marks, with `listeners.<id>` of the YAML applied.

        Raises:
            ConfigurationException: handlers cannot work; a line for each.
        """
        problems = Problems()
        endpoints = self._valid_endpoints(self._provided_targets(), problems)
        problems.raise_all()
        return endpoints

    def _provided_targets(self) -> list[object]:
        return with_provided_instances(self.targets, self.container)

    def _valid_endpoints(
        self, targets: list[object], problems: Problems
    ) -> list[JmsListenerEndpoint]:
        endpoints: list[JmsListenerEndpoint] = []
        ids: set[str] = set()
        self.registrar = configured_registrar(targets, self._injection, problems)
        self._factories.start_again(self.registrar)
        for handler, mark in (*marked_handlers(targets), *self.registrar.handlers):
            found = HandlerProblems(handler, problems, is_partial=self._is_partial)
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
            found = HandlerProblems(listener, problems, is_partial=self._is_partial)
            with found.caught():
                self._complete(endpoint, found, endpoint.interceptors, factory)
        add_unknown_overrides(self._settings, ids, problems)
        add_repeated_ids(endpoints, problems)
        if not problems:
            planned = [PlannedListener(each, self._factories.of(each)) for each in endpoints]
            for line in repeated_subscriptions(planned):
                problems.add(ConfigurationException(line))
        return endpoints

    def _valid_hooks(self, targets: list[object], problems: Problems) -> list[Hook]:
        """Return the start-up and shutdown hooks: kind, name, function without arguments."""
        hooks: list[Hook] = []
        for function in functions(targets):
            kind = hook_kind(function)
            if kind is not None:
                with HandlerProblems(function, problems, is_partial=self._is_partial).caught():
                    call = hook_call(function, self._injection.injector(function))
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
            spread_attempts(container)
        return container

    def _template_for(self, factory: ConnectionFactory) -> JmsTemplate:
        """Return a copy of the application's template for another connection factory."""
        template: JmsTemplate = copy.copy(self.container.jms_template())
        template.connection_factory = factory
        return template

    def watch_virtual_topics(
        self, containers: Callable[[], Iterable[AbstractMessageListenerContainer]]
    ) -> None:
        """Make the application's resolver warn if virtual topics are used as queues."""
        resolver = self.container.destination_resolver()
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
        return probed_factories(self.container, self._settings)

    def use_registry_of_registrar(self) -> None:
        """Use the registry that a configurer has set, if one has."""
        own = self.registrar.endpoint_registry
        if own is not None:
            self.container.listener_registry.override(providers.Object(own))

    async def start_pools(self) -> None:
        """Allow the use of the pools, and open their first connections; failures are logged."""
        self.interceptors.add_to_templates(self.container)
        if self._held is None:
            self._held = await hold_embedded_broker(self.container)
        await start_pools(self.container)

    async def close_factories(self) -> None:
        """Close the connections kept by connection factories and container factories."""
        await close_all(self.container, self._factories.used)
        held, self._held = self._held, None
        if held is not None:
            await held.close()

    def describe_brokers(self, containers: Iterable[AbstractMessageListenerContainer]) -> str:
        """Return the URLs of the main broker and the containers' brokers, without credentials."""
        main = self.container.native_connection_factory()
        used = {self.outages.of(each.require_connection_factory()).broker for each in containers}
        return ", ".join([str(main), *sorted(used - {self.outages.of(main).broker})])

    def _endpoint(
        self, handler: Callable[..., Any], mark: JmsListenerMark, found: HandlerProblems
    ) -> JmsListenerEndpoint | None:
        """Return a handler's endpoint; None if its texts cannot be resolved."""
        resolve = self._settings.resolve_placeholders
        size = _batch_size(mark, self._settings)
        with found.caught():
            self._handler_listener(handler, None, size)
        with found.caught():
            _refuse_replies(handler, size)
        with found.caught():
            reply_destination = send_to_destination(handler)
            if reply_destination is not None:
                check_reply_destination(resolve(reply_destination), handler)
        texts = found.resolve_texts(mark, resolve)
        if texts is None:
            return None
        endpoint = MethodJmsListenerEndpoint(
            **texts,
            durable=mark.durable,
            prefetch=mark.prefetch,
            batch_size=mark.batch_size,
            batch_timeout=mark.batch_timeout,
            retry=mark.retry,
            unreadable_messages=mark.unreadable_messages,
            auto_startup=mark.auto_startup,
            schedule=mark.schedule,
            handler=handler,
            make_listener=self._listener,
        )
        self._complete(endpoint, found, mark.interceptors)
        return endpoint

    def _complete(
        self,
        endpoint: JmsListenerEndpoint,
        found: HandlerProblems,
        interceptors: Sequence[object] | None,
        factory: Any | None = None,
    ) -> None:
        """Apply `listeners.<id>` to an endpoint, and check it with its container factory.

        `factory` is that of an endpoint that a configurer has added.
        """
        own = self._settings.listeners.get(endpoint.id)
        changes = {} if own is None else endpoint_settings(own)
        interceptors = changes.pop("interceptors", interceptors)
        if isinstance(endpoint, MethodJmsListenerEndpoint):
            add_text_problems(endpoint, changes, found)
        endpoint.override(**changes)
        with found.caught(f"Listener {endpoint.id!r}: "):
            resolve = self._settings.resolve_placeholders
            endpoint.schedule = resolved_schedule(endpoint.schedule, own, resolve)
        for name, provider in ({} if own is None else provider_names(own)).items():
            with found.caught(f"Listener {endpoint.id!r}, {name}: "):
                endpoint.provided[name] = self._injection.provider_of(provider)
        prefix = f"Listener {endpoint.id or endpoint.destination!r}: "
        with found.caught(prefix):
            endpoint.interceptors = named_interceptors(interceptors or ())
        if self._is_partial:
            return
        if factory is not None and (own is None or own.container_factory is None):
            self._factories.put(endpoint, factory)
        planned = PlannedListener(endpoint, self._factories.of(endpoint))
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
        **options: Unpack[ListenerOptions],
    ) -> AbstractMessageListenerContainer:
        """Add a listener for a handler as if it had a mark with these arguments, and start it.

        Raises:
            ConfigurationException: the handler cannot work.
            IllegalStateException: the id is in use.
        """
        problems = Problems()
        found = HandlerProblems(handler, problems, is_partial=False)
        endpoint = None
        with found.caught():
            endpoint = self._endpoint(handler, mark_of(*destinations, **options), found)
        problems.raise_all()
        assert endpoint is not None
        registry: JmsListenerEndpointRegistry = self.container.listener_registry()
        return await registry.register_and_start(endpoint, self.make_container)

    def _listener(
        self, endpoint: MethodJmsListenerEndpoint, container: AbstractMessageListenerContainer
    ) -> Callable[..., Any]:
        converter = container.message_converter or self.container.message_converter()
        destination = send_to_destination(endpoint.handler)
        replies = ReplySender(
            converter,
            default_destination=(
                None if destination is None else self._settings.resolve_placeholders(destination)
            ),
            pub_sub_domain=container.reply_pub_sub_domain,
            qos=container.reply_qos_settings,
            send_chain=self.interceptors.chain_of_replies(self.container),
        )
        size = container.batch_size
        listener = self._handler_listener(bound_to_instance(endpoint.handler), converter, size)
        listener.attach(endpoint.id, replies, self.interceptors.chain_of(container))
        container.interceptors = ()  # the listener calls them, around the handler
        return listener

    def handler_listener(self, endpoint: MethodJmsListenerEndpoint) -> HandlerListener:
        """Return the listener that calls an endpoint's handler, for its parameters."""
        return self._handler_listener(endpoint.handler, None, endpoint.batch_size)

    def _handler_listener(
        self, handler: Callable[..., Any], converter: Any, size: int | None
    ) -> HandlerListener:
        """Return the listener that calls a handler: plain, idempotent, or for batches."""
        options: dict[str, Any] = {
            "converter": converter or self._converter(),
            "read_headers": self._read_headers,
            "injector": self._injection.injector(handler),
            "session_types": _session_types(handler),
            "resolvers": self.registrar.argument_resolvers,
        }
        mark = idempotent_mark(handler)
        if size is not None:
            if mark is not None:
                raise ConfigurationException(
                    f"Handler {handler_name(handler)}: a batch has no key, so @idempotent has "
                    "no effect",
                    hint="remove @idempotent, and record the messages with pyjms.outbox.record",
                )
            from pyjms.listener.batches import BatchHandlerListener  # noqa: PLC0415 - few have them

            return BatchHandlerListener(handler, **options)
        if mark is not None:
            from pyjms.listener.idempotency import IdempotentHandlerListener  # noqa: PLC0415 - rare

            return IdempotentHandlerListener(handler, mark=mark, **options)
        return HandlerListener(handler, **options)

    def _converter(self) -> Any:
        # in a partial check, the application's converter may be what cannot be created
        return DefaultMessageConverter() if self._is_partial else self.container.message_converter()


def _batch_size(mark: JmsListenerMark, settings: PyjmsSettings) -> int | None:
    """Return the batch size of a listener, from YAML or its mark; None: it is not set."""
    with suppress(ConfigurationException):  # reported with the mark's other texts
        own = settings.listeners.get(settings.resolve_placeholders(mark.id or ""))
        if own is not None and own.batch_size is not None:
            return own.batch_size
    return mark.batch_size


def _refuse_replies(handler: Callable[..., Any], batch_size: int | None) -> None:
    """Refuse `@send_to` on a batch handler.

    Raises:
        ConfigurationException: the handler has a `@send_to`.
    """
    if batch_size is not None and send_to_destination(handler) is not None:
        raise ConfigurationException(
            f"Handler {handler_name(handler)}: a batch handler has no reply, so @send_to "
            "has no effect",
            hint="remove @send_to, and send with a template",
        )


def _session_types(handler: Callable[..., Any]) -> SessionTypes:
    """Return the session types of a handler: a coroutine cannot use the blocking session."""
    if inspect.iscoroutinefunction(handler):
        return {Session: lambda session: session}
    from pyjms.sync.session import Session as BlockingSession  # noqa: PLC0415 - not for coroutines

    return {Session: lambda session: session, BlockingSession: BlockingSession.of}
