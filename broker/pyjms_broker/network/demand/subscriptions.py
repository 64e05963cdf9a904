"""The subscriptions of one bridge at the local broker, which follow the remote consumers.

(activemq-edges NW2, NW3, NW7, NW8)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms._logger import get_logger
from pyjms.jms.destination import Destination
from pyjms.wire.openwire import commands
from pyjms_broker.api.copying import copy_command
from pyjms_broker.connector.base import MAXIMUM_PER_CONNECTION
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.demand.durables import MAXIMUM_DURABLES
from pyjms_broker.network.demand.permitted import PermittedDestinations
from pyjms_broker.network.demand.table import Demand, DemandTable, DurableKey
from pyjms_broker.network.ends import BridgeEnd
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.subscription.base import LAST_DELIVERED_UNSET
from pyjms_broker.region.subscription.bridge_filter import appended, is_too_long

__all__ = ["MAXIMUM_CONSUMERS", "Between", "BridgeSubscriptions", "durable_name"]

logger = get_logger(__name__)

MAXIMUM_CONSUMERS: Final = 100_000
"""The maximum number of consumers, and of a topic's durable subscriptions, of a remote broker.

Any client can pretend to be a broker. ActiveMQ has no limit.
"""
_MAXIMUM_PATTERNS: Final = 1000
"""The maximum number of patterns and composites, with which each new consumer is compared."""
_PRIORITIES = (-128, 127)
_DURABLE_PREFIX: Final = "NC-DS_"


class Between(NamedTuple):
    """The brokers that a bridge connects."""

    local_name: str
    local_id: commands.BrokerId
    remote_id: commands.BrokerId


def durable_name(local_name: str, destination: Destination) -> str:
    """Return the name of the durable subscription that serves all remote ones of a topic."""
    return f"{_DURABLE_PREFIX}{local_name}_{destination.physical_name}"


class BridgeSubscriptions:
    """The subscriptions of one bridge."""

    def __init__(
        self,
        attributes: NetworkConnectorAttributes,
        between: Between,
        local: BridgeEnd,
        table: DemandTable,
    ) -> None:
        self.attributes = attributes
        self.between = between
        self.local = local
        self._table = table
        self._permitted = PermittedDestinations(attributes)
        self._by_local: dict[commands.ConsumerId | None, Demand] = {}
        self._by_destination: dict[Destination, dict[Demand, None]] = {}
        self._patterns: dict[Demand, None] = {}
        self._by_remote: dict[commands.ConsumerId, Demand] = {}
        self._suppressed: dict[commands.ConsumerId, commands.ConsumerInfo] = {}
        """Remote consumers that are served by another bridge."""
        self._has_warned = False
        table.join(self)

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
        if not demand.is_durable or self.attributes.dynamic_only:
            demand.consumers[consumer_id] = info
        self._subscribe(demand)
        for other in replaced:
            self._unsubscribe(other)
        for each in demand.consumers:
            self._by_remote[each] = demand

    def consumer_removed(self, consumer_id: commands.ConsumerId) -> None:
        """Remove a remote consumer, ending the subscription if it serves no other one."""
        self._suppressed.pop(consumer_id, None)
        demand = self._by_remote.pop(consumer_id, None)
        if demand is None:
            return
        demand.consumers.pop(consumer_id, None)
        is_kept = demand.is_static or (demand.durables and not self.attributes.dynamic_only)
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
        static = self.attributes.statically_included_destinations
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
        name, token = info.subscription_name or "", self.attributes.client_id_token
        if not name.startswith(_DURABLE_PREFIX):
            return False
        hops = self.attributes.consumers_hops
        from_here = f"{token}{self.between.local_name}{token}inbound"
        return from_here in (info.client_id or "") or 0 <= hops <= 1

    def add_static(self, destination: Destination, subscription_name: str | None = None) -> None:
        """Subscribe regardless of remote consumers."""
        if not self._permitted.includes(destination):
            return
        if self._by_destination.get(destination):
            return
        info = commands.ConsumerInfo(
            self.local.next_consumer_id(),
            destination=destination,
            subscription_name=subscription_name,
        )
        demand = Demand(self, self._finished(info), is_static=True, can_be_conduit=True)
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
            and not is_too_long(info.broker_path, self.attributes.consumers_hops)
            and self.between.local_id not in (info.broker_path or ())
            and self._permitted.includes(info.destination)
        )

    def _is_exceeded(self, count: int, limit: int) -> bool:
        """Return whether the limit is reached, which is logged once."""
        if count < limit:
            return False
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The bridge to %s has %d consumers, its limit; it forwards nothing for others",
                self.between.remote_id,
                count,
            )
        return True

    # conduits
    def _is_conduit(self, info: commands.ConsumerInfo) -> bool:
        assert info.destination is not None
        if info.destination.is_topic:
            return True
        attributes = self.attributes
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
            if info.subscription_name is None or self.attributes.dynamic_only:
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
            self.attributes.suppress_duplicate_topic_subscriptions
            if destination.is_topic
            else self.attributes.suppress_duplicate_queue_subscriptions
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
        local.consumer_id = self.local.next_consumer_id()
        local.broker_path = appended(info.broker_path, self.between.remote_id)
        local.network_consumer_path = [*(info.network_consumer_path or ()), consumer_id]
        is_conduit = self._is_conduit(info)
        if is_conduit:
            local.selector = None
        local.client_id = None
        demand = Demand(self, self._finished(local), is_static=False, can_be_conduit=is_conduit)
        if info.subscription_name is not None:
            assert info.destination is not None
            local.subscription_name = durable_name(self.between.local_name, info.destination)
            demand.durables.add((info.client_id, info.subscription_name))
        return demand

    def _finished(self, local: commands.ConsumerInfo) -> commands.ConsumerInfo:
        attributes = self.attributes
        local.network_subscription = True
        local.dispatch_async = attributes.dispatch_async
        local.prefetch_size = attributes.prefetch_size
        local.additional_predicate = commands.NetworkBridgeFilter(
            self.between.remote_id, attributes.messages_hops, attributes.consumers_hops
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
        logger.debug("Bridge to %s: forwards %s", self.between.remote_id, demand.local.destination)

        def refused(error: Exception) -> None:
            logger.warning(
                "The bridge to %s cannot forward %s: %s",
                self.between.remote_id,
                demand.local.destination,
                error,
            )
            self._forget(demand)

        self.local.try_request(demand.local, refused)

    def _unsubscribe(self, demand: Demand) -> None:
        demand.is_closing = True
        self.confirmed(demand)

    def confirmed(self, demand: Demand) -> None:
        """End a closing subscription once it has no unconfirmed messages."""
        if not demand.is_closing or demand.unconfirmed or not self._forget(demand):
            return
        self.local.try_request(
            commands.RemoveInfo(demand.local.consumer_id, LAST_DELIVERED_UNSET), _ignore
        )
        if demand.is_deleted:
            self.local.try_request(
                commands.RemoveSubscriptionInfo(
                    connection_id=self.local.connection_id,
                    subscription_name=demand.local.subscription_name,
                    client_id=self.local.client_id,
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


def _ignore(error: Exception) -> None:
    logger.debug("The subscription has ended already: %s", error)
