"""The authorization map: the groups with rights on destinations. (activemq-edges SE4)"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import or_

from pyjms.jms.destination import Destination
from pyjms_broker.policy.wildcard import matches

__all__ = ["AuthorizationEntry", "AuthorizationMap", "Right"]

_ANYBODY = "*"


class Right(Enum):
    """A right on a destination; the value is its description in errors."""

    READ = "read from"
    WRITE = "write to"
    ADMIN = "administer"


@dataclass(frozen=True, slots=True)
class AuthorizationEntry:
    """The groups that have each right on a destination or a pattern.

    Source: ActiveMQ AuthorizationEntry, TempDestinationAuthorizationEntry.
    """

    destination: Destination | None = None
    """None for the default entry and for that of temporary destinations."""
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    admin: frozenset[str] = frozenset()

    def groups(self, right: Right) -> frozenset[str]:
        """Return the groups with a right."""
        if right is Right.READ:
            return self.read
        return self.write if right is Right.WRITE else self.admin


class AuthorizationMap:
    """Entries by destination. Source: ActiveMQ DefaultAuthorizationMap.

    Args:
        entries: the entries, whose rights add up: a narrow entry does not restrict a wider one.
        default_entry: an entry that is added to all of them.
        temporary_entry: the entry for temporary destinations; None: they are open to all.
            (activemq-edges SE6)
    """

    def __init__(
        self,
        entries: Iterable[AuthorizationEntry],
        default_entry: AuthorizationEntry | None = None,
        temporary_entry: AuthorizationEntry | None = None,
    ) -> None:
        self._entries = tuple(entries)
        self._always = () if default_entry is None else (default_entry,)
        self._temporary = temporary_entry

    def is_allowed(self, groups: frozenset[str], right: Right, destination: Destination) -> bool:
        """Return whether `groups` have a right on a destination, or on all members of a composite.

        A pattern is looked up like a name, as in ActiveMQ: an entry for `a.*` also permits a
        consumer of `a.>`, which then gets no messages of `a.b.c`. A reader's `*` matches any
        element of an entry: the right to read `a.b` permits a consumer of `a.*`, which then gets
        only the messages of `a.b`.
        """
        return all(
            self._is_allowed(groups, right, member) for member in destination.composite_destinations
        )

    def _is_allowed(self, groups: frozenset[str], right: Right, destination: Destination) -> bool:
        if destination.is_temporary:
            if self._temporary is None:
                return True
            allowed = self._temporary.groups(right)
        else:
            allowed = self._groups(right, destination)
        return _ANYBODY in allowed or not allowed.isdisjoint(groups)

    def _groups(self, right: Right, destination: Destination) -> frozenset[str]:
        matching = (
            entry.groups(right)
            for entry in self._entries
            if entry.destination is not None
            and (
                matches(entry.destination, destination)
                or (right is Right.READ and _includes(destination, entry.destination))
            )
        )
        always = (entry.groups(right) for entry in self._always)
        empty: frozenset[str] = frozenset()
        return reduce(or_, (*matching, *always), empty)


def _includes(pattern: Destination, entry: Destination) -> bool:
    """Return whether a pattern with `*` matches names of an entry; `>` matches only `>`."""
    if "*" not in pattern.physical_name or pattern.TYPE != entry.TYPE:
        return False
    named = entry.physical_name.split(".")
    elements = pattern.physical_name.split(".")
    if named[-1] == ">":
        named.pop()
        elements = elements[: len(named)]
    return len(named) == len(elements) and all(
        name == element or "*" in {name, element}
        for name, element in zip(named, elements, strict=True)
    )
