"""The subscriptions of one bridge at the local broker, which follow the remote consumers.

A bridge learns of remote consumers and temporary destinations from advisories of the remote broker.
A consumer fed by a virtual destination is reported twice, with the same id: as a consumer of its
queue and, with `use_virtual_dest_subs`, as a consumer of the virtual destination. The topic of the
advisory distinguishes the two. (ActiveMQ useVirtualDestSubs)

A remote durable subscription is known only through its consumer, unless the brokers exchange lists
of all when a bridge connects them (syncDurableSubs): then also those without a consumer that were
created, or were deleted, while there was no connection. (activemq-edges NW2, NW3, NW7 to NW9)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Topic
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire import commands
from pyjms_broker.api.access import Right
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import copy_command
from pyjms_broker.connector.base import MAXIMUM_PER_CONNECTION, BrokerHost
from pyjms_broker.filters.advisories import CONSUMER_PREFIX, VIRTUAL_CONSUMER_PREFIX, consumer_topic
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.bridge_filter import is_too_long, path_with
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.subscription import LAST_DELIVERED_UNSET

if TYPE_CHECKING:
    from pyjms_broker.network.bridge import BridgeEnd

logger = get_logger(__name__)

MAXIMUM_CONSUMERS: Final = 100_000
"""The maximum number of consumers, and of a topic's durable subscriptions, of a remote broker.

