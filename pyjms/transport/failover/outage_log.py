"""One account in the log of an outage that many connections of a process have.

A process with twenty listeners has twenty connections, which lose their broker together. The first
one that fails reports the outage: its warnings, and the line when it is connected again. What the
others have to say of the same list of brokers is logged at DEBUG, until the first one is done.
"""

from __future__ import annotations

import logging
from typing import Final
from weakref import WeakValueDictionary

__all__ = ["OutageLog"]

_reporting: Final[WeakValueDictionary[str, OutageLog]] = WeakValueDictionary()


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
        if _reporting.get(self._brokers) is not self:
            return logging.DEBUG
        del _reporting[self._brokers]
        return logging.INFO
