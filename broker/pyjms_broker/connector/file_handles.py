"""The limit of the process's file handles, and the reserve for the stores.

Every client uses one, and a store that cannot open its next file cannot continue. Connectors
therefore refuse clients when only the reserve is left. The handles in use need not be counted: the
operating system assigns the lowest free number, so all lower ones are in use. (RLIMIT_NOFILE,
`ulimit -n`)
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
    """The handles of this process that clients may use: all except for `reserved` ones.

    At most half of the limit is reserved.
    """

    def __init__(self, reserved: int) -> None:
        self._reserved = reserved

    @property
    def limit(self) -> int | None:
        """Return the current limit of the process's handles; None: no limit."""
        return _limit()

    @property
    def for_clients(self) -> int | None:
        """The number of handles without the reserve; None: no limit."""
        limit = _limit()
        return None if limit is None else limit - min(self._reserved, limit // 2)

    def may_serve(self, fileno: int) -> bool:
        """Return whether the reserve is still free with the new socket `fileno` of a client."""
        usable = self.for_clients
        if usable is None:
            return True
        try:
            free = os.dup(fileno)  # the socket's own number may have been released just before
        except OSError:
            return False
        os.close(free)
        return free < usable