Any client can pretend to be a broker. ActiveMQ has no limit.
"""
_MAXIMUM_PATTERNS: Final = 1000
"""The maximum number of patterns and composites, with which each new consumer is compared."""
_PRIORITIES = (-128, 127)
_DURABLE_PREFIX: Final = "NC-DS_"
MAXIMUM_DURABLES = 10_000
"""The maximum number of subscriptions in one command of another broker; ActiveMQ has no limit."""
MAXIMUM_SENT_DURABLES = 5000
"""The same for a command to another broker: tight encoding has room for about 6,000."""
_TEMPORARY = f"{ADVISORY_PREFIX}TempQueue,{ADVISORY_PREFIX}TempTopic"
_WORD = {True: "Topic", False: "Queue"}


def is_forwarded(attributes: NetworkConnectorAttributes, destination: Destination) -> bool:
    """Return whether a destination, or every member of a composite, is forwarded.

    Exclusion comes first, then static and dynamic inclusion, by default of all.
    """
    for each in destination.composite_destinations:
        if each.is_temporary:
            if not attributes.bridge_temp_destinations:
                return False
        elif _any_matches(attributes.excluded_destinations, each):
            return False
        elif not _any_matches(attributes.statically_included_destinations, each):
            dynamic = attributes.dynamically_included_destinations
            if dynamic and not _any_matches(dynamic, each):
                return False
    return True


def _any_matches(patterns: Iterable[Destination], destination: Destination) -> bool:
    return any(matches(pattern, destination) for pattern in patterns)


def advisory_topic(attributes: NetworkConnectorAttributes) -> Topic:
    """Return the topics of the advisories about remote consumers.

    Those of temporary destinations come first, so that a destination is known before its
    consumers.
    """
    names = attributes.destination_filter
    if not names:
        included = attributes.dynamically_included_destinations
        topics = [
            f"{CONSUMER_PREFIX}{_WORD[each.is_topic]}.{each.physical_name}" for each in included
        ]
        if not included:
            topics = [f"{CONSUMER_PREFIX}>"]
        if attributes.use_virtual_dest_subs:
            # the end of a consumer is reported on the topic of the virtual destination's pattern
            topics.append(f"{VIRTUAL_CONSUMER_PREFIX}>")
        names = ",".join(dict.fromkeys(topics))
    if attributes.bridge_temp_destinations:
        names = f"{_TEMPORARY},{names}"
    return Topic(names)


def durable_subscriptions(
    host: BrokerHost,
    attributes: NetworkConnectorAttributes,
    requester: ConnectionContext | None = None,
) -> commands.BrokerSubscriptionInfo:
    """Return the durable subscriptions of `host` that a bridge with these attributes serves.

    A bridge that logged in at `host` as `requester` is told of those in whose topics it may
    receive or send, if it may also read the advisories about their consumers.
    """
    made_up, numbers = IdGenerator().generate(), itertools.count(1)
    listed: list[commands.ConsumerInfo | None] = []
    for each in host.region_broker.subscriptions.all():
        if (
            not isinstance(each, DurableTopicSubscription)
            or not is_forwarded(attributes, each.requested)
            or not _may_know(requester, each.requested)
        ):
            continue
        info = copy_command(each.info)
        info.destination = each.requested
        info.client_id, info.subscription_name = each.key.client_id, each.key.subscription_name
        if info.consumer_id is None or not each.is_active:
            info.consumer_id = commands.ConsumerId(made_up, -1, next(numbers))
        info.additional_predicate = None
        listed.append(info)
        if len(listed) == MAXIMUM_SENT_DURABLES:
            logger.warning(
                "A bridge is told of the first %d durable subscriptions of broker %s only",
                MAXIMUM_SENT_DURABLES,
                host.broker_name,
            )
            break
    return commands.BrokerSubscriptionInfo(host.broker_id, host.broker_name, listed)


def _may_know(requester: ConnectionContext | None, topic: Destination) -> bool:
    access = None if requester is None else requester.access
    return access is None or (
        access.may(Right.READ, consumer_topic(topic))
        and (access.may(Right.READ, topic) or access.may(Right.WRITE, topic))
    )


def durable_name(local_name: str, destination: Destination) -> str:
    """Return the name of the durable subscription that serves all remote ones of a topic."""
    return f"{_DURABLE_PREFIX}{local_name}_{destination.physical_name}"


DurableKey: TypeAlias = tuple[str | None, str | None]
"""The client id and name of a remote durable subscription."""


class Demand:
    """One local subscription of a bridge, which represents consumers of a remote broker.

    A subscription that serves several remote consumers is called a conduit: the remote broker then
    counts as one local consumer. Topics always have one, because the remote broker itself
    dispatches each message to all its subscribers.

    Args:
        owner: the bridge.
        local: the subscription's ConsumerInfo for the local broker.
        is_static: whether it exists even without remote consumers.
        can_be_conduit: whether further consumers of its destination may share it.
    """

    def __init__(
        self,
        owner: BridgeSubscriptions,
        local: commands.ConsumerInfo,
        *,
        is_static: bool,
        can_be_conduit: bool,
    ) -> None:
        self.owner = owner
        self.local = local
        self.is_static = is_static
        self.can_be_conduit = can_be_conduit
        self.consumers: dict[commands.ConsumerId, commands.ConsumerInfo] = {}
        """The remote consumers."""
        self.durables: set[DurableKey] = set()
        """The remote durable subscriptions."""
        self.unconfirmed = 0
        """The number of forwarded messages that are not acknowledged locally yet."""
        self.is_closing = False
        """Whether it forwards nothing more, and ends once no message is unconfirmed."""
        self.is_deleted = False
        """Whether the durable subscription is deleted at that time."""

    @property
    def is_durable(self) -> bool:
        """Whether it is also a durable subscription at the local broker."""
        return self.local.subscription_name is not None

    def take_over(self, other: Demand) -> None:
        """Also serve the consumers of another subscription."""
        self.consumers.update(other.consumers)
        self.durables |= other.durables
        self.is_static |= other.is_static


class DemandTable:
    """The subscriptions of all bridges of one broker."""

    def __init__(self) -> None:
        self._demands: set[Demand] = set()
        self._by_consumer: dict[commands.ConsumerId | None, set[Demand]] = {}
        self._owners: set[BridgeSubscriptions] = set()

    def join(self, owner: BridgeSubscriptions) -> None:
        """Notify a bridge when subscriptions of other bridges end."""
        self._owners.add(owner)

    def leave(self, owner: BridgeSubscriptions) -> None:
        """Remove a bridge and its subscriptions."""
        self._owners.discard(owner)
        left = {demand for demand in self._demands if demand.owner is owner}
        for demand in left:
            self._discard(demand)
        if left:
            self._reconsider(owner)

    def consumer_moved_here(self, consumer_id: commands.ConsumerId | None) -> bool:
        """Stop serving a remote consumer that is now a local one; return whether a bridge did."""
        if consumer_id is None:
            return False
        serving = [owner for owner in self._owners if owner.serves(consumer_id)]
        for owner in serving:
            owner.consumer_removed(consumer_id)
        return bool(serving)

    def add(self, demand: Demand) -> None:
        """Add a subscription."""
        self._demands.add(demand)
        for each in demand.local.network_consumer_path or ():
            self._by_consumer.setdefault(each, set()).add(demand)

    def remove(self, demand: Demand) -> None:
        """Remove a subscription that has ended."""
        if demand in self._demands:
            self._discard(demand)
            self._reconsider(demand.owner)

    def serving(self, candidate: Demand) -> list[Demand]:
        """Return the subscriptions of other bridges that serve the candidate's consumer."""
        found = {
            demand: None
            for each in candidate.local.network_consumer_path or ()
            for demand in self._by_consumer.get(each, ())
        }
        return [demand for demand in found if demand.owner is not candidate.owner]

    def _discard(self, demand: Demand) -> None:
        self._demands.discard(demand)
        for each in demand.local.network_consumer_path or ():
            of_consumer = self._by_consumer.get(each)
            if of_consumer is not None:
                of_consumer.discard(demand)
                if not of_consumer:
                    del self._by_consumer[each]

    def _reconsider(self, cause: BridgeSubscriptions) -> None:
        for owner in list(self._owners):
            if owner is not cause:
                owner.reconsider()


