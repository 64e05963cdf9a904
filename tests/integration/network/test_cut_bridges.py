"""Bridges whose connection is cut at every frame: nothing is lost, nobody stuck, nothing left.

A cut comes while a bridge starts, learns of consumers, forwards, is acknowledged or closes,
between two frames or inside one, in either direction. A message whose confirmation was lost is
sent again, and the target's queue recognizes it. (activemq-edges NW1, NW4, U7)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.aio import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import RemoveInfo, ShutdownInfo
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.network import NetworkConnectorAttributes
from tests.kit.brokers.networks import Network
from tests.kit.failures.cutting_proxy import (
    DIRECTIONS,
    TO_BROKER,
    CuttingProxy,
    cutting_proxy,
    of_type,
)
from tests.kit.processes.children import BrokerProcess
from tests.kit.servers.java_programs import JavaProgram, java_program
from tests.kit.waiting import LONGEST_WAIT, until

__all__ = ["java_program"]

AT_ONCE = "initialReconnectDelay=5&useExponentialBackOff=false&minConnectTime=0"
ORDERS, BACK, LATE = Queue("orders"), Queue("back"), Queue("late")


def bridge_tasks() -> list[str]:
    """Return the names of the tasks that bridges have."""
    names = [task.name or "" for task in anyio.get_running_tasks()]
    return [name for name in names if "bridge" in name or "network connector" in name]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Flow:
    """Messages from one broker to a queue's consumer at the other one."""

    def __init__(self, sending: ActiveMQSession, receiving: ActiveMQSession, queue: Queue) -> None:
        self.queue = queue
        self.sent: list[str] = []
        self.received: Counter[str] = Counter()
        self._sending, self._receiving = sending, receiving
        self._producer: Any = None
        self._consumer: Any = None

    async def open(self) -> None:
        self._producer = await self._sending.create_producer(self.queue)
        self._consumer = await self._receiving.create_consumer(self.queue)

    async def close(self) -> None:
        await self._consumer.close()
        await self._producer.close()

    async def pass_on(self, count: int) -> None:
        """Send, and wait until all has arrived."""
        for _ in range(count):
            text = f"m{len(self.sent)}"
            await self._producer.send(self._sending.create_text_message(text))
            self.sent.append(text)
        while len(self.received) < len(self.sent):
            message = await self._consumer.receive(LONGEST_WAIT)
            assert message is not None, self.sent[-count:]
            self.received[message.text] += 1


class Bridged:
    """Two brokers with a bridge whose connection can be cut, and clients of both."""

    def __init__(self, network: Network, proxy: CuttingProxy, target: str) -> None:
        self._network = network
        self.proxy = proxy
        self._target = target
        self.source = network.broker("source")
        self.connector: Any = None
        self.here: Any = None
        self.there: Any = None

    async def start(self, stack: AsyncExitStack, *, duplex: bool) -> None:
        self.connector = self.source.add_network_connector(
            f"static:({self.proxy.url})?{AT_ONCE}", NetworkConnectorAttributes(duplex=duplex)
        )
        await self._network.start(self.source)
        self.here, self.there = [
            await self._session(stack, url)
            for url in (f"{self.source.vm_uri}?create=false", self._target)
        ]

    async def _session(self, stack: AsyncExitStack, url: str) -> ActiveMQSession:
        factory = ConnectionFactory(url)
        connection = await stack.enter_async_context(await factory.create_connection())
        await connection.start()
        return await connection.create_session()

    async def flows(self, *, duplex: bool) -> list[Flow]:
        """Return what is forwarded: to the target, and with a duplex bridge back, too."""
        flows = [Flow(self.here, self.there, ORDERS)]
        if duplex:
            flows.append(Flow(self.there, self.here, BACK))
        for flow in flows:
            await flow.open()
        return flows

    async def cut_everywhere(self, flows: list[Flow], frames: int, inside: tuple[int, ...]) -> None:
        """Cut each bridge at another frame, and check that messages are forwarded by the next."""
        for direction in DIRECTIONS:
            for frame in range(frames):
                for position in inside:
                    self.proxy.cut_at(direction, frame, position)
                    await self.proxy.cut_now()  # the next bridge is cut at that frame
                    late = Flow(self.here, self.there, LATE)
                    await late.open()
                    for flow in (*flows, late):
                        await flow.pass_on(1)
                    await late.close()
        self.proxy.plan = None
        for flow in flows:
            await flow.pass_on(1)
        assert self.proxy.cuts > frames * len(inside) * len(DIRECTIONS)


