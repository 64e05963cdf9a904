"""The broker that `vm://name` makes when nobody has started one. (ActiveMQ B14)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.service.attributes import keywords_from
from broker.service.service import BrokerService
from broker.service.uri import read_broker_uri
from pyjms.transport.uri import TransportURI

__all__ = ["create_for_vm"]


async def create_for_vm(
    name: str, options: Mapping[str, str], broker_config: str | None
) -> BrokerService:
    """Make and start the broker `name`, from a broker URI (brokerConfig) or by itself.

    `options` are the URL's `broker.<attribute>`; they win over the URI's.

    Raises:
        ConfigurationException: an option or the URI is wrong.
        JMSException: the broker cannot start.

    """
    keywords: dict[str, Any] = {"broker_name": name}
    connectors: tuple[TransportURI, ...] = ()
    if broker_config is not None:
        wanted = read_broker_uri(broker_config)
        keywords.update(wanted.keywords)
        connectors = wanted.connectors
    keywords.update(keywords_from(options))
    service = BrokerService(**keywords)
    for connector in connectors:
        service.add_connector(connector)
    await service.start()
    return service
