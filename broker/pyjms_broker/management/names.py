"""The object names of ActiveMQ's MBeans. Source: BrokerMBeanSupport; activemq-edges 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management.object_name import ObjectName, encoded_part
from pyjms_broker.region.slow_consumers import WatchedStrategy

__all__ = ["DOMAIN", "Names"]

DOMAIN: Final = "org.apache.activemq"


class Names:
    """The names of one broker's views."""

    def __init__(self, broker_name: Callable[[], str]) -> None:
        self._broker_name = broker_name

    def broker(self, **more: str) -> ObjectName:
        """Return the broker's name, or one below it with additional keys."""
        keys = {"type": "Broker", "brokerName": self._broker_name(), **more}
        return ObjectName.of(DOMAIN, {key: encoded_part(value) for key, value in keys.items()})

    def destination(self, destination: Destination, **more: str) -> ObjectName:
        """Return a destination's name, or one below it with additional keys."""
        return self.broker(
            destinationType=f"{'Temp' if destination.is_temporary else ''}"
            f"{'Topic' if destination.is_topic else 'Queue'}",
            destinationName=destination.physical_name,
            **more,
        )

    def subscription(
        self, subscription: Subscription, durable_key: SubscriptionKey | None
    ) -> ObjectName:
        """Return a consumer's name; a durable subscription keeps its name while inactive."""
        if durable_key is not None:
            client_id, name = durable_key
            consumer = f"Durable({client_id}_{name})"
        else:
            client_id = subscription.context.client_id or "NOTSET"
            consumer = str(subscription.consumer_id)
        return self.destination(
            subscription.requested, endpoint="Consumer", clientId=client_id, consumerId=consumer
        )

    def consumer(self, subscription: Subscription) -> ObjectName:
        """Return the name of a consumer, or of a durable subscription."""
        return self.subscription(subscription, getattr(subscription, "durable_key", None))

    def service(self, service: str, **more: str) -> ObjectName:
        """Return the name of a service of the broker, such as `JobScheduler`."""
        return self.broker(service=service, **more)

    def slow_consumer_strategy(self, watched: WatchedStrategy) -> ObjectName:
        """Return the name of a slow consumer strategy."""
        name = f"{type(watched.strategy).__name__}@{watched.number}"
        return self.service("SlowConsumerStrategy", instanceName=name)

    def xa_transaction(self, xid: XATransactionId) -> ObjectName:
        """Return the name of a prepared transaction."""
        return self.broker(transactionType="RecoveredXaTransaction", xid=str(xid))

    def producer(
        self, destination: Destination | None, client_id: str, producer_id: str
    ) -> ObjectName:
        """Return a producer's name, a dynamic one's if it has no destination."""
        keys = {"clientId": client_id, "producerId": producer_id}
        if destination is None:
            return self.broker(endpoint="dynamicProducer", **keys)
        return self.destination(destination, endpoint="Producer", **keys)

    def network_connector(
        self, name: str, *, duplex: bool = False, bridge: str | None = None
    ) -> ObjectName:
        """Return the name of a network connector, or of its bridge to the address `bridge`.

        `duplex` means that the connector is another broker's.
        """
        return self.broker(
            connector="duplexNetworkConnectors" if duplex else "networkConnectors",
            networkConnectorName=name,
            **({} if bridge is None else {"networkBridge": bridge.replace("://", "_//")}),
        )

    def connector(self, connector_name: str, **more: str) -> ObjectName:
        """Return a connector's name, or one below it with additional keys."""
        return self.broker(
            connector="clientConnectors", connectorName=connector_name.replace("://", "_//"), **more
        )
