"""ApplicationContainer: the objects of an application, each of which can be overridden.

Wired like Spring Boot: the template sends through a CachingConnectionFactory, the listener
containers use the factory inside it and are transacted unless set otherwise; if the settings enable
a pool, both use the pool. Messages that a handler sends through the template belong to the
handler's transaction. Providers are synchronous; the application opens and closes the objects that
require it (see `pyjms.app.lifecycle`), and `Resource` providers (see `pyjms.app.resources`).
(spring-jms 8.1; decisions D11)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dependency_injector import containers, providers
from dependency_injector import wiring as injection

from pyjms.app.blocking import ApplicationLoop, make_blocking_template
from pyjms.app.brokers import ByBroker, unknown_broker
from pyjms.app.interceptors import TemplateInterceptors, named_interceptors
from pyjms.app.resources import CLOSING
from pyjms.client.factory import ConnectionFactory as ClientConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.errors import ConfigurationException, nearest_name
from pyjms.jms.api import ConnectionFactory
from pyjms.jms.destination import parse_destination
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.endpoint import DefaultJmsListenerContainerFactory, JmsListenerEndpoint
from pyjms.listener.handler import InjectionMarker
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.observability.instrumentation import Instrumentation
from pyjms.runtime.backoff import FixedBackOff
from pyjms.runtime.distribution import optional
from pyjms.settings import ActiveMQSettings, PyjmsSettings, load_settings
from pyjms.settings.listeners import (
    ListenerOverride,
    ListenerSessionOverride,
    ListenerSessionSettings,
)
from pyjms.support.class_names import imported_class
from pyjms.support.converter import DefaultMessageConverter, MessageConverter
from pyjms.support.destination import DestinationResolver, SimpleDestinationResolver
from pyjms.template.messaging import JmsClient, JmsMessagingTemplate
from pyjms.template.template import JmsTemplate

if TYPE_CHECKING:
    from pyjms.sync.facade import Facade
    from pyjms.sync.template import JmsTemplate as BlockingTemplate

# --- The functions behind the providers of the ApplicationContainer: settings to objects.

_JITTER: Final = 0.2
"""The fraction of the recovery interval that is added at random."""


_CLIENT_OPTIONS: Final = frozenset(
    {"close_timeout", "send_timeout", "non_blocking_redelivery", "stats_enabled"}
)
"""Settings of a broker that are client options with the same names."""


def make_client_factory(broker: ActiveMQSettings) -> ClientConnectionFactory:
    """Return the client's factory for one broker's settings.

    Settings that are missing have the values of the URL's options, or the client's defaults.
    """
    password = broker.password
    factory = ClientConnectionFactory(
        broker.effective_broker_url(),
        user_name=broker.effective_user(),
        password=None if password is None else password.get_secret_value(),
        **{name: getattr(broker, name) for name in _CLIENT_OPTIONS & broker.model_fields_set},
    )
    factory.redelivery_policy = broker.redelivery.apply(factory.redelivery_policy)
    for name, own in broker.redelivery_by_destination.items():
        policy = own.apply(factory.redelivery_policy)
        factory.redelivery_policy_map.put(parse_destination(name), policy)
    if isinstance(broker.prefetch, int):
        factory.prefetch_policy.set_all(broker.prefetch)
    elif broker.prefetch is not None:
        broker.prefetch.apply(factory.prefetch_policy)
    broker.blob_transfer_policy.apply(factory.blob_transfer_policy)
    return factory


def make_connection_factory(
    native: ConnectionFactory, settings: PyjmsSettings, broker: ActiveMQSettings | None = None
) -> ConnectionFactory:
    """Return the template's factory for a broker, by default the one in the settings `activemq`.

    It is a pool of native connections if `pool.enabled` is true; otherwise they are cached, unless
    `jms.cache.enabled` is false. (spring-jms 8.1.2)
    """
    pool = (broker or settings.activemq).pool
    if pool.enabled:
        from pyjms.connection.pool import JmsPoolConnectionFactory  # noqa: PLC0415 - few have pools

        return JmsPoolConnectionFactory(native, **asdict(pool.options()))
    cache = settings.jms.cache
    if not cache.enabled:
        return native
    return CachingConnectionFactory(
        native,
        session_cache_size=cache.session_cache_size,
        cache_producers=cache.producers,
        cache_consumers=cache.consumers,
    )


def make_client_factories(settings: PyjmsSettings) -> ByBroker[ClientConnectionFactory]:
    """Return the client's factories for the brokers in the settings `brokers`."""
    brokers = settings.brokers
    return ByBroker(brokers, lambda name: make_client_factory(brokers[name]))