class BridgeSubscriptions:
    """The subscriptions of one bridge."""

    def __init__(
        self,
        host: BrokerHost,
        attributes: NetworkConnectorAttributes,
        remote_id: commands.BrokerId,
        local: BridgeEnd,
        remote: BridgeEnd,
    ) -> None:
        self._host = host
        self._attributes = attributes
        self._remote_id = remote_id
        self._local = local
        self._remote = remote
        self._advisory_consumer = remote.next_consumer_id()
        self._unacknowledged = 0
        self._prefetch = attributes.advisory_prefetch_size or attributes.prefetch_size
        self._table = host.networks.demand
        self._by_local: dict[commands.ConsumerId | None, Demand] = {}
        self._by_destination: dict[Destination, dict[Demand, None]] = {}
        self._patterns: dict[Demand, None] = {}
        self._by_remote: dict[commands.ConsumerId, Demand] = {}
        self._suppressed: dict[commands.ConsumerId, commands.ConsumerInfo] = {}
        """Remote consumers that are served by another bridge."""
        self._has_warned = False
        self._table.join(self)

    def of_consumer(self, local_id: commands.ConsumerId | None) -> Demand | None:
        """Return the subscription with this local consumer id."""
        return self._by_local.get(local_id)

    def all(self) -> list[Demand]:
        """Return all subscriptions."""
        return list(self._by_local.values())

    def close(self) -> None:
        """Drop everything: the bridge ends, and its subscriptions end with its connection."""
        self._by_local.clear()
        self._by_destination.clear()
        self._patterns.clear()
        self._by_remote.clear()
        self._suppressed.clear()
        self._table.leave(self)

    # advisories of the remote broker
    async def subscribe(self) -> None:
        """Subscribe to the remote broker's advisories."""
        await self._remote.request(
            commands.ConsumerInfo(
                self._advisory_consumer,
                destination=advisory_topic(self._attributes),
                prefetch_size=self._prefetch,
                dispatch_async=True,
            )
        )

    def take(self, message: commands.ActiveMQMessage) -> None:
        """Handle an advisory about a remote consumer or temporary destination."""
        about = message.data_structure
        topic = message.destination
        is_virtual = topic is not None and topic.physical_name.startswith(VIRTUAL_CONSUMER_PREFIX)
        if isinstance(about, commands.ConsumerInfo):
            self.consumer_added(_for_virtual(about) if is_virtual else about)
        elif isinstance(about, commands.DestinationInfo):
            self._on_destination(about)
        elif isinstance(about, commands.RemoveInfo):
            removed = about.object_id
            if isinstance(removed, commands.ConsumerId):
                self.consumer_removed(_virtual_id(removed) if is_virtual else removed)
        elif isinstance(about, commands.RemoveSubscriptionInfo):
            self.subscription_removed(about)
        self._acknowledge(message)

    def _on_destination(self, info: commands.DestinationInfo) -> None:
        """Create or delete a temporary destination of the remote broker at the local one."""
        destination, local_id = info.destination, self._host.broker_id
        if (
            destination is None
            or not destination.is_temporary
            or is_too_long(info.broker_path, self._attributes.consumers_hops)
            or local_id in (info.broker_path or ())
        ):
            return
        copy = copy_command(info)
        copy.connection_id = self._local.connection_id
        copy.broker_path = path_with(info.broker_path, self._remote_id)
        ignore = partial(logger.debug, "A temporary destination of another broker: %s")
        self._local.try_request(copy, ignore)

    def _acknowledge(self, message: commands.ActiveMQMessage) -> None:
        """Acknowledge advisories in batches."""
        self._unacknowledged += 1
        part = self._attributes.advisory_ack_percentage / 100
        if self._unacknowledged < self._prefetch * part:
            return
        ack = commands.MessageAck(
            message.destination,
            consumer_id=self._advisory_consumer,
            ack_type=int(commands.AckType.STANDARD),
            last_message_id=message.message_id,
            message_count=self._unacknowledged,
        )
        self._unacknowledged = 0
        self._remote.send(ack)

    # remote consumers
    def consumer_added(self, info: commands.ConsumerInfo) -> None:
        """Subscribe for a remote consumer, if this bridge should serve it."""
        consumer_id = info.consumer_id
        if consumer_id is None or consumer_id in self._by_remote or not self._is_wanted(info):
            return
        if self._is_exceeded(len(self._by_remote) + len(self._suppressed), MAXIMUM_CONSUMERS):
            return
        if self._joins(info, consumer_id):
            return
        if self._is_exceeded(len(self._by_local), MAXIMUM_PER_CONNECTION) or (
            _is_pattern(info.destination)
            and self._is_exceeded(len(self._patterns), _MAXIMUM_PATTERNS)
        ):
            return
        demand = self._new_demand(info, consumer_id)
        if self._is_served_elsewhere(demand):
            self._suppressed[consumer_id] = info
            return
        replaced = self._replaced_by(demand)
        for other in replaced:
            demand.take_over(other)
        if not demand.is_durable or self._attributes.dynamic_only:
            demand.consumers[consumer_id] = info
        self._subscribe(demand)
        for other in replaced:
            self._unsubscribe(other)
        for each in demand.consumers:
            self._by_remote[each] = demand

    def serves(self, consumer_id: commands.ConsumerId) -> bool:
        """Return whether it has a subscription for a remote consumer."""
        return consumer_id in self._by_remote

    def consumer_removed(self, consumer_id: commands.ConsumerId) -> None:
        """Remove a remote consumer, ending the subscription if it serves no other one."""
        self._suppressed.pop(consumer_id, None)
        demand = self._by_remote.pop(consumer_id, None)
        if demand is None:
            return
        demand.consumers.pop(consumer_id, None)
        is_kept = demand.is_static or (demand.durables and not self._attributes.dynamic_only)
        if not demand.consumers and not is_kept:
            self._unsubscribe(demand)

    def subscription_removed(self, info: commands.RemoveSubscriptionInfo) -> None:
        """Remove a deleted remote durable subscription; with the last, delete the local one."""
        key = (info.client_id, info.subscription_name)
        for demand in self.all():
            if key in demand.durables:
                demand.durables.discard(key)
                if not demand.durables and not demand.consumers:
                    demand.is_deleted = True
                    self._unsubscribe(demand)

    def synchronize(self, listed: commands.BrokerSubscriptionInfo) -> None:
        """Serve exactly the durable subscriptions that the remote broker has listed."""
        known: set[DurableKey] = set()
        for info in (listed.subscription_infos or [])[:MAXIMUM_DURABLES]:
            if info is None or info.subscription_name is None or self._is_own_bridge(info):
                continue
            known.add((info.client_id, info.subscription_name))
            self.consumer_added(info)
        static = self._attributes.statically_included_destinations
        for demand in self.all():
            if demand.is_durable and not demand.is_closing:
                demand.durables &= known
                is_static = demand.local.destination in static
                if not demand.durables and not demand.consumers and not is_static:
                    demand.is_deleted = True
                    self._unsubscribe(demand)

    def _is_own_bridge(self, info: commands.ConsumerInfo) -> bool:
        """Return whether a remote subscription is the reverse bridge's, or too far away.

        A bridge's subscription represents those of a broker that is one hop further away.
        """
        name, token = info.subscription_name or "", self._attributes.client_id_token
        if not name.startswith(_DURABLE_PREFIX):
            return False
        hops = self._attributes.consumers_hops
        from_here = f"{token}{self._host.broker_name}{token}inbound"
        return from_here in (info.client_id or "") or 0 <= hops <= 1

    def add_static(self, destination: Destination, subscription_name: str | None = None) -> None:
        """Subscribe regardless of remote consumers."""
        if not is_forwarded(self._attributes, destination):
            return
        if self._by_destination.get(destination):
            return
        info = commands.ConsumerInfo(
            self._local.next_consumer_id(),
            destination=destination,
            subscription_name=subscription_name,
        )
        demand = Demand(self, self._complete(info), is_static=True, can_be_conduit=True)
        self._subscribe(demand)

    def drop(self, demand: Demand) -> None:
        self._suppressed.update(demand.consumers)
        for each in demand.consumers:
            self._by_remote.pop(each, None)
        self._unsubscribe(demand)

    def reconsider(self) -> None:
        suppressed, self._suppressed = self._suppressed, {}
        for info in suppressed.values():
            self.consumer_added(info)

    def _is_wanted(self, info: commands.ConsumerInfo) -> bool:
        return (
            not info.browser
            and info.destination is not None
            and not is_too_long(info.broker_path, self._attributes.consumers_hops)
            and self._host.broker_id not in (info.broker_path or ())
            and is_forwarded(self._attributes, info.destination)
        )

    def _is_exceeded(self, count: int, limit: int) -> bool:
        """Return whether the limit is reached, which is logged once."""
        if count < limit:
            return False
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The bridge to %s has %d consumers, its limit; it forwards nothing for others",
                self._remote_id,
                count,
            )
        return True

    # conduits
    def _is_conduit(self, info: commands.ConsumerInfo) -> bool:
        assert info.destination is not None
        if info.destination.is_topic:
            return True
        attributes = self._attributes
        return attributes.conduit_subscriptions and (
            not info.network_subscription or attributes.conduit_network_queue_subscriptions
        )

    def _joins(self, info: commands.ConsumerInfo, consumer_id: commands.ConsumerId) -> bool:
        """Add the consumer to an existing conduit; return whether there is one."""
        if not self._is_conduit(info):
            return False
        own = self._by_destination.get(info.destination, {}) if info.destination else {}
        candidates = {**own, **self._patterns}
        joined = [each for each in candidates if self._can_join(info, each)]
        for demand in joined:
            if info.subscription_name is not None and not self._is_exceeded(
                len(demand.durables), MAXIMUM_CONSUMERS
            ):
                demand.durables.add((info.client_id, info.subscription_name))
            if info.subscription_name is None or self._attributes.dynamic_only:
                demand.consumers[consumer_id] = info
                self._by_remote[consumer_id] = demand
        return bool(joined)

    def _can_join(self, info: commands.ConsumerInfo, demand: Demand) -> bool:
        known = demand.local.destination
        assert known is not None
        assert info.destination is not None
        if not demand.can_be_conduit or demand.is_closing:
            return False
        if info.subscription_name is not None:
            return demand.is_durable and known == info.destination
        is_nearer = len(info.broker_path or ()) + 1 < len(demand.local.broker_path or ())
        return (demand.is_durable or not is_nearer) and matches(known, info.destination)

    def _replaced_by(self, demand: Demand) -> list[Demand]:
        """Return the conduits of the same destination that the new one replaces.

        A durable subscription also gets another conduit's messages; a nearer consumer has a shorter
        path to other brokers.
        """
        if not demand.can_be_conduit:
            return []
        assert demand.local.destination is not None
        return [
            each
            for each in self._by_destination.get(demand.local.destination, {})
            if each.can_be_conduit
            and not each.is_closing
            and (demand.is_durable or not each.is_durable)
        ]

    # suppression
    def _is_served_elsewhere(self, demand: Demand) -> bool:
        """Return whether another bridge serves the consumer at least as well.

        Subscriptions of other bridges that serve it less well end.
        """
        destination = demand.local.destination
        assert destination is not None
        if not (
            self._attributes.suppress_duplicate_topic_subscriptions
            if destination.is_topic
            else self._attributes.suppress_duplicate_queue_subscriptions
        ):
            return False
        serving = self._table.serving(demand)
        if any(each.local.priority >= demand.local.priority for each in serving):
            return True
        for each in serving:
            each.owner.drop(each)
        return False

    # subscriptions at the local broker
    def _new_demand(self, info: commands.ConsumerInfo, consumer_id: commands.ConsumerId) -> Demand:
        local = copy_command(info)
        local.consumer_id = self._local.next_consumer_id()
        local.broker_path = path_with(info.broker_path, self._remote_id)
        local.network_consumer_path = [*(info.network_consumer_path or ()), consumer_id]
        is_conduit = self._is_conduit(info)
        if is_conduit:
            local.selector = None
        local.client_id = None
        demand = Demand(self, self._complete(local), is_static=False, can_be_conduit=is_conduit)
        if info.subscription_name is not None:
            assert info.destination is not None
            local.subscription_name = durable_name(self._host.broker_name, info.destination)
            demand.durables.add((info.client_id, info.subscription_name))
        return demand

    def _complete(self, local: commands.ConsumerInfo) -> commands.ConsumerInfo:
        attributes = self._attributes
        local.network_subscription = True
        local.dispatch_async = attributes.dispatch_async
        local.prefetch_size = attributes.prefetch_size
        local.additional_predicate = commands.NetworkBridgeFilter(
            self._remote_id, attributes.messages_hops, attributes.consumers_hops
        )
        if attributes.decrease_network_consumer_priority:
            hops = len(local.broker_path or ())
            priority = attributes.consumer_priority_base - (hops + 1 if hops > 1 else 0)
            local.priority = max(_PRIORITIES[0], min(priority, _PRIORITIES[1]))
        return local

    def _subscribe(self, demand: Demand) -> None:
        destination = demand.local.destination
        assert destination is not None
        self._by_local[demand.local.consumer_id] = demand
        self._by_destination.setdefault(destination, {})[demand] = None
        if _is_pattern(destination):
            self._patterns[demand] = None
        self._table.add(demand)
        logger.debug("Bridge to %s: forwards %s", self._remote_id, demand.local.destination)

        def on_refusal(error: Exception) -> None:
            logger.warning(
                "The bridge to %s cannot forward %s: %s",
                self._remote_id,
                demand.local.destination,
                error,
            )
            self._forget(demand)

        self._local.try_request(demand.local, on_refusal)

    def _unsubscribe(self, demand: Demand) -> None:
        demand.is_closing = True
        self.end_if_confirmed(demand)

    def end_if_confirmed(self, demand: Demand) -> None:
        """End a closing subscription once it has no unconfirmed messages."""
        if not demand.is_closing or demand.unconfirmed or not self._forget(demand):
            return
        self._local.try_request(
            commands.RemoveInfo(demand.local.consumer_id, LAST_DELIVERED_UNSET),
            partial(logger.debug, "The subscription has ended already: %s"),
        )
        if demand.is_deleted:
            self._local.try_request(
                commands.RemoveSubscriptionInfo(
                    connection_id=self._local.connection_id,
                    subscription_name=demand.local.subscription_name,
                    client_id=self._local.client_id,
                )
            )

    def _forget(self, demand: Demand) -> bool:
        found = self._by_local.pop(demand.local.consumer_id, None)
        destination = demand.local.destination
        of_destination = self._by_destination.get(destination, {}) if destination else {}
        of_destination.pop(demand, None)
        if destination is not None and not of_destination:
            self._by_destination.pop(destination, None)
        self._patterns.pop(demand, None)
        for each in [each for each in demand.consumers if self._by_remote.get(each) is demand]:
            del self._by_remote[each]
        self._table.remove(demand)
        return found is not None


def _is_pattern(destination: Destination | None) -> bool:
    return destination is not None and (destination.is_pattern or destination.is_composite)


def _virtual_id(consumer_id: commands.ConsumerId) -> commands.ConsumerId:
    """Return the id of a consumer in its role as consumer of a virtual destination."""
    connection = f"virtual:{consumer_id.connection_id or ''}"
    return commands.ConsumerId(connection, consumer_id.session_id, consumer_id.value)


def _for_virtual(info: commands.ConsumerInfo) -> commands.ConsumerInfo:
    """Return the info of a consumer of a virtual destination, which is never durable."""
    copy = copy_command(info)
    copy.consumer_id = None if info.consumer_id is None else _virtual_id(info.consumer_id)
    copy.subscription_name = None
    return copy
