"""Advisories of the remote broker, from which a bridge learns of consumers.

(activemq-edges NW2, NW9)
"""

from __future__ import annotations

from pyjms._logger import get_logger
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    RemoveInfo,
    RemoveSubscriptionInfo,
)
from pyjms_broker.api.copying import copy_command
from pyjms_broker.network.demand.permitted import advisory_topic
from pyjms_broker.network.demand.subscriptions import BridgeSubscriptions
from pyjms_broker.network.demand.virtual import (
    for_virtual,
    is_about_virtual_destinations,
    virtual_id,
)
from pyjms_broker.network.ends import BridgeEnd
from pyjms_broker.region.subscription.bridge_filter import appended, is_too_long

__all__ = ["RemoteAdvisories"]

logger = get_logger(__name__)


class RemoteAdvisories:
    """Handles the advisories that one bridge gets.

    Args:
        remote: the connection to the remote broker.
        subscriptions: the bridge's subscriptions at the local broker.
    """

    def __init__(self, remote: BridgeEnd, subscriptions: BridgeSubscriptions) -> None:
        self._attributes = attributes = subscriptions.attributes
        self._between = subscriptions.between
        self._local = subscriptions.local
        self._remote = remote
        self._subscriptions = subscriptions
        self._consumer = remote.next_consumer_id()
        self._unacknowledged = 0
        self._prefetch = attributes.advisory_prefetch_size or attributes.prefetch_size

    async def subscribe(self) -> None:
        """Subscribe to the remote broker's advisories.

        Raises:
            JMSException: the remote broker refuses that, or does not respond.
        """
        await self._remote.request(
            ConsumerInfo(
                self._consumer,
                destination=advisory_topic(self._attributes),
                prefetch_size=self._prefetch,
                dispatch_async=True,
            )
        )

    def take(self, message: ActiveMQMessage) -> None:
        """Handle an advisory about a remote consumer or temporary destination."""
        subscriptions = self._subscriptions
        about = message.data_structure
        is_virtual = is_about_virtual_destinations(message.destination)
        if isinstance(about, ConsumerInfo):
            subscriptions.consumer_added(for_virtual(about) if is_virtual else about)
        elif isinstance(about, DestinationInfo):
            self._on_destination(about)
        elif isinstance(about, RemoveInfo):
            removed = about.object_id
            if isinstance(removed, ConsumerId):
                subscriptions.consumer_removed(virtual_id(removed) if is_virtual else removed)
        elif isinstance(about, RemoveSubscriptionInfo):
            subscriptions.subscription_removed(about)
        self._acknowledge(message)

    def _on_destination(self, info: DestinationInfo) -> None:
        """Create or delete a temporary destination of the remote broker at the local one.

        (activemq-edges NW9)
        """
        destination, local_id = info.destination, self._between.local_id
        if (
            destination is None
            or not destination.is_temporary
            or is_too_long(info.broker_path, self._attributes.consumers_hops)
            or local_id in (info.broker_path or ())
        ):
            return
        copy = copy_command(info)
        copy.connection_id = self._local.connection_id
        copy.broker_path = appended(info.broker_path, self._between.remote_id)
        self._local.try_request(copy, _ignore)

    def _acknowledge(self, message: ActiveMQMessage) -> None:
        """Acknowledge advisories in batches."""
        self._unacknowledged += 1
        part = self._attributes.advisory_ack_percentage / 100
        if self._unacknowledged < self._prefetch * part:
            return
        ack = MessageAck(
            message.destination,
            consumer_id=self._consumer,
            ack_type=int(AckType.STANDARD),
            last_message_id=message.message_id,
            message_count=self._unacknowledged,
        )
        self._unacknowledged = 0
        self._remote.send(ack)


def _ignore(error: Exception) -> None:
    logger.debug("A temporary destination of another broker: %s", error)
