"""ApplicationContainer: the objects of an application, each of which can be overridden.

Wired like Spring Boot: the template sends through a CachingConnectionFactory, the listener
containers use the factory inside it and are transacted unless set otherwise; if the settings enable
a pool, both use the pool. Messages that a handler sends through the template belong to the
handler's transaction. Providers are synchronous; the application opens and closes the objects that
require it (see `pyjms.app.lifecycle`).
(spring-jms 8.1; decisions D11)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from dependency_injector import containers, providers
from dependency_injector import wiring as injection

from pyjms.app import factories
from pyjms.app.brokers import ByBroker, unknown_broker
from pyjms.app.interceptors import TemplateInterceptors
from pyjms.client.factory import ConnectionFactory as ClientConnectionFactory
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.errors import ConfigurationException, nearest_name
from pyjms.jms.api import ConnectionFactory
from pyjms.listener.endpoint import DefaultJmsListenerContainerFactory
from pyjms.listener.handler import InjectionMarker
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.observability.instrumentation import Instrumentation
from pyjms.settings import PyjmsSettings
from pyjms.support.converter import MessageConverter
from pyjms.support.destination import SimpleDestinationResolver
from pyjms.template.messaging import JmsClient, JmsMessagingTemplate
from pyjms.template.template import JmsTemplate

if TYPE_CHECKING:
    from pyjms.sync.facade import Facade


class ApplicationContainer(containers.DeclarativeContainer):
    """The default wiring; subclass it to add services or replace providers.

    Providers with plural names (factories, templates) supply mappings by the names in the setting
    `brokers`. `interceptors` and `send_interceptors` are lists, whose interceptors surround those
    given to the application as arguments. `tracer_provider` and `meter_provider` are those of
    OpenTelemetry, `metrics_registry` is that of Prometheus; None: the global one.
    """

    settings: Any = providers.Dependency(instance_of=PyjmsSettings)
    interceptors: Any = providers.Object(())
    send_interceptors: Any = providers.Object(())
    tracer_provider: Any = providers.Object(None)
    meter_provider: Any = providers.Object(None)
    metrics_registry: Any = providers.Object(None)
    instrumentations: providers.Singleton[list[Instrumentation]] = providers.Singleton(
        factories.instrumentations, settings, tracer_provider, meter_provider, metrics_registry
    )
    template_interceptors: providers.Singleton[TemplateInterceptors] = providers.Singleton(
        TemplateInterceptors, send_interceptors, instrumentations
    )
    message_converter: providers.Singleton[MessageConverter] = providers.Singleton(
        factories.message_converter, settings
    )
    destination_resolver: providers.Singleton[SimpleDestinationResolver] = providers.Singleton(
        SimpleDestinationResolver
    )
    native_connection_factory: providers.Singleton[ClientConnectionFactory] = providers.Singleton(
        factories.native_connection_factory, settings
    )
    connection_factory: providers.Singleton[ConnectionFactory] = providers.Singleton(
        factories.connection_factory, native_connection_factory, settings
    )
    jms_template: providers.Singleton[JmsTemplate] = providers.Singleton(
        factories.template,
        connection_factory,
        settings,
        message_converter,
        destination_resolver,
        template_interceptors,
    )
    jms_messaging_template: providers.Singleton[JmsMessagingTemplate] = providers.Singleton(
        factories.messaging_template, jms_template, settings
    )
    jms_client: providers.Singleton[JmsClient] = providers.Singleton(JmsClient, jms_template)
    native_connection_factories: providers.Singleton[ByBroker[ClientConnectionFactory]] = (
        providers.Singleton(factories.native_connection_factories, settings)
    )
    connection_factories: providers.Singleton[ByBroker[ConnectionFactory]] = providers.Singleton(
        factories.connection_factories, native_connection_factories, settings
    )
    jms_templates: providers.Singleton[ByBroker[JmsTemplate]] = providers.Singleton(
        factories.templates,
        connection_factories,
        settings,
        message_converter,
        destination_resolver,
        template_interceptors,
    )
    listener_connection_factory: providers.Singleton[ConnectionFactory] = providers.Singleton(
        factories.listener_connection_factory,
        native_connection_factory,
        connection_factory,
        settings,
    )
    jms_listener_container_factory: providers.Singleton[DefaultJmsListenerContainerFactory] = (
        providers.Singleton(
            factories.listener_container_factory,
            listener_connection_factory,
            settings,
            message_converter,
            destination_resolver,
        )
    )
    listener_registry: providers.Singleton[JmsListenerEndpointRegistry] = providers.Singleton(
        JmsListenerEndpointRegistry
    )
    transaction_manager: providers.Singleton[JmsTransactionManager] = providers.Singleton(
        JmsTransactionManager, connection_factory
    )

    def __new__(cls, **overriding: Any) -> Any:
        """Create the providers; a provider replaced in a subclass is used for all references."""
        container: Any = super().__new__(cls, **overriding)
        replaced = _replacements(cls)
        if replaced:
            # dependency-injector copies the inherited providers with references to the old ones
            stand_ins: dict[Any, Any] = {old: providers.Provider() for old in replaced}
            memo: dict[int, Any] = {id(old): new for old, new in stand_ins.items()}
            memo[id(cls.__self__)] = container.__self__
            for name, copied in providers.deepcopy(dict(cls.providers), memo).items():
                container.set_provider(name, copied)
            for old, name in replaced.items():
                stand_ins[old].override(container.providers[name])
            container.override_providers(**overriding)
        return container


def _replacements(
    kind: type[containers.DeclarativeContainer],
) -> dict[providers.Provider[Any], str]:
    """Return the providers of base classes that `kind` replaces, with their names."""
    own = kind.providers
    return {
        provider: name
        for base in kind.__mro__[1:]
        for name, provider in getattr(base, "providers", {}).items()
        if name != "__self__" and own.get(name, provider) is not provider
    }


def make_container(
    given: containers.Container | type[ApplicationContainer] | None, settings: PyjmsSettings
) -> Any:
    """Return a container with `settings`: a new one, or the given one.

    Raises:
        ConfigurationException: `given` is not an ApplicationContainer.
    """
    if given is None:
        return ApplicationContainer(settings=settings)
    if isinstance(given, type) and issubclass(given, ApplicationContainer):
        return given(settings=settings)
    if not isinstance(given, containers.Container) or not hasattr(given, "listener_registry"):
        raise ConfigurationException(
            f"{given!r} is not an ApplicationContainer",
            hint="subclass pyjms.ApplicationContainer and add your providers to it",
        )
    container: Any = given
    if not container.settings.is_defined:
        container.settings.override(providers.Object(settings))
    return container


def named_like(container: Any, wanted: Any) -> Any:
    """Return the name of `wanted` if the container's class replaced it; else `wanted` itself.

    `Provide[ApplicationContainer.message_converter]` then means the subclass's converter.
    """
    parent = getattr(container, "declarative_parent", None)
    if parent is None or not isinstance(wanted, providers.Provider):
        return wanted
    return _replacements(parent).get(wanted, wanted)


_TEMPLATE_OF = "jms_templates."
"""The prefix of a broker's name in `Provide["jms_templates.audit"]`."""

