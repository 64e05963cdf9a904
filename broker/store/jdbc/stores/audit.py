"""Duplicate detection by message id, in a bounded window per producer.

(activemq-persistence J1 `enableAudit`)
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["MessageAudit"]


class MessageAudit:
    """Knows the last `depth` sequence numbers of each of the last `producers` producers."""

    def __init__(self, depth: int, producers: int) -> None:
        self._depth = depth
        self._most = producers
        self._windows: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()

    def seen(self, container: str, producer: str, sequence: int) -> bool:
        """Note a message id; return whether it was noted before.

        An id from before the window counts as new.
        """
        key = (container, producer)
        highest, bits = self._windows.pop(key, (sequence, 0))
        if sequence > highest:
            moved = sequence - highest
            bits = (bits << moved) & self._mask if moved < self._depth else 0
            highest = sequence
        bit = 1 << (highest - sequence) if highest - sequence < self._depth else 0
        found = bool(bits & bit)
        self._windows[key] = (highest, bits | bit)
        if len(self._windows) > self._most:
            self._windows.popitem(last=False)
        return found

    def forget(self, container: str, producer: str, sequence: int) -> None:
        """Withdraw a message id, since the message was not stored."""
        window = self._windows.get((container, producer))
        if window is not None and 0 <= window[0] - sequence < self._depth:
            highest, bits = window
            self._windows[container, producer] = (highest, bits & ~(1 << (highest - sequence)))

    @property
    def _mask(self) -> int:
        return (1 << self._depth) - 1
