"""Discovery agents: datagrams, handling of invalid ones, and when a broker is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms.errors import ConfigurationException, ConnectionFailedException
from pyjms.testing.clock import VirtualClock
from pyjms.transport.discovery import check_agent, create_agent, known_agents
from pyjms.transport.multicast import (
    Announcement,
    MulticastAgent,
    MulticastOptions,
    MulticastSocket,
    read_datagram,
    read_multicast_options,
)
from pyjms.transport.uri import TransportURI
from pyjms.transport.uri import read_received_address as read_address
from tests.kit.waiting import until

ALIVE = b"shop.ActiveMQ-4.alive.%localhost%tcp://localhost:45901"  # of ActiveMQ 5.17.2
DEAD = b"shop.ActiveMQ-4.dead.%localhost%tcp://localhost:45901"
BROKER = "tcp://localhost:45901"


class Network(MulticastSocket):
    """A multicast group in the test."""

    def __init__(self, options: MulticastOptions) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False
        self.error: OSError | None = None
        self._incoming: list[bytes] = []
        self._news = anyio.Event()

    def deliver(self, *data: bytes) -> None:
        self._incoming += data
        self._news.set()

    def fail(self, error: OSError) -> None:
        self.error = error
        self._news.set()

    def send(self, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(data)

    async def wait_readable(self) -> None:
        if not self._incoming:
            self._news = anyio.Event()
            await self._news.wait()

    def receive(self) -> bytes | None:
        if self.error is not None:
            raise self.error
        return self._incoming.pop(0) if self._incoming else None

    def close(self) -> None:
        self.is_closed = True


class Agent:
    """A multicast agent in its network, and what it has told."""

    def __init__(self, **options: Any) -> None:
        self.networks: list[Network] = []
        self.refusal: ConnectionFailedException | None = None
        self.events: list[str] = []
        self.agent = MulticastAgent(MulticastOptions(group="shop", **options), self._open)

    def _open(self, options: MulticastOptions) -> Network:
        if self.refusal is not None:
            raise self.refusal
        self.networks.append(Network(options))
        return self.networks[-1]

    @property
    def network(self) -> Network:
        return self.networks[-1]

    def service_added(self, service: str) -> None:
        self.events.append(f"+{service}")

    def service_removed(self, service: str) -> None:
        self.events.append(f"-{service}")

    async def told(self, count: int) -> list[str]:
        await until(lambda: len(self.events) >= count)
        return self.events


@asynccontextmanager
async def started(agent: Agent, service: str | None = None) -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        await agent.agent.start(agent, service)
        try:
            await clock.advance(0)
            yield clock
        finally:
            await agent.agent.stop()


@pytest.mark.fact("activemq-edges U7")
def test_datagrams_are_those_of_activemq() -> None:
    assert Announcement(BROKER).encode("shop") == ALIVE
    assert Announcement(BROKER, is_alive=False).encode("shop") == DEAD
    assert read_datagram(ALIVE, "shop") == Announcement(BROKER)
    assert read_datagram(DEAD, "shop") == Announcement(BROKER, is_alive=False)
    assert read_datagram(ALIVE, "other") is None
    assert read_datagram(ALIVE.replace(b"%localhost%", b"%a b%"), "shop") == Announcement(
        BROKER, name="a b"
    )


BAD = [
    b"shop.ActiveMQ-4.",
    b"shop.ActiveMQ-4.sick.%localhost%tcp://a:1",
    b"shop.ActiveMQ-4.alive.",
    b"shop.ActiveMQ-4.alive.%localhost%",
    b"shop.ActiveMQ-4.alive.x%localhost%tcp://a:1",
    b"shop.ActiveMQ-4.alive.%localhost%tcp://a:1\x00",
    b"shop.ActiveMQ-4.alive.%localhost%tcp://a:1\n2026 ERROR it is all over",
    b"shop.ActiveMQ-4.alive.%localhost%\xff\xfe",
    b"shop.ActiveMQ-4.alive.%localhost%tcp://" + b"a" * 3000,
    b"shop.ActiveMQ-4.alive.%localhost%" + b"a" * 9000,
]


async def test_bad_datagrams_are_counted_and_the_rest_is_handled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent()
    async with started(agent) as clock:
        agent.network.deliver(*BAD, b"", b"\x00" * 9000, b"other", *BAD, ALIVE)
        assert await agent.told(1) == [f"+{BROKER}"]
        warnings = [r for r in caplog.records if "is ignored" in r.getMessage()]
        assert len(warnings) == 1
        assert "\n" not in warnings[0].getMessage()
        await clock.advance(61)
        agent.network.deliver(BAD[0])
        await until(lambda: f"({len(BAD) * 2} times)" in caplog.text)


@pytest.mark.fact("activemq-edges U7")
async def test_a_broker_is_there_until_it_says_otherwise_or_is_silent() -> None:
    agent = Agent()
    async with started(agent) as clock:
        agent.network.deliver(ALIVE, DEAD, DEAD, ALIVE)
        assert await agent.told(3) == [f"+{BROKER}", f"-{BROKER}", f"+{BROKER}"]
        for _ in range(3):
            await clock.advance(4)
            agent.network.deliver(ALIVE)
            await clock.advance(0.4)
        assert len(agent.events) == 3
        await clock.advance(6)
        assert await agent.told(4) == [f"+{BROKER}", f"-{BROKER}", f"+{BROKER}", f"-{BROKER}"]


@pytest.mark.fact("activemq-edges U7")
async def test_a_service_is_announced_twice_a_second_until_the_stop() -> None:
    agent = Agent()
    async with started(agent, BROKER) as clock:
        await clock.advance(2.2)
        network = agent.network
        assert network.sent == [ALIVE] * 5
        network.deliver(ALIVE, ALIVE.replace(b"45901", b"7"))
        assert await agent.told(1) == ["+tcp://localhost:7"]  # not itself
        assert len(network.sent) == 6  # for the new one, at once
    assert network.sent[-1] == DEAD
    assert network.is_closed


async def test_there_is_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent()
    async with started(agent) as clock:
        many = [Announcement(f"tcp://h{n}:1").encode("shop") for n in range(5000)]
        agent.network.deliver(*many)
        await until(lambda: "1000 are known already" in caplog.text)
        await clock.advance(0)
        assert len(agent.events) == 1000
        await clock.advance(6)
        assert len(agent.events) == 2000
        agent.network.deliver(ALIVE)
        await until(lambda: agent.events[-1] == f"+{BROKER}")


async def test_a_network_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent()
    agent.refusal = ConnectionFailedException("No such device")
    async with started(agent, BROKER) as clock:
        await clock.advance(3)
        assert agent.networks == []
        assert caplog.text.count("No such device") == 1
        agent.refusal = None
        await clock.advance(0.5)
        assert agent.network.sent
        agent.network.fail(OSError("Network is down"))
        await clock.advance(1)
        assert len(agent.networks) == 2
        agent.network.deliver(ALIVE.replace(b"45901", b"7"))
        await agent.told(1)


@pytest.mark.fact("activemq-edges U7")
def test_options() -> None:
    assert read_multicast_options(TransportURI.parse("multicast://default")) == MulticastOptions()
    assert MulticastOptions() == MulticastOptions(
        "239.255.2.3", 6155, "default", 0.5, 1, loop_back_mode=False
    )
    uri = "multicast://239.1.2.3:99?group=shop&keepAliveInterval=100&timeToLive=3&loopBackMode=true"
    uri += "&interface=127.0.0.1&networkInterface=lo&joinNetworkInterface=eth0"
    assert read_multicast_options(TransportURI.parse(uri)) == MulticastOptions(
        "239.1.2.3", 99, "shop", 0.1, 3, True, "127.0.0.1", "lo", "eth0"
    )
    assert "multicast" in known_agents()
    assert isinstance(create_agent(TransportURI.parse("multicast://default")), MulticastAgent)


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("multicast://10.0.0.1", "not a multicast address"),
        ("multicast://shop", "shop is not a multicast address"),
        ("multicast://default?group=", "is not a valid name"),
        ("multicast://default?group=a%25b", "is not a valid name"),
        ("multicast://default?keepAliveInterval=1", "less than 10"),
        ("multicast://default?keepAliveInterval=soon", "Invalid value 'soon'"),
        ("multicast://default?timeToLive=300", "timeToLive"),
        ("multicast://default?grou=x", "did you mean 'group'"),
        ("zeroconf:x", "No discovery agent is known for zeroconf"),
    ],
)
def test_wrong_options_are_named(uri: str, why: str) -> None:
    with pytest.raises(ConfigurationException, match=why):
        check_agent(uri)


@pytest.mark.parametrize(
    "text",
    [
        "vm://a",
        "failover:(tcp://a:1)",
        "mock://a",
        "peer://g/b",
        "file:///etc/passwd",
        "a",
        "",
        "tcp://a b:1",
        "tcp://user@a:1/../x",
        "tcp://" + "a" * 3000,
    ],
)
def test_addresses_that_are_not_used(text: str) -> None:
    with pytest.raises(ConfigurationException):
        read_address(text)


def test_options_about_this_side_are_dropped() -> None:
    address = read_address("ssl://a:1?socket.verifyHostName=false&connectionTimeout=5")
    assert str(address.uri) == "ssl://a:1?connectionTimeout=5"
    assert address.dropped == ["socket.verifyHostName"]
