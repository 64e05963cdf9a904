"""The innermost broker of the filter chain. (ActiveMQ RegionBroker)

It creates destinations and sends dead letters and events through `root`, the outermost filter.
`SubscriptionRegistry` has the subscriptions by consumer id, and durable ones also without a
consumer. (ActiveMQ AbstractRegion, TopicRegion; activemq-broker T16 to T21, C3)
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms.errors import (
    DestinationDoesNotExistException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
)
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms.selector import DEFAULT_LIMITS, SelectorLimits
from pyjms.selector.budget import SelectorMeter
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessageId,
    MessagePull,
    ProducerInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
    Throwable,
)
from pyjms_broker.api.access import Right
from pyjms_broker.api.broker import Broker, InnermostBroker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination, RegionDestination
from pyjms_broker.api.fields import check_connection, check_consumer, check_destination
from pyjms_broker.api.message import MessageReference, SubscriptionKey
from pyjms_broker.api.names import check_access, is_internal, is_reserved
from pyjms_broker.api.step_queue import StepQueue
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import CHARACTER_SIZE, CONSUMER_SIZE
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.policy.wildcard import PatternMap
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.dead_letters import send_to_dead_letter_queue
from pyjms_broker.region.destinations import (
    DestinationTable,
    InactiveDestinations,
    TemporaryOwners,
    make_destination,
)
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.expiry import ExpiryScanner
from pyjms_broker.region.flow_control import abort_blocked_sends
from pyjms_broker.region.memory_relief import Holder, MemoryRelief
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.slow_consumers import SlowConsumers
from pyjms_broker.region.subscription import (
    LAST_DELIVERED_UNKNOWN,
    LAST_DELIVERED_UNSET,
    SELECTS_NOTHING,
    QueueBrowserSubscription,
    QueueSubscription,
    SubscriptionRequest,
)
from pyjms_broker.region.system_usage import DestinationLimits, SystemUsage
from pyjms_broker.region.topic import Topic
from pyjms_broker.region.topic_subscription import TopicSubscription
from pyjms_broker.store.api import PersistenceAdapter, StoredSubscription, StoreState

if TYPE_CHECKING:
    from pyjms_broker.region.message_trail import MessageTrail
    from pyjms_broker.store.temp import TempStore

logger = get_logger(__name__)


class SubscriptionRegistry:
    """All subscriptions of a broker."""

    def __init__(self, broker: RegionBroker, destinations: DestinationTable) -> None:
        self._broker = broker
        self._policy_map = broker.policy_map
        self._table = destinations
        self._by_consumer: dict[ConsumerId | None, Subscription] = {}
        self._durables: dict[SubscriptionKey, DurableTopicSubscription] = {}
        self._of_clients: dict[str, dict[SubscriptionKey, DurableTopicSubscription]] = {}
        self._exact: dict[Destination, Subscription | dict[Subscription, None]] = {}
        """The subscriptions to single destinations. Most have one."""
        self._patterns: PatternMap[dict[Subscription, int]] = PatternMap()
        """The subscriptions to patterns, and to members of composites, with their order."""
        self._order = itertools.count()

    def get(self, consumer_id: ConsumerId | None) -> Subscription | None:
        """Return the subscription of a live consumer."""
        return self._by_consumer.get(consumer_id)

    def all(self) -> list[Subscription]:
        """Return the subscriptions of all consumers, then the inactive durable ones."""
        inactive = [durable for durable in self._durables.values() if not durable.is_active]
        return [*self._by_consumer.values(), *inactive]

    def durables(self) -> Iterable[DurableTopicSubscription]:
        """Return the durable subscriptions."""
        return self._durables.values()

    def matching(self, destination: Destination) -> list[Subscription]:
        """Return the subscriptions that match a new destination, inactive durable ones included.

        Those whose clients may not read from it are excluded. (activemq-edges SE5)
        """
        exact = self._exact.get(destination)
        found = [] if exact is None else list(exact) if isinstance(exact, dict) else [exact]
        if not is_internal(destination):
            matching: dict[Subscription, int] = {}
            for _, subscriptions in self._patterns.matching(destination):
                matching |= subscriptions
            found += sorted(
                # composites may mix queues and topics
                (each for each in matching if each.requested.is_topic == destination.is_topic),
                key=matching.__getitem__,
            )
        return [each for each in found if self._may_consume(each.context, destination)]

    def _may_consume(self, context: ConnectionContext, destination: Destination) -> bool:
        return context.may_read(destination) and (
            not destination.is_temporary or self._broker.temporaries.may_use(context, destination)
        )

    def _index(self, subscription: Subscription) -> None:
        requested = subscription.requested
        if not (requested.is_pattern or requested.is_composite):
            exact = self._exact.setdefault(requested, subscription)
            if isinstance(exact, dict):
                exact[subscription] = None
            elif exact is not subscription:
                self._exact[requested] = {exact: None, subscription: None}
            return
        number = next(self._order)
        for member in requested.composite_destinations:
            subscriptions = self._patterns.get(member)
            if subscriptions is None:
                subscriptions = self._patterns[member] = {}
            subscriptions[subscription] = number

    def _remove_from_index(self, subscription: Subscription) -> None:
        requested = subscription.requested
        if not (requested.is_pattern or requested.is_composite):
            exact = self._exact.get(requested)
            if isinstance(exact, dict):
                exact.pop(subscription, None)
            if not exact or exact is subscription:
                self._exact.pop(requested, None)
            return
        for member in requested.composite_destinations:
            subscriptions = self._patterns.get(member)
            if subscriptions is not None:
                subscriptions.pop(subscription, None)
                if not subscriptions:
                    self._patterns.pop(member)

    def add(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        """Create a consumer's subscription, or activate its durable one.

        A consumer that is already known keeps its subscription (activemq-broker C3).

        Raises:
            InvalidSelectorException: the selector is invalid.
            ResourceAllocationException: the client has too many resources.
            JMSException: the durable subscription is in use, or the destination does not allow
                durable subscriptions.
        """
        existing = self._by_consumer.get(info.consumer_id)
        if existing is not None:
            return existing
        size = CONSUMER_SIZE + CHARACTER_SIZE * len(info.selector or "")
        context.memory.reserve(size)
        try:
            subscription = self._add(context, info)
        except Exception:
            context.memory.release(size)
            raise
        subscription.reserved = size
        return subscription

    def _add(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        destination = info.destination
        if destination is None:
            raise InvalidDestinationException("A ConsumerInfo has no destination")
        if destination.is_topic and info.subscription_name is not None:
            return self._add_durable(context, info, destination)
        existing = self._table.get(destination)
        if existing is not None and existing.destination.options == destination.options:
            info.destination = destination = existing.destination  # one copy of the name
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
                subscription.reserve_match()
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
        return [found for found in matching if self._may_consume(context, found.destination)]

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
        subscription.context.memory.release(subscription.reserved)
        subscription.reserved = 0
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
        if self._broker.reject_durable_consumers:
            raise JMSException(
                f"Durable Consumers are not allowed: {info.subscription_name} on {destination}",
                hint="the broker has the setting reject_durable_consumers",
            )
        key = self._key(context, info.client_id, info.subscription_name)
        if context.access is not None and key.client_id != context.client_id:
            context.access.refuse("subscribe as the client", key.client_id)
        if destination.is_temporary or destination.physical_name.startswith(ADVISORY_PREFIX):
            raise JMSException(
                f"Cannot create a durable subscription for {destination}: "
                "temporary and advisory topics allow none"
            )
        policy = self._policy_map.entry_for(destination)
        prefetch = policy.durable_prefetch_for(info.prefetch_size)
        subscription = self._durables.get(key)
        if subscription is not None:
            self._check_owner(context, subscription)
        if (
            subscription is not None
            and not subscription.is_active
            and subscription.differs_from(info)
        ):
            self._remove_durable(context, subscription)
            subscription = None
        if subscription is None:
            request = SubscriptionRequest(self._broker, context, info, policy, prefetch)
            subscription = self._create_durable(request, key, context.user)
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
        self, request: SubscriptionRequest, key: SubscriptionKey, owner: str | None
    ) -> DurableTopicSubscription:
        subscription = DurableTopicSubscription(request, key, owner)
        self._durables[key] = subscription
        self._of_clients.setdefault(key.client_id, {})[key] = subscription
        self._index(subscription)
        try:
            for entry_point in self._readable(request.context, subscription.requested):
                entry_point.add_subscription(request.context, subscription)
        except Exception:
            self._remove_durable(request.context, subscription)
            raise
        return subscription

    def recover(self, stored: StoredSubscription) -> None:
        """Restore a durable subscription from a store, as inactive; log a failure."""
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
            self._create_durable(request, stored.key, stored.owner)
        except InvalidSelectorException as error:  # stored by a version that accepted it
            logger.error(
                "Durable subscription %s selects nothing, because its selector is refused: %s; "
                "unsubscribe it, or subscribe with another selector",
                stored.key,
                error,
            )
            info.selector = SELECTS_NOTHING
            self._create_durable(request, stored.key, stored.owner)

    def _key(
        self, context: ConnectionContext, client_id: str | None, name: str | None
    ) -> SubscriptionKey:
        client_id = client_id or context.client_id
        if not client_id or name is None:
            raise JMSException(
                "A durable subscription needs a client id and a name",
                hint="set the client id of the connection before it is used",
            )
        return SubscriptionKey(client_id, name)

    def _remove_durable(
        self, context: ConnectionContext, subscription: DurableTopicSubscription
    ) -> None:
        del self._durables[subscription.key]
        of_client = self._of_clients[subscription.key.client_id]
        del of_client[subscription.key]
        if not of_client:
            del self._of_clients[subscription.key.client_id]
        self._remove_from_index(subscription)
        self._detach(context, subscription, LAST_DELIVERED_UNKNOWN)

    def unsubscribe(self, context: ConnectionContext, info: RemoveSubscriptionInfo) -> Completion:
        """Remove a durable subscription and its undelivered messages.

        The result is completed when the stores have recorded the removal. (activemq-broker T21)
        """
        key = self._key(context, info.client_id, info.subscription_name)
        subscription = self._durables.get(key)
        if subscription is None:
            raise InvalidDestinationException(
                f"No durable subscription exists for clientID: {key.client_id} "
                f"and subscriptionName: {key.subscription_name}"
            )
        self._check_owner(context, subscription)
        if subscription.is_active:
            raise JMSException("Durable consumer is in use")
        self._remove_durable(context, subscription)
        return subscription.saved

    def check_client_id(self, context: ConnectionContext, client_id: str | None) -> None:
        """Check that a client uses no id with durable subscriptions, none of which it may use.

        Raises:
            JMSSecurityException: it does. (activemq-edges SE33)
        """
        found = tuple(self._of_clients.get(client_id or "", {}).values())
        usable = [
            each for each in found if each.owner == context.user or self._may_use(context, each)
        ]
        for subscription in usable or found:
            if subscription.owner is None or not usable:
                self._check_owner(context, subscription)

    @staticmethod
    def _may_use(context: ConnectionContext, subscription: DurableTopicSubscription) -> bool:
        return context.may_use(subscription.owner, [(Right.READ, subscription.requested)])

    def _check_owner(
        self, context: ConnectionContext, subscription: DurableTopicSubscription
    ) -> None:
        """Check that a durable subscription is the user's; one of unknown owner becomes it."""
        access = context.access
        if access is None:
            return
        if not self._may_use(context, subscription):
            key = subscription.key
            access.refuse(
                "use the durable subscription", f"{key.client_id}:{key.subscription_name}"
            )
        if subscription.owner is None:
            subscription.owner = context.user

    def of_client(self, client_id: str) -> list[DurableTopicSubscription]:
        """Return the durable subscriptions of a client, active or not."""
        return list(self._of_clients.get(client_id, {}).values())

    def durable_subscriptions(self) -> list[DurableTopicSubscription]:
        """Return all durable subscriptions, active or not."""
        return list(self._durables.values())

    def close(self) -> None:
        """Stop the background tasks of all subscriptions."""
        for subscription in (*self._by_consumer.values(), *self._durables.values()):
            subscription.close()


