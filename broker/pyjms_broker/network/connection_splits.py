"""The filter that ends what network connectors have subscribed for a client that comes here itself.

A client that moves from a remote broker to this one keeps its consumer ids. Until the remote broker
notices that it has left, this broker would also send it messages by the bridge.
(ActiveMQ ConnectionSplitBroker; activemq-broker B1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.logging import get_logger
from pyjms_broker.api.broker import Broker, BrokerFilter

if TYPE_CHECKING:
    from pyjms.wire.openwire.commands import ConsumerInfo
    from pyjms_broker.api.context import ConnectionContext
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.network.demand import DemandTable

logger = get_logger(__name__)


class ConnectionSplitBroker(BrokerFilter):
    """Removes a consumer from the bridges' subscriptions when it is added here."""

    def __init__(self, next_broker: Broker, demand: DemandTable) -> None:
        super().__init__(next_broker)
        self._demand = demand

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        if not info.network_subscription and self._demand.consumer_moved_here(info.consumer_id):
            logger.info("Consumer %s has moved here from another broker", info.consumer_id)
        return self.next.add_consumer(context, info)
