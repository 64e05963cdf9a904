"""Broker URIs, `broker:(tcp://h:p,...)/name?attribute=value`, and their attributes.

`vm://name?broker.persistent=false` sets the same attributes.
(activemq-broker 1.2, B12, B14, B16)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms.transport.uri import TransportURI, did_you_mean, is_secret, parse_broker_uri
from pyjms_broker.service.attributes import uri_attributes

logger = get_logger(__name__)

WITHOUT_EFFECT = frozenset({"useJmx", "useShutdownHook", "dedicatedTaskRunner", "startAsync"})
"""Attributes of ActiveMQ's broker without effect in this broker: accepted, and logged."""

_NETWORK: Final = "network"
_NOT_SUPPORTED = {"proxy": "proxy connectors"}

known_options: Callable[[], dict[str, tuple[str, Callable[[str], object]]]]
known_options = functools.cache(uri_attributes)
"""Return the known options: ActiveMQ's name to our keyword and the parser of the value."""


class BrokerURI(NamedTuple):
    """The contents of a broker URI."""

    keywords: Mapping[str, object]
    """Keyword arguments of BrokerService."""
    connectors: tuple[TransportURI, ...]
    networks: tuple[str, ...] = ()
    """The URIs of network connectors, from components such as `network:static:(tcp://b:61616)`."""


def read_broker_uri(text: str) -> BrokerURI:
    """Parse a broker URI."""
    uri = parse_broker_uri(text)
    keywords = keywords_from(uri.options)
    name = uri.path.strip("/")
    if name:
        keywords["broker_name"] = name
    for component in uri.components:
        if component.scheme in _NOT_SUPPORTED:
            raise ConfigurationException(
                f"This broker has no {_NOT_SUPPORTED[component.scheme]} yet: {component}",
                hint="leave it out of the broker URI",
            )
    networks = tuple(
        inner.with_secrets()
        for each in uri.components
        if each.scheme == _NETWORK
        for inner in each.components
    )
    connectors = tuple(each for each in uri.components if each.scheme != _NETWORK)
    return BrokerURI(keywords, connectors, networks)


def keywords_from(options: Mapping[str, str]) -> dict[str, object]:
    """Convert URI options to keyword arguments of BrokerService."""
    keywords = check_options(options)
    for name in options.keys() & WITHOUT_EFFECT:
        logger.info("Broker option %s has no effect here and is ignored", name)
    return keywords


def check_options(options: Mapping[str, str]) -> dict[str, object]:
    """Do the same as `keywords_from`, without logging."""
    known = known_options()
    unknown = {k: v for k, v in options.items() if k not in known and k not in WITHOUT_EFFECT}
    if unknown:
        listed = ", ".join(
            f"{name}={'***' if is_secret(name) else value}" for name, value in unknown.items()
        )
        raise ConfigurationException(
            f"There are {len(unknown)} Broker options that couldn't be set on the BrokerService. "
            f"Check the options are spelled correctly. Unknown parameters=[{{{listed}}}]. "
            "This BrokerService cannot be started.",
            hint=did_you_mean(unknown, known),
        )
    return {known[name][0]: _read(name, text) for name, text in options.items() if name in known}


def _read(name: str, text: str) -> object:
    try:
        return known_options()[name][1](text)
    except ValueError as error:
        raise ConfigurationException(
            f"Broker option {name}={text} cannot be read: {error}"
        ) from error
