"""The authorization map: which groups may read, write and administer what. (activemq-edges SE4)"""

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
    """What a user may do with a destination; the value says so in an error."""

    READ = "read from"
    WRITE = "write to"
    ADMIN = "administer"


@dataclass(frozen=True, slots=True)
class AuthorizationEntry:
    """The groups that have each right on a destination or a pattern.

    Source: ActiveMQ AuthorizationEntry, TempDestinationAuthorizationEntry.
    """

    destination: Destination | None = None
    """None: the default entry, and that of temporary destinations."""
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    admin: frozenset[str] = frozenset()

    def groups(self, right: Right) -> frozenset[str]:
        """Return the groups that have a right."""
        if right is Right.READ:
            return self.read
        return self.write if right is Right.WRITE else self.admin


class AuthorizationMap:
    """Entries by destination. Source: ActiveMQ DefaultAuthorizationMap.

    Args:
        entries: their rights add up: a narrower entry takes nothing from a wider one.
        default_entry: is added to all of them.
        temporary_entry: applies to temporary destinations; None: they are open to all.
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
        """Whether a user in `groups` has a right on a destination, or on all of a composite's.

        A pattern is looked up as a name is, as in ActiveMQ: what `a.*` allows includes a consumer
        of `a.>`, which then gets no messages of `a.b.c`. A reader's `*` stands for any element of
        an entry: the right to read `a.b` allows a consumer of `a.*`, which then gets no others.
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
    """Whether a pattern with `*` includes names of an entry; its `>` is only that of an entry."""
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
