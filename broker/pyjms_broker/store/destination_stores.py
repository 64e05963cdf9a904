"""The stores of an adapter by destination, created when they are first asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from pyjms.jms.destination import Destination

__all__ = ["DestinationStores"]

_Q = TypeVar("_Q")
_T = TypeVar("_T")
_S = TypeVar("_S")


def _found(
    stores: dict[Destination, _S],
    create: Callable[[Destination, bool], _S],
    destination: Destination,
    prioritized: bool,
) -> _S:
    store = stores.get(destination)
    if store is None:
        store = stores[destination] = create(destination, prioritized)
    return store


class DestinationStores(ABC, Generic[_Q, _T]):
    """The part of a persistence adapter that keeps one store for each destination.

    A subclass creates the stores. See PersistenceAdapter.
    """

    _queues: dict[Destination, _Q]
    _topics: dict[Destination, _T]

    def queue_message_store(self, destination: Destination, prioritized: bool = False) -> _Q:
        """Return the queue's store, creating it if needed.

        Raises:
            JMSException: it cannot be created.
        """
        return _found(self._queues, self._new_queue, destination, prioritized)

    def topic_message_store(self, destination: Destination, prioritized: bool = False) -> _T:
        """Return the topic's store, creating it if needed; `prioritized` as for queues.

        Raises:
            JMSException: it cannot be created.
        """
        return _found(self._topics, self._new_topic, destination, prioritized)

    @abstractmethod
    def _new_queue(self, destination: Destination, prioritized: bool) -> _Q:
        """Return a new store for a queue."""

    @abstractmethod
    def _new_topic(self, destination: Destination, prioritized: bool) -> _T:
        """Return a new store for a topic."""
