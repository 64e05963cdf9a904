"""File handles: how many the process may open, and how many clients leave to the stores.

Every client takes one, and a store that cannot open its next file cannot go on. So connectors
refuse clients when only the reserve is left. How many handles are in use is not counted: the
operating system gives the lowest free number, so all lower ones are in use.
(RLIMIT_NOFILE, `ulimit -n`)
"""

from __future__ import annotations

import os
import sys

__all__ = ["FileHandles"]


if sys.platform == "win32":

    def _limit() -> int | None:
        return None  # sockets are not files there

else:
    import resource

    def _limit() -> int | None:
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft


class FileHandles:
    """The handles of this process that clients may use: all but `reserved`.

    Where the limit is low, at most half of it is reserved.
    """

    def __init__(self, reserved: int) -> None:
        self._reserved = reserved

    @property
    def limit(self) -> int | None:
        """How many handles the process may have, as set now; None: no limit."""
        return _limit()

    @property
    def for_clients(self) -> int | None:
        """How many handles there are without the reserve; None: no limit."""
        limit = _limit()
        return None if limit is None else limit - min(self._reserved, limit // 2)

    def may_serve(self, fileno: int) -> bool:
        """Whether a client with the new socket `fileno` leaves the reserve free."""
        usable = self.for_clients
        if usable is None:
            return True
        try:
            free = os.dup(fileno)  # the socket's own number may have become free a moment ago
        except OSError:
            return False
        os.close(free)
        return free < usable
