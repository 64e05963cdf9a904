"""Checks of settings and endpoints before anything connects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from pyjms.app.endpoints import HandlerProblems, check_retry, default_retry, handler_name
from pyjms.app.factories import broker_connection_factory
from pyjms.app.interceptors import named_interceptors
from pyjms.configuration.document import Problems
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, JMSException, nearest_name
from pyjms.jms.destination import Destination, Queue, Topic, named_kind, parse_destination
from pyjms.listener.endpoint import (
    JmsListenerEndpoint,
    SimpleJmsListenerContainerFactory,
    client_id_of,
)
from pyjms.listener.properties import (
    batches_can_be_acknowledged,
    check_batches,
    invalid_concurrency,
    parse_concurrency,
)
from pyjms.selector import selector_or_none
from pyjms.settings import PyjmsSettings
from pyjms.support.class_names import imported_class
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

__all__ = [
    "add_container_problems",
    "add_repeated_ids",
    "add_settings_problems",
    "add_text_problems",
    "add_unknown_overrides",
    "check_kinds",
    "check_reply_destination",
    "repeated_subscriptions",
]

# --- Checks of an endpoint against its container factory: combinations that can never start.

_TOPIC_OPTIONS = ("pub_sub_domain", "subscription_durable", "subscription_shared")


def check_kinds(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse a listener with both queues and topics.

    Raises:
        ConfigurationException: its destinations are of both kinds.
    """
    if not endpoint.destination.strip():  # reported separately
        return
    kind = Topic if _is_topic(endpoint, _options_of(factory) or {}) else Queue
    members = parse_destination(endpoint.destination, kind).composite_destinations
    if len({member.is_topic for member in members}) > 1:
        raise ConfigurationException(
            f"{endpoint.destination!r}: one consumer cannot receive from queues and topics",
            hint="write one @jms_listener for the queues and one for the topics",
        )


