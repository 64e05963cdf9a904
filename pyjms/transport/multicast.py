"""The agent `multicast://`: brokers announce themselves to a group in the local network.

A datagram is `<group>.ActiveMQ-4.alive.%<name>%<url>`, sent every half second, and once with
`dead.` instead of `alive.` when the broker stops. The name is the broker's name or `localhost`; it
has no effect. (Source: ActiveMQ MulticastDiscoveryAgent, observed on 5.17.2)

Anyone in that network can announce anything. Datagrams that cannot be read are counted and logged
at most once a minute. The agent keeps a limited number of brokers, and removes a broker that has
not announced itself for ten intervals. (activemq-edges U7)
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from pyjms.errors import ConfigurationException, ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.discovery import DiscoveryAgent, DiscoveryListener
from pyjms.transport.options import options_of, read_all
from pyjms.transport.uri import TransportURI

logger: Final = get_logger(__name__)

LONGEST: Final = 8192
"""The maximum number of bytes that are read of a datagram."""
_TYPE: Final = ".ActiveMQ-4."
_ALIVE: Final = "alive."
_DEAD: Final = "dead."
_DELIMITER: Final = "%"
_LONGEST_URL: Final = 2000


@dataclass(frozen=True)
class Announcement:
    """An announcement that a broker runs, or that it stops."""

    service: str
    is_alive: bool = True
    name: str = "localhost"

    def encode(self, group: str) -> bytes:
        """Return the datagram for a group."""
        word = _ALIVE if self.is_alive else _DEAD
        text = f"{group}{_TYPE}{word}{_DELIMITER}{self.name}{_DELIMITER}{self.service}"
        return text.encode()


def read_datagram(data: bytes, group: str) -> Announcement | None:
    """Return the announcement of a datagram in `group`; None: it is for another group.

    Raises:
        ValueError: it is for this group but cannot be read; the text says why.
    """
    prefix = f"{group}{_TYPE}".encode()
    if not data.startswith(prefix):
        return None
    if len(data) > LONGEST:
        raise ValueError("it is too long")
    text = data[len(prefix) :].decode()
    word = _ALIVE if text.startswith(_ALIVE) else _DEAD
    if not text.startswith(word):
        raise ValueError("it says neither alive nor dead")
    start, _, rest = text[len(word) :].partition(_DELIMITER)
    name, _, service = rest.partition(_DELIMITER)
    if start or not service:
        raise ValueError("it names no broker")
    if len(service) > _LONGEST_URL or not service.isprintable() or " " in service:
        raise ValueError("its URL is too long, or has characters that no URL has")
    return Announcement(service, word == _ALIVE, name)


_DEFAULT_HOST: Final = "default"


@dataclass(frozen=True)
class MulticastOptions:
    """The options of a multicast agent; times in seconds."""

    address: str = "239.255.2.3"
    port: int = 6155
    group: str = "default"
    """The group; brokers of other groups at the same address are ignored."""
    keep_alive_interval: float = 0.5
    """The interval of announcements; a broker that misses ten is removed."""
    time_to_live: int = 1
    """The number of networks that datagrams may cross."""
    loop_back_mode: bool = False
    """Whether programs on this machine do not get the datagrams."""
    interface: str | None = None
    """The IP address of the interface; None: the system's choice."""
    network_interface: str | None = None
    """The name of the interface, instead of its address."""
    join_network_interface: str | None = None
    """The name of the interface for receiving, if it is another one."""

    def __post_init__(self) -> None:
        """Check the values."""
        try:
            is_group = IPv4Address(self.address).is_multicast
        except ValueError:
            is_group = False
        problem = None
        if not is_group:
            problem = f"{self.address} is not a multicast address (224.0.0.0 to 239.255.255.255)"
        elif not 0 < self.port <= 65535:
            problem = f"{self.port} is not a port"
        elif not self.group or not self.group.isprintable() or "%" in self.group:
            problem = f"group={self.group} is not a valid name"
        elif self.keep_alive_interval < 0.01:
            problem = "keepAliveInterval is less than 10 milliseconds"
        elif not 0 <= self.time_to_live <= 255:
            problem = f"timeToLive={self.time_to_live} is not between 0 and 255"
        if problem is not None:
            raise ConfigurationException(
                f"multicast: {problem}",
                hint="write multicast://default?group=name, or an address: "
                "multicast://239.255.2.3:6155",
            )


_OPTIONS: Final = options_of(MulticastOptions, leave_out=("address", "port"))


def read_multicast_options(uri: TransportURI) -> MulticastOptions:
    """Read the address and the options of a `multicast:` URL."""
    given = read_all(uri, _OPTIONS)
    if uri.host not in ("", _DEFAULT_HOST):
        given["address"] = uri.host
    if uri.port is not None:
        given["port"] = uri.port
    return MulticastOptions(**given)


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


