"""Conversion of the attributes of `<networkConnector>`. (activemq-edges 9)"""

from __future__ import annotations

from typing import Final

from pyjms_broker.conversion.sections import Lost, Spec
from pyjms_broker.settings.servers.network import NetworkConnectorSettings

__all__ = ["DESTINATION_LISTS", "NETWORK_CONNECTOR", "NETWORK_LOST"]

_NOT_BUILT: Final = "bridges of this broker have no such option (docs/networks.md)"
_STAYS: Final = "a bridge keeps what it has learned while it lives"

NETWORK_CONNECTOR: Final = Spec(
    NetworkConnectorSettings,
    keys={"networkTTL": "network_ttl", "messageTTL": "message_ttl", "consumerTTL": "consumer_ttl"},
    handled=frozenset({"uri"}),
    no_effect={
        "dispatchAsync": "dispatch to a consumer never waits for another consumer",
        "brokerName": "the broker's own is used",
        "brokerURL": "the broker's own is used",
        "localUri": "the broker is reached within the process",
        "gcDestinationViews": _STAYS,
        "gcSweepTime": _STAYS,
    },
    lost={"useBrokerNameAsIdSees": Lost(_NOT_BUILT, same_as="true")},
)
NETWORK_LOST: Final[dict[str, Lost]] = {
    "durableDestinations": Lost("the stored durable subscriptions determine it"),
    "sslContext": Lost(_NOT_BUILT, "name certificates by options of the ssl:// URI (docs/tls.md)"),
    "bridgeFactory": Lost("it is a Java object"),
    "connectionFilter": Lost("it is a Java object"),
    "discoveryAgent": Lost("it is a Java object", "write uri=multicast://default or static:(...)"),
}
DESTINATION_LISTS: Final = {
    "dynamicallyIncludedDestinations": "dynamically_included_destinations",
    "staticallyIncludedDestinations": "statically_included_destinations",
    "excludedDestinations": "excluded_destinations",
}