def make_connection_factories(
    native: Mapping[str, ConnectionFactory], settings: PyjmsSettings
) -> ByBroker[ConnectionFactory]:
    """Return the templates' factories for `brokers`, made like `connection_factory`."""
    brokers = settings.brokers
    return ByBroker(
        native, lambda name: make_connection_factory(native[name], settings, brokers.get(name))
    )


def choose_listener_factory(
    native: ConnectionFactory, pooled: ConnectionFactory, settings: PyjmsSettings
) -> ConnectionFactory:
    """Return the listeners' factory: the pool if there is one, else the native factory.

    Listeners keep a separate connection rather than use the cached one. (spring-jms 8.1.5)
    """
    return pooled if settings.activemq.pool.enabled else native


def make_instrumentations(
    settings: PyjmsSettings, tracer_provider: Any, meter_provider: Any, registry: Any
) -> list[Instrumentation]:
    """Return the instrumentations that the settings `observability` enable.

    Raises:
        ConfigurationException: a package that it needs is not installed.
    """
    section = settings.observability
    found: list[Instrumentation] = []
    if section.tracing or section.metrics:
        kind = optional("pyjms.observability.tracing", "observability: tracing, metrics", "otel")
        found.append(
            kind.OpenTelemetry(
                tracer_provider, meter_provider, tracing=section.tracing, metrics=section.metrics
            )
        )
    if section.prometheus:
        kind = optional("pyjms.observability.prometheus", "observability: prometheus", "prometheus")
        found.append(kind.PrometheusMetrics(registry))
    return found


def make_message_converter(settings: PyjmsSettings) -> MessageConverter:
    """Return the converter of template and listeners, according to `jms.converter`.

    Raises:
        ConfigurationException: a mapped class cannot be imported.
    """
    section = settings.jms.converter
    mappings = {
        type_id: imported_class(name, f"jms.converter.type_id_mappings.{type_id}")
        for type_id, name in section.type_id_mappings.items()
    }
    return DefaultMessageConverter(
        type_id_mappings=mappings,
        trusted_packages=section.trusted_packages,
        dict_format=section.dict_format,
    )


def make_template(
    factory: ConnectionFactory,
    settings: PyjmsSettings,
    converter: MessageConverter,
    resolver: DestinationResolver,
    interceptors: TemplateInterceptors,
) -> JmsTemplate:
    """Return the application's template, according to `jms.template`."""
    section = settings.jms.template
    options: dict[str, Any] = {
        "delivery_mode": section.delivery_mode,
        "priority": section.priority,
        "time_to_live": section.time_to_live,
        "delivery_delay": section.delivery_delay,
        "receive_timeout": section.receive_timeout,
    }
    made = JmsTemplate(
        factory,
        default_destination_name=section.default_destination,
        pub_sub_domain=settings.jms.pub_sub_domain,
        session_transacted=bool(section.session.transacted),
        session_acknowledge_mode=section.session.acknowledge_mode,
        explicit_qos_enabled=section.explicit_qos_enabled(),
        message_converter=converter,
        destination_resolver=resolver,
        shared_reply_queue=section.shared_reply_queue,
        raise_on_timeout=section.raise_on_timeout,
        require_consumer=section.require_consumer,
        send_interceptors=named_interceptors(section.interceptors),
        **{name: value for name, value in options.items() if value is not None},
    )
    return interceptors.apply_to(made)


