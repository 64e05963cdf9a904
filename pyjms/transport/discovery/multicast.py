"""The agent `multicast://`: brokers announce themselves to a group in the local network.

Anyone in that network can announce anything, in the datagrams of `datagrams.py`. Datagrams that
cannot be read are counted and logged at most once a minute. The agent keeps a limited number of
brokers, and removes a broker that has not announced itself for ten intervals. (activemq-edges U7)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import anyio
from anyio.lowlevel import checkpoint

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConnectionFailedException
from pyjms.transport.discovery.agent import DiscoveryAgent, DiscoveryListener
from pyjms.transport.discovery.datagrams import Announcement, read_datagram
from pyjms.transport.discovery.options import MulticastOptions, read_multicast_options
from pyjms.transport.discovery.sockets import MulticastSocket
from pyjms.transport.uri import TransportURI

__all__ = ["Datagrams", "MulticastAgent", "multicast_agent"]

logger: Final = get_logger(__name__)

_MISSES: Final = 10
"""Missing announcements until a broker is removed. (ActiveMQ HEARTBEAT_MISS_BEFORE_DEATH)"""
_MOST_SERVICES: Final = 1000
_AT_ONCE: Final = 50
"""Datagrams that are read before other tasks may run."""
_LOG_PERIOD: Final = 60.0
"""Seconds between two log lines of one kind."""


class Datagrams(Protocol):
    """The socket of an agent."""

    def send(self, data: bytes) -> None: ...

    async def wait_readable(self) -> None: ...

    def receive(self) -> bytes | None: ...

    def close(self) -> None: ...


def multicast_agent(uri: TransportURI) -> MulticastAgent:
    """Return the agent of `multicast://default?options`, not started.

    Raises:
        ConfigurationException: an option is unknown or has a bad value.
    """
    return MulticastAgent(read_multicast_options(uri))


class MulticastAgent(DiscoveryAgent):
    """Announces a broker to a multicast group, and finds other brokers."""

    def __init__(
        self,
        options: MulticastOptions,
        open_socket: Callable[[MulticastOptions], Datagrams] = MulticastSocket,
    ) -> None:
        self._options = options
        self._open = open_socket
        self._socket: Datagrams | None = None
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
            self._socket.send(announcement.written(self._options.group))
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

    def _take_all(self, opened: Datagrams) -> None:
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
