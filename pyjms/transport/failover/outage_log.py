"""One account in the log of an outage that many connections of a process have.

A process with twenty listeners has twenty connections, which lose their broker together. The first
one that fails reports the outage: its warnings, and the line when it is connected again. What the
others have to say of the same list of brokers is logged at DEBUG, until the first one is done.

One that was starting, or gives up, has no line about the end: the next one to be connected reports
it in its place.
"""

from __future__ import annotations

import logging
from typing import Final
from weakref import WeakValueDictionary

__all__ = ["OutageLog"]

_reporting: Final[WeakValueDictionary[str, OutageLog]] = WeakValueDictionary()

_unreported_ends: Final[set[str]] = set()
"""The lists of brokers whose outage was reported by a connection that cannot report its end."""


class OutageLog:
    """One connection's levels for the lines about its outages. May be used from any thread."""

    def __init__(self, brokers: str) -> None:
        """`brokers`: the list of brokers as in the URL of the connection."""
        self._brokers = brokers

    def warning(self) -> int:
        """Return the level of a line which says that no broker is there."""
        reporting = _reporting.setdefault(self._brokers, self)
        return logging.WARNING if reporting is self else logging.DEBUG

    def end(self) -> int:
        """Return the level of a line which says that the outage is over; it is."""
        was_left = self._brokers in _unreported_ends
        _unreported_ends.discard(self._brokers)
        if _reporting.get(self._brokers) is not self:
            return logging.INFO if was_left else logging.DEBUG
        del _reporting[self._brokers]
        return logging.INFO

    def leave(self) -> None:
        """Leave it to another connection to say that the outage is over."""
        if _reporting.get(self._brokers) is self:
            del _reporting[self._brokers]
            _unreported_ends.add(self._brokers)
