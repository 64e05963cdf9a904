"""The objects of an application: settings to factories, templates and registry.

Wired like Spring Boot: the template sends through a CachingConnectionFactory, the listener
containers use the factory inside it and are transacted unless set otherwise; if the settings enable
a pool, both use the pool. Messages that a handler sends through the template belong to the
handler's transaction. `PARTS` is that wiring. The ApplicationContainer has a provider of each
object; an application whose program has no providers makes them without dependency-injector, which
would take 2.5 MB of an idle listener, and 12 to 17 MB where FastAPI is installed.
(spring-jms 8.1; decisions D11)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyjms.app.brokers import ByBroker, unknown_broker
from pyjms.app.interceptors import TemplateInterceptors, named_interceptors
from pyjms.client.factory import ConnectionFactory as ClientConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.jms.api import ConnectionFactory
from pyjms.jms.destination import parse_destination
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.endpoint import DefaultJmsListenerContainerFactory, JmsListenerEndpoint
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.observability.instrumentation import Instrumentation
from pyjms.runtime.backoff import FixedBackOff
from pyjms.runtime.distribution import optional
from pyjms.runtime.event_loop import LoopHandle
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
    from dependency_injector import containers

    from pyjms.app.container import ApplicationContainer
    from pyjms.sync.template import JmsTemplate as BlockingTemplate

# --- The functions that make the objects.

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
    """Return the instrumentations that the settings `observability` enable."""
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
    """Return the converter of template and listeners, according to `jms.converter`."""
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


class ApplicationLoop(LoopHandle):
    """The loop of an application, known while it runs; templates are made before that."""

    def __init__(self) -> None:
        """Know no loop until `bind`."""
        self._running: LoopHandle | None = None

    def bind(self) -> None:
        """Use the loop of the caller, because the application starts on it."""
        self._running = LoopHandle()
        self.token = self._running.token

    def release(self) -> None:
        """Forget the loop, because the application has stopped."""
        self._running = None

    @property
    def in_this_process(self) -> bool:
        """Whether it is not the loop of a fork's parent, where another loop would take its place.

        One that is not known yet is never replaced.
        """
        return self._running is None or self._running.in_this_process

    def is_current(self) -> bool:
        """Return whether the caller runs on this loop."""
        return self._require().is_current()

    def adopt(self, context: Context) -> Context:
        """Make a `context` of another thread usable for tasks on this loop, and return it."""
        return self._require().adopt(context)

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function(*args)` on the loop. Thread-safe."""
        self._require().call_soon(function, *args)

    def _require(self) -> LoopHandle:
        if self._running is None:
            raise IllegalStateException(
                "The application of this template is not running",
                hint="call a blocking template between the application's start and its stop",
            )
        return self._running


def make_blocking_template(template: JmsTemplate, loop: ApplicationLoop) -> BlockingTemplate:
    """Return the blocking template around the application's template."""
    # imported if an application has one: one of coroutines needs no blocking API
    from pyjms.sync.template import JmsTemplate as BlockingTemplate  # noqa: PLC0415

    return BlockingTemplate.of(template, loop)


def make_messaging_template(template: JmsTemplate, settings: PyjmsSettings) -> JmsMessagingTemplate:
    """Return the messaging template around the application's template."""
    default = settings.jms.template.default_destination
    return JmsMessagingTemplate(template, default_destination=default)


DEFAULTS: Final[Mapping[str, Any]] = {
    "interceptors": (),
    "send_interceptors": (),
    "tracer_provider": None,
    "meter_provider": None,
    "metrics_registry": None,
}
"""Objects that an ApplicationContainer may supply."""

_SHARED: Final = ("message_converter", "destination_resolver")

