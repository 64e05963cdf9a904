"""One account in the log of an outage that many connections of a process have.

A process with twenty listeners has twenty connections, which lose their broker together. The first
one that fails reports the outage: its warnings, and the line when it is connected again. What the
others have to say of the same list of brokers is logged at DEBUG, until the first one is done.

One that was starting, or gives up, has no line about the end: another one that is without a broker
reports the rest of the outage in its place. If one gave up or was closed, a new connection may be
the first to reach a broker, and says so.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import Final
from weakref import WeakSet, WeakValueDictionary

__all__ = ["OutageLog"]

_reporting: Final[WeakValueDictionary[str, OutageLog]] = WeakValueDictionary()
_lock: Final = Lock()  # loops of several threads have connections


class OutageLog:
    """One connection's levels for the lines about its outages. May be used from any thread."""

    def __init__(self, brokers: str) -> None:
        """`brokers`: the list of brokers as in the URL of the connection."""
        self.brokers: Final = brokers

    def warning(self) -> int:
        """Return the level of a line which says that no broker is there."""
        with _lock:
            _waiting.add(self)
            reporting = _reporting.setdefault(self.brokers, self)
        return logging.WARNING if reporting is self else logging.DEBUG

    def end(self) -> int:
        """Return the level of a line which says that the outage is over; it is."""
        with _lock:
            _waiting.discard(self)
            if _reporting.get(self.brokers) is not self:
                return logging.DEBUG
            del _reporting[self.brokers]
            _left.discard(self.brokers)
        return logging.INFO

    def started(self) -> int:
        """Return the level of a line which says that a starting connection has a broker now."""
        with _lock:
            if self.brokers not in _left:
                self._hand_over()
                return logging.DEBUG
            _waiting.discard(self)
            _left.discard(self.brokers)
            _reporting.pop(self.brokers, None)
        return logging.INFO

    def leave(self) -> None:
        """Leave it to another connection to say that the outage is over; this one has ended."""
        with _lock:
            if self._hand_over():
                _left.add(self.brokers)

    def _hand_over(self) -> bool:
        """Return whether this one was reporting; another one that waits does so now."""
        _waiting.discard(self)
        if _reporting.get(self.brokers) is not self:
            return False
        del _reporting[self.brokers]
        heirs = [other for other in _waiting if other.brokers == self.brokers]
        if heirs:
            _reporting[self.brokers] = heirs[0]
        return True


_waiting: Final[WeakSet[OutageLog]] = WeakSet()
"""Those that have logged, at whatever level, that no broker is available."""

_left: Final[set[str]] = set()
"""The lists of brokers whose outage was reported by a connection that ended in it."""
