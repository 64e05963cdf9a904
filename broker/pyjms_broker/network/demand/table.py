"""The local subscriptions of bridges, each of which stands for consumers of a remote broker.

A subscription that serves several remote consumers is called a conduit: the remote broker then
counts as one consumer here. Topics always have one, since the remote broker gives each message to
all of its subscribers by itself. (activemq-edges NW2, NW3, NW7, NW8)
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo

__all__ = ["Demand", "DemandOwner", "DemandTable", "DurableKey"]

DurableKey: TypeAlias = tuple[str | None, str | None]
"""Client id and name of a remote durable subscription."""


class DemandOwner(Protocol):
    """The bridge that has made a subscription."""

    def drop(self, demand: Demand) -> None:
        """End a subscription: another one serves its consumers."""

    def reconsider(self) -> None:
        """Subscribe for remote consumers that were left to another bridge's subscription."""


class Demand:
    """One local subscription.

    Args:
        owner: the bridge.
        local: the subscription, as the broker gets it.
        is_static: whether it exists without remote consumers.
        can_be_conduit: whether further consumers of its destination may share it.
    """

    def __init__(
        self, owner: DemandOwner, local: ConsumerInfo, *, is_static: bool, can_be_conduit: bool
    ) -> None:
        self.owner = owner
        self.local = local
        self.is_static = is_static
        self.can_be_conduit = can_be_conduit
        self.consumers: dict[ConsumerId, ConsumerInfo] = {}
        """The remote consumers."""
        self.durables: set[DurableKey] = set()
        """The remote durable subscriptions."""
        self.unconfirmed = 0
        """Messages that were sent on and are not acknowledged here yet."""
        self.is_closing = False
        """Whether it ends once nothing is unconfirmed, and sends nothing on meanwhile."""
        self.is_deleted = False
        """Whether a durable subscription is deleted then."""

    @property
    def is_durable(self) -> bool:
        """Whether it is a durable subscription of the local broker, too."""
        return self.local.subscription_name is not None

    def take_over(self, other: Demand) -> None:
        """Serve the consumers of another subscription, too."""
        self.consumers.update(other.consumers)
        self.durables |= other.durables
        self.is_static |= other.is_static


class DemandTable:
    """The subscriptions of all bridges of one broker."""

    def __init__(self) -> None:
        self._demands: set[Demand] = set()
        self._by_consumer: dict[ConsumerId | None, set[Demand]] = {}
        self._owners: set[DemandOwner] = set()

    def join(self, owner: DemandOwner) -> None:
        """Tell a bridge of subscriptions that have ended."""
        self._owners.add(owner)

    def leave(self, owner: DemandOwner) -> None:
        """Forget a bridge and its subscriptions."""
        self._owners.discard(owner)
        left = {demand for demand in self._demands if demand.owner is owner}
        for demand in left:
            self._discard(demand)
        if left:
            self._reconsider(owner)

    def add(self, demand: Demand) -> None:
        """Record a subscription."""
        self._demands.add(demand)
        for each in demand.local.network_consumer_path or ():
            self._by_consumer.setdefault(each, set()).add(demand)

    def remove(self, demand: Demand) -> None:
        """Forget a subscription that has ended."""
        if demand in self._demands:
            self._discard(demand)
            self._reconsider(demand.owner)

    def serving(self, candidate: Demand) -> list[Demand]:
        """Return the subscriptions of other bridges that serve the consumer of a new one."""
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

    def _reconsider(self, cause: DemandOwner) -> None:
        for owner in list(self._owners):
            if owner is not cause:
                owner.reconsider()
