"""Checks of settings and endpoints before anything connects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyjms.container.endpoint_checks import (
    check_client_id,
    check_properties,
    check_subscription,
)
from pyjms.container.factories import broker_connection_factory
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import named_kind, parse_destination
from pyjms.listener.container.properties import invalid_concurrency, parse_concurrency
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.selector import selector_or_none
from pyjms.settings import PyjmsSettings
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

__all__ = ["check_endpoint", "check_reply_destination", "raise_all", "settings_problems"]


def settings_problems(container: Any, settings: PyjmsSettings) -> Iterator[str]:
    """Yield a line for each problem of the settings: URLs, listeners, durable subscriptions."""
    try:
        yield from _broker_problems(container, settings)
        container.message_converter()
        check_client_id(container.jms_listener_container_factory())
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
        check_properties(endpoint, factory)
        check_subscription(endpoint, factory)
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
        if not 1 <= (upper if lower is None else lower) <= upper:
            raise invalid_concurrency(concurrency)
    selector_or_none(selector)


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