_PROVIDER_MARKER: type = vars(injection)["Provider"]


class Injection:
    """Finds the providers of one container that markers and settings name.

    `is_partial`: the settings are not valid, so that unknown brokers are not reported.
    """

    def __init__(self, container: Any, settings: PyjmsSettings) -> None:
        self._container = container
        self._settings = settings
        self.is_partial = False

    def injector(
        self, handler: Callable[..., Any]
    ) -> Callable[[InjectionMarker], Callable[[], object]]:
        """Return a function that supplies the objects of markers to `function`."""
        blocking = not inspect.iscoroutinefunction(handler)
        return lambda marker: self._supply(marker, blocking=blocking)

    def provider_of(self, name: str, modifier: Any = None) -> Any:
        """Return the provider of this name.

        Raises:
            ConfigurationException: there is no such provider.
        """
        return self._find_provider(name, modifier)

    def _supply(self, marker: InjectionMarker, *, blocking: bool) -> Callable[[], object]:
        provider = self._provider(marker)
        if isinstance(marker, _PROVIDER_MARKER):
            return lambda: provider
        # a `def` handler cannot await: it gets the blocking version of the same template
        return (lambda: _blocking(provider())) if blocking else provider

    def _provider(self, marker: InjectionMarker) -> Any:
        # a provider of the container class stands for the instance's provider
        wanted = named_like(self._container, marker.provider)
        if isinstance(wanted, str) and wanted.startswith(_TEMPLATE_OF):
            return self._template_of(wanted.removeprefix(_TEMPLATE_OF))
        return self._find_provider(wanted, marker.modifier)

    def _find_provider(self, wanted: Any, modifier: Any) -> Any:
        found = injection.ProvidersMap(self._container).resolve_provider(wanted, modifier)
        if found is None:
            known = sorted(name for name in self._container.providers if name != "__self__")
            near = nearest_name(str(wanted), known)
            raise ConfigurationException(
                f"the container has no provider {wanted!r}",
                hint=f"did you mean {near!r}?"
                if near
                else f"it has {', '.join(known)}; pass a subclass of ApplicationContainer with "
                "additional providers to JmsApplication(..., container=...)",
            )
        return found

    def _template_of(self, broker: str) -> Any:
        """Return the provider of the template of an additional broker."""
        if self.is_partial:
            return self._container.jms_template
        if broker not in self._container.jms_templates():
            raise ConfigurationException(unknown_broker(broker, self._settings.brokers))
        return self._container.jms_templates.provided[broker]


def _blocking(value: object) -> object:
    if isinstance(value, ByBroker):
        return ByBroker(value, lambda name: _blocking(value[name]))
    for kind, blocking in _blocking_kinds().items():
        if isinstance(value, kind):
            return blocking.of(value)
    return value


@cache
def _blocking_kinds() -> dict[type, type[Facade[Any]]]:
    # imported for the first `def` handler: an application of coroutines needs no blocking API
    from pyjms.sync import messaging, template  # noqa: PLC0415

    return {
        JmsTemplate: template.JmsTemplate,
        JmsMessagingTemplate: messaging.JmsMessagingTemplate,
        JmsClient: messaging.JmsClient,
    }
