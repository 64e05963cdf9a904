"""What a broker can make a client with `failover:` do: announced brokers, refusals, redirections."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.transport import registry
from pyjms.wire.openwire.commands import ConnectionControl
from tests.kit.brokers.fake import FakeBrokers, brokers
from tests.kit.clients.scripted_broker import clock
from tests.kit.waiting import LONGEST_WAIT

__all__ = ["brokers", "clock"]

NETWORK = ("tcp", "nio", "auto", "auto+nio", "ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl")
OTHERS = ("vm", "mock", "discovery", "static", "installed")


@pytest.fixture
def network(brokers: FakeBrokers, clock: VirtualClock) -> Iterator[FakeBrokers]:
    """Brokers in the test for every scheme."""
    for scheme in (*NETWORK, *OTHERS):
        registry.register(scheme, brokers.transport)
    yield brokers
    for scheme in (*NETWORK, *OTHERS):
        registry.register(scheme, None)


@asynccontextmanager
async def connected(uris: str, query: str = "") -> AsyncIterator[ActiveMQConnection]:
    options = f"randomize=false&jms.watchTopicAdvisories=false&{query}"
    connection = await ConnectionFactory(f"failover:({uris})?{options}").create_connection()
    async with connection:
        await connection.start()
        yield connection


async def announce(brokers: FakeBrokers, **control: Any) -> None:
    brokers.connections[-1].deliver(ConnectionControl(**control))
    await _clock.sleep(1)


ACCEPTED = [
    ("tcp://a", "tcp://z:1"),
    ("tcp://a", "nio://z:1"),
    ("tcp://a", "auto+nio://[::1]:1"),
    ("nio://a", "TCP://z"),
    ("ssl://a", "auto+ssl://z:1"),
    ("ssl://a,tcp://b", "tcp://z:1"),
    ("installed://a", "installed://z:1"),
]
REFUSED = [
    ("tcp://a", "vm://z"),
    ("vm://a", "vm:(broker:(tcp://0.0.0.0:1)/z)"),
    ("vm://a", "vm://z"),
    ("tcp://a", "mock:z"),
    ("mock://a", "mock://z"),
    ("tcp://a", "failover:(tcp://z)"),
    ("tcp://a", "failover:tcp://z"),
    ("tcp://a", "discovery:(static:(tcp://z))"),
    ("tcp://a", "static:tcp://z"),
    ("tcp://a", "installed://z"),
    ("tcp://a", "ssl://z"),
    ("ssl://a", "tcp://z"),
    ("ssl://a", "auto+nio://z"),
    ("installed://a", "tcp://z"),
    ("tcp://a", "tcp://a..z:1"),
    ("tcp://a", f"tcp://{'z' * 70}:1"),
    ("tcp://a", "tcp://z\0:1"),
    ("tcp://a", "z"),
    ("tcp://a", "failover:" * 3000),
]


@pytest.mark.parametrize(("configured", "announced"), ACCEPTED)
async def test_a_client_goes_to_an_address_of_a_kind_that_is_configured(
    network: FakeBrokers, configured: str, announced: str
) -> None:
    async with connected(configured):
        await announce(network, reconnect_to=announced)
        assert network.open == [announced.partition("//")[2]]


@pytest.mark.parametrize(("configured", "announced"), REFUSED)
async def test_a_broker_cannot_announce_anything_else(
    network: FakeBrokers, configured: str, announced: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(configured) as connection:
        failures: list[Exception] = []
        connection.exception_listener = failures.append
        for _ in range(2):
            await announce(network, reconnect_to=announced)
            await announce(network, connected_brokers=announced, rebalance_connection=True)
        assert (network.open, failures) == (["a"], [])
        assert len(network.connections) == 1
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "is skipped" in warnings[0]
    assert len(warnings[0]) < 500
    assert "\0" not in warnings[0]


async def test_the_rest_of_an_announced_list_is_used(network: FakeBrokers) -> None:
    async with connected("tcp://a"):
        listed = "vm://x, tcp://y:1,failover:(tcp://z),tcp://bad?option,tcp://y:1,nio://z:2"
        await announce(network, connected_brokers=listed)
        network.down = {"a", "y:1"}
        network.lose()
        await _clock.sleep(1)
        assert [name for name, _ in network.attempts] == ["y:1", "z:2"]


async def test_announced_options_of_the_clients_side_are_dropped(
    network: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected("ssl://a", "nested.x=1"):
        options = "ssl.trustStore=/dev/zero&socket.verifyHostName=false&SSL.keyStore=f&x=2"
        await announce(network, reconnect_to=f"ssl://user:secret@z:1?{options}")
        assert network.open == ["z:1"]
        assert network.connections[-1].options == {"x": "1"}
    text = "".join(r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert "ssl.trustStore, socket.verifyHostName, SSL.keyStore" in text
    assert "secret" not in text


async def test_a_broker_cannot_make_the_list_or_the_log_grow(
    network: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected("tcp://a") as connection:
        await announce(network, connected_brokers=",".join(f"tcp://h{i}:1" for i in range(4000)))
        assert connection.transport.remote_address == "mock://a"
        network.fail_next = 101
        network.lose()
        await _clock.sleep(0.015)
        assert len(network.attempts) == 101
        await _clock.sleep(60)
        await announce(network, connected_brokers=f"tcp://z:1?x={'1' * 65536}")
        network.lose()
        await _clock.sleep(60)
        assert "z:1" not in [name for name, _ in network.attempts]
        for number in range(300):
            await announce(network, reconnect_to=f"vm://{number}")
    assert 100 <= sum("is skipped" in r.getMessage() for r in caplog.records) <= 110


@pytest.mark.parametrize("field", ["connected_brokers", "reconnect_to"])
async def test_an_announcement_before_the_response_to_a_reconnection_is_used(
    network: FakeBrokers, field: str
) -> None:
    async with connected("tcp://a"):
        announced = ConnectionControl(rebalance_connection=True)
        setattr(announced, field, "tcp://z:1")
        network.announced["a"] = [
            *(ConnectionControl(connected_brokers=f"tcp://y:{i}") for i in range(20)),
            announced,
        ]
        network.lose()
        await _clock.sleep(1)
        assert network.open == ["z:1"]
        assert [name for name, _ in network.attempts] == ["a", "z:1"]


async def test_a_priority_broker_that_refuses_the_client_is_left_alone_for_longer_each_time(
    network: FakeBrokers,
) -> None:
    query = "priorityBackup=true&initialReconnectDelay=1000&maxReconnectDelay=8000"
    network.down = {"a"}
    async with connected("tcp://a,tcp://b", query):
        for _ in range(2):  # after a successful return the delays begin again
            network.refusing, network.down = {"a"}, set()
            network.lose()
            with anyio.fail_after(LONGEST_WAIT):
                await _clock.sleep(30)
            refused = [time for name, time in network.attempts if name == "a"]
            assert network.open == ["b"]
            assert 3 <= len(refused) <= 6
            pauses = [later - earlier for earlier, later in itertools.pairwise(refused[1:])]
            assert pauses == sorted(pauses)
            network.refusing = set()
            await _clock.sleep(30)
            assert network.open == ["a"]
