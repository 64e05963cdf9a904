"""Destination patterns: `*` matches one path element, a final `>` zero or more.

Elements are separated by dots. A pattern matches only destinations of its own kind; a composite
matches if one of its members does. (activemq-broker D5, D7)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Generic, TypeVar

from pyjms.jms import destination as names
from pyjms.jms.destination import Destination

MAX_CACHED_LENGTH = 1000
"""The maximum length of cached names, which bounds memory because clients choose the names."""


def matches(pattern: Destination, destination: Destination) -> bool:
    """Return whether `pattern` (a pattern, name or composite) matches `destination`."""
    if pattern.is_composite:
        return any(matches(member, destination) for member in pattern.composite_destinations)
    if pattern.TYPE != destination.TYPE:
        return False
    return name_matches(pattern.physical_name, destination.physical_name)


def name_matches(pattern: str, name: str) -> bool:
    """Return whether a pattern's text matches a name. Cached, unless they are very long."""
    if len(pattern) + len(name) > MAX_CACHED_LENGTH:
        return names.name_matches(pattern, name)
    return _cached_match(pattern, name)


_cached_match = lru_cache(maxsize=4096)(names.name_matches)


def overlaps(one: Destination, other: Destination) -> bool:
    """Return whether there may be a name that both patterns match."""
    if one.TYPE != other.TYPE:
        return False
    ones, others = one.physical_name.split("."), other.physical_name.split(".")
    for left, right in zip(ones, others, strict=False):
        if ">" in (left, right):
            return True
        if left != right and "*" not in (left, right):
            return False
    longer = ones if len(ones) > len(others) else others
    return len(ones) == len(others) or longer[min(len(ones), len(others))] == ">"


@lru_cache(maxsize=1024)
def _specificity(name: str) -> tuple[tuple[int, str], ...]:
    ranks = {"*": 1, ">": 2}
    return tuple((ranks.get(part, 0), part) for part in name.split("."))


def specificity(pattern: Destination) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts the most specific pattern first: part by part, wildcards last."""
    return _specificity(pattern.physical_name)


V = TypeVar("V")
_DEPTH: Final = 8
"""The number of path elements by which patterns are found."""


def literal_prefix(pattern: str) -> str:
    """Return the path elements before the first wildcard, at most `_DEPTH` of them."""
    parts = pattern.split(".", _DEPTH)[:_DEPTH]
    wild = (number for number, part in enumerate(parts) if part in ("*", ">"))
    return ".".join(parts[: next(wild, len(parts))])


class PatternMap(Generic[V]):
    """Values by name or pattern, whose patterns for a name are found without trying all.

    They are kept by the path before their first wildcard. A composite is no key; its members are.
    """

    def __init__(self) -> None:
        self._by_prefix: dict[str, dict[Destination, V]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Destination]:
        for values in self._by_prefix.values():
            yield from values

    def get(self, pattern: Destination) -> V | None:
        """Return the value of a pattern."""
        return self._by_prefix.get(literal_prefix(pattern.physical_name), {}).get(pattern)

    def __setitem__(self, pattern: Destination, value: V) -> None:
        values = self._by_prefix.setdefault(literal_prefix(pattern.physical_name), {})
        self._count += pattern not in values
        values[pattern] = value

    def pop(self, pattern: Destination) -> V | None:
        """Remove a pattern and return its value."""
        prefix = literal_prefix(pattern.physical_name)
        values = self._by_prefix.get(prefix)
        if values is None or pattern not in values:
            return None
        found = values.pop(pattern)
        self._count -= 1
        if not values:
            del self._by_prefix[prefix]
        return found

    def matching(self, destination: Destination) -> Iterator[tuple[Destination, V]]:
        """Iterate over the patterns that match a name, and their values."""
        parts = destination.physical_name.split(".", _DEPTH)[:_DEPTH]
        for length in range(len(parts) + 1):
            values = self._by_prefix.get(".".join(parts[:length]))
            if values is not None:
                for pattern, value in values.items():
                    if matches(pattern, destination):
                        yield pattern, value
