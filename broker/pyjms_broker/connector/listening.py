"""Listening on a TCP port: who can reach it, and how many file handles clients may use.

Every client uses a file handle, and a store that cannot open its next file cannot continue.
Connectors therefore refuse clients when only the reserve for the stores is left. The handles in use
need not be counted: the operating system assigns the lowest free number, so all lower ones are in
use. (RLIMIT_NOFILE, `ulimit -n`)
"""

from __future__ import annotations

import os
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute, SocketListener

from pyjms.errors import ConfigurationException, ResourceAllocationException
from pyjms.runtime.logging import get_logger

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost

logger = get_logger(__name__)


async def listen(
    host: str, port: int, *, backlog: int, address: str, listener: str, change: str
) -> list[SocketListener]:
    """Listen on all addresses of `host`; port 0 means any free port.

    Args:
        host: the name or address to bind.
        port: the port.
        backlog: the number of connections that the operating system queues until accepted.
        address: the URI of the listener, for the error.
        listener: the name of the listener, for the error: `connector 'openwire'`.
        change: the setting to change if that fails.

    Raises:
        ResourceAllocationException: the address cannot be bound.
    """
    try:
        multi = await anyio.create_tcp_listener(local_host=host, local_port=port, backlog=backlog)
    except OSError as error:
        raise ResourceAllocationException(
            f"Failed to bind to server socket: {address} due to: "
            f"{error.strerror or error} ({listener}, port {port})",
            hint="another program uses the port, or the host is not this machine's; "
            f"change {change}",
        ) from error
    return [each for each in multi.listeners if isinstance(each, SocketListener)]


def check_exposure(host: BrokerHost, listener: str, listeners: list[SocketListener]) -> None:
    """Check that only this machine can connect if the broker has no users.

    Args:
        host: the broker.
        listener: the name of the listener, for the error: `Connector 'openwire'`.
        listeners: its sockets.

    Raises:
        ConfigurationException: other machines can, and the configuration does not allow that.
    """
    bound = [each.extra(SocketAttribute.local_address) for each in listeners]
    exposed = [
        str(each[0]) for each in bound if not ip_address(str(each[0]).partition("%")[0]).is_loopback
    ]
    if not exposed or host.broker.authenticates_clients:
        return
    problem = (
        f"{listener} is open to other machines, at {' and '.join(exposed)} "
        f"port {bound[0][1]}, and the broker has no users: everybody who reaches the port may "
        "read, send and remove everything"
    )
    if not host.allow_anonymous_remote:
        raise ConfigurationException(
            problem,
            hint="bind it to 127.0.0.1; or configure users (plugins: simple_authentication or "
            "properties_authentication); or set allow_anonymous_remote: true",
        )
    logger.warning("%s (allow_anonymous_remote)", problem)


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
