"""The policy map, which finds the policy entry of a destination. (activemq-broker P1)"""

from __future__ import annotations

from collections.abc import Iterable

from pyjms.jms.destination import Destination
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.wildcard import matches, specificity

__all__ = ["PolicyMap"]


class PolicyMap:
    """Entries by destination. Source: ActiveMQ PolicyMap."""

    def __init__(
        self, entries: Iterable[PolicyEntry] = (), default_entry: PolicyEntry | None = None
    ) -> None:
        """Create a map of `entries`; one without a destination becomes the default.

        Raises:
            ValueError: there are two defaults.
        """
        self.entries: list[PolicyEntry] = []
        self.default_entry = default_entry
        self._built_in = PolicyEntry.built_in()
        for entry in entries:
            self.add(entry)

    def add(self, entry: PolicyEntry) -> None:
        """Add an entry; an older one for the same destination is replaced.

        Raises:
            ValueError: it is a second default.
        """
        target = entry.target
        if target is None:
            if self.default_entry is not None:
                raise ValueError("a PolicyMap has one default entry, two were given")
            self.default_entry = entry
            return
        self.entries = [other for other in self.entries if other.target != target]
        self.entries.append(entry)

    def replace(self, other: PolicyMap) -> None:
        """Replace the entries by those of another map."""
        self.entries, self.default_entry = list(other.entries), other.default_entry

    @property
    def aborts_slow_consumers(self) -> bool:
        """Whether any entry has a slow consumer strategy."""
        entries = (*self.entries, self.default_entry)
        return any(each is not None and each.slow_consumer_strategy for each in entries)

    def entry_for(self, destination: Destination) -> PolicyEntry:
        """Return the entry that names `destination`, else that of the most specific pattern.

        If none matches, it is the default entry, or the built-in settings.
        """
        best: tuple[tuple[tuple[int, str], ...], PolicyEntry] | None = None
        for entry in self.entries:
            target = entry.target
            if target is None:
                continue
            if target == destination:
                return entry
            if matches(target, destination):
                rank = specificity(target)
                if best is None or rank < best[0]:
                    best = (rank, entry)
        if best is not None:
            return best[1]
        return self.default_entry or self._built_in
