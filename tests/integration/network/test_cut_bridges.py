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
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import RemoveInfo, ShutdownInfo
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network
from tests.kit.failures.cutting_proxy import (
    DIRECTIONS,
    TO_BROKER,
    CuttingProxy,
    cutting_proxy,
    of_type,
)
from tests.kit.waiting import LONGEST_WAIT, until

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

    def __init__(self, sending: Any, receiving: Any, queue: Queue) -> None:
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

    def __init__(self, network: Network, proxy: CuttingProxy, target: BrokerService) -> None:
        self._network = network
        self.proxy = proxy
        self.target = target
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
            await self._session(stack, each) for each in (self.source, self.target)
        ]

    async def _session(self, stack: AsyncExitStack, service: BrokerService) -> Any:
        factory = ConnectionFactory(f"{service.vm_uri}?create=false")
        connection = await stack.enter_async_context(await factory.create_connection())
        await connection.start()
        return await connection.create_session()

    async def settled(self) -> None:
        """Wait until there is one bridge, and the target has one connection of it."""
        (door,) = self.target.connectors
        await until(lambda: self.connector.bridges and len(door.connections) == 1)


@pytest.fixture(params=[False, True], ids=["simplex", "duplex"])
async def bridged(network: Network, request: Any) -> AsyncIterator[tuple[Bridged, list[Flow]]]:
    async with AsyncExitStack() as stack:
        target = network.broker("target")
        door = target.add_connector("tcp://127.0.0.1:0")
        await network.start(target)
        port = int(door.connect_uri.rpartition(":")[2])
        proxy = await stack.enter_async_context(cutting_proxy(port))
        made = Bridged(network, proxy, target)
        await made.start(stack, duplex=request.param)
        flows = [Flow(made.here, made.there, ORDERS)]
        if request.param:
            flows.append(Flow(made.there, made.here, BACK))
        for flow in flows:
            await flow.open()
        yield made, flows


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("frames", "inside"),
    [
        pytest.param(16, (0, 7), id="each frame"),
        pytest.param(60, (0, 1, 5, 50), id="more", marks=pytest.mark.nightly),
    ],
)
async def test_nothing_is_lost_when_bridges_are_cut(
    bridged: tuple[Bridged, list[Flow]], frames: int, inside: tuple[int, ...]
) -> None:
    pair, flows = bridged
    for flow in flows:
        await flow.pass_on(1)
    await pair.settled()
    tasks, handles = sorted(bridge_tasks()), descriptors()
    for direction in DIRECTIONS:
        for frame in range(frames):
            for position in inside:
                pair.proxy.cut_at(direction, frame, position)
                await pair.proxy.cut_now()  # the next bridge is cut at that frame
                late = Flow(pair.here, pair.there, LATE)
                await late.open()
                for flow in (*flows, late):
                    await flow.pass_on(1)
                await late.close()
    pair.proxy.plan = None
    for flow in flows:
        await flow.pass_on(1)
        assert flow.received == Counter(flow.sent)
    assert pair.proxy.cuts > frames * len(inside) * len(DIRECTIONS)
    await pair.settled()
    await until(lambda: sorted(bridge_tasks()) == tasks)
    await until(lambda: descriptors() == handles)
    await pair.connector.stop()
    await until(lambda: not bridge_tasks())


@pytest.mark.parametrize("direction", DIRECTIONS)
async def test_a_bridge_that_is_cut_while_it_closes_has_closed(
    bridged: tuple[Bridged, list[Flow]], direction: str
) -> None:
    pair, flows = bridged
    end = of_type(RemoveInfo.TYPE, ShutdownInfo.TYPE)
    for inside in (0, 7):
        for flow in flows:
            await flow.pass_on(3)
        await pair.settled()
        pair.proxy.cut_at(direction, 0, inside, **({"at": end} if direction == TO_BROKER else {}))
        with anyio.fail_after(LONGEST_WAIT):
            await pair.connector.stop()
        (door,) = pair.target.connectors
        await until(lambda: not door.connections)  # noqa: B023 - called at once
        await until(lambda: not bridge_tasks())
        pair.connector.start()
    for flow in flows:
        await flow.pass_on(1)
        assert flow.received == Counter(flow.sent)
