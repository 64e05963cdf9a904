"""Listening on a TCP port, and the check of who can reach it."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Protocol

import anyio
from anyio.abc import SocketAttribute, SocketListener

from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException, ResourceAllocationException
from pyjms_broker.api.broker import Broker

__all__ = ["ExposureHost", "ServerHost", "check_exposure", "listen"]

logger = get_logger(__name__)


class ExposureHost(Protocol):
    """The part of the broker service that determines who may connect."""

    @property
    def broker(self) -> Broker: ...

    @property
    def allow_anonymous_remote(self) -> bool:
        """Whether other machines may connect although the broker has no users."""


class ServerHost(ExposureHost, Protocol):
    """The part of the broker service that is used by connectors and the web server."""

    @property
    def reserved_file_handles(self) -> int:
        """The number of the process's file handles that are reserved for the stores."""

    @property
    def store_failed(self) -> bool:
        """Whether a store has failed permanently, so that errors get no response.

        (activemq-persistence K24)
        """


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


def check_exposure(host: ExposureHost, listener: str, listeners: list[SocketListener]) -> None:
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