@dataclass(frozen=True)
class StoreCapabilities:
    """Capabilities, with ActiveMQ's names in snake_case; an adapter has those it supports as
    attributes.
    """

    is_volatile: bool = False
    """The store keeps all messages in memory, so cursors do the same."""
    concurrent_store_and_dispatch_queues: bool = False
    """Queues dispatch messages that are still being stored; the sender's response waits."""
    concurrent_store_and_dispatch_topics: bool = False
    """The same for topics."""

    has_several_journals: bool = False
    """Writes of different destinations may become durable in another order."""

    @staticmethod
    def of(adapter: PersistenceAdapter) -> StoreCapabilities:
        """Return the capabilities of a store."""
        names = StoreCapabilities.__dataclass_fields__
        return StoreCapabilities(**{n: bool(getattr(adapter, n, False)) for n in names})


class ClientIds:
    """The client ids in use, each by one connection. (activemq-broker C1)"""

    def __init__(self, broker_name: str) -> None:
        self._broker_name = broker_name
        self._contexts: dict[str, ConnectionContext] = {}

    def claim(self, client_id: str | None, context: ConnectionContext) -> None:
        """Assign the client id to `context`.

        If the connector allows link stealing, another connection of the user with that id is
        closed.
        """
        if client_id is None:
            raise InvalidClientIDException("No clientID specified for connection request")
        other = self._contexts.get(client_id)
        if other is not None and other is not context:
            self._steal_link(client_id, other, context)
        self._contexts[client_id] = context

    def get(self, client_id: str) -> ConnectionContext | None:
        """Return the connection that has the id."""
        return self._contexts.get(client_id)

    def release(self, client_id: str | None, context: ConnectionContext) -> None:
        """Release the id, unless another connection has taken it over."""
        if client_id is not None and self._contexts.get(client_id) is context:
            del self._contexts[client_id]

    def _steal_link(
        self, client_id: str, other: ConnectionContext, context: ConnectionContext
    ) -> None:
        connection = other.connection
        if connection is not None and connection.is_lost:
            connection.give_way(JMSException("The client has connected again"))
            return
        address = "the broker" if connection is None else connection.remote_address
        may_steal = context.allow_link_stealing and context.user == other.user
        if connection is None or not may_steal:
            raise InvalidClientIDException(
                f"Broker: {self._broker_name} - Client: {client_id} "
                f"already connected from {address}"
            )
        text = f"Stealing link for clientId {client_id} From Connection {address}"
        logger.warning("%s", text)
        connection.give_way(JMSException(text))


