"""One report in the log for an outage that affects many connections of a process.

A process with twenty listeners has twenty connections, which lose their broker together. The first
connection that fails reports the outage: it logs the warnings and the reconnection. The lines of
the other connections about the same list of brokers are logged at DEBUG until the outage is over.

If the reporting connection was only starting, or gives up, it does not log the end of the outage:
another connection without a broker continues the report. If the reporting connection gave up or was
closed, a new connection may be the first one to reach a broker, and logs that.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import Final
from weakref import WeakSet, WeakValueDictionary

__all__ = ["OutageLog"]

_reporting: Final[WeakValueDictionary[str, OutageLog]] = WeakValueDictionary()
_lock: Final = Lock()  # connections may belong to loops in several threads


class OutageLog:
    """Determines the levels of one connection's log lines about outages. Thread-safe."""

    def __init__(self, brokers: str) -> None:
        """Keep `brokers`, the list of brokers in the connection's URL."""
        self.brokers: Final = brokers

    def warning(self) -> int:
        """Return the log level of a line that says that no broker is available."""
        with _lock:
            _waiting.add(self)
            reporting = _reporting.setdefault(self.brokers, self)
        return logging.WARNING if reporting is self else logging.DEBUG

    def end(self) -> int:
        """Return the log level of a line that says that the outage is over, and record its end."""
        with _lock:
            _waiting.discard(self)
            if _reporting.get(self.brokers) is not self:
                return logging.DEBUG
            del _reporting[self.brokers]
            _left.discard(self.brokers)
        return logging.INFO

    def started(self) -> int:
        """Return the log level of a line that says that a starting connection has a broker."""
        with _lock:
            if self.brokers not in _left:
                self._hand_over()
                return logging.DEBUG
            _waiting.discard(self)
            _left.discard(self.brokers)
            _reporting.pop(self.brokers, None)
        return logging.INFO

    def leave(self) -> None:
        """Stop reporting, because this connection has ended; another one continues."""
        with _lock:
            if self._hand_over():
                _left.add(self.brokers)

    def _hand_over(self) -> bool:
        """Pass the report to another waiting connection; return whether this one was reporting."""
        _waiting.discard(self)
        if _reporting.get(self.brokers) is not self:
            return False
        del _reporting[self.brokers]
        heirs = [other for other in _waiting if other.brokers == self.brokers]
        if heirs:
            _reporting[self.brokers] = heirs[0]
        return True


_waiting: Final[WeakSet[OutageLog]] = WeakSet()
"""The connections that have logged, at any level, that no broker is available."""

_left: Final[set[str]] = set()
"""The broker lists whose outage was reported by a connection that ended during the outage."""
