"""The exchange of lists of durable subscriptions when a bridge connects two brokers.

Without it, a bridge learns of a remote durable subscription only through its consumer. It does not
learn of subscriptions without a consumer that were created, or of subscriptions that were deleted,
while there was no connection. (ActiveMQ syncDurableSubs; BrokerSubscriptionInfo)
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pyjms._ids import IdGenerator
from pyjms.wire.openwire.commands import BrokerSubscriptionInfo, ConsumerId, ConsumerInfo
from pyjms_broker.api.copying import copy_command
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.demand.permitted import PermittedDestinations
from pyjms_broker.region.topic.durable_subscription import DurableTopicSubscription

if TYPE_CHECKING:
    from pyjms_broker.network.host import NetworkHost

__all__ = ["MAXIMUM_DURABLES", "durable_subscriptions"]

MAXIMUM_DURABLES = 10_000
"""The maximum number of subscriptions in one command; ActiveMQ has no limit."""


def durable_subscriptions(
    host: NetworkHost, attributes: NetworkConnectorAttributes
) -> BrokerSubscriptionInfo:
    """Return the durable subscriptions of `host` that a bridge with these attributes serves."""
    permitted = PermittedDestinations(attributes)
    made_up, numbers = IdGenerator().generate(), itertools.count(1)
    listed: list[ConsumerInfo | None] = []
    for each in host.region_broker.subscriptions.all():
        if not isinstance(each, DurableTopicSubscription) or not permitted.includes(each.requested):
            continue
        info = copy_command(each.info)
        info.destination = each.requested
        info.client_id, info.subscription_name = each.key.client_id, each.key.subscription_name
        if info.consumer_id is None or not each.is_active:
            info.consumer_id = ConsumerId(made_up, -1, next(numbers))
        info.additional_predicate = None
        listed.append(info)
        if len(listed) == MAXIMUM_DURABLES:
            break
    return BrokerSubscriptionInfo(host.broker_id, host.broker_name, listed)
