"""A socket that has joined a multicast group."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.transport.discovery.datagrams import LONGEST
from pyjms.transport.discovery.options import MulticastOptions

__all__ = ["MulticastSocket"]

_ANY: Final = "0.0.0.0"  # noqa: S104 - for a group that the configuration names


class MulticastSocket:
    """Sends datagrams to a group, and receives the datagrams sent to it."""

    def __init__(self, options: MulticastOptions) -> None:
        """Join the group.

        Raises:
            ConnectionFailedException: the network does not allow it.
        """
        self._address = options.address, options.port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._open(options)
        except (OSError, ValueError) as error:
            self._socket.close()
            raise ConnectionFailedException(
                f"Cannot join the multicast group {options.address}:{options.port}: {error}",
                hint="check that the network carries multicast; interface=127.0.0.1 in the URL "
                "finds brokers on this machine",
            ) from error

    def _open(self, options: MulticastOptions) -> None:
        opened = self._socket
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "darwin":
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # if the system allows it, datagrams sent to the port but not to the group are not received
        opened.bind((_ANY if sys.platform == "win32" else options.address, options.port))
        joined, sending = options.join_network_interface, options.network_interface
        opened.setsockopt(
            socket.IPPROTO_IP,
            socket.IP_ADD_MEMBERSHIP,
            _membership(options.address, options.interface, joined or sending),
        )
        opened.setsockopt(
            socket.IPPROTO_IP,
            socket.IP_MULTICAST_IF,
            _membership(options.address, options.interface, sending)
            if sending
            else socket.inet_aton(options.interface or _ANY),
        )
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, options.time_to_live)
        loop = 0 if options.loop_back_mode else 1  # the meaning of Java's option is inverted
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, loop)

    def send(self, data: bytes) -> None:
        """Send a datagram.

        Raises:
            OSError: it cannot be sent now.
        """
        self._socket.sendto(data, self._address)

    async def wait_readable(self) -> None:
        """Wait until there is a datagram, or the socket is closed. Cancellable."""
        await anyio.wait_readable(self._socket)

    def receive(self) -> bytes | None:
        """Return a received datagram; None: there is none.

        Raises:
            OSError: the network has failed.
        """
        try:
            return self._socket.recv(LONGEST + 1)
        except (BlockingIOError, InterruptedError):
            return None

    def close(self) -> None:
        """Leave the group. Idempotent."""
        self._socket.close()


def _membership(group: str, local: str | None, interface: str | None) -> bytes:
    address = socket.inet_aton(group), socket.inet_aton(local or _ANY)
    if interface is None:
        return b"".join(address)
    return struct.pack("@4s4si", *address, socket.if_nametoindex(interface))
