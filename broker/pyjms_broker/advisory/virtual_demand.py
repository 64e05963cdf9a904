"""The demand for virtual destinations: consumers of the queues that they feed, or the queues.

Networks of brokers need it to forward to a topic whose consumers all use queues. A consumer fed by
several virtual destinations counts only for the first one. (activemq-broker 11)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pyjms._ids import IdGenerator
from pyjms.jms.destination import Destination, Topic
from pyjms.wire.openwire.commands import Command, ConsumerId, ConsumerInfo, RemoveInfo
from pyjms_broker.advisory import topics
from pyjms_broker.api.copying import copy_command
from pyjms_broker.policy.wildcard import matches

__all__ = ["VirtualDemand", "VirtualSource"]

Advise = Callable[[Topic, Destination, Command, ConsumerId | None], None]
"""Sends an advisory to a topic, with the number of consumers of a destination."""


class VirtualSource(Protocol):
    """A virtual destination whose demand is reported."""

    @property
    def virtual_destination(self) -> Destination:
        """The name or pattern of the destination to which messages are sent."""

    def demanded_by(self, destination: Destination) -> Destination | None:
        """Return the destination or pattern that feeds `destination`; None if none does."""


class _Demand(NamedTuple):
    source: VirtualSource
    info: ConsumerInfo


class VirtualDemand:
    """The consumers, and optionally the queues, fed by virtual destinations."""

    def __init__(
        self, sources: Sequence[VirtualSource], advise: Advise, *, of_queues: bool
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
            topic = topics.virtual_consumer_topic(about)
            if matches(subscribed, topic):
                self._advise(topic, about, demand.info, target)

    def _demand(self, destination: Destination, info: ConsumerInfo) -> _Demand | None:
        for source in self._sources:
            demanded = source.demanded_by(destination)
            if demanded is not None:
                copy = copy_command(info)
                copy.destination = demanded
                self._advise(topics.virtual_consumer_topic(demanded), demanded, copy, None)
                return _Demand(source, copy)
        return None

    def _end(self, demand: _Demand | None, counted: Destination) -> None:
        if demand is not None and demand.info.consumer_id is not None:
            topic = topics.virtual_consumer_topic(demand.source.virtual_destination)
            self._advise(topic, counted, RemoveInfo(demand.info.consumer_id), None)
