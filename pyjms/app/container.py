"""ApplicationContainer: an application's objects as providers, which programs replace or add to.

Providers are synchronous; the application opens and closes the objects that require it (see
`pyjms.app.lifecycle`), and `Resource` providers (see `pyjms.app.resources`). This module imports
dependency-injector, and is imported where a program has a container, or asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from dependency_injector import containers, providers
from dependency_injector import wiring as injection

from pyjms.app.brokers import ByBroker, unknown_broker
from pyjms.app.interceptors import TemplateInterceptors
from pyjms.app.objects import DEFAULTS, PARTS, ApplicationLoop
from pyjms.app.resources import CLOSING
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
    from pyjms.sync.template import JmsTemplate as BlockingTemplate


class ApplicationContainer(containers.DeclarativeContainer):
    """The default wiring (`pyjms.app.objects`); subclass it to add services or replace providers.

    Providers with plural names (factories, templates) supply mappings by the names in the setting
    `brokers`. `interceptors` and `send_interceptors` are lists, whose interceptors surround those
    given to the application as arguments. `tracer_provider` and `meter_provider` are those of
    OpenTelemetry, `metrics_registry` is that of Prometheus; None: the global one.
    """

    settings: Any = providers.Dependency(instance_of=PyjmsSettings)
    interceptors: Any
    send_interceptors: Any
    tracer_provider: Any
    meter_provider: Any
    metrics_registry: Any
    instrumentations: providers.Singleton[list[Instrumentation]]
    template_interceptors: providers.Singleton[TemplateInterceptors]
    message_converter: providers.Singleton[MessageConverter]
    destination_resolver: providers.Singleton[SimpleDestinationResolver]
    native_connection_factory: providers.Singleton[ClientConnectionFactory]
    connection_factory: providers.Singleton[ConnectionFactory]
    jms_template: providers.Singleton[JmsTemplate]
    application_loop: providers.Singleton[ApplicationLoop]
    blocking_jms_template: providers.Singleton[BlockingTemplate]
    jms_messaging_template: providers.Singleton[JmsMessagingTemplate]
    jms_client: providers.Singleton[JmsClient]
    native_connection_factories: providers.Singleton[ByBroker[ClientConnectionFactory]]
    connection_factories: providers.Singleton[ByBroker[ConnectionFactory]]
    jms_templates: providers.Singleton[ByBroker[JmsTemplate]]
    listener_connection_factory: providers.Singleton[ConnectionFactory]
    jms_listener_container_factory: providers.Singleton[DefaultJmsListenerContainerFactory]
    listener_registry: providers.Singleton[JmsListenerEndpointRegistry]
    transaction_manager: providers.Singleton[JmsTransactionManager]

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


def _add_providers() -> None:
    """Give the class the providers of the objects, each with references to those that it needs."""
    for name, value in DEFAULTS.items():
        setattr(ApplicationContainer, name, providers.Object(value))
    for name, (function, needed) in PARTS.items():
        made = providers.Singleton(function, *map(_reference, needed))
        setattr(ApplicationContainer, name, made)


def _reference(text: str) -> Any:
    name, _, attribute = text.partition(".")
    provider = ApplicationContainer.providers[name]
    return getattr(provider.provided, attribute) if attribute else provider


_add_providers()


def given_container(
    given: containers.Container | type[ApplicationContainer], settings: PyjmsSettings
) -> Any:
    """Return the given container with `settings`."""
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

    `is_partial` tells whether the settings are not valid: unknown brokers are then not reported.
    """

    def __init__(
        self, container: Any, settings: PyjmsSettings, is_partial: Callable[[], bool]
    ) -> None:
        self._container = container
        self._settings = settings
        self._is_partial = is_partial

    def supply(self, marker: InjectionMarker, *, blocking: bool) -> Callable[[], object]:
        """Return the function that supplies the object of a marker.

        Args:
            marker: a `Provide[...]`.
            blocking: for a function that cannot await, such as a `def` handler.
        """
        provider = self._provider(marker)
        if isinstance(marker, _PROVIDER_MARKER):
            return lambda: provider
        # what cannot await gets the blocking version of the same template
        return (lambda: _blocking(provider())) if blocking else provider

    def provider_and_closing(self, marker: InjectionMarker) -> tuple[Any, bool]:
        """Return the provider of a marker, and whether its resources close after the message."""
        return self._provider(marker), isinstance(marker, CLOSING)

    def _provider(self, marker: InjectionMarker) -> Any:
        if isinstance(marker, CLOSING):  # Closing[Provide["session"]]
            marker = marker.provider
        # a provider of the container class stands for the instance's provider
        wanted = named_like(self._container, marker.provider)
        if isinstance(wanted, str) and wanted.startswith(_TEMPLATE_OF):
            return self._template_of(wanted.removeprefix(_TEMPLATE_OF))
        return self.provider_of(wanted, marker.modifier)

    def provider_of(self, wanted: Any, modifier: Any = None) -> Any:
        """Return the provider of a name, or of the container's class."""
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
        if self._is_partial():
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
