"""Create the broker for `vm://name` if none of that name is running. (activemq-broker B14)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyjms.transport.uri import TransportURI
from pyjms_broker.service.service import BrokerService
from pyjms_broker.service.uri import keywords_from, read_broker_uri

__all__ = ["create_for_vm"]


async def create_for_vm(
    name: str, options: Mapping[str, str], broker_config: str | None
) -> BrokerService:
    """Create and start the broker `name`; `broker_config` is a broker URI that describes it.

    `options` are the `broker.<attribute>` options of the URL; they override those of the broker
    URI.

    Raises:
        ConfigurationException: an option or the URI is invalid.
        JMSException: the broker cannot start.
    """
    if broker_config is not None and broker_config.startswith("peer:"):
        from pyjms_broker.service.peers import create_peer  # noqa: PLC0415 - few brokers are peers

        return await create_peer(name, broker_config)
    keywords: dict[str, Any] = {"broker_name": name}
    connectors: tuple[TransportURI, ...] = ()
    networks: tuple[str, ...] = ()
    if broker_config is not None:
        described = read_broker_uri(broker_config)
        keywords.update(described.keywords)
        connectors, networks = described.connectors, described.networks
    keywords.update(keywords_from(options))
    service = BrokerService(**keywords)
    for connector in connectors:
        service.add_connector(connector)
    for network in networks:
        service.networks.add_unnamed(network)
    await service.start()
    return service