_MISSES: Final = 10
"""Missing announcements until a broker is removed. (ActiveMQ HEARTBEAT_MISS_BEFORE_DEATH)"""
_MOST_SERVICES: Final = 1000
_AT_ONCE: Final = 50
"""MulticastSocket that are read before other tasks may run."""
_LOG_PERIOD: Final = 60.0
"""Seconds between two log lines of one kind."""


def multicast_agent(uri: TransportURI) -> MulticastAgent:
    """Return the agent of `multicast://default?options`, not started."""
    return MulticastAgent(read_multicast_options(uri))


class MulticastAgent(DiscoveryAgent):
    """Announces a broker to a multicast group, and finds other brokers."""

    def __init__(
        self,
        options: MulticastOptions,
        open_socket: Callable[[MulticastOptions], MulticastSocket] = MulticastSocket,
    ) -> None:
        self._options = options
        self._open = open_socket
        self._socket: MulticastSocket | None = None
        self._listener: DiscoveryListener | None = None
        self._own: Announcement | None = None
        self._heard: dict[str, float] = {}
        """When each service was last announced."""
        self._opened = anyio.Event()
        self._tasks: list[BackgroundTask] = []
        self._log = _RareWarnings()

    async def start(
        self, listener: DiscoveryListener | None = None, service: str | None = None
    ) -> None:
        self._listener = listener
        self._own = None if service is None else Announcement(service)
        name = f"pyjms multicast group {self._options.group}"
        self._tasks.append(spawn(self._keep_alive, name=f"{name} keep-alive"))
        if listener is not None:
            self._tasks.append(spawn(self._receive, name=f"{name} receiver"))

    async def stop(self) -> None:
        with anyio.CancelScope(shield=True):
            await end_tasks(*self._tasks)
            if self._socket is None:
                return
            if self._own is not None:
                self._send(Announcement(self._own.service, is_alive=False))
            self._close()

    async def _keep_alive(self) -> None:
        while True:
            if self._socket is None:
                self._try_to_open()
            if self._own is not None:
                self._send(self._own)
            self._expire()
            await _clock.sleep(self._options.keep_alive_interval)

    def _try_to_open(self) -> None:
        try:
            self._socket = self._open(self._options)
        except ConnectionFailedException as error:
            self._log.warn("The network cannot be used for multicast group", self._options, error)
        else:
            self._opened.set()

    def _close(self) -> None:
        opened, self._socket = self._socket, None
        self._opened = anyio.Event()
        if opened is not None:
            opened.close()

    def _send(self, announcement: Announcement) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(announcement.encode(self._options.group))
        except OSError as error:
            self._log.warn("An announcement failed in multicast group", self._options, error)

    def _expire(self) -> None:
        oldest = _clock.now() - self._options.keep_alive_interval * _MISSES
        for service in [each for each, heard in self._heard.items() if heard < oldest]:
            self._remove(service)

    async def _receive(self) -> None:
        while True:
            await self._opened.wait()
            opened = self._socket
            if opened is None:
                continue
            try:
                await opened.wait_readable()
                self._take_all(opened)
            except OSError as error:
                self._log.warn("Receiving failed in multicast group", self._options, error)
                self._close()  # the keep-alive task opens it again
            await checkpoint()

    def _take_all(self, opened: MulticastSocket) -> None:
        for _ in range(_AT_ONCE):
            data = opened.receive()
            if data is None:
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            announcement = read_datagram(data, self._options.group)
        except ValueError as error:
            self._log.warn("A datagram is ignored in multicast group", self._options, error)
            return
        if announcement is None or (self._own and announcement.service == self._own.service):
            return
        if not announcement.is_alive:
            self._remove(announcement.service)
        elif announcement.service in self._heard:
            self._heard[announcement.service] = _clock.now()
        else:
            self._add(announcement.service)

    def _add(self, service: str) -> None:
        if len(self._heard) >= _MOST_SERVICES:
            self._log.warn(
                "A broker is ignored in multicast group",
                self._options,
                f"{_MOST_SERVICES} are known already",
            )
            return
        self._heard[service] = _clock.now()
        if self._listener is not None:
            self._listener.service_added(service)
        if self._own is not None:
            self._send(self._own)  # so that a new broker or client learns of this broker at once

    def _remove(self, service: str) -> None:
        if self._heard.pop(service, None) is not None and self._listener is not None:
            self._listener.service_removed(service)


class _RareWarnings:
    """Logs at most one warning of each kind per `_LOG_PERIOD`, with the number of occurrences."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._next: dict[str, float] = {}

    def warn(self, text: str, options: MulticastOptions, reason: object) -> None:
        count = self._counts.get(text, 0) + 1
        self._counts[text] = count
        now = _clock.now()
        if now < self._next.get(text, 0.0):
            return
        self._next[text], self._counts[text] = now + _LOG_PERIOD, 0
        where = f"{options.group} at {options.address}:{options.port}"
        logger.warning("%s %s (%d times): %s", text, where, count, reason)
