"""Multicast groups in the test's own process, and whether the machine carries real ones."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from pyjms.errors import ConnectionFailedException
from pyjms.transport.discovery import register_agent
from pyjms.transport.discovery.multicast import MulticastAgent, multicast_agent
from pyjms.transport.discovery.options import MulticastOptions, read_multicast_options
from pyjms.transport.discovery.sockets import MulticastSocket
from pyjms.transport.uri import TransportURI

__all__ = ["GroupMember", "MemoryNetwork", "memory_multicast", "real_multicast"]


reason = "no multicast in this machine's network, or its firewall forbids it"


class GroupMember:
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
def real_multicast() -> None:
    """Skips where the machine, or its firewall, carries no multicast."""
    try:
        probe = MulticastSocket(MulticastOptions(port=6156))
    except ConnectionFailedException:
        pytest.skip(reason)
    try:
        probe.send(b"probe")
    except OSError:
        pytest.skip(reason)
    finally:
        probe.close()