class RegionBroker(InnermostBroker):
    """The broker of queues and topics. Its store must be started first."""

    def __init__(
        self,
        store: PersistenceAdapter,
        policy_map: PolicyMap | None = None,
        broker_name: str = "localhost",
        *,
        system_usage: SystemUsage | None = None,
        temp_store: TempStore | None = None,
        allow_temp_auto_creation_on_send: bool = False,
        destination_limits: DestinationLimits | None = None,
        selector_limits: SelectorLimits = DEFAULT_LIMITS,
        selector_meter: SelectorMeter | None = None,
    ) -> None:
        """Create a broker; non-persistent messages are spooled to `temp_store` if memory is short.

        It adds a listener to both stores' states; existing listeners are still called.
        """
        self.store = store
        self.store_capabilities = StoreCapabilities.of(store)
        self.temp_store = temp_store
        self.policy_map = policy_map or PolicyMap()
        self.broker_name, self.own_path = broker_name, frozenset[BrokerId]()
        self.system_usage = system_usage or SystemUsage()
        self.system_usage.watch(store, temp_store)
        self.memory_relief = MemoryRelief(self.system_usage.memory, self._memory_holders)
        self.selector_limits = selector_limits
        self.selector_meter = selector_meter
        self.allow_temp_auto_creation_on_send = allow_temp_auto_creation_on_send
        self.expires_for_active_durables = False
        self.keep_durable_subs_active = True
        self.reject_durable_consumers = False
        self.root: Broker = self
        """The outermost filter, set by the code that builds the chain."""
        self.destination_interceptor: Callable[[BrokerDestination], BrokerDestination] | None = None
        """Wraps each new destination in its filters (ActiveMQ DestinationInterceptor)."""
        self.context = ConnectionContext()
        """The broker's own context, whose sends never wait for space."""
        self.context.is_broker = True
        self.context.producer_flow_control = False
        self.trail: MessageTrail | None = None
        """Records what happens to the messages of some destinations; set by its plug-in."""
        self.unwritable_count = 0
        """Messages set aside, because the connection of a consumer could not carry them."""
        self.queue_consumer_added: Callable[[Subscription], None] | None = None
        """Called for each new consumer of a queue, with its subscription."""
        self.evictions = StepQueue()
        """Evictions of slow topic consumers; what one discards may cause others."""
        self._table = DestinationTable(destination_limits or DestinationLimits())
        self.removed_statistics = self._table.removed_statistics
        self.subscriptions = SubscriptionRegistry(self, self._table)
        self.slow_consumers = SlowConsumers(self.policy_map, self.subscriptions.get)
        self._clients = ClientIds(broker_name)
        self.temporaries = TemporaryOwners()
        self._expiry = ExpiryScanner(lambda: store.state is StoreState.RUNNING)
        self._inactive = InactiveDestinations(self, self._table)
        self.next_sequence_id = itertools.count(1).__next__
        """Returns the next broker sequence number of a message (activemq-broker Q3)."""

    # life cycle
    async def start(self) -> None:
        """Restore the store's destinations and subscriptions, then start (activemq-broker T23)."""
        self.next_sequence_id = itertools.count(self.store.last_broker_sequence_id + 1).__next__
        slices = Slices()
        for destination in self.store.destinations():
            try:
                self.root.add_destination(self.context, destination)
            except Exception as error:  # no stored data may prevent a start
                logger.error(
                    "The stored destination %s could not be restored: %s", destination, error
                )
            await slices.after_item()
        for destination in self._table.all():
            if destination.is_topic and not destination.is_temporary:
                for stored in self.store.topic_message_store(destination).subscriptions():
                    self.subscriptions.recover(stored)
        self._expiry.start()
        self.slow_consumers.start()
        self._inactive.start()

    async def stop(self) -> None:
        """Stop dispatching and all background tasks. Idempotent."""
        await self._inactive.stop()
        await self.slow_consumers.stop()
        await self._expiry.stop()
        slices = Slices()
        for destination in self._table.all().values():
            destination.stop()
            await slices.after_item()
        self.subscriptions.close()
        await self.memory_relief.close()
        await self.system_usage.close()

    def _memory_holders(self) -> Iterable[Holder]:
        for destination in self._table.all().values():
            base = destination.base
            if isinstance(base, BaseDestination) and not base.destination.is_topic:
                yield from base.memory_holders()
        if not self.store_capabilities.is_volatile:
            yield from self.subscriptions.durables()

    # connections, sessions, producers
    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        """Register the connection's client id. (activemq-broker C1)

        Raises:
            InvalidClientIDException: there is none, or another connection uses it and link
                stealing is not allowed; or a name cannot be written.
        """
        check_connection(info)
        self.subscriptions.check_client_id(context, info.client_id)
        self._clients.claim(info.client_id, context)
        self.temporaries.add_connection(context)

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        abort_blocked_sends(context)
        self._table.created.connection_closed(context)
        self.temporaries.remove_connection(context)
        self._clients.release(info.client_id, context)

    def client_context(self, client_id: str) -> ConnectionContext | None:
        """Return the context of the connection that has a client id."""
        return self._clients.get(client_id)

    def add_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        """Do nothing: the connector keeps the sessions."""

    def remove_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        """Do nothing, as `add_session`."""

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        to = info.destination
        check_destination(to)
        if to is None or to.is_composite or is_reserved(context, to):
            return
        self._entry_point(context, to).statistics.producers += 1
        self._table.mark_used(to)

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        destination = None if info.destination is None else self._table.get(info.destination)
        if destination is not None and not is_reserved(context, destination.destination):
            destination.statistics.producers -= 1
            self._table.mark_used(destination.destination)

    # destinations
    def destinations(self) -> dict[Destination, BrokerDestination]:
        return dict(self._table.all())

    def queues_of_consumer(self, name: str) -> tuple[Destination, ...]:
        """Return the queues whose names begin with `Consumer.` and this element."""
        return self._table.of_consumer(name)

    def destinations_matching(self, wanted: Destination) -> tuple[BrokerDestination, ...]:
        """Return the existing destinations that a name, pattern or composite matches. Cached."""
        return self._table.matching(wanted)

    def destinations_overlapping(self, wanted: Destination) -> tuple[BrokerDestination, ...]:
        """Return the same, and the destinations whose own names are patterns like `wanted`."""
        return self._table.overlapping(wanted)

    def region_destination(self, destination: Destination) -> RegionDestination:
        """Return the destination itself, inside all filters; create it if it does not exist."""
        return self.root.add_destination(self.context, destination).base

    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        destination = _destination_of(context, info)
        self.temporaries.check_creation(context, destination)
        self.root.add_destination(context, destination, True)

    def remove_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        destination = _destination_of(context, info)
        self.temporaries.check(context, "remove", destination)
        self.root.remove_destination(context, destination, info.timeout / 1000)

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        """Return the destination; create it if it does not exist (activemq-broker D3, D4, D12).

        The maximums do not apply to destinations that the broker creates for itself.
        """
        entry_point = self._table.entry_point(destination)
        if entry_point is not None:
            return entry_point
        if (
            destination.is_temporary
            and not create_temporary
            and not self.allow_temp_auto_creation_on_send
        ):
            raise DestinationDoesNotExistException(
                destination.qualified_name, hint=f"The destination {destination} does not exist."
            )
        if not context.is_broker:
            self._table.check(context, destination)
        return self._create(context, destination)

    def _create(self, context: ConnectionContext, destination: Destination) -> BrokerDestination:
        created = make_destination(self, self._table.destinations, destination)
        entry_point: BrokerDestination = created
        if self.destination_interceptor is not None:
            entry_point = self.destination_interceptor(created)
        self._table.add(context, created, entry_point)
        self.temporaries.on_created(context, destination)
        self._expiry.add(created)
        self.slow_consumers.add(created)
        for subscription in self.subscriptions.matching(destination):
            try:
                subscription.reserve_match()
                entry_point.add_subscription(context, subscription)
            except JMSException as error:  # the destination and the other subscriptions remain
                logger.warning("%s cannot subscribe to %s: %s", subscription, destination, error)
        return entry_point

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        """Remove a destination and its messages; do nothing if it does not exist.

        With `timeout` 0, a permanent destination must have no subscriptions; otherwise they are
        detached. Unless `timeout` is negative, it must have no messages of transactions that are
        prepared or being committed. Other open transactions create it again at their commit.

        Raises:
            JMSException: it still has a subscription (activemq-broker D9), or such messages.
        """
        found = self._table.get(destination)
        if found is None:
            return
        if not destination.is_temporary:
            _check_removable(found, timeout)
        entry_point = self._table.entry_point(destination) or found
        found.disposed = True
        consumers = found.consumers
        for subscription in consumers:
            entry_point.remove_subscription(context, subscription, LAST_DELIVERED_UNKNOWN)
        self._expiry.remove(found)
        self.slow_consumers.remove(found)
        entry_point.dispose(context)
        self._table.remove(destination)
        self.temporaries.on_removed(destination)
        self.store.remove_message_store(destination)
        for subscription in consumers:
            connection, consumer_id = subscription.context.connection, subscription.consumer_id
            if connection and consumer_id and subscription.requested == destination:
                connection.on_destination_removed(consumer_id)

    def change_policies(self, policies: PolicyMap) -> dict[Destination, frozenset[str]]:
        """Apply these policies to new and existing destinations.

        A destination whose entry stays the same object keeps an operator's changes. Source:
        ActiveMQ PolicyEntry.update.

        Returns:
            By destination, the attributes that differ but take effect only for a new destination.
        """
        before = {name: self.policy_map.entry_for(name) for name in self._table.destinations}
        self.policy_map.replace(policies)
        kept: dict[Destination, frozenset[str]] = {}
        for name, found in self._table.all().items():
            entry = self.policy_map.entry_for(name)
            if entry is before[name]:
                continue
            self._expiry.remove(found)
            self.slow_consumers.remove(found)
            kept[name] = found.change_policy(entry)
            self._expiry.add(found)
            self.slow_consumers.add(found)
        return {name: attributes for name, attributes in kept.items() if attributes}

    def change_filters(self, wrap: Callable[[BrokerDestination], BrokerDestination]) -> None:
        """Replace the filters around all destinations; messages sent before are not affected."""
        for name, found in self._table.all().items():
            self._table.change_entry_point(name, wrap(found))

    def _entry_point(
        self, context: ConnectionContext, destination: Destination
    ) -> BrokerDestination:
        entry_point = self._table.entry_point(destination)
        if entry_point is None:
            self.root.add_destination(context, destination, self.allow_temp_auto_creation_on_send)
            entry_point = self._table.entry_point(destination)
            if entry_point is None:
                raise InvalidDestinationException(
                    f"{destination} was not created: a broker filter did not pass the call on",
                    hint="check add_destination of the broker plug-ins",
                )
        return entry_point

    # consumers
    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        destination = info.destination
        if destination is None:
            raise InvalidDestinationException("A ConsumerInfo has no destination")
        check_consumer(info)
        if not destination.is_pattern:  # patterns do not match internal destinations
            check_access(context, destination)
            self.temporaries.check(context, Right.READ.value, destination)
            if not destination.is_composite:
                self._entry_point(context, destination)
        subscription = self.subscriptions.add(context, info)
        if info.prefetch_size and not subscription.prefetch_size:
            subscription.request_pulls()
        if destination.is_queue and self.queue_consumer_added is not None:
            try:
                self.queue_consumer_added(subscription)
            except Exception:
                self.subscriptions.remove(context, info, LAST_DELIVERED_UNSET)
                raise
        return subscription

    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        self.subscriptions.remove(context, info, last_delivered_sequence_id)

    def remove_subscription(
        self, context: ConnectionContext, info: RemoveSubscriptionInfo
    ) -> Completion:
        return self.subscriptions.unsubscribe(context, info)

    # messages
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        destination = message.destination
        message_id = message.message_id
        if destination is None or message_id is None:
            raise InvalidDestinationException("A message has no destination or no message id")
        if message_id.broker_sequence_id:
            message.message_id = MessageId(  # drop the number of another broker or destination
                message_id.text_view, message_id.producer_id, message_id.producer_sequence_id
            )
        message.broker_in_time = _clock.time_ms()
        message.broker_out_time = 0
        entry_point, version = exchange.region_destination, self._table.version
        if exchange.destination is not destination or exchange.table_version != version:
            entry_point = None
        if entry_point is None:
            if not exchange.is_internal:
                check_access(exchange.context, destination)
            entry_point = self._entry_point(exchange.context, destination)
            exchange.destination = destination
            exchange.region_destination, exchange.table_version = entry_point, version
        return entry_point.send(exchange, message)

    def send_run(self, exchange: ProducerExchange, messages: list[ActiveMQMessage]) -> int:
        destination = exchange.region_destination
        if exchange.table_version == self._table.version:
            if type(destination) is Queue:
                return destination.send_run(exchange, messages)
            if type(destination) is Topic:
                return destination.send_run(exchange, messages)
        return 0  # such as one that forwards each message to others

    def acknowledge_run(self, exchange: ConsumerExchange, acks: deque[MessageAck]) -> Completion:
        subscription = exchange.subscription
        return COMPLETED if subscription is None else subscription.acknowledge_run(acks)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        subscription = exchange.subscription
        if subscription is None:
            subscription = self.subscriptions.get(ack.consumer_id)
            if subscription is None:
                if exchange.transaction is not None:
                    logger.warning(
                        "Acknowledgement of an unknown consumer in a transaction ignored: %s", ack
                    )
                return COMPLETED
        return subscription.acknowledge(exchange, ack)

    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        subscription = self.subscriptions.get(pull.consumer_id)
        if subscription is not None:
            subscription.pull(pull)

    def process_consumer_control(
        self, exchange: ConsumerExchange, control: ConsumerControl
    ) -> None:
        subscription = exchange.subscription or self.subscriptions.get(control.consumer_id)
        if subscription is not None and not control.close:
            subscription.set_prefetch(control.prefetch)

    # events
    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        cause = Throwable(
            "java.lang.Throwable", f"Message Expired. Expiration:{reference.expiration}"
        )
        try:
            self.root.send_to_dead_letter_queue(context, reference, subscription, cause)
        except JMSException as error:  # the expired message is removed anyway
            where, which = reference.destination, reference.message_id
            logger.warning("%s: expired %s could not be dead-lettered: %s", where, which, error)

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        return send_to_dead_letter_queue(self, reference, subscription, cause)

    def mark_dead_letter_queue(self, destination: Destination) -> None:
        """Record that dead letters go to this destination (activemq-broker L6)."""
        found = self._table.get(destination)
        if found is not None:
            found.is_dead_letter_queue = True


def _destination_of(context: ConnectionContext, info: DestinationInfo) -> Destination:
    if info.destination is None:
        raise InvalidDestinationException("A DestinationInfo has no destination")
    check_access(context, info.destination)
    return info.destination


def _check_removable(found: BaseDestination, timeout: float) -> None:
    """Check that a permanent destination may be removed; see `remove_destination`."""
    consumers = found.consumers
    if consumers and timeout == 0:
        raise JMSException(f"Destination: {found} still has an active subscription: {consumers[0]}")
    if found.prepared_sends and timeout >= 0:
        raise JMSException(
            f"Destination: {found} still has messages of transactions that are prepared or being "
            "committed",
            hint="commit or roll back the prepared transactions, then try again",
        )
