"""Multicast groups, in the test's process or in a separate network namespace."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio
import pytest

from pyjms.transport.discovery import register_agent
from pyjms.transport.multicast import (
    MulticastAgent,
    MulticastOptions,
    MulticastSocket,
    multicast_agent,
    read_multicast_options,
)
from pyjms.transport.uri import TransportURI

__all__ = ["GroupMember", "MemoryNetwork", "memory_multicast", "real_multicast"]


_CLONE_NEWNET: Final = 0x40000000
reason: Final = (
    "multicast is tried in a network namespace: on Linux, as root, `apt-get install iproute2`"
)
# ActiveMQ sends through no loopback interface, so there is a pair of others.
_INTERFACES: Final = (
    "link set lo up",
    "link add lan0 type veth peer name lan1",
    "addr add 10.0.0.1/24 dev lan0",
    "link set lan0 up",
    "link set lan1 up",
    "route add 224.0.0.0/4 dev lan0",
)


class GroupMember(MulticastSocket):
    """The socket of an agent in a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._incoming: list[bytes] = []
        self._news = anyio.Event()

    def deliver(self, data: bytes) -> None:
        self._incoming.append(data)
        self._news.set()

    def send(self, data: bytes) -> None:
        for member in list(self._network.members):
            member.deliver(data)

    async def wait_readable(self) -> None:
        if not self._incoming:
            self._news = anyio.Event()
            await self._news.wait()

    def receive(self) -> bytes | None:
        return self._incoming.pop(0) if self._incoming else None

    def close(self) -> None:
        self._network.members.remove(self)


class MemoryNetwork:
    """One multicast address, within one event loop."""

    def __init__(self) -> None:
        self.members: list[GroupMember] = []

    def join(self, _options: MulticastOptions) -> GroupMember:
        self.members.append(GroupMember(self))
        return self.members[-1]

    def agent(self, uri: TransportURI) -> MulticastAgent:
        return MulticastAgent(read_multicast_options(uri), self.join)


@pytest.fixture
def memory_multicast() -> Iterator[MemoryNetwork]:
    """Lets the agents `multicast://` of this process use a network in memory."""
    network = MemoryNetwork()
    register_agent("multicast", network.agent)
    yield network
    register_agent("multicast", multicast_agent)


@pytest.fixture
def real_multicast() -> Iterator[None]:
    """Give the test's thread, and what it starts, a network namespace that carries multicast.

    No datagram leaves it. Sockets keep the namespace in which they were made.
    """
    namespace = Path("/proc/thread-self/ns/net")
    if not namespace.exists() or shutil.which("ip") is None:
        pytest.skip(reason)
    libc = ctypes.CDLL(None, use_errno=True)
    with namespace.open() as outside:
        if libc.unshare(_CLONE_NEWNET):
            pytest.skip(reason)
        try:
            for command in _INTERFACES:
                subprocess.run(["ip", *command.split()], check=True, capture_output=True)
            yield
        except subprocess.CalledProcessError:
            pytest.skip(reason)
        finally:
            assert not libc.setns(outside.fileno(), _CLONE_NEWNET), os.strerror(ctypes.get_errno())
