"""Slow consumers: ActiveMQ 5.17.2 and our broker abort the same ones."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConsumerControl, ConsumerId, MessagePull
from tests.kit.clients.raw import RawClient
from tests.kit.processes.children import accepted_url, started
from tests.kit.servers.java_brokers import ACTIVEMQ
from tests.kit.waiting import until

pytestmark = pytest.mark.activemq

DURABLE = {"subscription_name": "s"}
KINDS = pytest.mark.parametrize(
    ("kind", "fields"),
    [(Queue, {}), (Topic, {}), (Topic, DURABLE)],
    ids=["queue", "topic", "durable"],
)
SLOW = "check_period: 200ms, max_slow_duration: 400ms"
ACK = "type: abort_slow_ack, max_time_since_last_ack: 400ms"
STRATEGIES = {
    "slow": "type: abort_slow",
    "connection": "type: abort_slow, abort_connection: true",
    "ack": ACK,
    "idle": f"{ACK}, ignore_idle_consumers: false",
}
"""By the first part of the destinations' names; as in RealBroker.java."""


def configuration() -> str:
    lines = ["connectors: [{name: openwire, uri: 'tcp://127.0.0.1:0'}]", "policies:"]
    for name, strategy in STRATEGIES.items():
        for kind in ("queue", "topic"):
            lines.append(f"  - destination: {kind}://{name}.>")
            lines.append(f"    slow_consumer_strategy: {{{strategy}, {SLOW}}}")
    return "\n".join(lines)


@pytest.fixture(scope="module", params=["activemq", "pyjms"])
def aborting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a broker that aborts slow consumers."""
    folder: Path = tmp_path_factory.mktemp("slow")
    if request.param == "activemq":
        program = request.getfixturevalue("java_program")(ACTIVEMQ)
        command = [*program, "RealBroker", str(folder / "data"), "slow"]
    else:
        (folder / "broker.yaml").write_text(configuration(), encoding="utf-8")
        command = [sys.executable, "-m", "pyjms_broker", "--ephemeral", "--config"]
        command.append(str(folder / "broker.yaml"))
    with started(command, folder / "log") as child:
        yield accepted_url(child, folder / "log").replace("localhost", "127.0.0.1")


@pytest.fixture
async def open_client(aborting: str) -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def make() -> RawClient:
            client = RawClient(create_transport(aborting))
            await client.open()
            stack.push_async_callback(client.close)
            return client

        yield make


async def aborted(client: RawClient) -> ConsumerId | None:
    control = await client.heard(ConsumerControl)
    assert isinstance(control, ConsumerControl)
    assert control.close
    return control.consumer_id


async def consumer_of(client: RawClient, destination: Destination, **fields: Any) -> ConsumerId:
    return await client.consumer(
        destination, **{"prefetch_size": 2, "client_id": client.name, **fields}
    )


@pytest.mark.fact("activemq-broker T13")
@pytest.mark.parametrize("fields", [{}, DURABLE], ids=["topic", "durable"])
async def test_full(open_client: Callable[..., Any], name: str, fields: Any) -> None:
    client, other = await open_client(), await open_client()
    destination = Topic(f"slow.{name}")
    consumer = await consumer_of(client, destination, **fields)
    await other.send(destination, *"01234567")
    assert await aborted(client) == consumer


@pytest.mark.fact("activemq-broker T14")
@KINDS
async def test_silent(open_client: Callable[..., Any], name: str, kind: Any, fields: Any) -> None:
    client, other = await open_client(), await open_client()
    destination = kind(f"ack.{name}")
    idle = await consumer_of(other, destination, selector="FALSE", **fields)
    consumer = await consumer_of(client, destination, **fields)
    await other.send(destination, "0")
    assert await aborted(client) == consumer
    await other.remove(idle)


@pytest.mark.fact("activemq-broker T14")
@KINDS
async def test_idle(open_client: Callable[..., Any], name: str, kind: Any, fields: Any) -> None:
    client = await open_client()
    consumer = await consumer_of(client, kind(f"idle.{name}"), **fields)
    assert await aborted(client) == consumer


@pytest.mark.fact("activemq-broker T13")
async def test_connection(open_client: Callable[..., Any], name: str) -> None:
    client, other = await open_client(), await open_client()
    destination = Topic(f"connection.{name}")
    await consumer_of(client, destination)
    await other.send(destination, *"01234567")
    await until(lambda: client.errors)
    client.closed = True


@pytest.mark.fact("activemq-broker T14")
async def test_without_prefetch(open_client: Callable[..., Any], name: str) -> None:
    client = await open_client()
    destination = Queue(f"ack.{name}")
    consumer = await consumer_of(client, destination, prefetch_size=0)
    await client.send(destination, *"01")
    await client.request(MessagePull(consumer, destination, 0))
    await client.message()
    assert await aborted(client) == consumer