BridgedFlows = tuple[Bridged, list[Flow], TransportConnector]
"""And the target's connector."""


async def settled(pair: Bridged, door: TransportConnector) -> None:
    """Wait until there is one bridge, and the target has one connection of it."""
    await until(lambda: pair.connector.bridges and len(door.connections) == 1)


@pytest.fixture(params=[False, True], ids=["simplex", "duplex"])
async def bridged(network: Network, request: pytest.FixtureRequest) -> AsyncIterator[BridgedFlows]:
    async with AsyncExitStack() as stack:
        target = network.broker("target")
        door = target.add_connector("tcp://127.0.0.1:0")
        await network.start(target)
        port = int(door.connect_uri.rpartition(":")[2])
        proxy = await stack.enter_async_context(cutting_proxy(port))
        made = Bridged(network, proxy, f"{target.vm_uri}?create=false")
        await made.start(stack, duplex=request.param)
        yield made, await made.flows(duplex=request.param), door


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("frames", "inside"),
    [
        pytest.param(16, (0, 7), id="each frame"),
        pytest.param(60, (0, 1, 5, 50), id="more", marks=pytest.mark.nightly),
    ],
)
async def test_nothing_is_lost_when_bridges_are_cut(
    bridged: BridgedFlows, frames: int, inside: tuple[int, ...]
) -> None:
    pair, flows, door = bridged
    for flow in flows:
        await flow.pass_on(1)
    await settled(pair, door)
    tasks, handles = sorted(bridge_tasks()), descriptors()
    await pair.cut_everywhere(flows, frames, inside)
    for flow in flows:
        assert flow.received == Counter(flow.sent)
    await settled(pair, door)
    await until(lambda: sorted(bridge_tasks()) == tasks)
    await until(lambda: descriptors() == handles)
    await pair.connector.stop()
    await until(lambda: not bridge_tasks())


@pytest.mark.parametrize("direction", DIRECTIONS)
async def test_a_bridge_that_is_cut_while_it_closes_has_closed(
    bridged: BridgedFlows, direction: str
) -> None:
    pair, flows, door = bridged
    end = of_type(RemoveInfo.TYPE, ShutdownInfo.TYPE)
    for inside in (0, 7):
        for flow in flows:
            await flow.pass_on(3)
        await settled(pair, door)
        pair.proxy.cut_at(direction, 0, inside, **({"at": end} if direction == TO_BROKER else {}))
        with anyio.fail_after(LONGEST_WAIT):
            await pair.connector.stop()
        await until(lambda: not door.connections)
        await until(lambda: not bridge_tasks())
        pair.connector.start()
    for flow in flows:
        await flow.pass_on(1)
        assert flow.received == Counter(flow.sent)


@pytest.mark.nightly
@pytest.mark.activemq
@pytest.mark.timeout(300)
@pytest.mark.parametrize("duplex", [False, True], ids=["simplex", "duplex"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_lost_when_bridges_to_activemq_are_cut(
    network: Network, java_program: JavaProgram, duplex: bool, tmp_path: Path
) -> None:
    command = [*java_program(Path(__file__).parent / "program"), "NetworkBroker"]
    theirs = BrokerProcess([*command, str(tmp_path / "data")], tmp_path / "log")
    theirs.start()
    try:
        async with AsyncExitStack() as stack:
            port = int(theirs.url.rpartition(":")[2])
            proxy = await stack.enter_async_context(cutting_proxy(port))
            pair = Bridged(network, proxy, theirs.url)
            await pair.start(stack, duplex=duplex)
            flows = await pair.flows(duplex=duplex)
            await pair.cut_everywhere(flows, 16, (0, 7))
            for flow in flows:
                assert set(flow.received) == set(flow.sent)
    finally:
        theirs.end()
