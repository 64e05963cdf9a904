"""The attributes of network connectors are ActiveMQ's, with its defaults."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import pytest

from pyjms_broker.conversion.broker import DESTINATION_LISTS, NETWORK_CONNECTOR
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.network.attributes import activemq_name
from pyjms_broker.network.demand import advisory_topic
from tests.unit.settings.test_broker_setting_effects import SHOWN

OPTIONS: Final[dict[str, Any]] = {
    "name": "NC",
    "duplex": False,
    "dynamicOnly": False,
    "conduitSubscriptions": True,
    "conduitNetworkQueueSubscriptions": False,
    "decreaseNetworkConsumerPriority": False,
    "consumerPriorityBase": -5,
    "networkTTL": 1,
    "messageTTL": 1,
    "consumerTTL": 1,
    "bridgeTempDestinations": True,
    "prefetchSize": 1000,
    "advisoryPrefetchSize": 0,
    "advisoryAckPercentage": 75,
    "dispatchAsync": True,
    "suppressDuplicateQueueSubscriptions": False,
    "suppressDuplicateTopicSubscriptions": True,
    "alwaysSyncSend": True,
    "staticBridge": False,
    "syncDurableSubs": False,
    "useVirtualDestSubs": False,
    "useCompression": False,
    "advisoryForFailedForward": False,
    "checkDuplicateMessagesOnDuplex": False,
    "userName": None,
    "password": None,
    "remoteUserName": None,
    "remotePassword": None,
    "clientIdToken": "_",
    "excludedDestinations": (),
    "dynamicallyIncludedDestinations": (),
    "staticallyIncludedDestinations": (),
    "destinationFilter": "ActiveMQ.Advisory.Consumer.>",
    "gcDestinationViews": True,
    "gcSweepTime": 60000,
}
WITHOUT_EFFECT: Final = {"dispatchAsync", "gcDestinationViews", "gcSweepTime"}
"""The importer says why: nothing waits for a consumer, and there are no views to collect."""
OWN_NAMES: Final = {
    activemq_name(each.name): each.name for each in fields(NetworkConnectorAttributes)
}
RESULTS: Final = {"messageTTL": "messages_hops", "consumerTTL": "consumers_hops"}
"""Options that are unset by default, and their meaning then."""


@pytest.mark.fact("activemq-edges NW0")
@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_has_its_name_its_default_and_an_effect(option: str) -> None:
    attributes = NetworkConnectorAttributes()
    if option in WITHOUT_EFFECT:
        assert option in NETWORK_CONNECTOR.no_effect
        return
    own = OWN_NAMES[option]
    if option == "destinationFilter":
        without = NetworkConnectorAttributes(bridge_temp_destinations=False)
        assert advisory_topic(without).physical_name == OPTIONS[option]
    else:
        assert getattr(attributes, RESULTS.get(option, own)) == OPTIONS[option]
    assert f"NetworkConnectorSettings.{own}" in SHOWN  # a test that exists, as another one checks
    assert option not in NETWORK_CONNECTOR.lost
    assert option not in DESTINATION_LISTS or DESTINATION_LISTS[option] == own


def test_the_list_is_complete() -> None:
    assert set(OWN_NAMES) == set(OPTIONS) - WITHOUT_EFFECT
