"""This process's sockets, seen from outside of the objects that own them."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

__all__ = ["socket_to"]


def socket_to(port: int) -> socket.socket:
    """Return a copy of this process's TCP socket that is connected to `port`."""
    for number in range(3, 1024):
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
        except OSError:
            continue  # not open
        found = socket.socket(fileno=os.dup(number))
        with suppress(OSError, IndexError):  # a listening socket, or one without ports
            if found.getpeername()[1] == port:
                return found
        found.close()
    raise AssertionError(f"no socket is connected to port {port}")
