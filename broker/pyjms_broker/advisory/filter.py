"""The filter that sends advisories about connections, destinations and clients.

The current state is kept for consumers that subscribe later, and is replayed only to them
(activemq-broker V-A2). Advisory topics and their consumers cause no advisories. Java clients need
the advisories about temporary destinations: they do not send to one without an advisory.
(activemq-broker 11; openwire-encoding 17)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination, Topic
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.commands import ConsumerInfo
from pyjms_broker.advisory import topics
from pyjms_broker.advisory.events import EventAdvisories
from pyjms_broker.advisory.messages import AdvisoryProducer
from pyjms_broker.advisory.virtual_demand import VirtualDemand, VirtualSource
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.copying import copy_command
from pyjms_broker.api.internal_destinations import is_internal
from pyjms_broker.policy.wildcard import matches

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["AdvisoryBroker"]

_ADDED, _REMOVED = 0, 1
_MASTER_BROKER = Topic(topics.MASTER_BROKER)
_NETWORK_BRIDGE = Topic(topics.NETWORK_BRIDGE)
_FORWARD_FAILURE = Topic(topics.FORWARD_FAILURE)
_NOTHING: dict[str, object] = {}


class AdvisoryBroker(EventAdvisories):
    """Sends advisory messages about each operation, after it has succeeded."""

    def __init__(
        self,
        next_broker: Broker,
        producer: AdvisoryProducer,
        region: RegionBroker,
        *,
        anonymous_producers: bool = False,
        virtual_sources: Sequence[VirtualSource] = (),
        virtual_demand_of_queues: bool = False,
    ) -> None:
        super().__init__(next_broker, producer, region.policy_map)
        self._region = region
        self._anonymous_producers = anonymous_producers
        self._connections: dict[commands.ConnectionId, commands.ConnectionInfo] = {}
        self._destinations: dict[Destination, commands.DestinationInfo] = {}
        self._consumers: dict[commands.ConsumerId, ConsumerInfo] = {}
        self._producers: dict[
            tuple[commands.ProducerId, Destination | None], commands.ProducerInfo
        ] = {}
        self._bridges: list[tuple[commands.BrokerInfo, bool, str]] = []
        self._is_master = False
        self._virtual_demand = VirtualDemand(
            virtual_sources, self._advise_with_count, of_queues=virtual_demand_of_queues
        )
        self._durable: dict[tuple[str | None, str | None], Destination] = {}

    # connections
    def add_connection(self, context: ConnectionContext, info: commands.ConnectionInfo) -> None:
        self.next.add_connection(context, info)
        if info.connection_id is not None:
            copy = copy_command(info)
            copy.password = ""
            self._connections[info.connection_id] = copy
            self._advise(Topic(topics.CONNECTION), copy)

    def remove_connection(
        self, context: ConnectionContext, info: commands.ConnectionInfo, error: Exception | None
    ) -> None:
        self.next.remove_connection(context, info, error)
        if info.connection_id is not None and info.connection_id in self._connections:
            del self._connections[info.connection_id]
            self._advise(Topic(topics.CONNECTION), _removal(info.connection_id, info))

    # destinations
    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        result = self.next.add_destination(context, destination, create_temporary)
        if destination not in self._destinations:
            self._destination_added(
                commands.DestinationInfo(context.connection_id, destination, _ADDED)
            )
        return result

    def add_destination_info(
        self, context: ConnectionContext, info: commands.DestinationInfo
    ) -> None:
        self.next.add_destination_info(context, info)
        self._destination_added(info)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        self.next.remove_destination(context, destination, timeout)
        self._destination_removed(context, destination)

    def remove_destination_info(
        self, context: ConnectionContext, info: commands.DestinationInfo
    ) -> None:
        self.next.remove_destination_info(context, info)
        if info.destination is not None:
            self._destination_removed(context, info.destination)

    def _destination_added(self, info: commands.DestinationInfo) -> None:
        destination = info.destination
        if (
            destination is None
            or destination in self._destinations
            or topics.is_advisory_topic(destination)
            or is_internal(destination)
        ):
            return
        self._destinations[destination] = info
        self._virtual_demand.destination_added(destination)
        self._advise(topics.destination_topic(destination), info)

    def _destination_removed(self, context: ConnectionContext, destination: Destination) -> None:
        info = self._destinations.pop(destination, None)
        if info is None:
            return
        self._virtual_demand.destination_removed(destination)
        removal = copy_command(info)
        removal.operation_type = _REMOVED
        self._advise(topics.destination_topic(destination), removal)
        for topic in topics.topics_about(destination):
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
        self, info: commands.BrokerInfo, created_by_duplex: bool, remote_address: str
    ) -> None:
        self.next.network_bridge_started(info, created_by_duplex, remote_address)
        self._bridges.append((info, created_by_duplex, remote_address))
        self._advise_of_bridge(info, created_by_duplex, remote_address, None)

    def network_bridge_stopped(self, info: commands.BrokerInfo) -> None:
        self.next.network_bridge_stopped(info)
        self._bridges = [each for each in self._bridges if each[0] is not info]
        if self._advisory_consumers.includes(_NETWORK_BRIDGE):
            self._send(_NETWORK_BRIDGE, info, None, {"started": False})

    def _advise_of_bridge(
        self,
        info: commands.BrokerInfo,
        created_by_duplex: bool,
        remote_address: str,
        target: commands.ConsumerId | None,
    ) -> None:
        if self._advisory_consumers.includes(_NETWORK_BRIDGE):
            properties = {
                "started": True,
                "createdByDuplex": created_by_duplex,
                "remoteIp": remote_address,
            }
            self._send(_NETWORK_BRIDGE, info, target, properties)

    def network_forward_failed(self, message: commands.ActiveMQMessage, cause: Exception) -> None:
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
        if topics.is_advisory_topic(destination):
            for member in destination.composite_destinations:
                self._replay(member, info.consumer_id)
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
        self, context: ConnectionContext, info: commands.RemoveSubscriptionInfo
    ) -> Completion:
        result = self.next.remove_subscription(context, info)
        durable_on = self._durable.pop((info.client_id, info.subscription_name), None)
        if durable_on is not None:
            self._advise_of_consumer(durable_on, info)
        return result

    # producers
    def add_producer(self, context: ConnectionContext, info: commands.ProducerInfo) -> None:
        self.next.add_producer(context, info)
        if info.producer_id is not None and self._is_reported(info):
            self._producers[info.producer_id, info.destination] = info
            self._advise_of_producer(info.destination, info)

    def remove_producer(self, context: ConnectionContext, info: commands.ProducerInfo) -> None:
        self.next.remove_producer(context, info)
        if info.producer_id is None or not self._is_reported(info):
            return
        self._producers.pop((info.producer_id, info.destination), None)
        if info.destination is None or self._is_reported_end(info.destination):
            self._advise_of_producer(info.destination, _removal(info.producer_id, info))

    def _is_reported(self, info: commands.ProducerInfo) -> bool:
        if info.destination is None:
            return self._anonymous_producers
        return not topics.is_advisory_topic(info.destination)

    # sending
    def _is_reported_end(self, destination: Destination) -> bool:
        """Return whether the removal of a client of `destination` is reported.

        It is not if a temporary destination was removed before. (activemq-broker V-A1)
        """
        return not destination.is_temporary or destination in self._destinations

    def _advise_of_consumer(
        self,
        destination: Destination,
        about: commands.Command,
        target: commands.ConsumerId | None = None,
    ) -> None:
        self._advise_with_count(topics.consumer_topic(destination), destination, about, target)

    def _advise_with_count(
        self,
        topic: Topic,
        destination: Destination,
        about: commands.Command,
        target: commands.ConsumerId | None,
    ) -> None:
        if self._advisory_consumers.includes(topic):
            matching = self._region.destinations_matching(destination)
            count = sum(d.statistics.consumers for d in matching)
            self._send(topic, about, target, {"consumerCount": count})

    def _advise_of_producer(
        self,
        destination: Destination | None,
        about: commands.Command,
        target: commands.ConsumerId | None = None,
    ) -> None:
        topic = topics.producer_topic(destination)
        if self._advisory_consumers.includes(topic):
            matching = (
                () if destination is None else self._region.destinations_matching(destination)
            )
            count = sum(d.statistics.producers for d in matching)
            self._send(topic, about, target, {"producerCount": count})

    def _advise(
        self,
        topic: Topic,
        about: commands.Command | None,
        target: commands.ConsumerId | None = None,
    ) -> None:
        if self._advisory_consumers.includes(topic):
            self._send(topic, about, target, _NOTHING)

    def _replay(self, topic: Destination, target: commands.ConsumerId) -> None:
        """Send the current state to `target`, a new consumer of `topic` (activemq-broker V-A2)."""
        name = topic.physical_name
        if name == topics.CONNECTION:
            for connection in self._connections.values():
                self._advise(Topic(name), connection, target)
        elif matches(topic, _NETWORK_BRIDGE):
            for bridge in self._bridges:
                self._advise_of_bridge(*bridge, target)
        elif name in topics.DESTINATION_KINDS:
            kind = topics.DESTINATION_KINDS[name]
            for destination, added in list(self._destinations.items()):
                if kind == destination.TYPE:
                    self._advise(Topic(name), added, target)
        elif name.startswith(topics.CONSUMER_PREFIX):
            for consumer in list(self._consumers.values()):
                if consumer.destination is not None and matches(
                    topic, topics.consumer_topic(consumer.destination)
                ):
                    self._advise_of_consumer(consumer.destination, consumer, target)
        elif name.startswith(topics.VIRTUAL_CONSUMER_PREFIX):
            self._virtual_demand.replay(topic, target)
        elif name.startswith(topics.PRODUCER_PREFIX):
            for producer in list(self._producers.values()):
                if matches(topic, topics.producer_topic(producer.destination)):
                    self._advise_of_producer(producer.destination, producer, target)


def _removal(object_id: commands.DataStructure, info: commands.Command) -> commands.RemoveInfo:
    return commands.RemoveInfo(object_id, response_required=info.response_required)