def make_templates(
    connection_factories: Mapping[str, ConnectionFactory],
    settings: PyjmsSettings,
    converter: MessageConverter,
    resolver: DestinationResolver,
    interceptors: TemplateInterceptors,
) -> ByBroker[JmsTemplate]:
    """Return a template for each broker of `brokers`, according to `jms.template`."""
    return ByBroker(
        connection_factories,
        lambda name: make_template(
            connection_factories[name], settings, converter, resolver, interceptors
        ),
    )


def make_container_factory(
    factory: ConnectionFactory,
    settings: PyjmsSettings,
    converter: MessageConverter,
    resolver: DestinationResolver,
) -> DefaultJmsListenerContainerFactory:
    """Return the default container factory according to `jms.listener`; transacted by default."""
    jms, section = settings.jms, settings.jms.listener
    own = {"session", "min_concurrency", "max_concurrency", "retry", "interceptors"}
    options: dict[str, Any] = {
        "session_transacted": True,
        **_container_options(section.model_dump(exclude=own), section.session),
        "pub_sub_domain": jms.pub_sub_domain,
        "message_converter": converter,
        "destination_resolver": resolver,
    }
    given: dict[str, Any] = {
        "client_id": jms.client_id,
        "concurrency": section.concurrency(),
        "interceptors": named_interceptors(section.interceptors) or None,
        "subscription_durable": jms.subscription_durable or None,
    }
    options |= {name: value for name, value in given.items() if value is not None}
    return DefaultJmsListenerContainerFactory(factory, **options)


_RENAMED: Final = {"no_local": "pub_sub_no_local"}
"""Keys of `listeners.<id>` whose property of the container has another name."""

_PROVIDED: Final = (
    "transaction_manager", "task_executor", "error_handler", "exception_listener",
    "message_converter", "destination_resolver",
)  # fmt: skip
"""Keys of `listeners.<id>` that name a provider of the application's container."""

_CHANGES: Final = {"redelivery", "retry", "cron", "fixed_rate"}
"""Keys of `listeners.<id>` that change values of the decorator."""

_ENDPOINT: Final = {field.name for field in fields(JmsListenerEndpoint)}


def provider_names(own: ListenerOverride) -> dict[str, str]:
    """Return the provider name of each container property that a provider supplies."""
    given = {name: getattr(own, name) for name in _PROVIDED}
    return {name: provider for name, provider in given.items() if provider is not None}


def endpoint_settings(own: ListenerOverride) -> dict[str, Any]:
    """Return the keys of `listeners.<id>` that are set, as fields of JmsListenerEndpoint.

    Keys that are no such field are properties of the container. Excluded are the keys that change
    the decorator's values, and those that `provider_names` returns.
    """
    apart = {*_PROVIDED, *_CHANGES, "session", "back_off", "reply_qos"}
    given = own.model_dump(exclude_unset=True, exclude=apart)
    properties = _container_options(given, own.session)
    if "destination" in properties:
        properties["destination"] = own.destination_text
    if own.back_off is not None:
        properties.pop("recovery_interval", None)
        properties["back_off"] = own.back_off.back_off()
    if own.reply_qos is not None:
        properties["reply_qos_settings"] = own.reply_qos.qos()
    mine = {name: properties.pop(name) for name in _ENDPOINT & properties.keys()}
    return {**mine, "properties": properties} if properties else mine


def _container_options(
    values: Mapping[str, Any], session: ListenerSessionSettings | ListenerSessionOverride
) -> dict[str, Any]:
    """Return the settings of a section under the names of a container's properties.

    None means not set, except for `receive_timeout`, where it means for ever.
    """
    options = {
        _RENAMED.get(name, name): value
        for name, value in values.items()
        if value is not None or name == "receive_timeout"
    }
    if "cache_level" in options:
        options["cache_level"] = options["cache_level"].upper()
    for name, value in session.model_dump(exclude_unset=True, exclude_none=True).items():
        options[f"session_{name}"] = value
    return options


