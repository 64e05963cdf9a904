"""A broker that is killed loses nothing that it has accepted, and does nothing twice."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RELEASED,
    Disposition,
    Header,
    Modified,
    Rejected,
    TransactionalState,
)
from tests.kit.amqp.client import AmqpClient, Coordination, Received, Receiver, text
from tests.kit.brokers.commands import free_port
from tests.kit.processes.children import BrokerProcess

CONFIGURATION = """
broker_name: killed
data_directory: {folder}/data
connectors:
  - name: openwire
    uri: tcp://127.0.0.1:0
  - name: amqp
    uri: amqp://127.0.0.1:{port}?transport.transformer=jms
"""
STARTS, PAIRS = 4, 25
DURABLE = Header(durable=True)


class KilledBroker(BrokerProcess):
    """A broker with an AMQP connector, which keeps its port."""

    def __init__(self, folder: Path) -> None:
        self.amqp_port = free_port()
        file = folder / "broker.yaml"
        file.write_text(CONFIGURATION.format(folder=folder, port=self.amqp_port), encoding="utf-8")
        command = [sys.executable, "-m", "pyjms_broker", "--config", str(file)]
        super().__init__(command, folder / "log")

    def command(self, port: int) -> list[str]:
        return self._command

    async def client(self, name: str) -> AmqpClient:
        client = AmqpClient(await anyio.connect_tcp("127.0.0.1", self.amqp_port))
        assert await client.log_in() == 0
        assert (await client.open(name)).container_id
        await client.begin()
        return client


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KilledBroker]:
    broker = KilledBroker(tmp_path)
    yield broker
    broker.end()


class Pairs:
    """Sends pairs of numbers, each in a transaction, until the connection breaks."""

    def __init__(self) -> None:
        self.next = 0
        self.committed: set[int] = set()
        self.rolled_back: set[int] = set()

    async def run(self, client: AmqpClient, until: int, reached: anyio.Event) -> None:
        coordinator = await client.coordinator()
        sender = await client.sender("queue://a")
        while True:
            first, self.next = self.next, self.next + 2
            txn_id = await coordinator.declare()
            state = TransactionalState(txn_id)
            for number in (first, first + 1):
                answer = await sender.send(text(str(number), header=DURABLE), state=state)
                assert answer == TransactionalState(txn_id, ACCEPTED)
            is_undone = first % 10 == 4
            assert await coordinator.discharge(txn_id, fail=is_undone) == ACCEPTED
            (self.rolled_back if is_undone else self.committed).update((first, first + 1))
            if len(self.committed) >= until:
                reached.set()


class Outcomes:
    """Receives numbers, each with another outcome, and remembers those that were answered."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.consumed: list[int] = []
        """The broker has answered that they are gone."""
        self.uncertain: set[int] = set()
        """They may be gone."""

    async def run(self, client: AmqpClient) -> None:
        coordinator = await client.coordinator()
        receiver = await client.receiver("queue://a")
        while True:
            await receiver.flow(1)
            message = await receiver.next()
            number = int(message.body)
            self.seen[number] += 1
            await self._settle(client, coordinator, message, number)

    async def _settle(
        self, client: AmqpClient, coordinator: Coordination, message: Received, number: int
    ) -> None:
        kind = (number + self.seen[number]) % 6
        if kind == 0:
            await client.settle(message, state=RELEASED)
        elif kind == 1:
            await client.settle(message, state=Modified(delivery_failed=True))
        elif kind in (2, 3):
            txn_id = await coordinator.declare()
            await client.settle(message, state=TransactionalState(txn_id, ACCEPTED))
            self.uncertain |= {number} if kind == 2 else set()
            assert await coordinator.discharge(txn_id, fail=kind == 3) == ACCEPTED
            if kind == 2:
                self._is_gone(number)
        else:
            state = ACCEPTED if kind == 4 else Rejected()
            self.uncertain.add(number)
            await client.settle(message, state=state, settled=False)
            answer = await client.answer(Disposition)
            assert (answer.first, answer.settled) == (message.id, True)
            if kind == 4:
                self._is_gone(number)

    def _is_gone(self, number: int) -> None:
        self.uncertain.discard(number)
        self.consumed.append(number)


async def left(client: AmqpClient, address: str) -> list[int]:
    receiver: Receiver = await client.receiver(address)
    return [int(each.body) for each in await receiver.drained(10_000)]


@pytest.mark.fact(
    "amqp-connector A71", "amqp-connector A91", "amqp-connector A92", "amqp-connector A115",
    "amqp-connector A119",
)  # fmt: skip
@pytest.mark.timeout(180)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_lost_and_nothing_done_twice(broker: KilledBroker) -> None:
    pairs, outcomes = Pairs(), Outcomes()
    for start in range(1, STARTS + 1):
        await anyio.to_thread.run_sync(broker.start)
        target, source = await broker.client("target"), await broker.client("source")
        reached = anyio.Event()
        try:
            async with target.stream, source.stream, anyio.create_task_group() as group:
                group.start_soon(outcomes.run, target)
                group.start_soon(pairs.run, source, 2 * PAIRS * start, reached)
                await reached.wait()
                await anyio.to_thread.run_sync(broker.kill)  # in the middle of transactions
                await anyio.sleep_forever()
        except* (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    await anyio.to_thread.run_sync(broker.start)
    client = await broker.client("looks")
    waiting, dead = await left(client, "queue://a"), await left(client, "queue://ActiveMQ.DLQ")
    await client.stream.aclose()
    there = waiting + dead
    assert len(there) == len(set(there)), "nothing is there twice"
    assert set(outcomes.consumed).isdisjoint(there), "what was acknowledged is gone"
    assert len(outcomes.consumed) == len(set(outcomes.consumed)), "and was so once"
    found = {*there, *outcomes.consumed, *outcomes.uncertain}
    assert pairs.committed <= found, "what was committed is there"
    assert pairs.rolled_back.isdisjoint(found), "what was rolled back never came"
    open_at_kills = {number for number in found if number not in pairs.committed}
    assert all({number, number ^ 1} <= found for number in open_at_kills), "pairs are whole"
