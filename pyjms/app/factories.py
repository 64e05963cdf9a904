"""The functions behind the providers of the ApplicationContainer: settings to objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from pyjms.app.brokers import ByBroker
from pyjms.app.interceptors import TemplateInterceptors, named_interceptors
from pyjms.client.factory import ConnectionFactory as ClientConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.pool import JmsPoolConnectionFactory
from pyjms.jms.api import ConnectionFactory
from pyjms.jms.destination import parse_destination
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.endpoint import DefaultJmsListenerContainerFactory, JmsListenerEndpoint
from pyjms.observability.instrumentation import Instrumentation
from pyjms.runtime.backoff import FixedBackOff
from pyjms.runtime.distribution import optional
from pyjms.settings import ActiveMQSettings, PyjmsSettings
from pyjms.settings.listeners import (
    ListenerOverride,
    ListenerSessionOverride,
    ListenerSessionSettings,
)
from pyjms.support.class_names import imported_class
from pyjms.support.converter import DefaultMessageConverter, MessageConverter
from pyjms.support.destination import DestinationResolver
from pyjms.template.messaging import JmsMessagingTemplate
from pyjms.template.template import JmsTemplate

_JITTER: Final = 0.2
"""The fraction of the recovery interval that is added at random."""


def native_connection_factory(settings: PyjmsSettings) -> ClientConnectionFactory:
    """Return the client's factory for the broker in the settings `activemq`.

    (spring-jms 8.1.1)
    """
    return broker_connection_factory(settings.activemq)


_CLIENT_OPTIONS: Final = frozenset(
    {"close_timeout", "send_timeout", "non_blocking_redelivery", "stats_enabled"}
)
"""Settings of a broker that are client options with the same names."""


def broker_connection_factory(broker: ActiveMQSettings) -> ClientConnectionFactory:
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


def connection_factory(
    native: ConnectionFactory, settings: PyjmsSettings, broker: ActiveMQSettings | None = None
) -> ConnectionFactory:
    """Return the template's factory for a broker, by default the one in the settings `activemq`.

    It is a pool of native connections if `pool.enabled` is true; otherwise they are cached, unless
    `jms.cache.enabled` is false. (spring-jms 8.1.2)
    """
    pool = (broker or settings.activemq).pool
    if pool.enabled:
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


def native_connection_factories(settings: PyjmsSettings) -> ByBroker[ClientConnectionFactory]:
    """Return the client's factories for the brokers in the settings `brokers`."""
    brokers = settings.brokers
    return ByBroker(brokers, lambda name: broker_connection_factory(brokers[name]))


def connection_factories(
    native: Mapping[str, ConnectionFactory], settings: PyjmsSettings
) -> ByBroker[ConnectionFactory]:
    """Return the templates' factories for `brokers`, made like `connection_factory`."""
    brokers = settings.brokers
    return ByBroker(
        native, lambda name: connection_factory(native[name], settings, brokers.get(name))
    )


def listener_connection_factory(
    native: ConnectionFactory, pooled: ConnectionFactory, settings: PyjmsSettings
) -> ConnectionFactory:
    """Return the listeners' factory: the pool if there is one, else the native factory.

    Listeners keep a separate connection rather than use the cached one. (spring-jms 8.1.5)
    """
    return pooled if settings.activemq.pool.enabled else native


def instrumentations(
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


def message_converter(settings: PyjmsSettings) -> MessageConverter:
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


def template(
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
        send_interceptors=named_interceptors(section.interceptors),
        **{name: value for name, value in options.items() if value is not None},
    )
    return interceptors.apply_to(made)


def messaging_template(template: JmsTemplate, settings: PyjmsSettings) -> JmsMessagingTemplate:
    """Return the template for generic messages, with the default destination of the settings."""
    return JmsMessagingTemplate(
        template, default_destination=settings.jms.template.default_destination
    )


def templates(
    connection_factories: Mapping[str, ConnectionFactory],
    settings: PyjmsSettings,
    converter: MessageConverter,
    resolver: DestinationResolver,
    interceptors: TemplateInterceptors,
) -> ByBroker[JmsTemplate]:
    """Return a template for each broker of `brokers`, according to `jms.template`."""
    return ByBroker(
        connection_factories,
        lambda name: template(
            connection_factories[name], settings, converter, resolver, interceptors
        ),
    )


def listener_container_factory(
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
