"""Duplicate detection by message id, in a bounded window per producer.

(activemq-persistence J1 `enableAudit`)
"""

from __future__ import annotations

from collections import OrderedDict

from pyjms.wire.sequence_window import SequenceWindow

__all__ = ["MessageAudit"]


class MessageAudit:
    """Remembers the last `depth` sequence numbers of each of the last `producers` producers."""

    def __init__(self, depth: int, producers: int) -> None:
        self._depth = depth
        self._maximum_producers = producers
        self._windows: OrderedDict[tuple[str, str], SequenceWindow] = OrderedDict()

    def seen(self, container: str, producer: str, sequence: int) -> bool:
        """Record a message id; return whether it was recorded before.

        An id from before the window counts as new.
        """
        key = (container, producer)
        windows = self._windows
        window = windows.get(key)
        if window is not None:
            windows.move_to_end(key)
            return window.add(sequence)
        windows[key] = SequenceWindow(sequence, self._depth)
        if len(windows) > self._maximum_producers:
            windows.popitem(last=False)
        return False

    def forget(self, container: str, producer: str, sequence: int) -> None:
        """Withdraw a message id, since the message was not stored."""
        window = self._windows.get((container, producer))
        if window is not None:
            window.remove(sequence)
