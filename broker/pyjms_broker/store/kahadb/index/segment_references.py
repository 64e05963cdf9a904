"""References to journal segments, and the last sequence numbers of producers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

__all__ = ["ProducerSequences", "SegmentReferences"]


class SegmentReferences:
    """Message counts of segments, and references between segments.

    See `IndexUpdater` for what a reference means. (activemq-persistence K17, K18)
    """

    def __init__(self, counts: Callable[[], Iterable[Mapping[int, int]]]) -> None:
        self._counts = counts
        self._targets: dict[int, set[int]] = {}
        self._changed: set[int] = set()

    def load(self, rows: Iterable[tuple[int, int]]) -> None:
        """Load the database's rows: pairs of a segment and one it refers to."""
        self._targets.clear()
        self._changed.clear()
        for file_id, target in rows:
            self._targets.setdefault(file_id, set()).add(target)

    def message_counts(self) -> dict[int, int]:
        """Return the number of messages in each segment that has any, over all destinations."""
        total: dict[int, int] = {}
        for files in self._counts():
            for file_id, count in files.items():
                total[file_id] = total.get(file_id, 0) + count
        return total

    def add_reference(self, file_id: int, target: int) -> None:
        """Add a reference: `file_id` removes or ends something in `target`."""
        if file_id == target:
            return
        targets = self._targets.get(file_id)
        if targets is None:
            targets = self._targets[file_id] = set()
        if target not in targets:
            targets.add(target)
            self._changed.add(file_id)

    def targets(self, file_id: int) -> frozenset[int]:
        """Return the segments that this one refers to."""
        return frozenset(self._targets.get(file_id, ()))

    def referring_segments(self) -> list[int]:
        """Return the segments that have references, in order."""
        return sorted(self._targets)

    def remove(self, file_id: int) -> None:
        """Remove a deleted segment's references and the references to it."""
        if self._targets.pop(file_id, None) is not None:
            self._changed.add(file_id)
        for other, targets in list(self._targets.items()):
            if file_id in targets:
                targets.discard(file_id)
                self._changed.add(other)
                if not targets:
                    del self._targets[other]

    def pop_changes(self) -> dict[int, tuple[int, ...]]:
        """Return the references of segments whose references changed since the last call."""
        changed, self._changed = self._changed, set()
        return {file_id: tuple(sorted(self._targets.get(file_id, ()))) for file_id in changed}


class ProducerSequences:
    """The last sequence number of each of the last `limit` producers (activemq-broker T27)."""

    def __init__(self, limit: int = 64) -> None:
        self.limit = limit
        self._last: dict[str, int] = {}
        self._changed = False

    def load(self, rows: Iterable[tuple[str, int]]) -> None:
        """Load the database's rows, the least recently used first."""
        self._last = dict(list(rows)[-self.limit :])
        self._changed = False

    def record(self, producer_id: str, sequence: int) -> None:
        """Record a number; a number that is not higher only marks the producer as recently used."""
        numbers = self._last
        last = numbers.pop(producer_id, -1)
        numbers[producer_id] = max(last, sequence)
        if len(numbers) > self.limit:
            del numbers[next(iter(numbers))]
        self._changed = True

    def last(self, producer_id: str) -> int:
        """Return the highest number of a producer; -1 if it is unknown."""
        return self._last.get(producer_id, -1)

    def items(self) -> list[tuple[str, int]]:
        """Return all producers and numbers, the least recently used first."""
        return list(self._last.items())

    def pop_changes(self) -> list[tuple[str, int]] | None:
        """Return all producers and numbers if any changed since the last call, else None."""
        changed, self._changed = self._changed, False
        return self.items() if changed else None
