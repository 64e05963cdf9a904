"""The filter that sends advisories about connections, destinations, clients and messages.

The current state is kept for consumers that subscribe later, and is replayed only to them
(activemq-broker V-A2). Advisory topics and their consumers cause no advisories. Java clients need
the advisories about temporary destinations: they do not send to one without an advisory. Advisories
about messages, slow consumers, fast producers and full memory are sent if the policy of the
destination says so; copies of a message for several destinations cause one advisory each.
(activemq-broker 11; openwire-encoding 17)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.jms.destination import (
    ADVISORY_KINDS,
    ADVISORY_PREFIX,
    ADVISORY_WORDS,
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    advisory_topic,
)
from pyjms.jms.types import Long
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    BrokerInfo,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DataStructure,
    DestinationInfo,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Throwable,
)
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference, copy_command, copy_for_destination
from pyjms_broker.api.names import is_internal
from pyjms_broker.api.step_queue import StepQueue
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.policy.wildcard import MAX_CACHED_LENGTH, PatternMap, matches
from pyjms_broker.region.base_destination import ADVISORY_TYPE
from pyjms_broker.region.topic_subscription import TopicSubscription

if TYPE_CHECKING:
    from pyjms_broker.filters.virtual_destinations import VirtualDestination
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

# the names of advisory topics

MASTER_BROKER = ADVISORY_PREFIX + "MasterBroker"
CONNECTION = ADVISORY_PREFIX + "Connection"
NETWORK_BRIDGE = ADVISORY_PREFIX + "NetworkBridge"
FORWARD_FAILURE = NETWORK_BRIDGE + ".ForwardFailure"
CONSUMER_PREFIX = ADVISORY_PREFIX + "Consumer."
PRODUCER_PREFIX = ADVISORY_PREFIX + "Producer."
VIRTUAL_CONSUMER_PREFIX = ADVISORY_PREFIX + "VirtualDestination.Consumer."
ANONYMOUS_PRODUCER = PRODUCER_PREFIX + "Anonymous"

DESTINATION_KINDS: dict[str, int] = {
    ADVISORY_PREFIX + word: kind.TYPE for word, kind in ADVISORY_KINDS.items()
}
"""The destination types of destination advisories, by topic name."""

_ABOUT_A_DESTINATION = (
    "Consumer", "Producer", "Expired", "NoConsumer", "SlowConsumer", "FastProducer",
    "MessageDiscarded", "MessageDelivered", "MessageConsumed", "MessageDLQd", "FULL",
)  # fmt: skip


def is_advisory_topic(destination: Destination | None) -> bool:
    """Whether `destination`, or a member of the composite, is an advisory topic."""
    if destination is None or not destination.is_topic:
        return False
    if destination.is_composite:
        return any(is_advisory_topic(member) for member in destination.composite_destinations)
    return destination.physical_name.startswith(ADVISORY_PREFIX)


def destination_topic(destination: Destination) -> Topic:
    """Return the topic of advisories about the creation and removal of `destination`."""
    return Topic(ADVISORY_PREFIX + ADVISORY_WORDS[destination.TYPE])


def consumer_topic(destination: Destination) -> Topic:
    """Return the topic of consumer advisories; temporary ones also use Queue and Topic."""
    return advisory_topic("Consumer", destination)


def producer_topic(destination: Destination | None) -> Topic:
    """Return the topic of producer advisories; None: for producers without a destination."""
    if destination is None:
        return Topic(ANONYMOUS_PRODUCER)
    return advisory_topic("Producer", destination)


def virtual_consumer_topic(destination: Destination) -> Topic:
    """Return the topic of advisories about consumers fed by a virtual destination."""
    return advisory_topic("VirtualDestination.Consumer", destination)


def topics_about(destination: Destination) -> list[Topic]:
    """Return all advisory topics that concern only `destination` (activemq-broker D10)."""
    lasting = (Queue if destination.is_queue else Topic)(destination.physical_name)
    found = (
        advisory_topic(event, each)
        for event in _ABOUT_A_DESTINATION
        for each in (lasting, destination)
    )
    return list(dict.fromkeys(found))


_MAXIMUM_INCLUDED: Final = 1000


class AdvisoryConsumers:
    """The consumers that may get advisories, on advisory topics or on topic patterns.

    An advisory without a consumer is not created. All Java clients consume from the same two
    topics, so that only the different topics are kept, with the numbers of their consumers.
    """

    def __init__(self, policies: PolicyMap) -> None:
        """Create it with the policies that let topics keep messages for later consumers."""
        self._policies = policies
        self._by_consumer: dict[ConsumerId, tuple[Destination, ...]] = {}
        self._counts: PatternMap[int] = PatternMap()
        self._included: dict[str, bool] = {}
        """Answers by topic name, until the topics that are subscribed to change."""

    def add(self, info: ConsumerInfo) -> None:
        """Add a consumer if it may get advisories."""
        if info.destination is None or info.consumer_id is None:
            return
        subscribed = tuple(
            member
            for member in info.destination.composite_destinations
            if member.is_topic
            and (member.is_pattern or member.physical_name.startswith(ADVISORY_PREFIX))
        )
        if subscribed and info.consumer_id not in self._by_consumer:
            self._by_consumer[info.consumer_id] = subscribed
            for member in subscribed:
                self._set_count(member, (self._counts.get(member) or 0) + 1)

    def remove(self, consumer_id: ConsumerId | None) -> None:
        """Remove a consumer; unknown ones are ignored."""
        for member in self._by_consumer.pop(consumer_id, ()) if consumer_id is not None else ():
            self._set_count(member, (self._counts.get(member) or 0) - 1)

    def _set_count(self, member: Destination, count: int) -> None:
        if self._counts.get(member) is None or count <= 0:
            self._included.clear()
        if count > 0:
            self._counts[member] = count
        else:
            self._counts.pop(member)

    def includes(self, topic: Topic) -> bool:
        """Return whether a consumer, or a later one, may get a message sent to `topic`."""
        name = topic.physical_name
        found = self._included.get(name)
        if found is None:
            found = next(self._counts.matching(topic), None) is not None or (
                self._policies.entry_for(topic).subscription_recovery_policy is not None
            )
            if len(name) <= MAX_CACHED_LENGTH:
                if len(self._included) >= _MAXIMUM_INCLUDED:
                    self._included.clear()
                self._included[name] = found
        return found


Advise = Callable[[Topic, Destination, Command, ConsumerId | None], None]
"""Sends an advisory to a topic, with the number of consumers of a destination."""


class _Demand(NamedTuple):
    source: VirtualDestination
    info: ConsumerInfo


class VirtualDemand:
    """The consumers, and optionally the queues, fed by virtual destinations.

    Networks of brokers need it to forward to a topic whose consumers all use queues. A consumer fed
    by several virtual destinations counts only for the first one. (activemq-broker 11)
    """

    def __init__(
        self, sources: Sequence[VirtualDestination], advise: Advise, *, of_queues: bool
    ) -> None:
        """Report the demand for `sources`; `of_queues`: including queues without consumers.

        (ActiveMQ useVirtualDestSubs, useVirtualDestSubsOnCreation)
        """
        self._sources = tuple(sources)
        self._advise = advise
        self._of_queues = of_queues
        self._by_consumer: dict[ConsumerId, _Demand] = {}
        self._by_queue: dict[Destination, _Demand] = {}
        self._connections = IdGenerator()
        self._numbers = itertools.count(1)

    def consumer_added(self, info: ConsumerInfo) -> None:
        """Report a new consumer, if a virtual destination feeds its destination."""
        if info.destination is not None and info.consumer_id is not None:
            demand = self._demand(info.destination, info)
            if demand is not None:
                self._by_consumer.setdefault(info.consumer_id, demand)

    def consumer_removed(self, info: ConsumerInfo) -> None:
        """Report the end of a reported consumer."""
        if info.consumer_id is not None and info.destination is not None:
            self._end(self._by_consumer.pop(info.consumer_id, None), info.destination)

    def destination_added(self, destination: Destination) -> None:
        """Report a new queue as if it had a consumer, if a virtual destination feeds it."""
        if not self._of_queues or not destination.is_queue or destination in self._by_queue:
            return
        number = next(self._numbers)
        info = ConsumerInfo(ConsumerId(self._connections.generate(), number, number))
        demand = self._demand(destination, info)
        if demand is not None:
            self._by_queue[destination] = demand

    def destination_removed(self, destination: Destination) -> None:
        """Report the removal of a reported queue."""
        demand = self._by_queue.pop(destination, None)
        if demand is not None and demand.info.destination is not None:
            self._end(demand, demand.info.destination)

    def replay(self, subscribed: Destination, target: ConsumerId) -> None:
        """Report the current demand only to a new consumer of advisories."""
        for demand in (*self._by_consumer.values(), *self._by_queue.values()):
            about = demand.info.destination
            if about is None:
                continue
            topic = virtual_consumer_topic(about)
            if matches(subscribed, topic):
                self._advise(topic, about, demand.info, target)

    def _demand(self, destination: Destination, info: ConsumerInfo) -> _Demand | None:
        for source in self._sources:
            demanded = source.demanded_by(destination)
            if demanded is not None:
                copy = copy_command(info)
                copy.destination = demanded
                self._advise(virtual_consumer_topic(demanded), demanded, copy, None)
                return _Demand(source, copy)
        return None

    def _end(self, demand: _Demand | None, counted: Destination) -> None:
        if demand is not None and demand.info.consumer_id is not None:
            topic = virtual_consumer_topic(demand.source.virtual_destination)
            self._advise(topic, counted, RemoveInfo(demand.info.consumer_id), None)


_ADDED, _REMOVED = 0, 1
_REPLAYED_AT_ONCE: Final = 100
_END: Final = object()
_MASTER_BROKER = Topic(MASTER_BROKER)
_NETWORK_BRIDGE = Topic(NETWORK_BRIDGE)
_FORWARD_FAILURE = Topic(FORWARD_FAILURE)
_NOTHING: Mapping[str, object] = {}


class AdvisoryBroker(BrokerFilter):
    """Sends advisory messages about each operation, after it has succeeded."""

    def __init__(
        self,
        next_broker: Broker,
        region: RegionBroker,
        broker_id: BrokerId,
        broker_url: Callable[[], str],
        *,
        anonymous_producers: bool = False,
        virtual_sources: Sequence[VirtualDestination] = (),
        virtual_demand_of_queues: bool = False,
    ) -> None:
        super().__init__(next_broker)
        self._broker_id = broker_id
        self._broker_url = broker_url
        self._producer_id = ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)
        self._advisory_consumers = AdvisoryConsumers(region.policy_map)
        self._region = region
        self._sends = StepQueue()  # an advisory may cause others while it is dispatched
        self._anonymous_producers = anonymous_producers
        self._connections: dict[ConnectionId, ConnectionInfo] = {}
        self._destinations: dict[Destination, DestinationInfo] = {}
        self._temporary: dict[Destination, DestinationInfo] = {}
        """Apart from the others, because each Java client asks for them when it connects."""
        self._consumers: dict[ConsumerId, ConsumerInfo] = {}
        self._producers: dict[tuple[ProducerId, Destination | None], ProducerInfo] = {}
        self._bridges: list[tuple[BrokerInfo, bool, str]] = []
        self._is_master = False
        self._replays: set[BackgroundTask] = set()
        self._virtual_demand = VirtualDemand(
            virtual_sources, self._advise_with_count, of_queues=virtual_demand_of_queues
        )
        self._durable: dict[tuple[str | None, str | None], Destination] = {}

    async def stop(self) -> None:
        await end_tasks(*self._replays)
        await super().stop()

    # connections
    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        self.next.add_connection(context, info)
        if info.connection_id is not None:
            copy = copy_command(info)
            copy.password = ""
            self._connections[info.connection_id] = copy
            self._advise(Topic(CONNECTION), copy)

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self.next.remove_connection(context, info, error)
        if info.connection_id is not None and info.connection_id in self._connections:
            del self._connections[info.connection_id]
            self._advise(Topic(CONNECTION), _removal(info.connection_id, info))

    # destinations
    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        result = self.next.add_destination(context, destination, create_temporary)
        if destination not in self._reported_in(destination):
            self._destination_added(DestinationInfo(context.connection_id, destination, _ADDED))
        return result

    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        self.next.add_destination_info(context, info)
        self._destination_added(info)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        self.next.remove_destination(context, destination, timeout)
        self._destination_removed(context, destination)

    def remove_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        self.next.remove_destination_info(context, info)
        if info.destination is not None:
            self._destination_removed(context, info.destination)

    def _reported_in(self, destination: Destination) -> dict[Destination, DestinationInfo]:
        return self._temporary if destination.is_temporary else self._destinations

    def _destination_added(self, info: DestinationInfo) -> None:
        destination = info.destination
        if (
            destination is None
            or destination in self._reported_in(destination)
            or is_advisory_topic(destination)
            or is_internal(destination)
        ):
            return
        self._reported_in(destination)[destination] = info
        self._virtual_demand.destination_added(destination)
        self._advise(destination_topic(destination), info)

    def _destination_removed(self, context: ConnectionContext, destination: Destination) -> None:
        info = self._reported_in(destination).pop(destination, None)
        if info is None:
            return
        self._virtual_demand.destination_removed(destination)
        removal = copy_command(info)
        removal.operation_type = _REMOVED
        self._advise(destination_topic(destination), removal)
        for topic in topics_about(destination):
            if self._region.destinations_matching(topic):
                self.next.remove_destination(context, topic, -1)

    # this broker
    def now_master_broker(self) -> None:
        """Send the advisory to its consumers, and to later ones when they subscribe."""
        self.next.now_master_broker()
        self._is_master = True
        self._advise(_MASTER_BROKER, None)

    # bridges to other brokers
    def network_bridge_started(
        self, info: BrokerInfo, created_by_duplex: bool, remote_address: str
    ) -> None:
        self.next.network_bridge_started(info, created_by_duplex, remote_address)
        self._bridges.append((info, created_by_duplex, remote_address))
        self._advise_of_bridge(info, created_by_duplex, remote_address, None)

    def network_bridge_stopped(self, info: BrokerInfo) -> None:
        self.next.network_bridge_stopped(info)
        self._bridges = [each for each in self._bridges if each[0] is not info]
        self._advise(_NETWORK_BRIDGE, info, None, {"started": False})

    def _advise_of_bridge(
        self,
        info: BrokerInfo,
        created_by_duplex: bool,
        remote_address: str,
        target: ConsumerId | None,
    ) -> None:
        properties = {
            "started": True,
            "createdByDuplex": created_by_duplex,
            "remoteIp": remote_address,
        }
        self._advise(_NETWORK_BRIDGE, info, target, properties)

    def network_forward_failed(self, message: ActiveMQMessage, cause: Exception) -> None:
        self.next.network_forward_failed(message, cause)
        if self._advisory_consumers.includes(_FORWARD_FAILURE):
            about = copy_command(message)
            about.raw = None
            self._send(_FORWARD_FAILURE, about, None, {"cause": str(cause)})

    # consumers
    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        subscription = self.next.add_consumer(context, info)
        self._advisory_consumers.add(info)
        destination = info.destination
        if destination is None or info.consumer_id is None:
            return subscription
        if self._is_master and any(
            matches(member, _MASTER_BROKER) for member in destination.composite_destinations
        ):
            self._send(_MASTER_BROKER, None, info.consumer_id, _NOTHING)
        if is_advisory_topic(destination):
            for member in destination.composite_destinations:
                self._begin_replay(context, member, info.consumer_id)
        else:
            self._consumers[info.consumer_id] = info
            if info.subscription_name is not None:
                info.client_id = info.client_id or context.client_id  # old clients omit it
                self._durable[context.client_id, info.subscription_name] = destination
            self._virtual_demand.consumer_added(info)
            self._advise_of_consumer(destination, info)
        return subscription

    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        self.next.remove_consumer(context, info, last_delivered_sequence_id)
        self._advisory_consumers.remove(info.consumer_id)
        destination, consumer_id = info.destination, info.consumer_id
        if destination is None or consumer_id is None:
            return
        self._virtual_demand.consumer_removed(info)
        if self._consumers.pop(consumer_id, None) is not None and self._is_reported_end(
            destination
        ):
            self._advise_of_consumer(destination, _removal(consumer_id, info))

    def remove_subscription(
        self, context: ConnectionContext, info: RemoveSubscriptionInfo
    ) -> Completion:
        result = self.next.remove_subscription(context, info)
        durable_on = self._durable.pop((info.client_id, info.subscription_name), None)
        if durable_on is not None:
            self._advise_of_consumer(durable_on, info)
        return result

    # producers
    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        self.next.add_producer(context, info)
        if info.producer_id is not None and self._is_reported(info):
            self._producers[info.producer_id, info.destination] = info
            self._advise_of_producer(info.destination, info)

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        self.next.remove_producer(context, info)
        if info.producer_id is None or not self._is_reported(info):
            return
        self._producers.pop((info.producer_id, info.destination), None)
        if info.destination is None or self._is_reported_end(info.destination):
            self._advise_of_producer(info.destination, _removal(info.producer_id, info))

    def _is_reported(self, info: ProducerInfo) -> bool:
        if info.destination is None:
            return self._anonymous_producers
        return not is_advisory_topic(info.destination)

    # messages
    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self.next.message_expired(context, reference, subscription)
        self._advise_of_message(
            "Expired", reference, {"orignalMessageId": str(reference.message_id)}
        )

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        done = self.next.send_to_dead_letter_queue(context, reference, subscription, cause)
        if done:
            self._advise_of_message("MessageDLQd", reference, _NOTHING)
        return done

    def message_discarded(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self.next.message_discarded(context, reference, subscription)
        properties = _origin(reference)
        if subscription is not None:
            properties["consumerId"] = str(subscription.info.consumer_id)
            if isinstance(subscription, TopicSubscription):
                properties["discardedCount"] = subscription.discarded_count
        self._advise_of_message("MessageDiscarded", reference, properties)

    def message_delivered(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.next.message_delivered(context, reference)
        self._advise_of_message("MessageDelivered", reference, _origin(reference))

    def message_dispatched(
        self, context: ConnectionContext, reference: MessageReference, subscription: Subscription
    ) -> None:
        self.next.message_dispatched(context, reference, subscription)
        properties = {**_origin(reference), "consumerId": str(subscription.info.consumer_id)}
        self._advise_of_message("MessageDispatched", reference, properties)

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.next.message_consumed(context, reference)
        self._advise_of_message("MessageConsumed", reference, _origin(reference))

    def message_without_consumers(
        self, context: ConnectionContext, reference: MessageReference
    ) -> None:
        """Send the message itself to the advisory topic, not an advisory about it."""
        self.next.message_without_consumers(context, reference)
        topic = advisory_topic("NoConsumer", reference.destination.destination)
        if not self._advisory_consumers.includes(topic):
            return
        message = reference.message
        is_forwarded = message.original_destination is not None
        copy = copy_for_destination(message, topic, message.destination if is_forwarded else None)
        copy.transaction_id = None
        copy.response_required = False
        copy.raw = None
        self._send_message(copy)

    # consumers, producers, memory
    def slow_consumer(
        self, context: ConnectionContext, destination: BrokerDestination, subscription: Subscription
    ) -> None:
        self.next.slow_consumer(context, destination, subscription)
        properties = {"consumerId": str(subscription.info.consumer_id)}
        self._advise_of_destination("SlowConsumer", destination, subscription.info, properties)

    def fast_producer(
        self,
        context: ConnectionContext,
        info: ProducerInfo,
        destination: BrokerDestination,
    ) -> None:
        self.next.fast_producer(context, info, destination)
        properties = {"producerId": str(info.producer_id)}
        self._advise_of_destination("FastProducer", destination, info, properties)

    def destination_full(
        self, context: ConnectionContext, destination: BrokerDestination, usage: MemoryUsage
    ) -> None:
        self.next.destination_full(context, destination, usage)
        properties = {"usageName": usage.name, "usageCount": Long(usage.used)}
        self._advise_of_destination("FULL", destination, None, properties)

    # sending
    def _is_reported_end(self, destination: Destination) -> bool:
        """Return whether the removal of a client of `destination` is reported.

        It is not if a temporary destination was removed before. (activemq-broker V-A1)
        """
        return not destination.is_temporary or destination in self._temporary

    def _advise_of_consumer(
        self, destination: Destination, about: Command, target: ConsumerId | None = None
    ) -> None:
        self._advise_with_count(consumer_topic(destination), destination, about, target)

    def _advise_with_count(
        self, topic: Topic, destination: Destination, about: Command, target: ConsumerId | None
    ) -> None:
        if self._advisory_consumers.includes(topic):
            matching = self._region.destinations_matching(destination)
            count = sum(d.statistics.consumers for d in matching)
            self._send(topic, about, target, {"consumerCount": count})

    def _advise_of_producer(
        self, destination: Destination | None, about: Command, target: ConsumerId | None = None
    ) -> None:
        topic = producer_topic(destination)
        if self._advisory_consumers.includes(topic):
            matching = (
                () if destination is None else self._region.destinations_matching(destination)
            )
            count = sum(d.statistics.producers for d in matching)
            self._send(topic, about, target, {"producerCount": count})

    def _advise(
        self,
        topic: Topic,
        about: Command | None,
        target: ConsumerId | None = None,
        properties: Mapping[str, object] = _NOTHING,
    ) -> None:
        if self._advisory_consumers.includes(topic):
            self._send(topic, about, target, properties)

    def _advise_of_destination(
        self,
        event: str,
        destination: BrokerDestination,
        about: Command | None,
        properties: Mapping[str, object],
    ) -> None:
        if not is_advisory_topic(destination.destination):
            self._advise(advisory_topic(event, destination.destination), about, None, properties)

    def _advise_of_message(
        self, event: str, reference: MessageReference, properties: Mapping[str, object]
    ) -> None:
        base, message = reference.destination, reference.message
        sent_to = message.destination
        if sent_to is None or is_advisory_topic(base.destination):
            return
        topic = advisory_topic(event, base.destination)
        if self._advisory_consumers.includes(topic):
            copy = copy_for_destination(message, sent_to, message.original_destination)
            if not base.advisories_include_body:
                copy.content = copy.raw = None
            self._send(topic, copy, None, properties)

    def _send(
        self,
        topic: Topic,
        about: Command | None,
        target: ConsumerId | None,
        properties: Mapping[str, object],
    ) -> None:
        origin = {
            "originBrokerName": self._region.broker_name,
            "originBrokerId": str(self._broker_id),
            "originBrokerURL": self._broker_url(),
        }
        message = ActiveMQMessage(
            producer_id=self._producer_id,
            destination=topic,
            message_id=MessageId(None, self._producer_id, next(self._sequence)),
            type=ADVISORY_TYPE,
            marshalled_properties=encode_map({**origin, **properties}),
            data_structure=about,
            target_consumer_id=target,
        )
        self._send_message(message)

    def _send_message(self, message: ActiveMQMessage) -> None:
        self._sends.run(partial(self._send_now, message))

    def _send_now(self, message: ActiveMQMessage) -> None:
        try:
            self.next.send(ProducerExchange(self._region.context), message)
        except JMSException:
            logger.warning("Failed to send an advisory to %s", message.destination, exc_info=True)

    def _begin_replay(
        self, context: ConnectionContext, topic: Destination, target: ConsumerId
    ) -> None:
        """Send the current state to `target`, a new consumer of `topic` (activemq-broker V-A2).

        If it is long, the rest follows in slices. What changes meanwhile is sent at once, so the
        rest contains only what is still there. The client is not read before the end: a Java client
        must know the temporary destination of a request before it gets the request.
        """
        steps = self._replay(topic, target)
        for _ in range(_REPLAYED_AT_ONCE):
            if next(steps, _END) is _END:
                return
        done = Completion()
        if context.connection is not None:
            context.connection.pause_until(done)
        task = spawn(self._continue_replay, steps, target, done, name=f"advisories for {target}")
        self._replays = {task, *(each for each in self._replays if not each.done)}

    async def _continue_replay(
        self, steps: Iterator[None], target: ConsumerId, done: Completion
    ) -> None:
        slices = Slices()
        try:
            for _ in steps:
                await slices.after_item()
                if self._region.subscriptions.get(target) is None:
                    break
        finally:
            done.complete()

    def _replay(self, topic: Destination, target: ConsumerId) -> Iterator[None]:
        name = topic.physical_name
        if name == CONNECTION:
            for connection_id, connection in list(self._connections.items()):
                if connection_id in self._connections:
                    self._advise(Topic(name), connection, target)
                yield
        elif matches(topic, _NETWORK_BRIDGE):
            for bridge in self._bridges:
                self._advise_of_bridge(*bridge, target)
        elif name in DESTINATION_KINDS:
            kind = DESTINATION_KINDS[name]
            is_temporary = kind in (TemporaryQueue.TYPE, TemporaryTopic.TYPE)
            reported = self._temporary if is_temporary else self._destinations
            for destination, added in list(reported.items()):
                if kind == destination.TYPE and destination in reported:
                    self._advise(Topic(name), added, target)
                yield
        elif name.startswith(CONSUMER_PREFIX):
            for consumer_id, consumer in list(self._consumers.items()):
                to = consumer.destination
                is_there = consumer_id in self._consumers
                if is_there and to is not None and matches(topic, consumer_topic(to)):
                    self._advise_of_consumer(to, consumer, target)
                yield
        elif name.startswith(VIRTUAL_CONSUMER_PREFIX):
            self._virtual_demand.replay(topic, target)
        elif name.startswith(PRODUCER_PREFIX):
            for key, producer in list(self._producers.items()):
                if key in self._producers and matches(topic, producer_topic(producer.destination)):
                    self._advise_of_producer(producer.destination, producer, target)
                yield


def _origin(reference: MessageReference) -> dict[str, object]:
    """Return the origin of a message; the misspelt names are the official ones."""
    return {
        "orignalMessageId": str(reference.message_id),
        "orignalDestination": reference.destination.destination.qualified_name,
    }


def _removal(object_id: DataStructure, info: Command) -> RemoveInfo:
    return RemoveInfo(object_id, response_required=info.response_required)