def check_properties(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse properties that the factory's containers do not have.

    Raises:
        ConfigurationException: for the first such property.
    """
    if _options_of(factory) is None:  # a factory class that the application defines
        return
    known = factory.KIND.OPTIONS
    for name in (*endpoint.properties, *endpoint.provided):
        if name not in known:
            near = nearest_name(name, known)
            raise ConfigurationException(
                f"{name}: a {factory.KIND.__name__} has no such property",
                hint=f"did you mean {near}?" if near else "name another container_factory",
            )
    _check_batches(endpoint, factory)
    if endpoint.prefetch == 0 and isinstance(factory, SimpleJmsListenerContainerFactory):
        raise ConfigurationException(
            "prefetch 0: a SimpleMessageListenerContainer cannot pull messages",
            hint="set 1 or more",
        )


def batch_size_of(endpoint: JmsListenerEndpoint, factory: Any) -> int | None:
    """Return the batch size of an endpoint, its own or the factory's; None: it is not set."""
    own: int | None = (_options_of(factory) or {}).get("batch_size")
    return own if endpoint.batch_size is None else endpoint.batch_size


def _check_batches(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse batches that the factory's containers cannot form or acknowledge."""
    options = _options_of(factory) or {}
    size = batch_size_of(endpoint, factory)
    timeout, prefetch = endpoint.batch_timeout, endpoint.prefetch
    check_batches(
        size,
        options.get("batch_timeout") if timeout is None else timeout,
        options.get("prefetch") if prefetch is None else prefetch,
    )
    if size is None:
        return
    if isinstance(factory, SimpleJmsListenerContainerFactory):
        raise ConfigurationException(
            "batch_size: a SimpleMessageListenerContainer calls its listener with each message",
            hint="use a DefaultJmsListenerContainerFactory",
        )
    given = {**options, **endpoint.properties}
    if not batches_can_be_acknowledged(
        transacted=bool(given.get("session_transacted") or given.get("transaction_manager")),
        mode=given.get("session_acknowledge_mode", AcknowledgeMode.AUTO),
    ):
        raise ConfigurationException(
            "batch_size: its messages would count as consumed before the handler gets them",
            hint="make the listener's session transacted (listeners.<id>.session.transacted, "
            "jms.listener.session.transacted), or set its acknowledge_mode to client",
        )


def check_subscription(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse a named subscription that is not durable, and a durable one that cannot start.

    Raises:
        ConfigurationException: the first problem.
    """
    options = _options_of(factory)
    if options is None:
        return
    is_topic, durable = _is_topic(endpoint, options), _is_durable(endpoint, options)
    if endpoint.durable and not is_topic:
        raise ConfigurationException(
            "durable: a queue has no subscriptions", hint="write topic://NAME, or only the name"
        )
    if endpoint.subscription and not is_topic:
        raise ConfigurationException(
            f"subscription {endpoint.subscription!r}: a queue has no subscriptions",
            hint="write topic://NAME, or use a container factory whose names mean topics "
            "(jms.pub_sub_domain)",
        )
    if endpoint.subscription and not durable:
        raise ConfigurationException(
            f"subscription {endpoint.subscription!r}: its container factory creates "
            "no durable subscriptions",
            hint="set durable on this listener, or jms.subscription_durable; and jms.client_id",
        )
    if not is_topic or not durable:
        return
    if endpoint.concurrency is not None and parse_concurrency(endpoint.concurrency)[1] > 1:
        raise ConfigurationException(
            f"concurrency {endpoint.concurrency}: a durable subscription has one consumer",
            hint="set 1, or share the queue Consumer.NAME.VirtualTopic.X instead",
        )
    if endpoint.durable or endpoint.container_factory:  # the default is checked in the settings
        check_client_id(factory, endpoint)


def check_client_id(factory: Any, endpoint: JmsListenerEndpoint | None = None) -> None:
    """Refuse durable subscriptions without a client id.

    Raises:
        ConfigurationException: no client id is set.
    """
    options = _options_of(factory) or {}
    durable = options.get("subscription_durable")
    if endpoint is not None:
        durable = _is_durable(endpoint, options)
    if not durable or _client_id(endpoint, factory, options):
        return
    if getattr(factory.connection_factory, "options", None) is not None:
        raise ConfigurationException(
            "A durable subscription needs a client id, and none is set",
            hint="set jms.client_id, or client_id on the container factory",
        )


def repeated_subscriptions(found: Iterable[tuple[JmsListenerEndpoint, Any]]) -> Iterator[str]:
    """Yield a line for each durable subscription that two listeners have in common."""
    seen: dict[tuple[object, ...], JmsListenerEndpoint] = {}
    for endpoint, factory in found:
        options = _options_of(factory)
        if options is None or not _is_durable(endpoint, options):
            continue
        if not _is_topic(endpoint, options):
            continue
        name = endpoint.subscription or endpoint.default_subscription_name()
        key = (_broker_of(factory), _client_id(endpoint, factory, options), name)
        first = seen.setdefault(key, endpoint)
        if first is not endpoint:
            yield (
                f"Listener {endpoint.id or endpoint.destination!r}: its durable subscription "
                f"{name!r} is also that of listener {first.id or first.destination!r} "
                "(give each its own subscription)"
            )


def _broker_of(factory: Any) -> object:
    uri = getattr(factory.connection_factory, "uri", None)
    return id(factory) if uri is None else str(uri)


def _client_id(
    endpoint: JmsListenerEndpoint | None, factory: Any, options: dict[str, Any]
) -> str | None:
    own: Any = None if endpoint is None else endpoint.properties.get("client_id")
    return own or options.get("client_id") or client_id_of(factory.connection_factory)


def _is_durable(endpoint: JmsListenerEndpoint, options: dict[str, Any]) -> bool:
    if endpoint.durable is not None:
        return endpoint.durable
    return bool(options.get("subscription_durable") or options.get("durable_subscription_name"))


def _is_topic(endpoint: JmsListenerEndpoint, options: dict[str, Any]) -> bool:
    kind: type[Destination] | None = named_kind(endpoint.destination)
    if kind is None:
        own = endpoint.properties.get("pub_sub_domain")
        topics = endpoint.durable or (
            any(options.get(name) for name in _TOPIC_OPTIONS) if own is None else own
        )
        kind = Topic if topics else Queue
    return issubclass(kind, Topic)


def _options_of(factory: Any) -> dict[str, Any] | None:
    options = getattr(factory, "options", None)
    return options if isinstance(options, dict) else None


_MAPPINGS: Final = ("jms", "converter", "type_id_mappings")
_IDS_IN_A_HINT: Final = 5


def add_settings_problems(container: Any, settings: PyjmsSettings, problems: Problems) -> None:
    """Add the problems of URLs, mapped classes, listeners and durable subscriptions in settings."""
    known = len(problems.found)
    for path, provide in _brokers(container, settings):
        with _located(path, settings, problems):
            _check_transport(provide())
    for type_id, name in settings.jms.converter.type_id_mappings.items():
        with _located((*_MAPPINGS, type_id), settings, problems):
            imported_class(name)
    for place in (("jms", "listener", "interceptors"), ("jms", "template", "interceptors")):
        section = settings.jms.listener if place[1] == "listener" else settings.jms.template
        _add_interceptor_problems(place, section.interceptors, settings, problems)
    with _located(("jms", "listener", "retry"), settings, problems):
        default_retry(settings)
    for name, override in settings.listeners.items():
        own = override.interceptors or ()
        _add_interceptor_problems(("listeners", name, "interceptors"), own, settings, problems)
        with _located(("listeners", name, "retry"), settings, problems):
            if override.retry is not None:
                override.retry.changes()
        texts = override.destination_text, override.concurrency, override.selector
        for key, check in _text_checks(*texts).items():
            with _located(("listeners", name, key), settings, problems):
                check()
    if len(problems.found) == known and not settings.is_incomplete:
        with problems.caught():
            container.message_converter()
            check_client_id(container.jms_listener_container_factory())


def add_text_problems(
    endpoint: JmsListenerEndpoint, changes: Collection[str], found: HandlerProblems
) -> None:
    """Add the problems of destination, concurrency and selector, unless YAML replaces them."""
    destination = endpoint.destination.strip() or None
    if destination is None and "destination" not in changes:
        found.add(
            ConfigurationException(
                f"Handler {found.name}: its @jms_listener has no destination",
                hint="write the name of a queue or a topic, or a placeholder that is not empty",
            )
        )
    for key, check in _text_checks(destination, endpoint.concurrency, endpoint.selector).items():
        if key not in changes:
            with found.caught(_named(endpoint)):
                check()


def add_container_problems(
    endpoint: JmsListenerEndpoint, factory: Any, found: HandlerProblems
) -> None:
    """Add the problems that the containers of a factory, or the broker, would report later.

    Without a destination, which is reported separately, there is no container to check.
    """
    if not endpoint.destination.strip():
        return
    for check in (check_kinds, check_properties, check_subscription, check_retry):
        with found.caught(_named(endpoint)):
            check(endpoint, factory)


def add_unknown_overrides(settings: PyjmsSettings, ids: set[str], problems: Problems) -> None:
    """Add the entries of `listeners` whose id no listener has."""
    for name in settings.listeners:
        if name not in ids:
            near = nearest_name(name, ids)
            known = ", ".join(sorted(ids)[:_IDS_IN_A_HINT]) or "none"
            error = ConfigurationException(
                f"no @jms_listener has the id {name!r}",
                hint=f"did you mean {near!r}?" if near else f"ids here: {known}",
            )
            problems.add(settings.problem(("listeners", name), error))


def add_repeated_ids(endpoints: Iterable[JmsListenerEndpoint], problems: Problems) -> None:
    """Add a problem for each id that several endpoints have."""
    seen: dict[str, JmsListenerEndpoint] = {}
    for endpoint in endpoints:
        first = seen.setdefault(endpoint.id, endpoint) if endpoint.id else endpoint
        if first is not endpoint:
            problems.add(
                ConfigurationException(
                    f"Another endpoint is already registered with id '{endpoint.id}': "
                    f"{first.destination!r} and {endpoint.destination!r} are the destinations",
                    hint="give each @jms_listener its own id",
                )
            )


def check_reply_destination(text: str, handler: Callable[..., Any]) -> None:
    """Check that the text of `@send_to` is a destination.

    Raises:
        ConfigurationException: it is not.
    """
    try:
        _check_destination(text)
    except JMSException as error:
        raise ConfigurationException(
            f"Handler {handler_name(handler)}: its @send_to: {error}"
        ) from error


def _add_interceptor_problems(
    path: tuple[str, ...], names: Iterable[str], settings: PyjmsSettings, problems: Problems
) -> None:
    for name in names:
        with _located(path, settings, problems):
            named_interceptors([name])


@contextmanager
def _located(path: tuple[str, ...], settings: PyjmsSettings, problems: Problems) -> Iterator[None]:
    """Add the error that the block raises as a problem of the setting at `path`."""
    try:
        yield
    except (JMSException, ValueError) as error:
        problems.add(settings.problem(path, error))


def _named(endpoint: JmsListenerEndpoint) -> str:
    return f"Listener {endpoint.id or endpoint.destination!r}: "


def _text_checks(
    destination: str | None, concurrency: str | None, selector: str | None
) -> dict[str, Callable[[], object]]:
    """Return the check of each text, by its name."""
    checks: dict[str, Callable[[], object]] = {}
    if destination is not None:
        checks["destination"] = partial(_check_destination, destination)
    if concurrency is not None:
        checks["concurrency"] = partial(_check_concurrency, concurrency)
    if selector is not None:
        checks["selector"] = partial(selector_or_none, selector)
    return checks


def _check_destination(text: str) -> None:
    named_kind(text)
    parse_destination(text)


def _check_concurrency(text: str) -> None:
    lower, upper = parse_concurrency(text)
    if not 1 <= (upper if lower is None else lower) <= upper:
        raise invalid_concurrency(text)


def _brokers(container: Any, settings: PyjmsSettings) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path of each broker's URL, and a function that creates its connection factory."""
    yield ("activemq", "broker_url"), container.native_connection_factory
    for name, broker in settings.brokers.items():
        yield ("brokers", name, "broker_url"), partial(broker_connection_factory, broker)


def _check_transport(factory: Any) -> None:
    """Check that a transport can be created for a factory's URL, without connecting."""
    uri = getattr(factory, "uri", None)
    if isinstance(uri, TransportURI):
        create_transport(uri)
