"""Broker URIs: `broker:(tcp://h:p,...)/name?attribute=value`. (ActiveMQ B12, B16)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.service.attributes import keywords_from
from pyjms.errors import ConfigurationException
from pyjms.transport.uri import TransportURI, parse_broker_uri

__all__ = ["BrokerURI", "read_broker_uri"]

_NOT_BUILT = {
    "network": "networks of brokers",
    "proxy": "proxy connectors",
}


@dataclass(frozen=True)
class BrokerURI:
    """What a broker URI asks for."""

    keywords: Mapping[str, object]
    connectors: tuple[TransportURI, ...]


def read_broker_uri(text: str) -> BrokerURI:
    """Read `text`.

    Raises:
        ConfigurationException: no `broker:` URI, an unknown attribute, or a component that
            this broker has no connector for.

    """
    uri = parse_broker_uri(text)
    keywords = keywords_from(uri.options)
    name = uri.path.strip("/")
    if name:
        keywords["broker_name"] = name
    for component in uri.components:
        if component.scheme in _NOT_BUILT:
            raise ConfigurationException(
                f"This broker has no {_NOT_BUILT[component.scheme]} yet: {component}",
                hint="leave it out of the broker URI",
            )
    return BrokerURI(keywords, uri.components)
