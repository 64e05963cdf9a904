"""Filters, which determine the store of each destination.

(activemq-persistence K25)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination, Queue, Topic, name_matches
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.multi.directories import activemq_name

__all__ = ["FilteredKahaDB", "best_filter"]

_ALL: Final = "#210"
"""ActiveMQ's name for the directory of the catch-all filter: a character as 16 bits."""
_RANKS: Final = {"*": 1, ">": 2}


@dataclass(frozen=True)
class FilteredKahaDB:
    """A store for the destinations that match a pattern; without a pattern, for all.

    ActiveMQ: filteredKahaDB. `queue` and `topic` are patterns with `*` and `>`, or several
    separated by commas; at most one of them is given.

    Raises:
        ConfigurationException: both are given.
    """

    queue: str | None = None
    topic: str | None = None
    per_destination: bool = False
    """Whether each destination has a separate store, created with the destination."""
    settings: KahaDBSettings = field(default_factory=KahaDBSettings)
    """The settings of each store; locking is done for the parent directory instead."""
    store_limit: int = 0
    """The maximum total size of its stores in bytes; 0: only the broker's limit applies."""

    def __post_init__(self) -> None:
        if self.queue is not None and self.topic is not None:
            raise ConfigurationException(
                "A filteredKahaDB has a queue or a topic, not both",
                hint="use one filter for each, or give neither to match everything",
            )

    @cached_property
    def destination(self) -> Destination | None:
        """The pattern as a destination; None: everything."""
        if self.queue is not None:
            return Queue(self.queue)
        return None if self.topic is None else Topic(self.topic)

    @property
    def directory_name(self) -> str:
        """ActiveMQ's name for the directory of its store."""
        return _ALL if self.destination is None else activemq_name(self.destination)

    def rank(self, destination: Destination) -> tuple[tuple[int, ...], ...] | None:
        """Return a rank of how specifically it matches (smaller is better); None: no match."""
        pattern = self.destination
        if pattern is None:
            return ((_RANKS[">"],), (1,))
        if pattern.is_queue != destination.is_queue:
            return None
        name = destination.physical_name
        matching = [
            m for m in pattern.composite_destinations if name_matches(m.physical_name, name)
        ]
        return min(((_specificity(m.physical_name), (0,)) for m in matching), default=None)

    def __str__(self) -> str:
        each = " (per destination)" if self.per_destination else ""
        return f"{self.destination or 'everything'}{each}"


def best_filter(
    filters: Iterable[FilteredKahaDB], destination: Destination
) -> FilteredKahaDB | None:
    """Return the most specific matching filter, the first of equal ones; None: no match."""
    ranked = [(rank, f) for f in filters if (rank := f.rank(destination)) is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _specificity(pattern: str) -> tuple[int, ...]:
    return tuple(_RANKS.get(part, 0) for part in pattern.split("."))