PARTS: Final[Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "instrumentations": (
        make_instrumentations,
        ("settings", "tracer_provider", "meter_provider", "metrics_registry"),
    ),
    "template_interceptors": (TemplateInterceptors, ("send_interceptors", "instrumentations")),
    "message_converter": (make_message_converter, ("settings",)),
    "destination_resolver": (SimpleDestinationResolver, ()),
    "native_connection_factory": (make_client_factory, ("settings.activemq",)),
    "connection_factory": (make_connection_factory, ("native_connection_factory", "settings")),
    "jms_template": (
        make_template,
        ("connection_factory", "settings", *_SHARED, "template_interceptors"),
    ),
    "application_loop": (ApplicationLoop, ()),
    "blocking_jms_template": (make_blocking_template, ("jms_template", "application_loop")),
    "jms_messaging_template": (make_messaging_template, ("jms_template", "settings")),
    "jms_client": (JmsClient, ("jms_template",)),
    "native_connection_factories": (make_client_factories, ("settings",)),
    "connection_factories": (
        make_connection_factories,
        ("native_connection_factories", "settings"),
    ),
    "jms_templates": (
        make_templates,
        ("connection_factories", "settings", *_SHARED, "template_interceptors"),
    ),
    "listener_connection_factory": (
        choose_listener_factory,
        ("native_connection_factory", "connection_factory", "settings"),
    ),
    "jms_listener_container_factory": (
        make_container_factory,
        ("listener_connection_factory", "settings", *_SHARED),
    ),
    "listener_registry": (JmsListenerEndpointRegistry, ()),
    "transaction_manager": (JmsTransactionManager, ("connection_factory",)),
}
"""Each object: what makes it, and the objects that this gets, in an order of creation."""


class ApplicationObjects:
    """The objects of one application, each of which is created when it is first requested.

    `objects.jms_template()` returns one, as the provider of that name in a container does. Those of
    a container are its providers'; one that is not given is created when it is requested.

    Raises:
        ConfigurationException: `given` is not an ApplicationContainer.
    """

    def __init__(
        self,
        settings: PyjmsSettings,
        given: containers.Container | type[ApplicationContainer] | None = None,
    ) -> None:
        self._made: dict[str, Any] = {"settings": settings}
        self._container: Any = None
        if given is not None:
            from pyjms.app.container import given_container  # noqa: PLC0415 - few have one

            self._container = given_container(given, settings)

    def __getattr__(self, name: str) -> Callable[[], Any]:
        found = None if name.startswith("_") else self.find(name)
        if found is None:
            raise AttributeError(name)
        return found

    def find(self, name: str) -> Callable[[], Any] | None:
        """Return the function that returns this object, or None: there is none of this name."""
        if self._container is not None:
            found: Callable[[], Any] | None = getattr(self._container, name, None)
            return found
        is_known = name in PARTS or name in self._made or name in DEFAULTS
        return partial(self._make, name) if is_known else None

    def put(self, name: str, value: object) -> None:
        """Replace an object."""
        if self._container is None:
            self._made[name] = value
        else:
            self._container.providers[name].override(value)

    @property
    def has_container(self) -> bool:
        """Whether a container was given or requested, which may have further providers."""
        return self._container is not None

    @property
    def container(self) -> Any:
        """The container; a new one supplies the objects that exist already."""
        if self._container is None:
            from pyjms.app.container import ApplicationContainer  # noqa: PLC0415 - as above

            container: Any = ApplicationContainer(settings=self._made.pop("settings"))
            for name, value in self._made.items():
                container.providers[name].override(value)
            self._container = container
        return self._container

    @property
    def providers(self) -> Mapping[str, Any]:
        """The providers of the container by name; none without a container."""
        return {} if self._container is None else self._container.providers

    def _make(self, name: str) -> Any:
        if self._container is not None:  # it was requested after this function
            return getattr(self._container, name)()
        if name in PARTS and name not in self._made:
            function, needed = PARTS[name]
            self._made[name] = function(*map(self._resolve, needed))
        return self._made[name] if name in self._made else DEFAULTS[name]

    def _resolve(self, text: str) -> Any:
        """Return the object, or the attribute of an object, that `PARTS` names."""
        name, _, attribute = text.partition(".")
        found = self._make(name)
        return getattr(found, attribute) if attribute else found


def template_from_settings(
    config: Path | str | None, profiles: Iterable[str] | None, broker: str | None
) -> JmsTemplate:
    """Return the template that an application with these settings would have."""
    settings = load_settings(config, profiles)
    objects = ApplicationObjects(settings)
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
        objects.jms_template() if broker is None else objects.jms_templates()[broker]
    )
    return template
