"""Checks of settings and endpoints before anything connects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyjms.container.factories import broker_connection_factory
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import Destination, Queue, Topic, named_kind, parse_destination
from pyjms.listener.container.properties import parse_concurrency
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.selector import selector_or_none
from pyjms.settings import PyjmsSettings
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

__all__ = ["check_endpoint", "check_reply_destination", "raise_all", "settings_problems"]

_TOPIC_OPTIONS = ("pub_sub_domain", "subscription_durable", "subscription_shared")


def settings_problems(container: Any, settings: PyjmsSettings) -> Iterator[str]:
    """Yield a line for each problem of the settings: URLs, listeners, durable subscriptions."""
    try:
        yield from _broker_problems(container, settings)
        container.message_converter()
        _check_client_id(container.jms_listener_container_factory())
    except JMSException as error:
        yield str(error)
    for name, override in settings.listeners.items():
        try:
            _check_texts(override.destination, override.concurrency, override.selector)
        except (ValueError, JMSException) as error:
            yield f"Listener {name!r}: {error}"


def check_endpoint(endpoint: JmsListenerEndpoint, handler: str, factory: Any) -> None:
    """Find what the container or the broker would refuse later.

    Raises:
        ConfigurationException: the first problem.
    """
    if not endpoint.destination.strip():
        raise ConfigurationException(
            f"Handler {handler}: its @jms_listener has no destination",
            hint="write the name of a queue or a topic, or a placeholder that is not empty",
        )
    try:
        _check_texts(endpoint.destination, endpoint.concurrency, endpoint.selector)
        _check_subscription(endpoint, factory)
    except (ValueError, JMSException) as error:
        raise ConfigurationException(
            f"Listener {endpoint.id or endpoint.destination!r}: {error}"
        ) from error


def check_reply_destination(text: str, handler: str) -> None:
    """Check that the text of `@send_to` is a destination.

    Raises:
        ConfigurationException: it is not.
    """
    try:
        named_kind(text)
        parse_destination(text)
    except JMSException as error:
        raise ConfigurationException(f"Handler {handler}: its @send_to: {error}") from error


def _check_texts(destination: str | None, concurrency: str | None, selector: str | None) -> None:
    if destination is not None:
        named_kind(destination)
        parse_destination(destination)
    if concurrency is not None:
        lower, upper = parse_concurrency(concurrency)
        if upper < 1 or (lower is not None and not 1 <= lower <= upper):
            raise ConfigurationException(
                f"Invalid concurrency {concurrency!r}",
                hint='write "upper" or "lower-upper", both 1 or more',
            )
    selector_or_none(selector)


def _check_subscription(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse a named subscription that is not durable: it would lose messages."""
    options = _options_of(factory)
    if options is None:  # a factory that the application defines
        return
    kind: type[Destination] | None = named_kind(endpoint.destination)
    if kind is None:
        kind = Topic if any(options.get(name) for name in _TOPIC_OPTIONS) else Queue
    durable = options.get("subscription_durable") or options.get("durable_subscription_name")
    if endpoint.subscription and not issubclass(kind, Topic):
        raise ConfigurationException(
            f"subscription {endpoint.subscription!r}: a queue has no subscriptions",
            hint="write topic://NAME, or let the container factory's names mean topics "
            "(jms.pub_sub_domain)",
        )
    if endpoint.subscription and not durable:
        raise ConfigurationException(
            f"subscription {endpoint.subscription!r}: its container factory creates "
            "no durable subscriptions",
            hint="set jms.subscription_durable and jms.client_id, or name a container_factory "
            "with subscription_durable",
        )
    if issubclass(kind, Topic) and endpoint.container_factory:  # the default is in the settings
        _check_client_id(factory)


def _check_client_id(factory: Any) -> None:
    options = _options_of(factory) or {}
    if not options.get("subscription_durable") or options.get("client_id"):
        return
    client = getattr(factory.connection_factory, "options", None)
    if client is not None and client.client_id is None:
        raise ConfigurationException(
            "A durable subscription needs a client id, and none is set",
            hint="set jms.client_id, or client_id on the container factory",
        )


def _options_of(factory: Any) -> dict[str, Any] | None:
    options = getattr(factory, "options", None)
    return options if isinstance(options, dict) else None


def _broker_problems(container: Any, settings: PyjmsSettings) -> Iterator[str]:
    """Check that a transport can be created for each broker's URL, without connecting."""
    providers = [container.native_connection_factory]
    providers += [_provider(broker) for broker in settings.brokers.values()]
    for provide in providers:
        try:
            uri = getattr(provide(), "uri", None)
            if isinstance(uri, TransportURI):
                create_transport(uri)
        except JMSException as error:
            yield str(error)


def _provider(broker: Any) -> Any:
    return lambda: broker_connection_factory(broker)


def raise_all(problems: Iterable[str]) -> None:
    """Raise one ConfigurationException with a line for each problem, if there is any."""
    lines = "\n".join(problems).splitlines()
    if lines:
        raise ConfigurationException("\n".join(dict.fromkeys(lines)))
