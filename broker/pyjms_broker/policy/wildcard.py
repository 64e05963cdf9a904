"""Destination patterns: `*` matches one path element, a final `>` zero or more.

Elements are separated by dots. A pattern matches only destinations of its own kind; a composite
matches if one of its members does. (activemq-broker D5, D7)
"""

from __future__ import annotations

from functools import lru_cache

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


@lru_cache(maxsize=1024)
def _specificity(name: str) -> tuple[tuple[int, str], ...]:
    ranks = {"*": 1, ">": 2}
    return tuple((ranks.get(part, 0), part) for part in name.split("."))


def specificity(pattern: Destination) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts the most specific pattern first: part by part, wildcards last."""
    return _specificity(pattern.physical_name)
