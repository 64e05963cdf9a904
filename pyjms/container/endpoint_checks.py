"""Checks of an endpoint against its container factory: combinations that can never start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, nearest_name
from pyjms.jms.destination import Destination, Queue, Topic, named_kind, parse_destination
from pyjms.listener.batches.options import batches_can_be_acknowledged, check_batches
from pyjms.listener.container.properties import parse_concurrency
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.factory import SimpleJmsListenerContainerFactory, client_id_of

__all__ = [
    "batch_size_of",
    "check_client_id",
    "check_kinds",
    "check_properties",
    "check_subscription",
    "repeated_subscriptions",
]

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
