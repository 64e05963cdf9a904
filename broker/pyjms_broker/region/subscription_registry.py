"""The registry of subscriptions, by consumer id, and of durable ones also without a consumer.

(ActiveMQ AbstractRegion, TopicRegion; activemq-broker T16 to T21, C3)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.errors import InvalidDestinationException, InvalidSelectorException, JMSException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, RemoveSubscriptionInfo
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.api.names import can_be_written, is_internal
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.destinations import DestinationTable
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.subscription import (
    LAST_DELIVERED_UNKNOWN,
    LAST_DELIVERED_UNSET,
    SELECTS_NOTHING,
    QueueBrowserSubscription,
    QueueSubscription,
    SubscriptionRequest,
)
from pyjms_broker.region.topic_subscription import TopicSubscription
from pyjms_broker.store.api import StoredSubscription

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)


class SubscriptionRegistry:
    """All subscriptions of a broker."""

    def __init__(self, broker: RegionBroker, destinations: DestinationTable) -> None:
        self._broker = broker
        self._policy_map = broker.policy_map
        self._table = destinations
        self._by_consumer: dict[ConsumerId | None, Subscription] = {}
        self._durables: dict[SubscriptionKey, DurableTopicSubscription] = {}
        self._exact: dict[Destination, dict[Subscription, None]] = {}
        """The subscriptions to single destinations."""
        self._patterns: dict[Subscription, None] = {}
        """The subscriptions to patterns and composites."""

    def get(self, consumer_id: ConsumerId | None) -> Subscription | None:
        """Return the subscription of a live consumer."""
        return self._by_consumer.get(consumer_id)

    def all(self) -> list[Subscription]:
        """Return the subscriptions of all consumers, then the inactive durable ones."""
        inactive = [durable for durable in self._durables.values() if not durable.is_active]
        return [*self._by_consumer.values(), *inactive]

    def matching(self, destination: Destination) -> list[Subscription]:
        """Return the subscriptions that match a new destination, inactive durable ones included.

        Those whose clients may not read from it are excluded. (activemq-edges SE5)
        """
        found = list(self._exact.get(destination, ()))
        if not is_internal(destination):
            found += [
                subscription
                for subscription in self._patterns
                if subscription.requested.is_topic == destination.is_topic  # composites may mix
                and matches(subscription.requested, destination)
            ]
        return [each for each in found if each.context.may_read(destination)]

    def _index(self, subscription: Subscription) -> None:
        requested = subscription.requested
        if requested.is_pattern or requested.is_composite:
            self._patterns[subscription] = None
        else:
            self._exact.setdefault(requested, {})[subscription] = None

    def _remove_from_index(self, subscription: Subscription) -> None:
        self._patterns.pop(subscription, None)
        exact = self._exact.get(subscription.requested)
        if exact is not None:
            exact.pop(subscription, None)
            if not exact:
                del self._exact[subscription.requested]

    def add(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        """Create a consumer's subscription, or activate its durable one.

        A consumer that is already known keeps its subscription (activemq-broker C3).

        Raises:
            InvalidSelectorException: the selector is invalid.
            JMSException: the durable subscription is in use, or the destination does not allow
                durable subscriptions.
        """
        existing = self._by_consumer.get(info.consumer_id)
        if existing is not None:
            return existing
        destination = info.destination
        if destination is None:
            raise InvalidDestinationException("A ConsumerInfo has no destination")
        if destination.is_topic and info.subscription_name is not None:
            return self._add_durable(context, info, destination)
        if any(m.is_topic != destination.is_topic for m in destination.composite_destinations):
            logger.warning(
                "Consumer %s gets no messages from the members of %s that are not %s",
                info.consumer_id,
                destination,
                "topics" if destination.is_topic else "queues",
            )
        subscription = self._create(context, info, destination)
        self._by_consumer[info.consumer_id] = subscription
        self._index(subscription)
        try:
            matching = [
                entry_point
                for entry_point in self._readable(context, destination)
                if entry_point.destination.is_topic == destination.is_topic
            ]
            for entry_point in matching:
                self._table.mark_used(entry_point.destination)
                entry_point.add_subscription(context, subscription)
            if isinstance(subscription, QueueBrowserSubscription):
                subscription.begin(matching)
        except Exception:
            self.remove(context, info, LAST_DELIVERED_UNSET)
            raise
        return subscription

    def _readable(
        self, context: ConnectionContext, destination: Destination
    ) -> list[BrokerDestination]:
        matching = self._table.matching(destination)
        return [found for found in matching if context.may_read(found.destination)]

    def _create(
        self, context: ConnectionContext, info: ConsumerInfo, destination: Destination
    ) -> Subscription:
        policy = self._policy_map.entry_for(destination)
        requested = info.prefetch_size
        kind: type[TopicSubscription | QueueBrowserSubscription | QueueSubscription]
        if destination.is_topic:
            kind, prefetch = TopicSubscription, policy.topic_prefetch_for(requested)
        elif info.browser:
            kind, prefetch = QueueBrowserSubscription, policy.browser_prefetch_for(requested)
        else:
            kind, prefetch = QueueSubscription, policy.queue_prefetch_for(requested)
        return kind(SubscriptionRequest(self._broker, context, info, policy, prefetch))

    def remove(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        """Remove a consumer's subscription; deactivate a durable one."""
        subscription = self._by_consumer.pop(info.consumer_id, None)
        if subscription is None:
            return
        if isinstance(subscription, DurableTopicSubscription):
            subscription.deactivate(last_delivered_sequence_id)
            return
        self._remove_from_index(subscription)
        self._detach(context, subscription, last_delivered_sequence_id)

    def _detach(
        self, context: ConnectionContext, subscription: Subscription, last_delivered: int
    ) -> None:
        for destination in tuple(subscription.destinations):
            self._table.mark_used(destination.destination)
            for entry_point in self._table.matching(destination.destination):
                entry_point.remove_subscription(context, subscription, last_delivered)
        subscription.close()

    # durable subscriptions
    def _add_durable(
        self, context: ConnectionContext, info: ConsumerInfo, destination: Destination
    ) -> Subscription:
        key = self._key(context, info.client_id, info.subscription_name)
        if destination.is_temporary or destination.physical_name.startswith(ADVISORY_PREFIX):
            raise JMSException(
                f"Cannot create a durable subscription for {destination}: "
                "temporary and advisory topics allow none"
            )
        policy = self._policy_map.entry_for(destination)
        prefetch = policy.durable_prefetch_for(info.prefetch_size)
        subscription = self._durables.get(key)
        if (
            subscription is not None
            and not subscription.is_active
            and subscription.differs_from(info)
        ):
            self._remove_durable(context, subscription)
            subscription = None
        if subscription is None:
            request = SubscriptionRequest(self._broker, context, info, policy, prefetch)
            subscription = self._create_durable(request, key)
        elif not subscription.is_active:
            self._leave_unreadable(context, subscription)
        subscription.activate(context, info, prefetch)
        self._by_consumer[info.consumer_id] = subscription
        return subscription

    def _leave_unreadable(
        self, context: ConnectionContext, subscription: DurableTopicSubscription
    ) -> None:
        """Leave unreadable topics, which a restart joined before the client was known."""
        for destination in tuple(subscription.destinations):
            if not context.may_read(destination.destination):
                for entry_point in self._table.matching(destination.destination):
                    entry_point.remove_subscription(context, subscription, LAST_DELIVERED_UNKNOWN)

    def _create_durable(
        self, request: SubscriptionRequest, key: SubscriptionKey
    ) -> DurableTopicSubscription:
        subscription = DurableTopicSubscription(request, key)
        self._durables[key] = subscription
        self._index(subscription)
        try:
            for entry_point in self._readable(request.context, subscription.requested):
                entry_point.add_subscription(request.context, subscription)
        except Exception:
            self._remove_durable(request.context, subscription)
            raise
        return subscription

    def recover(self, stored: StoredSubscription) -> None:
        """Restore a durable subscription from a store, as inactive; log a failure.

        (activemq-broker T23)
        """
        try:
            self._recover(stored)
        except Exception as error:  # no stored data may prevent a start
            logger.error(
                "The durable subscription %s of %s could not be restored: %s",
                stored.key,
                stored.destination,
                error,
            )

    def _recover(self, stored: StoredSubscription) -> None:
        if stored.key in self._durables:
            return  # it subscribes to a pattern, so the stores of several topics have it
        info = ConsumerInfo(
            destination=stored.destination,
            selector=stored.selector,
            no_local=stored.no_local,
            client_id=stored.key.client_id,
            subscription_name=stored.key.subscription_name,
        )
        policy = self._policy_map.entry_for(stored.destination)
        prefetch = policy.durable_prefetch_for(info.prefetch_size)
        context = self._broker.context
        request = SubscriptionRequest(self._broker, context, info, policy, prefetch)
        try:
            self._create_durable(request, stored.key)
        except InvalidSelectorException as error:  # stored by a version that accepted it
            logger.error(
                "Durable subscription %s selects nothing, because its selector is refused: %s; "
                "unsubscribe it, or subscribe with another selector",
                stored.key,
                error,
            )
            info.selector = SELECTS_NOTHING
            self._create_durable(request, stored.key)

    def _key(
        self, context: ConnectionContext, client_id: str | None, name: str | None
    ) -> SubscriptionKey:
        client_id = client_id or context.client_id
        if not client_id or name is None:
            raise JMSException(
                "A durable subscription needs a client id and a name",
                hint="set the client id of the connection before it is used",
            )
        if not can_be_written(client_id + name):
            raise JMSException(
                f"Client id {client_id!r} or subscription name {name!r} cannot be encoded as UTF-8",
                hint="it contains half of a surrogate pair; use another name",
            )
        return SubscriptionKey(client_id, name)

    def _remove_durable(
        self, context: ConnectionContext, subscription: DurableTopicSubscription
    ) -> None:
        del self._durables[subscription.key]
        self._remove_from_index(subscription)
        self._detach(context, subscription, LAST_DELIVERED_UNKNOWN)

    def unsubscribe(self, context: ConnectionContext, info: RemoveSubscriptionInfo) -> Completion:
        """Remove a durable subscription and its undelivered messages.

        The result is completed when the stores have recorded the removal. (activemq-broker T21)

        Raises:
            InvalidDestinationException: it does not exist.
            JMSException: a consumer uses it.
        """
        key = self._key(context, info.client_id, info.subscription_name)
        subscription = self._durables.get(key)
        if subscription is None:
            raise InvalidDestinationException(
                f"No durable subscription exists for clientID: {key.client_id} "
                f"and subscriptionName: {key.subscription_name}"
            )
        if subscription.is_active:
            raise JMSException("Durable consumer is in use")
        self._remove_durable(context, subscription)
        return subscription.saved

    def durable_subscriptions(self) -> list[DurableTopicSubscription]:
        """Return all durable subscriptions, active or not."""
        return list(self._durables.values())

    def close(self) -> None:
        """Stop the background tasks of all subscriptions."""
        for subscription in (*self._by_consumer.values(), *self._durables.values()):
            subscription.close()