def spread_attempts(container: DefaultMessageListenerContainer) -> None:
    """Add jitter to a fixed interval, because many processes may wait for the same broker."""
    rule = container.back_off
    if isinstance(rule, FixedBackOff) and rule.jitter is None and rule.max_attempts is None:
        container.back_off = FixedBackOff(rule.interval, jitter=rule.interval * _JITTER)


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
        make_instrumentations, settings, tracer_provider, meter_provider, metrics_registry
    )
    template_interceptors: providers.Singleton[TemplateInterceptors] = providers.Singleton(
        TemplateInterceptors, send_interceptors, instrumentations
    )
    message_converter: providers.Singleton[MessageConverter] = providers.Singleton(
        make_message_converter, settings
    )
    destination_resolver: providers.Singleton[SimpleDestinationResolver] = providers.Singleton(
        SimpleDestinationResolver
    )
    native_connection_factory: providers.Singleton[ClientConnectionFactory] = providers.Singleton(
        make_client_factory, settings.provided.activemq
    )
    connection_factory: providers.Singleton[ConnectionFactory] = providers.Singleton(
        make_connection_factory, native_connection_factory, settings
    )
    jms_template: providers.Singleton[JmsTemplate] = providers.Singleton(
        make_template,
        connection_factory,
        settings,
        message_converter,
        destination_resolver,
        template_interceptors,
    )
    application_loop: providers.Singleton[ApplicationLoop] = providers.Singleton(ApplicationLoop)
    blocking_jms_template: providers.Singleton[BlockingTemplate] = providers.Singleton(
        make_blocking_template, jms_template, application_loop
    )
    jms_messaging_template: providers.Singleton[JmsMessagingTemplate] = providers.Singleton(
        JmsMessagingTemplate,
        jms_template,
        default_destination=settings.provided.jms.template.default_destination,
    )
    jms_client: providers.Singleton[JmsClient] = providers.Singleton(JmsClient, jms_template)
    native_connection_factories: providers.Singleton[ByBroker[ClientConnectionFactory]] = (
        providers.Singleton(make_client_factories, settings)
    )
    connection_factories: providers.Singleton[ByBroker[ConnectionFactory]] = providers.Singleton(
        make_connection_factories, native_connection_factories, settings
    )
    jms_templates: providers.Singleton[ByBroker[JmsTemplate]] = providers.Singleton(
        make_templates,
        connection_factories,
        settings,
        message_converter,
        destination_resolver,
        template_interceptors,
    )
    listener_connection_factory: providers.Singleton[ConnectionFactory] = providers.Singleton(
        choose_listener_factory,
        native_connection_factory,
        connection_factory,
        settings,
    )
    jms_listener_container_factory: providers.Singleton[DefaultJmsListenerContainerFactory] = (
        providers.Singleton(
            make_container_factory,
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


def template_from_settings(
    config: Path | str | None, profiles: Iterable[str] | None, broker: str | None
) -> JmsTemplate:
    """Return the template that an application with these settings would have.

    Raises:
        ConfigurationException: the settings are invalid, or name no such broker.
    """
    settings = load_settings(config, profiles)
    container = ApplicationContainer(settings=settings)
    if broker is not None and broker not in settings.brokers:
        raise ConfigurationException(unknown_broker(broker, settings.brokers))
    section = settings.activemq if broker is None else settings.brokers[broker]
    if section.is_embedded:  # what is sent to a broker of this process would be lost with it
        key = "activemq" if broker is None else f"brokers.{broker}"
        variable = key.upper().replace(".", "__")
        raise ConfigurationException(
            f"The settings name no broker: {key}.broker_url is missing",
            hint=f"set it in application.yaml"
            f"{'' if settings.origin(()) else f', which is not in {Path.cwd()}'}, or in "
            f"PYJMS_{variable}__BROKER_URL",
        )
    template: JmsTemplate = (
        container.jms_template() if broker is None else container.jms_templates()[broker]
    )
    return template


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

    def injected(self, marker: InjectionMarker) -> tuple[Any, bool]:
        """Return the provider of a marker, and whether its resources are closed after the message.

        Raises:
            ConfigurationException: there is no such provider.
        """
        is_closed = isinstance(marker, CLOSING)
        return self._provider(marker), is_closed

    def _provider(self, marker: InjectionMarker) -> Any:
        if isinstance(marker, CLOSING):  # Closing[Provide["session"]]
            marker = marker.provider
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
