"""The local subscriptions of bridges, each of which represents consumers of a remote broker.

A subscription that serves several remote consumers is called a conduit: the remote broker then
counts as one local consumer. Topics always have one, because the remote broker itself dispatches
each message to all its subscribers. (activemq-edges NW2, NW3, NW7, NW8)
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo

__all__ = ["Demand", "DemandOwner", "DemandTable", "DurableKey"]

DurableKey: TypeAlias = tuple[str | None, str | None]
"""The client id and name of a remote durable subscription."""


class DemandOwner(Protocol):
    """The bridge that has created a subscription."""

    def drop(self, demand: Demand) -> None:
        """End a subscription whose consumers another one serves."""

    def reconsider(self) -> None:
        """Reconsider remote consumers that another bridge's subscription has served."""


class Demand:
    """One local subscription of a bridge.

    Args:
        owner: the bridge.
        local: the subscription's ConsumerInfo for the local broker.
        is_static: whether it exists even without remote consumers.
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
        self._by_consumer: dict[ConsumerId | None, set[Demand]] = {}
        self._owners: set[DemandOwner] = set()

    def join(self, owner: DemandOwner) -> None:
        """Notify a bridge when subscriptions of other bridges end."""
        self._owners.add(owner)

    def leave(self, owner: DemandOwner) -> None:
        """Remove a bridge and its subscriptions."""
        self._owners.discard(owner)
        left = {demand for demand in self._demands if demand.owner is owner}
        for demand in left:
            self._discard(demand)
        if left:
            self._reconsider(owner)

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

    def _reconsider(self, cause: DemandOwner) -> None:
        for owner in list(self._owners):
            if owner is not cause:
                owner.reconsider()
