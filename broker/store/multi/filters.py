"""Which destination goes into which store, and what its folder is called. (persistence K25)"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from broker.store.kahadb.settings import KahaDBSettings
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination, Queue, Topic

__all__ = ["FilteredKahaDB", "best_filter", "safe_name"]

_ALL: Final = "#210"
"""What ActiveMQ calls the folder of the filter for everything: a character's 16 bits."""
_LONGEST_NAME: Final = 64
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.#-]")
_RANKS: Final = {"*": 1, ">": 2}


@dataclass(frozen=True)
class FilteredKahaDB:
    """A store for the destinations that a pattern fits; without one, for all.

    ActiveMQ: filteredKahaDB. `queue` and `topic` are patterns with `*` and `>`, or several
    with commas between; at most one of them is given.

    Raises:
        ConfigurationException: both are given.
    """

    queue: str | None = None
    topic: str | None = None
    per_destination: bool = False
    """A store for each destination, made when the destination is."""
    settings: KahaDBSettings = field(default_factory=KahaDBSettings)
    """Of the store, or of each; its locks are not used, the parent has one."""
    store_limit: int = 0
    """Bytes that its stores together may take; 0: only the broker's own limit counts."""

    def __post_init__(self) -> None:
        if self.queue is not None and self.topic is not None:
            raise ConfigurationException(
                "A filteredKahaDB has a queue or a topic, not both",
                hint="give a filter of its own for each, or neither for everything",
            )

    @cached_property
    def destination(self) -> Destination | None:
        """The pattern as a destination; None: everything."""
        if self.queue is not None:
            return Queue(self.queue)
        return None if self.topic is None else Topic(self.topic)

    @property
    def directory_name(self) -> str:
        """The name of its store's folder, as ActiveMQ has it."""
        return _ALL if self.destination is None else safe_name(self.destination)

    def rank(self, destination: Destination) -> tuple[tuple[int, ...], ...] | None:
        """Return how well it fits, less is better; None: not at all."""
        pattern = self.destination
        if pattern is None:
            return ((_RANKS[">"],), (1,))
        if pattern.is_queue != destination.is_queue:
            return None
        name = destination.physical_name
        fitting = [m for m in pattern.composite_destinations if _fits(m.physical_name, name)]
        return min(((_specificity(m.physical_name), (0,)) for m in fitting), default=None)

    def __str__(self) -> str:
        each = " (per destination)" if self.per_destination else ""
        return f"{self.destination or 'everything'}{each}"


def best_filter(
    filters: Iterable[FilteredKahaDB], destination: Destination
) -> FilteredKahaDB | None:
    """Return the most specific filter that fits, of equal ones the first; None: none fits."""
    ranked = [(rank, f) for f in filters if (rank := f.rank(destination)) is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def safe_name(destination: Destination) -> str:
    """Return the folder's name for a destination or pattern: `queue#3a#2f#2forders.#3e`.

    Of a long name the end counts. Source: ActiveMQ IOHelper.toFileSystemSafeName.
    """
    name = _UNSAFE.sub(lambda found: f"#{ord(found[0]):x}", destination.qualified_name)
    return name[-_LONGEST_NAME:]


def _fits(pattern: str, name: str) -> bool:
    wanted, parts = pattern.split("."), name.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        parts = parts[: max(len(wanted), 0)] if len(parts) >= len(wanted) else []
    if len(wanted) != len(parts):
        return False
    return all(want in ("*", part) for want, part in zip(wanted, parts, strict=True))


def _specificity(pattern: str) -> tuple[int, ...]:
    return tuple(_RANKS.get(part, 0) for part in pattern.split("."))
